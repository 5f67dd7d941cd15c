//! A sound file has no problem, and each kind of damage is reported by the rule that is for it, and by no other.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rusqlite::params;
use taskqueue_store::conformance::prelude::*;
use tempfile::TempDir;

use super::{Report, *};
use crate::rows::PackedHead;
use crate::{HistoryOptions, Options, SqliteStore};

fn check_file(file: &Path) -> Report {
    check(file, &mut Watch { stop: Arc::new(AtomicBool::new(false)), report: &mut |_| {} }).unwrap()
}

/// The rules that a file breaks, each once, with the lines for the message of a failure.
fn broken(file: &Path) -> (Vec<Rule>, Vec<String>) {
    let problems = check_file(file).findings.problems;
    let mut rules: Vec<Rule> = problems.iter().map(|problem| problem.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    (rules, problems.into_iter().map(|problem| problem.what).collect())
}

/// A file with tasks of every kind.
async fn filled() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("filled.db");
    let clock = ManualClock::new(START);
    let history = HistoryOptions { flush_after: 1, ..HistoryOptions::default() };
    let options = Options { history, ..Options::default() };
    let store = SqliteStore::open(&file, Arc::new(clock.clone()), &options).unwrap();
    let fixture = Fixture { store: Arc::new(store), clock };
    fixture.ok(create_queue("q")).await;
    fixture.fill_with_every_kind().await;
    fixture.close().await;
    (folder, file)
}

fn damaged(file: &Path, damage: impl FnOnce(&Connection)) -> PathBuf {
    let copy = file.with_file_name("damaged.db");
    std::fs::copy(file, &copy).unwrap();
    let connection = Connection::open(&copy).unwrap();
    damage(&connection);
    connection.close().unwrap();
    copy
}

