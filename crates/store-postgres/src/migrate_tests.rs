#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use futures_util::future::join_all;
use taskqueue_test_postgres::{Cluster, Database, eventually};

use super::*;
use crate::address::Address;
use crate::database_tests::REQUIRED_COLUMNS;
use crate::open::Connector;

/// A second migration, which does not exist.
const MADE_UP: &str = "ALTER TABLE taskqueue.queues ADD COLUMN note text; UPDATE taskqueue.queues SET note = name";

/// How many migrations there are.
fn versions() -> String {
    MIGRATIONS.len().to_string()
}

async fn migrated(url: &str, schema: &str) -> Result<(), OpenError> {
    migrated_to(MIGRATIONS, url, schema).await
}

/// As a program does it that is newer by this migration.
async fn migrated_with(sql: &'static str, url: &str) -> Result<(), OpenError> {
    let Migration { version, name, sql: first } = &MIGRATIONS[0];
    let second = Migration { version: 2, name: "made_up", sql };
    migrated_to(&[Migration { version: *version, name, sql: first }, second], url, "taskqueue").await
}

async fn migrated_to(known: &[Migration], url: &str, schema: &str) -> Result<(), OpenError> {
    let schema = Schema::new(schema);
    let connector = Connector::new(Address::parse(url).unwrap(), schema.clone())?;
    let mut client = connector.open().await?;
    migrate_to(known, &mut client, &schema, &connector.hosts()).await
}

fn count(database: &Database, question: &str) -> String {
    database.rows(&format!("SELECT count(*) FROM {question}"))[0][0].clone().unwrap()
}

/// Everything in the schemas that are not the server's own.
fn picture(database: &Database) -> Vec<Vec<Option<String>>> {
    database.rows(
        "SELECT n.nspname, c.relname, a.attname
         FROM pg_namespace AS n
         LEFT JOIN pg_class AS c ON c.relnamespace = n.oid
         LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid
         WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1, 2, 3",
    )
}

