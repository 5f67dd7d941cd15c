#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use std::net::TcpListener;

use taskqueue_test_postgres::{Cluster, Database, PoolMode, Pooler, eventually};

use super::*;
use crate::database_tests::migrated;
use crate::failure::{Cause, cause};
use crate::statements;

pub(crate) fn connector(url: &str) -> Connector {
    Connector::new(Address::parse(url).unwrap(), Schema::new("taskqueue")).unwrap()
}

async fn refused(url: &str) -> OpenError {
    let Err(error) = connector(url).open().await else { panic!("opened {url}") };
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[tokio::test]
async fn a_database_opens_over_tcp_and_over_its_socket() {
    let database = Cluster::shared().database();
    for url in [database.url(), database.socket_url()] {
        let client = connector(&url).open().await.unwrap();
        let name: String = client.query_one("SELECT current_setting('application_name')", &[]).await.unwrap().get(0);
        assert_eq!(name, "taskqueue");
    }
}

#[tokio::test]
async fn a_login_needs_the_right_password() {
    let database = Cluster::shared().database();
    let url = database.password_url("right/@:?&");
    connector(&url).open().await.unwrap();
    let (login, place) = url.split("://").nth(1).unwrap().split_once('@').unwrap();
    let user = login.split(':').next().unwrap();
    let given = Address::parse(&format!("postgres://{user}@{place}")).unwrap().with_password(Some("right/@:?&".into()));
    Connector::new(given, Schema::new("taskqueue")).unwrap().open().await.unwrap();
    for wrong in [format!("postgres://{user}:wrong@{place}"), format!("postgres://{user}@{place}")] {
        let error = refused(&wrong).await;
        assert!(matches!(error, OpenError::Refused(..)), "{error:?}");
        assert!(error.to_string().contains("PGPASSWORD") && !error.to_string().contains("wrong"), "{error}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let database = Cluster::shared().database();
    let error = refused(&database.url().replace(database.name(), "nowhere")).await;
    assert!(matches!(&error, OpenError::NoDatabase(_, why) if why.contains("\"nowhere\"")), "{error:?}");
}

#[tokio::test]
async fn an_unreachable_server_is_named_by_host_and_port() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refused(&format!("postgres://me:hidden@{free}/work")).await;
    assert!(matches!(&error, OpenError::Unreachable(at, _) if *at == free.to_string()), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hidden"));
    let error = refused("postgres://me@nowhere.invalid/work").await;
    assert!(matches!(&error, OpenError::Unreachable(at, _) if at == "nowhere.invalid:5432"), "{error:?}");
    assert!(error.may_pass(), "the name of a container is known when it has started");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_and_the_next_host_is_tried() {
    // It takes connections and never says anything.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = mute.local_addr().unwrap();
    let begin = Instant::now();
    let error = refused(&format!("postgres://me@{silent}/work?connect_timeout=1")).await;
    assert!(matches!(&error, OpenError::Unreachable(_, why) if why.contains("no answer")), "{error:?}");
    // By itself it would never end.
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let database = Cluster::shared().database();
    let url = database.url().replace("127.0.0.1", &format!("{silent},127.0.0.1"));
    connector(&format!("{url}?connect_timeout=8")).open().await.unwrap();
    drop(mute);
}

#[tokio::test]
async fn what_a_server_says_counts_more_than_the_silence_of_another() {
    let database = Cluster::shared().database();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = database.url().rsplit_once('@').unwrap().1.to_owned();
    let (host, name) = place.split_once('/').unwrap();
    let error = refused(&format!("postgres://nobody:x@{host},{free}/{name}")).await;
    assert!(matches!(error, OpenError::Refused(..)), "{error:?}");
}

#[tokio::test]
async fn a_read_only_database_is_refused() {
    let database = Cluster::shared().database();
    database.admin(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()));
    for url in [database.url(), format!("{}?target_session_attrs=any", database.url())] {
        let error = refused(&url).await;
        assert!(matches!(error, OpenError::ReadOnly(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let database = Cluster::shared().database();
    let narrow = format!("{}_latin", database.name());
    database.admin(&format!("CREATE DATABASE {narrow} ENCODING 'LATIN1' TEMPLATE template0"));
    let error = refused(&database.url().replace(database.name(), &narrow)).await;
    database.admin(&format!("DROP DATABASE {narrow} WITH (FORCE)"));
    assert!(matches!(&error, OpenError::Encoding(_, encoding) if encoding == "LATIN1"), "{error:?}");
}

#[tokio::test]
async fn too_many_clients_are_a_busy_database() {
    let database = Cluster::shared().database();
    let url = database.password_url("x");
    let role = database.role();
    database.admin(&format!("ALTER ROLE {role} CONNECTION LIMIT 1"));
    let connector = connector(&url);
    let first = connector.client(None).await.unwrap();
    let error = connector.client(None).await.unwrap_err();
    assert!(matches!(error.to_store_error("testing"), StoreError::Busy), "{error:?}");
    assert!(matches!(refused(&url).await, OpenError::Full(..)));
    drop(first);
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connector(&format!("postgres://me@{free}/work")).client(None).await.unwrap_err();
    assert!(matches!(error.to_store_error("testing"), StoreError::Unavailable), "{error:?}");
}

#[tokio::test]
async fn a_dropped_client_ends_its_connection() {
    let database = Cluster::shared().database();
    let client = connector(&database.url()).client(None).await.unwrap();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    drop(client);
    tokio::task::spawn_blocking(move || {
        let question = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {pid}");
        eventually("the connection is gone", || database.rows(&question).is_empty());
    })
    .await
    .unwrap();
}

/// A killed server, as the database sees it: the connection is closed, and nobody has asked it to stop.
#[test]
fn what_a_killed_server_holds_is_free_soon_also_during_a_long_statement() {
    // It would take hours.
    const LONG: &str = "SELECT count(*) FROM pg_class AS a, pg_class AS b, pg_class AS c, pg_class AS d";
    let database = Cluster::shared().database();
    database.rows("CREATE TABLE held AS SELECT 1 AS one");
    let connector = Arc::new(connector(&database.url()));
    let killed = tokio::runtime::Runtime::new().unwrap();
    killed.block_on(async {
        let session = connector.session().await.unwrap();
        session.let_client_be_watched().await;
        session.execute_text("BEGIN; SELECT 1 FROM held FOR UPDATE").await.unwrap();
        tokio::spawn(async move { session.execute_text(LONG).await });
    });
    let running = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%AS d'";
    eventually("the statement runs", || database.rows(running).len() == 1);
    killed.shutdown_background();
    eventually("the row is free", || database.rows("SELECT 1 FROM held FOR UPDATE SKIP LOCKED").len() == 1);
}

#[tokio::test]
async fn a_session_prepares_what_it_executes_again() {
    let database = migrated(Cluster::shared());
    let connector = connector(&database.url());
    let (reading, writing) = (connector.session().await.unwrap(), connector.writing_session().await.unwrap().0);
    for (session, prepared) in [(reading, [0, 0, 0]), (writing, [0, 1, 1])] {
        for expected in prepared {
            session.begin("BEGIN").await.unwrap();
            // The second one is of connections that read.
            for sql in [&statements::LOAD_CLOCK, &statements::CHECK] {
                assert_eq!(session.query(sql, &[]).await.unwrap().len(), 1, "{}", sql.name);
            }
            session.execute_text("COMMIT").await.unwrap();
            let count = session.client().query_typed("SELECT count(*) FROM pg_prepared_statements", &[]).await.unwrap();
            assert_eq!(count[0].get::<_, i64>(0), expected);
        }
    }
}

async fn load_clock(session: &Session) -> Result<(), Error> {
    session.begin("BEGIN").await?;
    assert_eq!(session.query(&statements::LOAD_CLOCK, &[]).await?.len(), 1);
    session.execute_text("COMMIT").await
}

/// A pooler of its own, a session that has prepared a statement on the only server process, one that holds this process, and the name.
async fn prepared_behind_a_pooler(database: &Database) -> (Pooler, Connector, Session, Session, String) {
    let pooler = Pooler::start(Cluster::shared(), database, PoolMode::Transaction);
    let connector = connector(&pooler.url(database));
    let (session, _) = connector.writing_session().await.unwrap();
    load_clock(&session).await.unwrap();
    load_clock(&session).await.unwrap();
    let holder = connector.session().await.unwrap();
    holder.execute_text("BEGIN").await.unwrap();
    let names = holder.client().query_typed("SELECT name FROM pg_prepared_statements", &[]).await.unwrap();
    let [name] = &names[..] else { panic!("{names:?}") };
    (pooler, connector, session, holder, name.get(0))
}

/// There, another program may have left statements under our names: each of them would do something else than we mean.
#[tokio::test]
async fn names_are_not_used_on_another_server_process() {
    let database = migrated(Cluster::shared());
    let (_pooler, connector, session, holder, name) = prepared_behind_a_pooler(&database).await;
    let other = connector.session().await.unwrap();
    let trap = format!("PREPARE {name} AS INSERT INTO trap VALUES (1) RETURNING n");
    other.execute_text(&format!("BEGIN; CREATE TABLE trap (n bigint); {trap}; COMMIT")).await.unwrap();
    assert_eq!(cause(&load_clock(&session).await.unwrap_err()), Cause::StatementLost);
    assert!(database.rows("SELECT n FROM trap").is_empty());

    // From now on no session uses any, whatever process it has.
    let (session, _) = connector.writing_session().await.unwrap();
    for _ in 0..3 {
        load_clock(&session).await.unwrap();
    }
    holder.execute_text("COMMIT").await.unwrap();
    other.execute_text("BEGIN").await.unwrap();
    load_clock(&session).await.unwrap();
}

/// A pooler keeps connections, and on them what a process prepared that has ended since.
#[tokio::test]
async fn names_that_are_taken_are_not_in_the_way() {
    let database = migrated(Cluster::shared());
    let (_pooler, connector, session, holder, name) = prepared_behind_a_pooler(&database).await;
    // The driver numbers them through the whole process, in which other tests prepare some as well.
    let last: usize = name.strip_prefix('s').unwrap().parse().unwrap();
    let taken: String = (last + 1..last + 5_000).map(|number| format!("PREPARE s{number} AS SELECT 1;")).collect();
    holder.execute_text(&format!("{taken} COMMIT")).await.unwrap();
    let look = async |session: &Session| {
        session.begin("BEGIN").await?;
        session.query(&statements::PEEK_UPKEEP, &[&None::<i64>]).await?;
        session.execute_text("COMMIT").await
    };
    look(&session).await.unwrap();
    assert_eq!(cause(&look(&session).await.unwrap_err()), Cause::StatementLost);
    let (session, _) = connector.writing_session().await.unwrap();
    for _ in 0..3 {
        look(&session).await.unwrap();
    }
}

#[test]
fn a_name_that_no_schema_can_have_is_refused() {
    let address = || Address::parse("postgres://db").unwrap();
    for name in ["", "pg_own", "with\0nul", &"x".repeat(64)] {
        let error = Connector::new(address(), Schema::new(name)).err().unwrap();
        assert!(matches!(error, OpenError::SchemaName(_)), "{error:?}");
    }
    assert!(Connector::new(address(), Schema::new(&"x".repeat(63))).is_ok());
}

#[test]
fn balanced_hosts_begin_anywhere() {
    let connector = connector("postgres://a,b,c?load_balance_hosts=random");
    let mut firsts: Vec<String> = (0..100).map(|_| connector.connect_order().next().unwrap().name.clone()).collect();
    assert!(connector.connect_order().count() == 3);
    firsts.sort();
    firsts.dedup();
    assert_eq!(firsts, ["a:5432", "b:5432", "c:5432"]);
}

async fn found(database: &Database) -> Vec<String> {
    weaknesses(&connector(&database.url()).client(None).await.unwrap()).await.unwrap()
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
    let role = database.role();
    database.admin(&format!("ALTER ROLE {role} SET synchronous_commit = off"));
    let told = weaknesses(&connector(&url).client(None).await.unwrap()).await.unwrap();
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
