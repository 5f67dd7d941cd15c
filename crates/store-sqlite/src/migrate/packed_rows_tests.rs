//! Files of earlier versions: what they held is there after the migrations, in every detail, or the file is as it was.

use std::path::Path;

use rusqlite::{Connection, params};
use taskqueue_core::definition::{Definition, Routes};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::task::{
    ActiveRun, Failure, FinishedRun, LastError, LastRun, Lifecycle, Outcome, RunEnd, Status, Task,
};
use taskqueue_core::time::Timestamp;

use super::{MIGRATIONS, applied, apply, initialise, migrate, packed_rows};
use crate::{rows, statements as sql};

/// A file that knows the migrations before the one with this name.
fn file_before(name: &str) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    initialise(&mut connection).unwrap();
    for migration in MIGRATIONS.iter().take_while(|migration| migration.name != name) {
        apply(&mut connection, migration).unwrap();
    }
    connection.execute("INSERT INTO queues (queue_key, name) VALUES (1, 'q')", []).unwrap();
    connection
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + micros)
}

fn run_id(number: usize) -> RunId {
    RunId::parse(&format!("r_{number:012}")).unwrap()
}

fn object(text: &str) -> JsonObject {
    JsonObject::from_canonical(text)
}

/// Tasks in every state, with and without everything that a task can have or lack.
fn tasks() -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, status) in (0..160).zip(Status::ALL.into_iter().cycle()) {
        let has = |bit: usize| (number / 5) >> bit & 1 == 1;
        let is_running = status == Status::Running;
        let run = ActiveRun { run_id: run_id(number), lease_expires_at: at(77), times_out_at: None };
        let end = RunEnd::ALL[number % RunEnd::ALL.len()];
        let failure = Failure {
            kind: "Error".into(),
            message: "it \u{1f600}\0 broke".into(),
            traceback: has(0).then(|| "line 1\nline 2".into()),
        };
        let error = LastError { failure, occurred_at: at(-3), attempt: 9, run_id: Some(run_id(number + 2_000)) };
        let (plain, routed) = (Route::parse("a").unwrap(), Route::parse("gpu-1.b").unwrap());
        let routes = if has(2) { vec![plain, routed.clone()] } else { vec![plain] };
        tasks.push(Task {
            queue: QueueName::parse("q").unwrap(),
            id: TaskId::parse(&format!("t_{number:012}")).unwrap(),
            definition: Definition {
                name: has(0).then(|| if has(1) { "" } else { "näme" }.into()),
                args: object(if has(3) { r#"{"a":"é\u0000","b":[1.0,2]}"# } else { "{}" }),
                metadata: object(if has(4) { r#"{"m":null}"# } else { "{}" }),
                priority: if has(1) { i64::MIN + number as i64 } else { number as i64 },
                max_attempts: if has(2) { i64::MAX } else { 3 },
                routes: Routes::new(routes).unwrap(),
                scheduling: Scheduling::default(),
            },
            lifecycle: Lifecycle {
                status,
                attempt: number as i64 % 4,
                pending_seq: 1_000_000 + number as i64,
                last_route: has(4).then_some(routed),
                created_at: at(number as i64),
                updated_at: at(1_000 + number as i64),
                started_at: has(1).then(|| at(300)),
                finished_at: has(3).then(|| at(400)),
                run: is_running.then_some(run),
                finished_run: has(2).then(|| FinishedRun { run_id: run_id(number + 1_000), end }),
                not_before: None,
                unmet: 0,
                archived: false,
            },
            outcome: Outcome {
                result: object(if has(0) { r#"{"r":"ö"}"# } else { "{}" }),
                last_error: has(1).then_some(error),
                last_run: has(2).then(|| LastRun { attempt: 5, worker: object(r#"{"host":"h"}"#) }),
                progress: None,
            },
        });
    }
    tasks[7].definition.args = object(&format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20)));
    tasks
}

/// What earlier versions wrote for a task.
fn insert_unpacked(connection: &Connection, key: i64, task: &Task) {
    let (definition, lifecycle, outcome) = (&task.definition, &task.lifecycle, &task.outcome);
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
    connection
        .execute(
            "INSERT INTO tasks (task_key, queue_key, id, created_at, status, priority, pending_seq, routes, attempt,
                max_attempts, updated_at, started_at, finished_at, last_route, run_id, lease_expires_at, finished_run_id,
                finished_run_end, definition_bytes, name)
            VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
            params![
                key,
                task.id.as_str(),
                lifecycle.created_at.as_micros(),
                lifecycle.status.as_str(),
                definition.priority,
                lifecycle.pending_seq,
                definition.routes.as_json(),
                lifecycle.attempt,
                definition.max_attempts,
                lifecycle.updated_at.as_micros(),
                micros(lifecycle.started_at),
                micros(lifecycle.finished_at),
                lifecycle.last_route.as_ref().map(Route::as_str),
                lifecycle.run.as_ref().map(|run| run.run_id.as_str()),
                lifecycle.run.map(|run| run.lease_expires_at.as_micros()),
                lifecycle.finished_run.as_ref().map(|run| run.run_id.as_str()),
                lifecycle.finished_run.map(|run| run.end.as_str()),
                definition.stored_bytes() as i64,
                definition.name,
            ],
        )
        .unwrap();
    connection
        .execute(
            "INSERT INTO definitions (task_key, identity, args, metadata) VALUES (?1, ?2, ?3, ?4)",
            params![key, definition.identity(None), definition.args.as_str(), definition.metadata.as_str()],
        )
        .unwrap();
    let error = outcome.last_error.as_ref();
    connection
        .execute(
            "INSERT INTO outcomes (task_key, result, error_type, error_message, error_traceback, error_occurred_at,
                error_attempt, error_run_id, last_run_attempt, last_run_worker)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                key,
                Some(outcome.result.as_str()).filter(|result| *result != "{}"),
                error.map(|error| &error.failure.kind),
                error.map(|error| &error.failure.message),
                error.and_then(|error| error.failure.traceback.as_ref()),
                error.map(|error| error.occurred_at.as_micros()),
                error.map(|error| error.attempt),
                error.and_then(|error| error.run_id.as_ref()).map(RunId::as_str),
                outcome.last_run.as_ref().map(|run| run.attempt),
                outcome.last_run.as_ref().map(|run| run.worker.as_str()),
            ],
        )
        .unwrap();
}

fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Whether the rows of this task are those that a new file would have.
fn assert_packed(connection: &Connection, key: i64, task: &Task) {
    let queue = &task.queue;
    let read = connection.query_row(&sql::LOAD_TASK, [key], |row| {
        assert_eq!(format!("{:?}", rows::view(row, queue)?), format!("{:?}", task.view()));
        rows::task(row, queue)
    });
    assert_eq!(read.as_ref(), Ok(task));
    assert_eq!(connection.query_row(&sql::LOAD_HEAD, [key], rows::head).unwrap(), task.head());
    let identity = connection.query_row(sql::LOAD_IDENTITY, [key], |row| row.get::<_, [u8; 32]>(0));
    assert_eq!(identity, Ok(task.definition.identity(None)));
    let found = connection.query_row(sql::FIND_TASK, params![1, task.id.as_str()], |row| row.get(0));
    assert_eq!(found, Ok(key));
    let finished = format!("SELECT {} FROM tasks WHERE task_key = {key}", rows::with_columns("{finished_run_id}"));
    let finished: Option<String> = connection.query_row(&finished, [], |row| row.get(0)).unwrap();
    assert_eq!(finished.as_deref(), task.lifecycle.finished_run.as_ref().map(|run| run.run_id.as_str()));
}

#[test]
fn every_task_of_a_file_with_a_column_for_everything_is_there_after_packing() {
    let mut connection = file_before(packed_rows::MIGRATION);
    let tasks = tasks();
    // Keys need not be neighbours.
    for (key, task) in (1..).step_by(3).zip(&tasks) {
        insert_unpacked(&connection, key, task);
    }
    connection.execute("INSERT INTO past_runs VALUES (4, 'r_past00000001')", []).unwrap();
    migrate(&mut connection, Path::new("tasks.db")).unwrap();
    for (key, task) in (1..).step_by(3).zip(&tasks) {
        assert_packed(&connection, key, task);
    }
    assert_eq!(count(&connection, "SELECT count(*) FROM tasks"), tasks.len() as i64);
    assert_eq!(count(&connection, "SELECT count(*) FROM past_runs"), 1);
    let with_outcome = tasks.iter().filter(|task| task.outcome != Outcome::empty()).count() as i64;
    assert_eq!(count(&connection, "SELECT count(*) FROM outcomes"), with_outcome, "rows of nothing are not copied");
    assert_eq!(count(&connection, "SELECT count(*) FROM tasks WHERE outcome_key = task_key"), with_outcome);
    assert_eq!(count(&connection, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'unpacked%'"), 0);
    let health: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
    migrate(&mut connection, Path::new("tasks.db")).unwrap();
    assert_eq!(applied(&connection).unwrap().len(), MIGRATIONS.len());
}

#[test]
fn packing_that_ends_in_the_middle_has_changed_nothing_and_can_be_done_again() {
    let mut connection = file_before(packed_rows::MIGRATION);
    let tasks = tasks();
    for (key, task) in (1..).zip(&tasks) {
        insert_unpacked(&connection, key, task);
    }
    connection.execute("UPDATE tasks SET finished_run_end = 'nothing' WHERE task_key = 150", []).unwrap();
    assert_eq!(count(&connection, "SELECT finished_run_id IS NOT NULL FROM tasks WHERE task_key = 150"), 1);
    migrate(&mut connection, Path::new("tasks.db")).unwrap_err();
    assert_eq!(count(&connection, "SELECT count(args) FROM tasks JOIN definitions USING (task_key)"), 160);
    let end = tasks[149].lifecycle.finished_run.map(|run| run.end.as_str());
    connection.execute("UPDATE tasks SET finished_run_end = ?1 WHERE task_key = 150", [end]).unwrap();
    migrate(&mut connection, Path::new("tasks.db")).unwrap();
    for (key, task) in (1..).zip(&tasks) {
        assert_packed(&connection, key, task);
    }
}

#[test]
fn a_file_from_before_output_keeps_its_tasks_and_observations() {
    let mut connection = file_before("progress_and_output");
    // As the version before packed them.
    let updated_at = [9, 0, 0, 0, 0, 0, 0, 0];
    let head = [&[1, 0, 0, 0, 6, 0, 2, 6][..], &updated_at, br#"["a"]"#].concat();
    let insert = "INSERT INTO tasks (task_key, queue_key, id, created_at, status, outcome_key, packed)
        VALUES (1, 1, 't_000000000001', 1, 'pending', 1, ?1)";
    connection.execute(insert, [head]).unwrap();
    let documents = rows::PackedDocuments { args: "{}", metadata: "{}" }.pack();
    connection.execute("INSERT INTO definitions VALUES (1, zeroblob(32), ?1)", [documents]).unwrap();
    let outcome = [&[1, 1, 14][..], br#"{"a":1}"#].concat();
    connection.execute("INSERT INTO outcomes VALUES (1, ?1)", [outcome]).unwrap();
    let insert = "INSERT INTO observations (queue_key, id, route, status, last_seen_at, expires_at, metadata)
        VALUES (1, 'w_000000000001', 'a', 'idle', 5, 6, '{\"gpu\":1}')";
    connection.execute(insert, []).unwrap();
    migrate(&mut connection, Path::new("tasks.db")).unwrap();
    let queue = QueueName::parse("q").unwrap();
    let task = connection.query_row(&sql::LOAD_TASK, [1], |row| rows::task(row, &queue)).unwrap();
    assert_eq!(task.outcome, Outcome { result: object(r#"{"a":1}"#), ..Outcome::empty() });
    assert_eq!((task.lifecycle.pending_seq, task.definition.max_attempts), (1, 3));
    let head = connection.query_row(&sql::LOAD_HEAD, [1], rows::head).unwrap();
    assert_eq!((head.definition_bytes, head.progress_bytes), (3, 0));
    let id = params![1, "w_000000000001"];
    let observed = connection.query_row(&sql::LOAD_OBSERVATION, id, |row| rows::observation(row, &queue)).unwrap();
    assert_eq!((observed.report.metadata, observed.telemetry), (object(r#"{"gpu":1}"#), None));
    assert_eq!(
        count(&connection, "SELECT count(*) FROM outputs") + count(&connection, "SELECT count(*) FROM output_pieces"),
        0
    );
}

#[test]
fn a_file_from_before_last_runs_keeps_its_rows() {
    let mut connection = file_before("last_runs");
    let rows = "
        INSERT INTO tasks (task_key, queue_key, id, created_at, status, priority, pending_seq, routes, attempt, max_attempts,
            updated_at, definition_bytes) VALUES (1, 1, 't_000000000001', 1, 'pending', 0, 1, '[\"a\"]', 0, 3, 1, 99);
        INSERT INTO definitions VALUES (1, zeroblob(32), '{}', '{}');
        INSERT INTO outcomes (task_key, result) VALUES (1, '{\"a\":1}');";
    connection.execute_batch(rows).unwrap();
    migrate(&mut connection, Path::new("tasks.db")).unwrap();
    let queue = QueueName::parse("q").unwrap();
    let task = connection.query_row(&sql::LOAD_TASK, [1], |row| rows::task(row, &queue)).unwrap();
    assert_eq!(task.outcome, Outcome { result: object(r#"{"a":1}"#), ..Outcome::empty() });
}
