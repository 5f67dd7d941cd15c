#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use taskqueue_test_postgres::{Cluster, Database};

use super::*;
use crate::open::tests::connector;

async fn found(database: &Database) -> Vec<String> {
    weaknesses(&connector(&database.url()).client().await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn commits_that_are_not_waited_for_are_told() {
    let database = Cluster::shared().database();
    assert_eq!(found(&database).await, Vec::<String>::new());
    let set = |value: &str| format!("ALTER DATABASE {} SET synchronous_commit = {value}", database.name());
    database.admin(&set("off"));
    let expected = "synchronous_commit=off: the latest acknowledged writes are lost when the database server crashes";
    assert_eq!(found(&database).await, [expected]);
    for safe in ["local", "on", "remote_write", "remote_apply"] {
        database.admin(&set(safe));
        assert_eq!(found(&database).await, Vec::<String>::new(), "{safe}");
    }
}

#[tokio::test]
async fn a_setting_of_the_role_counts() {
    let database = Cluster::shared().database();
    let url = database.password_url("x");
    let role = url.split("://").nth(1).unwrap().split(':').next().unwrap();
    database.admin(&format!("ALTER ROLE {role} SET synchronous_commit = off"));
    let told = weaknesses(&connector(&url).client().await.unwrap()).await.unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(found(&database).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_does_not_sync_is_told() {
    let cluster = Cluster::private();
    let database = cluster.database();
    cluster.configure("fsync = off");
    cluster.configure("full_page_writes = off");
    let told = found(&database).await;
    assert!(told.len() == 2 && told[0].starts_with("fsync=off: ") && told[1].starts_with("full_page_writes=off: "));
}
