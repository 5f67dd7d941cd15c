//! A server and its databases: isolation, settings, and who may stop it. Stops, crashes and accounts are seen in the tests of the
//! stores, which use them.

use std::env;
use std::process::Command;

use taskqueue_test_postgres::{Cluster, is_alive};

fn text(value: &str) -> Vec<Vec<Option<String>>> {
    vec![vec![Some(value.to_owned())]]
}

#[test]
fn databases_do_not_see_each_other() {
    let (one, other) = (Cluster::shared().database(), Cluster::shared().database());
    one.admin("CREATE TABLE seen (x int); INSERT INTO seen VALUES (1), (NULL)");
    assert_ne!(one.name(), other.name());
    assert_eq!(one.rows("SELECT x FROM seen ORDER BY x"), [[Some("1".to_owned())], [None]]);
    assert_eq!(other.rows("SELECT to_regclass('seen') IS NULL"), text("t"));
}

#[test]
fn a_database_is_gone_when_dropped_even_with_connections() {
    let (watch, dropped) = (Cluster::shared().database(), Cluster::shared().database());
    let (name, url) = (dropped.name().to_owned(), dropped.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls)).unwrap();
    drop(dropped);
    let left = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(watch.rows(&left), text("0"));
    assert!(runtime.block_on(connection).is_err(), "the connection was ended");
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_connections_are_those_of_one_database() {
    let (one, other) = (Cluster::shared().database(), Cluster::shared().database());
    let (ended, connection) = tokio_postgres::connect(&one.url(), tokio_postgres::NoTls).await.unwrap();
    let ending = tokio::spawn(connection);
    let (kept, connection) = tokio_postgres::connect(&other.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(Cluster::shared().terminate_backends(&one), 1);
    assert!(ending.await.unwrap().is_err());
    assert!(ended.is_closed());
    kept.batch_execute("SELECT 1").await.unwrap();
}

#[test]
fn settings_count_at_once_whether_they_need_a_restart_or_not() {
    let cluster = Cluster::private();
    let database = cluster.database();
    let before = cluster.pid();
    cluster.configure("deadlock_timeout = 77ms");
    assert_eq!(database.rows("SHOW deadlock_timeout"), text("77ms"));
    assert_eq!(cluster.pid(), before);
    cluster.configure("max_connections = 33");
    assert_eq!(database.rows("SHOW max_connections"), text("33"));
    assert_eq!(database.rows("SHOW fsync"), text("on"));
    assert_ne!(cluster.pid(), before);
}

#[test]
fn a_private_server_and_its_files_are_gone_when_dropped() {
    let cluster = Cluster::private();
    let database = cluster.database();
    let folder = database.rows("SHOW unix_socket_directories")[0][0].clone().unwrap();
    let pid = cluster.pid();
    assert!(std::fs::exists(&folder).unwrap() && is_alive(pid));
    drop((database, cluster));
    assert!(!std::fs::exists(&folder).unwrap() && !is_alive(pid));
}

#[test]
#[should_panic(expected = "use Cluster::private()")]
fn nobody_stops_the_server_that_all_tests_share() {
    Cluster::shared().stop();
}

#[test]
fn the_shared_server_is_that_of_somebody_else_where_the_environment_names_one() {
    let cluster = Cluster::private();
    let url = cluster.database().url();
    let passes = |test: &str| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", test]).env("TASKQUEUE_TEST_POSTGRES", &url).env("RUST_BACKTRACE", "0");
        child.output().unwrap().status.success()
    };
    assert!(passes("cluster::databases_do_not_see_each_other"));
    assert!(passes("cluster::nobody_stops_the_server_that_all_tests_share"));
    cluster.stop();
    assert!(!passes("cluster::databases_do_not_see_each_other"), "another server was used");
}