/// Changes what is packed of a task.
fn edit(connection: &Connection, id: usize, change: impl FnOnce(&mut PackedHead<'_>)) {
    let id = task_id(id);
    let packed: Vec<u8> =
        connection.query_row("SELECT packed FROM tasks WHERE id = ?1", [id.as_str()], |row| row.get(0)).unwrap();
    let mut head = PackedHead::unpack(&packed).unwrap();
    change(&mut head);
    connection.execute("UPDATE tasks SET packed = ?1 WHERE id = ?2", params![head.pack(), id.as_str()]).unwrap();
}

/// Gives a queue a retention.
fn keep_for_a_minute(connection: &Connection, queue: i64) {
    let retention = Retention { succeeded_seconds: Some(60), ..Retention::default() };
    let settings = QueueSettings { retention, ..QueueSettings::default() };
    connection.execute("INSERT INTO queue_settings VALUES (?1, ?2)", params![queue, settings.to_json()]).unwrap();
}

/// Runs a statement whose parameter is a run id.
fn insert_run(connection: &Connection, sql: &str, run: usize) {
    connection.execute(sql, params![run_id(run).as_str()]).unwrap();
}

#[tokio::test]
async fn a_sound_file_has_no_problem_and_is_counted() {
    let (_folder, file) = filled().await;
    let report = check_file(&file);
    assert_eq!(report.findings, Findings::default());
    assert_eq!((report.queues, report.tasks, report.rules_checked), (1, 6, true));
}

/// docs/backup.md says so: there is no checksum of what is stored.
#[tokio::test]
async fn a_changed_bit_is_found_in_the_form_of_a_document_and_not_in_its_values() {
    let (folder, file) = filled().await;
    let (bytes, args) = (std::fs::read(&file).unwrap(), br#"{"a":1,"b":2}"#);
    // The last one is that of the first task; the first one may be a rest of the deleted task.
    let start = bytes.windows(args.len()).rposition(|part| part == args).unwrap();
    for (place, is_found) in [(0, true), (1, true), (2, false), (4, true), (5, false), (12, true)] {
        let mut changed = bytes.clone();
        changed[start + place] ^= 1;
        let copy = folder.path().join("changed.db");
        std::fs::write(&copy, changed).unwrap();
        assert_eq!(!check_file(&copy).findings.is_sound(), is_found, "byte {place}");
    }
}

type Damage = fn(&Connection);

/// A file in which 2 waits for 1, which is pending, and 3 for 9, which does not exist.
async fn with_dependencies(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("dependencies.db");
    let clock = Arc::new(ManualClock::new(START));
    let store = SqliteStore::open(&file, clock, &Options::default()).unwrap();
    store.write(create_queue("q")).await.unwrap();
    store.write(create("q", 1, Definition::default())).await.unwrap();
    store.write(create("q", 2, waits_for(&[1]))).await.unwrap();
    store.write(create("q", 3, waits_for(&[9]))).await.unwrap();
    store.close().await;
    file
}

#[tokio::test]
async fn what_is_noted_of_dependencies_is_checked_and_may_be_late_where_that_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let file = with_dependencies(&folder).await;
    assert_eq!(check_file(&file).findings, Findings::default());
    const UNSETTLED: &str = "INSERT INTO unsettled SELECT queue_key, dependency, NULL FROM dependencies";
    let cases: &[(&[Rule], Damage)] = &[
        (&[Rule::Dependencies], |file| file.execute_batch("DELETE FROM dependencies WHERE task_key = 2").unwrap()),
        (&[Rule::Dependencies], |file| {
            let another = "INSERT INTO dependencies SELECT queue_key, 't_somebodyelse', task_key, 0 FROM dependencies";
            file.execute_batch(another).unwrap();
        }),
        (&[Rule::Dependencies], |file| edit(file, 2, |head| head.extended.unmet = 0)),
        // The same number is unmet, but it is not what is noted.
        (&[Rule::Dependencies], |file| {
            file.execute_batch("UPDATE dependencies SET state = 4 WHERE task_key = 2").unwrap()
        }),
        (&[], |file| {
            file.execute_batch("UPDATE dependencies SET state = 4 WHERE task_key = 2").unwrap();
            file.execute_batch(UNSETTLED).unwrap();
        }),
        (&[], |file| file.execute_batch("UPDATE dependencies SET state = 4 WHERE task_key = 3").unwrap()),
        (&[Rule::Readable], |file| file.execute_batch("UPDATE dependencies SET state = 9 WHERE task_key = 2").unwrap()),
        (&[Rule::References], |file| {
            let missing = "INSERT INTO dependencies SELECT queue_key, dependency, 99, state FROM dependencies";
            file.execute_batch(missing).unwrap();
        }),
        (&[Rule::References], |file| {
            file.execute_batch("INSERT INTO unsettled VALUES (99, 't_somebodyelse', NULL)").unwrap();
        }),
    ];
    for (n, (expected, damage)) in cases.iter().enumerate() {
        let (rules, lines) = broken(&damaged(&file, damage));
        assert_eq!(rules, *expected, "{n}: {lines:#?}");
    }
}

#[tokio::test]
async fn each_kind_of_damage_is_reported_by_its_rule_and_by_no_other() {
    let (_folder, file) = filled().await;
    let execute = |sql: &'static str| move |connection: &Connection| connection.execute_batch(sql).unwrap();
    let statements: &[(Rule, &str)] = &[
        (Rule::Schema, "DROP INDEX tasks_by_creation"),
        (Rule::Schema, "CREATE TABLE other (a)"),
        (Rule::Schema, "ALTER TABLE observations ADD COLUMN more TEXT"),
        (Rule::Readable, "UPDATE definitions SET documents = x'00' WHERE task_key = 3"),
        (Rule::Readable, "UPDATE definitions SET identity = x'00' WHERE task_key = 3"),
        (Rule::Readable, "UPDATE outputs SET packed = x'00'"),
        (Rule::Readable, "UPDATE observations SET status = 'other'"),
        (Rule::Readable, "UPDATE past_runs SET run_id = 'r_?'"),
        (Rule::References, "DELETE FROM definitions WHERE task_key = 3"),
        (Rule::References, "DELETE FROM outcomes WHERE task_key = 3"),
        (Rule::References, "UPDATE tasks SET outcome_key = 4 WHERE task_key = 5"),
        (Rule::References, "INSERT INTO definitions VALUES (99, zeroblob(32), x'00')"),
        (Rule::References, "INSERT INTO outcomes VALUES (99, x'00')"),
        (Rule::References, "INSERT INTO past_runs VALUES (99, 'r_somebodyelse')"),
        (Rule::References, "INSERT INTO outputs SELECT 99, packed FROM outputs"),
        (Rule::References, "INSERT INTO output_pieces (task_key, start, bytes) VALUES (3, 0, x'00')"),
        (Rule::References, "INSERT INTO tally VALUES (99, '[]', 'pending', 1, 0)"),
        (Rule::References, "INSERT INTO activity VALUES (99, 60, 0, 1, x'00')"),
        (
            Rule::References,
            "INSERT INTO observations SELECT 99, id, route, status, task_id, last_seen_at, expires_at, metadata, telemetry,
                telemetry_updated_at FROM observations",
        ),
        (Rule::References, "INSERT INTO purges (queue_key, kept_until) SELECT queue_key, 0 FROM queues"),
        (Rule::Tally, "UPDATE tally SET tasks = tasks + 1 WHERE status = 'running'"),
        (Rule::Tally, "DELETE FROM tally WHERE status = 'failed'"),
        (Rule::RunIds, "DELETE FROM run_pages; DELETE FROM run_segments"),
        (Rule::RunIds, "DELETE FROM run_pages"),
        (Rule::RunIds, "UPDATE run_pages SET entries = substr(entries, 2)"),
        (Rule::RunIds, "UPDATE run_segments SET entries = entries + 1"),
        (Rule::RunIds, "UPDATE run_segments SET state = 'other'"),
        (Rule::LivingTasks, "DELETE FROM living_tasks"),
        (Rule::LivingTasks, "UPDATE claim_index SET latest_at = 0, flushed_at = 0"),
        (Rule::Output, "DELETE FROM output_pieces"),
        (Rule::Output, "UPDATE output_pieces SET start = 1"),
        (Rule::Tally, "UPDATE tally SET archived = 1 WHERE status = 'failed'"),
        (Rule::Settings, "INSERT INTO queue_settings VALUES (1, '{}')"),
        (Rule::Observations, "UPDATE observations SET expires_at = 0"),
        (Rule::Observations, "UPDATE observations SET metadata = '{ }'"),
    ];
    for (rule, sql) in statements {
        let (rules, lines) = broken(&damaged(&file, |connection| connection.execute_batch(sql).unwrap()));
        assert_eq!(rules, [*rule], "{sql}: {lines:#?}");
    }
    let edits: &[(Rule, Damage)] = &[
        (Rule::Runs, |file| {
            edit(file, 3, |head| head.finished_run.iter_mut().for_each(|(_, end)| *end = RunEnd::Cancel));
        }),
        (Rule::Attempts, |file| edit(file, 5, |head| head.attempt = -1)),
        (Rule::Times, |file| edit(file, 3, |head| head.finished_at = Some(Timestamp::from_micros(0)))),
        (Rule::Sizes, |file| edit(file, 3, |head| head.definition_bytes += 1)),
        (Rule::Sizes, |file| edit(file, 2, |head| head.progress_bytes += 1)),
        (Rule::CanonicalJson, |file| {
            let documents: Vec<u8> =
                file.query_row("SELECT documents FROM definitions WHERE task_key = 3", [], |row| row.get(0)).unwrap();
            let text = String::from_utf8_lossy(&documents).replace(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
            file.execute("UPDATE definitions SET documents = ?1 WHERE task_key = 3", [text.as_bytes()]).unwrap();
        }),
        (Rule::References, |file| keep_for_a_minute(file, 99)),
        // Nothing was noted when its tasks ended.
        (Rule::Settings, |file| keep_for_a_minute(file, 1)),
        (Rule::Archive, |file| {
            edit(file, 1, |head| head.extended.archived = true);
            file.execute("UPDATE tally SET archived = 1 WHERE routes = '[\"a\",\"for-1\"]'", []).unwrap();
        }),
        (Rule::RunIds, |file| {
            insert_run(file, "INSERT INTO past_runs (task_key, run_id) VALUES (6, ?1)", 3);
        }),
        (Rule::RunIds, |file| {
            insert_run(file, "INSERT INTO past_runs (task_key, run_id) VALUES (4, ?1)", 99);
        }),
        (Rule::RunIds, |file| {
            insert_run(file, "INSERT INTO deleted_runs (kept_until, run_id) VALUES (1, ?1)", 99);
        }),
    ];
    for (number, (rule, damage)) in edits.iter().enumerate() {
        let (rules, lines) = broken(&damaged(&file, damage));
        assert_eq!(rules, [*rule], "edit {number}: {lines:#?}");
    }
    let sound = damaged(&file, execute("SELECT 1"));
    assert_eq!(broken(&sound).0, []);
}

#[tokio::test]
async fn damaged_pages_are_reported_by_the_engine() {
    let (_folder, file) = filled().await;
    let page: i64 = Connection::open(&file)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'tasks'", [], |row| row.get(0))
        .unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let start = (usize::try_from(page).unwrap() - 1) * 4_096;
    bytes[start + 8..start + 64].fill(0xa5);
    std::fs::write(&file, &bytes).unwrap();
    let (rules, lines) = broken(&file);
    assert_eq!(rules, [Rule::Engine], "{lines:#?}");
    // Of half a file not even the schema is read.
    bytes.truncate(start);
    std::fs::write(&file, &bytes).unwrap();
    let mut watch = Watch { stop: Arc::default(), report: &mut |_| {} };
    let refused = check(&file, &mut watch).unwrap_err().to_string();
    assert!(refused.contains("is damaged"), "{refused}");
}

#[tokio::test]
async fn many_tasks_are_checked_in_shares() {
    let (_folder, file) = filled().await;
    let wrong = damaged(&file, |connection| {
        connection.execute_batch("UPDATE tally SET tasks = 5 WHERE status = 'failed'").unwrap();
        insert_run(connection, "INSERT INTO past_runs (task_key, run_id) VALUES (6, ?1)", 3);
    });
    for (file, problems) in [(&file, 0), (&wrong, 2)] {
        let found = outside_reader::read(file, |reader| {
            let mut watch = Watch { stop: Arc::default(), report: &mut |_| {} };
            let connection = &reader.connection;
            let queues = HashMap::from([(QueueKey(1), queue("q"))]);
            let mut found = Findings::default();
            let (settings, reading, findings) = (HashMap::new(), HashSet::new(), &mut found);
            let mut checked =
                Checked { connection, queues, settings, reading, tasks: 6, noted: 0, findings, watch: &mut watch };
            derived::check_in_shares(&mut checked, 2, 3).unwrap();
            Ok::<_, OpenError>(found)
        });
        let found = found.unwrap();
        assert_eq!(found.count(), problems, "{found:?}");
    }
}

#[tokio::test]
async fn a_check_that_shall_end_ends() {
    let (_folder, file) = filled().await;
    let mut watch = Watch { stop: Arc::new(AtomicBool::new(true)), report: &mut |_| {} };
    assert_eq!(check(&file, &mut watch), Err(CheckError::Interrupted));
}

/// Its rules are unknown to this program.
#[tokio::test]
async fn of_an_older_schema_the_files_are_checked_and_the_tasks_are_not() {
    let (_folder, file) = filled().await;
    let older = damaged(&file, |file| file.execute_batch("DELETE FROM migrations; DELETE FROM definitions").unwrap());
    let report = check_file(&older);
    assert_eq!((report.schema, report.rules_checked, report.findings), (0, false, Findings::default()));
}

#[tokio::test]
async fn a_file_of_another_program_or_of_a_newer_version_is_refused() {
    let (_folder, file) = filled().await;
    let refused = |sql: &str| {
        let file = damaged(&file, |connection| connection.execute_batch(sql).unwrap());
        let mut watch = Watch { stop: Arc::default(), report: &mut |_| {} };
        check(&file, &mut watch).unwrap_err().to_string()
    };
    assert!(refused("PRAGMA application_id = 7").contains("another program"));
    assert!(refused("INSERT INTO migrations VALUES (1000, 'next', 'x')").contains("newer taskqueue"));
    assert!(refused("UPDATE migrations SET checksum = 'x' WHERE version = 1").contains("unknown schema"));
}
