//! A sound schema has no problem, and each kind of damage is reported by the rule that is for it, and by no other.

use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Cluster, Database};

use super::{Report, *};
use crate::{Options, PostgresStore};

async fn try_check(database: &Database) -> Result<Report, CheckError> {
    let mut watch = Watch { stop: Arc::default(), report: &mut |_| {} };
    check(Address::parse(&database.url()).unwrap(), "taskqueue", &mut watch).await
}

/// A database with tasks of every kind, of which 8 is delayed and 9 waits for 1.
async fn filled() -> Database {
    let database = Cluster::shared().database();
    let clock = ManualClock::new(START);
    let options = Options { clock: Some(Arc::new(clock.clone())), ..Options::default() };
    let store = PostgresStore::open(Address::parse(&database.url()).unwrap(), options).await.unwrap();
    let fixture = Fixture { store: Arc::new(store), clock };
    fixture.ok(create_queue("q")).await;
    fixture.fill_with_every_kind().await;
    fixture.ok(create_later(8, Definition::default(), fixture.now().plus_seconds(60))).await;
    fixture.ok(create("q", 9, waits_for(&[1]))).await;
    let retention = RetentionPatch { failed_seconds: Some(Some(60)), ..RetentionPatch::default() };
    let patch = SettingsPatch { max_running: Some(Some(9)), retention, ..SettingsPatch::default() };
    fixture.ok(change_settings("q", patch)).await;
    fixture.upkeep().await;
    fixture.close().await;
    database
}

