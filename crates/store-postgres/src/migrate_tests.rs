#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use futures_util::future::join_all;
use taskqueue_test_postgres::{Cluster, Database, eventually};

use super::*;
use crate::address::Address;
use crate::open::Connector;

/// How many migrations there are.
fn versions() -> String {
    MIGRATIONS.len().to_string()
}

async fn migrated(url: &str, schema: &str) -> Result<(), OpenError> {
    let schema = Schema::new(schema);
    let connector = Connector::new(Address::parse(url).unwrap(), schema.clone())?;
    let mut client = connector.open().await?;
    migrate(&mut client, &schema, &connector.hosts()).await
}

fn count(database: &Database, question: &str) -> String {
    database.rows(&format!("SELECT count(*) FROM {question}"))[0][0].clone().unwrap()
}

/// Everything in the schemas that are not the server's own.
fn picture(database: &Database) -> Vec<Vec<Option<String>>> {
    database.rows(
        "SELECT n.nspname, c.relname FROM pg_namespace AS n LEFT JOIN pg_class AS c ON c.relnamespace = n.oid
         WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1, 2",
    )
}

#[tokio::test]
async fn an_empty_database_gets_the_schema_and_a_second_start_changes_nothing() {
    let database = Cluster::shared().database();
    migrated(&database.url(), "taskqueue").await.unwrap();
    let ledger = database.rows("SELECT version, name, length(checksum) FROM taskqueue.migrations");
    let known = |version: &str, name: &str| [Some(version.to_owned()), Some(name.to_owned()), Some("64".to_owned())];
    let applied = [
        (1, "initial"),
        (2, "deleted_runs_and_clock"),
        (3, "last_runs"),
        (4, "unsuccessful_tasks"),
        (5, "progress_and_output"),
        (6, "activity"),
        (7, "installation_secret"),
        (8, "waiting_tasks"),
    ];
    assert_eq!(ledger, applied.map(|(version, name)| known(&version.to_string(), name)));
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

#[tokio::test]
async fn a_database_from_before_last_runs_keeps_its_rows_and_rewrites_none() {
    let database = Cluster::shared().database();
    let connector = Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap();
    let mut client = connector.open().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&format!("CREATE SCHEMA taskqueue; {CREATE_MIGRATIONS}")).await.unwrap();
    for migration in MIGRATIONS.iter().take_while(|migration| migration.name != "last_runs") {
        apply(&transaction, &Schema::new("taskqueue"), migration).await.unwrap();
    }
    transaction.commit().await.unwrap();
    database
        .admin("INSERT INTO taskqueue.outcomes (task_key, result) SELECT n, '{}' FROM generate_series(1, 1000) AS n");
    let file = "SELECT pg_relation_filenode('taskqueue.outcomes')";
    let before = database.rows(file);
    migrated(&database.url(), "taskqueue").await.unwrap();
    assert_eq!(database.rows(file), before, "the table was not written anew");
    let untouched = "taskqueue.outcomes WHERE result = '{}' AND last_run_attempt IS NULL AND last_run_worker IS NULL";
    assert_eq!(count(&database, untouched), "1000");
}

/// A claim and a report of a task that uses nothing of it write what they wrote before.
#[tokio::test]
async fn a_database_from_before_waiting_tasks_keeps_its_rows_and_rewrites_none() {
    let database = Cluster::shared().database();
    let connector = Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap();
    let mut client = connector.open().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&format!("CREATE SCHEMA taskqueue; {CREATE_MIGRATIONS}")).await.unwrap();
    for migration in MIGRATIONS.iter().take_while(|migration| migration.name != "waiting_tasks") {
        apply(&transaction, &Schema::new("taskqueue"), migration).await.unwrap();
    }
    transaction.commit().await.unwrap();
    database.admin(
        "INSERT INTO taskqueue.tasks
        SELECT n, 1, n, 0, n, 0, 3, n, 0, NULL, NULL, NULL, 't_' || n, 'pending', '[]' FROM generate_series(1, 1000) AS n;
        INSERT INTO taskqueue.running SELECT n FROM generate_series(1, 1000) AS n",
    );
    let file = "SELECT pg_relation_filenode('taskqueue.tasks'), pg_relation_filenode('taskqueue.running')";
    let before = database.rows(file);
    migrated(&database.url(), "taskqueue").await.unwrap();
    assert_eq!(database.rows(file), before, "the tables were not written anew");
    let untouched = "taskqueue.tasks WHERE not_before IS NULL AND unmet IS NULL AND archived IS NULL
        AND times_out_at IS NULL AND scheduling IS NULL";
    assert_eq!(count(&database, untouched), "1000");
    // HOT: no index has a new entry, and the table has room on the same page.
    database.admin("VACUUM FULL taskqueue.tasks");
    database.admin("UPDATE taskqueue.tasks SET unmet = 1, not_before = 1, times_out_at = 1, scheduling = '{}'");
    let hot = "SELECT n_tup_hot_upd > 500 FROM pg_stat_user_tables WHERE relid = 'taskqueue.tasks'::regclass";
    taskqueue_test_postgres::eventually("the database has counted", || {
        database.rows(hot)[0][0].as_deref() == Some("t")
    });
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
    let role = url.split("://").nth(1).unwrap().split(':').next().unwrap().to_owned();
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
    let role = url.split("://").nth(1).unwrap().split(':').next().unwrap().to_owned();
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