#[tokio::test]
async fn an_empty_database_gets_the_schema_and_a_second_start_changes_nothing() {
    let database = Cluster::shared().database();
    migrated(&database.url(), "taskqueue").await.unwrap();
    let ledger = database.rows("SELECT version, name, length(checksum) FROM taskqueue.migrations");
    assert_eq!(ledger, [["1", "initial", "64"].map(|text| Some(text.to_owned()))]);
    assert_eq!(count(&database, "taskqueue.tasks"), "0");
    let before = picture(&database);
    migrated(&database.url(), "taskqueue").await.unwrap();
    assert_eq!(picture(&database), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_servers_at_once_one_migrates_and_all_start() {
    let cluster = Cluster::shared();
    for prepared in ["SELECT 1", "CREATE SCHEMA taskqueue"] {
        let database = cluster.database();
        database.admin(prepared);
        let url = database.url();
        let servers = (0..8).map(|_| {
            let url = url.clone();
            tokio::spawn(async move { migrated(&url, "taskqueue").await })
        });
        for server in join_all(servers).await {
            server.unwrap().unwrap();
        }
        assert_eq!(count(&database, "taskqueue.migrations"), versions());
    }
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_leaves_nothing() {
    let database = Cluster::shared().database();
    let before = picture(&database);
    // Everything but the commit, as the product does it.
    let connector = Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap();
    let mut client = connector.open().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("CREATE SCHEMA taskqueue").await.unwrap();
    transaction.batch_execute(CREATE_MIGRATIONS).await.unwrap();
    let (schema, url) = (Schema::new("taskqueue"), database.url());
    let waiting = tokio::spawn(async move { migrated(&url, "taskqueue").await });
    apply(&transaction, &schema, &MIGRATIONS[0]).await.unwrap();
    let database = tokio::task::spawn_blocking(move || {
        let question = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE SCHEMA%'
            AND datname = current_database()";
        eventually("the second server waits for the first", || !database.rows(question).is_empty());
        assert_eq!(picture(&database), before);
        let killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE state = 'idle in transaction' AND datname = current_database()";
        assert_eq!(database.rows(killed).len(), 1);
        database
    })
    .await
    .unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(count(&database, "taskqueue.migrations"), versions());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_servers_at_once_one_applies_a_second_migration_and_no_row_is_lost() {
    let database = Cluster::shared().database();
    migrated(&database.url(), "taskqueue").await.unwrap();
    database.admin("INSERT INTO taskqueue.queues (queue_key, name) VALUES (1, 'q')");
    let servers = (0..8).map(|_| {
        let url = database.url();
        tokio::spawn(async move { migrated_with(MADE_UP, &url).await })
    });
    for server in join_all(servers).await {
        server.unwrap().unwrap();
    }
    let ledger =
        database.rows("SELECT string_agg(version || ' ' || name, ',' ORDER BY version) FROM taskqueue.migrations");
    assert_eq!(ledger, [[Some("1 initial,2 made_up".to_owned())]]);
    assert_eq!(count(&database, "taskqueue.queues WHERE queue_key = 1 AND name = 'q' AND note = 'q'"), "1");

    let fresh = Cluster::shared().database();
    migrated_with(MADE_UP, &fresh.url()).await.unwrap();
    assert_eq!(picture(&fresh), picture(&database), "a new schema is what an upgraded one is");
    let error = migrated(&database.url(), "taskqueue").await.unwrap_err();
    assert!(matches!(&error, OpenError::Newer(_, why) if why == "schema version 2"), "{error:?}");
    let error = migrated_with("SELECT 1", &database.url()).await.unwrap_err();
    assert!(matches!(error, OpenError::Changed(..)), "another second migration: {error:?}");
}

#[tokio::test]
async fn a_migration_that_fails_in_the_middle_has_changed_nothing_and_can_be_done_again() {
    let database = Cluster::shared().database();
    migrated(&database.url(), "taskqueue").await.unwrap();
    let before = picture(&database);
    let broken = "CREATE TABLE taskqueue.notes (); UPDATE taskqueue.nothing SET x = 1";
    let error = migrated_with(broken, &database.url()).await.unwrap_err();
    assert!(matches!(error, OpenError::Failed(..)), "{error:?}");
    assert_eq!((picture(&database), count(&database, "taskqueue.migrations")), (before, "1".to_owned()));
    migrated_with(MADE_UP, &database.url()).await.unwrap();
    assert_eq!(count(&database, "taskqueue.migrations"), "2");
}

/// No index has a new entry, and the table has room on the same page.
#[tokio::test]
async fn what_claims_and_reports_change_of_a_task_is_a_hot_update() {
    let database = Cluster::shared().database();
    migrated(&database.url(), "taskqueue").await.unwrap();
    database.admin(&format!(
        "INSERT INTO taskqueue.tasks ({REQUIRED_COLUMNS})
        SELECT n, 1, n, 0, n, 0, 3, n, 0, 't_' || n, 'pending', '[]' FROM generate_series(1, 1000) AS n"
    ));
    database.admin(
        "UPDATE taskqueue.tasks SET status = 'running', attempt = 1, updated_at = 1, started_at = 1, lease_expires_at = 1,
            run_id = 'r', last_route = 'a', unmet = 1, not_before = 1, times_out_at = 1, progress_bytes = 1, scheduling = '{}'",
    );
    let hot = "SELECT n_tup_hot_upd > 500 FROM pg_stat_user_tables WHERE relid = 'taskqueue.tasks'::regclass";
    eventually("the database has counted", || database.rows(hot)[0][0].as_deref() == Some("t"));
}

#[tokio::test]
async fn a_schema_of_another_program_is_refused_and_left_alone() {
    for theirs in [
        "CREATE SCHEMA taskqueue; CREATE TABLE taskqueue.things (id int)",
        "CREATE SCHEMA taskqueue; CREATE TABLE taskqueue.migrations (id int, migration text, batch int)",
        "CREATE SCHEMA taskqueue; CREATE VIEW taskqueue.migrations AS SELECT 1 AS version",
    ] {
        let database = Cluster::shared().database();
        database.admin(theirs);
        let before = picture(&database);
        let error = migrated(&database.url(), "taskqueue").await.unwrap_err();
        assert!(matches!(&error, OpenError::Foreign(schema) if schema == "taskqueue"), "{error:?}");
        assert_eq!(picture(&database), before);
    }
}

#[tokio::test]
async fn a_newer_and_a_changed_schema_are_refused() {
    let database = Cluster::shared().database();
    migrated(&database.url(), "taskqueue").await.unwrap();
    database.admin("INSERT INTO taskqueue.migrations VALUES (99, 'next', 'x')");
    let error = migrated(&database.url(), "taskqueue").await.unwrap_err();
    assert!(matches!(&error, OpenError::Newer(_, why) if why == "schema version 99"), "{error:?}");
    for change in ["checksum = 'x'", "name = 'first'", "version = 9"] {
        database.admin("DELETE FROM taskqueue.migrations WHERE version = 99");
        database.admin(&format!("UPDATE taskqueue.migrations SET {change} WHERE version = 1"));
        let error = migrated(&database.url(), "taskqueue").await.unwrap_err();
        assert!(matches!(error, OpenError::Changed(..)), "{change}: {error:?}");
    }
}

#[tokio::test]
async fn a_role_that_owns_nothing_but_its_schema_is_enough() {
    let database = Cluster::shared().database();
    let url = database.password_url("x");
    let role = database.role();
    database.admin(&format!("ALTER DATABASE {} OWNER TO postgres", database.name()));
    let error = migrated(&url, "taskqueue").await.unwrap_err();
    assert!(matches!(error, OpenError::NoRight(..)), "{error:?}");
    database.admin("CREATE SCHEMA taskqueue");
    let error = migrated(&url, "taskqueue").await.unwrap_err();
    assert!(matches!(error, OpenError::NoRight(..)), "{error:?}");
    database.admin(&format!("ALTER SCHEMA taskqueue OWNER TO {role}"));
    migrated(&url, "taskqueue").await.unwrap();
    database.admin("DROP SCHEMA taskqueue CASCADE");
}

#[tokio::test]
async fn a_schema_that_is_up_to_date_needs_no_right_to_change_it() {
    let database = Cluster::shared().database();
    let url = database.password_url("x");
    let role = database.role();
    database.admin(&format!("ALTER DATABASE {} OWNER TO postgres", database.name()));
    migrated(&database.url(), "taskqueue").await.unwrap();
    let error = migrated(&url, "taskqueue").await.unwrap_err();
    assert!(matches!(error, OpenError::NoRight(..)), "{error:?}");
    database
        .admin(&format!("GRANT USAGE ON SCHEMA taskqueue TO {role}; GRANT SELECT ON taskqueue.migrations TO {role}"));
    migrated(&url, "taskqueue").await.unwrap();
    database.admin(&format!("DROP OWNED BY {role}"));
}

#[tokio::test]
async fn a_schema_may_have_any_name_and_several_live_side_by_side() {
    let database = Cluster::shared().database();
    for name in ["taskqueue", "Upper Case", "with\"quote", "with'quote", "taskqueue.dot", "größe"] {
        migrated(&database.url(), name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        migrated(&database.url(), name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(count(&database, &format!("{}.tasks", Schema::new(name).quoted())), "0", "{name}");
    }
    assert_eq!(count(&database, "pg_class WHERE relname = 'migrations'"), "6");
}

#[tokio::test]
async fn a_stricter_isolation_of_the_role_does_not_hide_what_was_waited_for() {
    let database = Cluster::shared().database();
    database.admin(&format!("ALTER DATABASE {} SET default_transaction_isolation = serializable", database.name()));
    let url = database.url();
    for answer in join_all((0..4).map(|_| migrated(&url, "taskqueue"))).await {
        answer.unwrap();
    }
    assert_eq!(count(&database, "taskqueue.migrations"), versions());
}