#[tokio::test]
async fn each_kind_of_damage_is_reported_by_its_rule_and_by_no_other() {
    let database = filled().await;
    let sound = try_check(&database).await.unwrap();
    assert_eq!(sound.findings, Findings::default());
    assert_eq!((sound.queues, sound.tasks, sound.rules_checked), (1, 8, true));
    let third = "(SELECT task_key FROM taskqueue.tasks WHERE id LIKE '%3')";
    let fifth = "(SELECT task_key FROM taskqueue.tasks WHERE id LIKE '%5')";
    let cases: &[(Rule, &str)] = &[
        (Rule::Schema, "DROP INDEX taskqueue.tasks_by_creation"),
        (Rule::Schema, "DROP TABLE taskqueue.output_purges"),
        (Rule::Engine, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'taskqueue.runs_by_task'::regclass"),
        (Rule::Readable, "UPDATE taskqueue.tasks SET last_route = '?' WHERE task_key = {third}"),
        (Rule::Readable, "UPDATE taskqueue.definitions SET identity = 'x' WHERE task_key = {third}"),
        (Rule::Readable, "UPDATE taskqueue.outputs SET parts = 'x'"),
        (Rule::Readable, "UPDATE taskqueue.observations SET status = 'other'"),
        (Rule::References, "DELETE FROM taskqueue.definitions WHERE task_key = {third}"),
        (Rule::References, "INSERT INTO taskqueue.definitions VALUES (99, '', '{}', '{}')"),
        (Rule::References, "INSERT INTO taskqueue.outcomes (task_key) VALUES (99)"),
        (Rule::References, "INSERT INTO taskqueue.outputs SELECT 99, 1, 1, 1, 0, run_id, '0-1' FROM taskqueue.outputs"),
        (Rule::References, "INSERT INTO taskqueue.output_pieces VALUES (99, 0, 'x')"),
        (Rule::References, "INSERT INTO taskqueue.delayed SELECT queue_key, 1, 99 FROM taskqueue.queues"),
        (Rule::References, "INSERT INTO taskqueue.ready VALUES (99, 0, 1, 1, 'x')"),
        (
            Rule::References,
            "INSERT INTO taskqueue.observations (queue_key, last_seen_at, expires_at, id, route, status, metadata)
                SELECT 99, last_seen_at, expires_at, id, route, status, metadata FROM taskqueue.observations",
        ),
        (
            Rule::References,
            "INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (99, 0, '[]', 'pending', 1)",
        ),
        (Rule::References, "INSERT INTO taskqueue.purges SELECT queue_key, 0 FROM taskqueue.queues"),
        (Rule::Tally, "UPDATE taskqueue.tally SET tasks = tasks + 1 WHERE status = 'running'"),
        (Rule::Tally, "DELETE FROM taskqueue.tally WHERE status = 'failed'"),
        (Rule::PendingOrder, "DELETE FROM taskqueue.ready WHERE route = 'for-1'"),
        (Rule::PendingOrder, "INSERT INTO taskqueue.ready SELECT * FROM taskqueue.ready WHERE route = 'for-1'"),
        (Rule::PendingOrder, "UPDATE taskqueue.ready SET priority = 7"),
        (Rule::PendingOrder, "UPDATE taskqueue.ready SET route = 'other' WHERE route = 'for-1'"),
        (Rule::Running, "DELETE FROM taskqueue.running"),
        (Rule::Running, "INSERT INTO taskqueue.running VALUES (99)"),
        (Rule::RunIds, "DELETE FROM taskqueue.runs WHERE task_key = {third}"),
        (Rule::RunIds, "UPDATE taskqueue.runs SET task_key = {fifth} WHERE task_key = {third}"),
        (Rule::RunIds, "INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_somebodyelse', 99)"),
        (Rule::RunIds, "UPDATE taskqueue.tasks SET finished_run_id = 'r_somebodyelse' WHERE task_key = {third}"),
        (Rule::Runs, "UPDATE taskqueue.tasks SET finished_run_end = 'cancel' WHERE task_key = {third}"),
        (Rule::Attempts, "UPDATE taskqueue.tasks SET attempt = -1 WHERE task_key = {fifth}"),
        (Rule::Times, "UPDATE taskqueue.tasks SET finished_at = 0 WHERE task_key = {third}"),
        (Rule::Sizes, "UPDATE taskqueue.tasks SET definition_bytes = definition_bytes + 1 WHERE task_key = {third}"),
        (Rule::Sizes, "UPDATE taskqueue.tasks SET progress_bytes = 1 WHERE status = 'running'"),
        (Rule::CanonicalJson, "UPDATE taskqueue.definitions SET args = '{\"b\":2,\"a\":1}' WHERE task_key = {third}"),
        (Rule::CanonicalJson, "UPDATE taskqueue.outcomes SET result = '{\"r\": 1}' WHERE task_key = {third}"),
        (Rule::Output, "DELETE FROM taskqueue.output_pieces"),
        (Rule::Output, "UPDATE taskqueue.outputs SET bytes = bytes + 1"),
        (Rule::Output, "UPDATE taskqueue.outputs SET run_id = 'r_somebodyelse'"),
        (Rule::PendingOrder, "DELETE FROM taskqueue.delayed"),
        (Rule::Dependencies, "DELETE FROM taskqueue.dependencies"),
        (Rule::Dependencies, "UPDATE taskqueue.dependencies SET state = 1"),
        (Rule::Dependencies, "UPDATE taskqueue.dependencies SET dependency = 't_somebodyelse'"),
        (Rule::Tally, "UPDATE taskqueue.tasks SET archived = true WHERE task_key = {third}"),
        (
            Rule::Archive,
            "UPDATE taskqueue.tasks SET archived = true WHERE status = 'running';
                UPDATE taskqueue.tally SET shard = -1 - shard WHERE status = 'running'",
        ),
        (Rule::Settings, "UPDATE taskqueue.queues SET settings = '{}'"),
        (Rule::Settings, "UPDATE taskqueue.queues SET takes_turns = false"),
        (Rule::Settings, "DELETE FROM taskqueue.claim_turns"),
        (Rule::Settings, "DELETE FROM taskqueue.retention"),
        (Rule::Settings, "UPDATE taskqueue.running SET route = 'other'"),
        (Rule::Settings, "UPDATE taskqueue.running SET queue_key = NULL"),
        (Rule::Settings, "DELETE FROM taskqueue.ended"),
        (Rule::Observations, "UPDATE taskqueue.observations SET expires_at = 0"),
        (Rule::Observations, "UPDATE taskqueue.observations SET metadata = '{ }'"),
    ];
    for (rule, damage) in cases {
        let damage = damage.replace("{third}", third).replace("{fifth}", fifth);
        let damaged = database.copy();
        damaged.admin(&damage);
        let found = try_check(&damaged).await.unwrap().findings;
        let mut rules: Vec<Rule> = found.problems.iter().map(|problem| problem.rule).collect();
        rules.dedup();
        assert_eq!(rules, [*rule], "{damage}: {found:#?}");
    }
}

#[tokio::test]
async fn a_schema_that_is_missing_foreign_or_newer_is_refused_and_nothing_is_made() {
    let database = Cluster::shared().database();
    let refused = async |database: &Database| try_check(database).await.unwrap_err().to_string();
    assert!(refused(&database).await.contains("there is no schema"));
    assert_eq!(database.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'taskqueue'").len(), 0);
    database.admin("CREATE SCHEMA taskqueue; CREATE TABLE taskqueue.migrations (other int)");
    assert!(refused(&database).await.contains("another program"));
    let newer = filled().await;
    newer.admin("INSERT INTO taskqueue.migrations VALUES (99, 'next', 'x')");
    assert!(refused(&newer).await.contains("newer taskqueue"));
}

/// Its rules are unknown to this program.
#[tokio::test]
async fn of_an_older_schema_the_files_are_checked_and_the_tasks_are_not() {
    let database = filled().await;
    database.admin("DELETE FROM taskqueue.migrations; DELETE FROM taskqueue.definitions");
    let report = try_check(&database).await.unwrap();
    assert_eq!((report.schema, report.rules_checked, report.findings), (0, false, Findings::default()));
}

#[tokio::test]
async fn a_check_that_shall_end_ends() {
    let database = filled().await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut watch = Watch { stop, report: &mut |_| {} };
    let checked = check(Address::parse(&database.url()).unwrap(), "taskqueue", &mut watch).await;
    assert_eq!(checked, Err(CheckError::Interrupted));
}

#[tokio::test]
async fn indexes_are_checked_where_amcheck_is_installed() {
    let database = filled().await;
    database.admin("CREATE EXTENSION amcheck");
    assert!(try_check(&database).await.unwrap().findings.is_sound());
}
