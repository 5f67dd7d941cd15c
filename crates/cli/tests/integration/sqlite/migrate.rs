//! The command `migrate` on the real binary: what it refuses, what it prints, and that an interrupted one leaves nothing.

use std::process::{Command, Stdio};
use std::thread;

use serde_json::json;
use taskqueue_test_postgres::{Cluster, Database};

use super::backup::text;
use super::support::*;

/// Runs `migrate` to its end.
fn migrate(from: &str, to: &str) -> Ran {
    run(&["migrate", "--from", from, "--to", to], &[])
}

fn queues(database: &Database) -> Option<String> {
    let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'taskqueue'";
    if database.rows(there)[0][0].as_deref() == Some("0") {
        return None;
    }
    database.rows("SELECT count(*) FROM taskqueue.queues")[0][0].clone()
}

/// A stopped server whose queue `q` has a task in every state.
fn filled() -> Server {
    let mut server = Server::alone();
    server.create_in_states(1);
    let worker = json!({"host": "gpu-3", "nul": "\u{0}"});
    for n in [2, 3, 4] {
        // The tasks that were claimed, once more: who ran them last comes along.
        server.create(10 + n, json!({"routes": [format!("by-{n}")]}));
        let claim = json!({"route": format!("by-{n}"), "run_id": run_id(10 + n), "worker": worker});
        server.post(&in_queue("/tasks/claim"), claim).expect(200);
    }
    server.act(13, "complete", 13).expect(204);
    server.act(14, "fail", 14).expect(204);
    server.put(&of_worker(1), json!({"route": "default", "status": "busy", "task_id": task_id(2)})).expect(204);
    server.terminate();
    server
}

#[test]
fn everything_goes_to_postgresql_and_back_and_the_active_run_goes_on() {
    let (mut server, database) = (filled(), Cluster::shared().database());
    let (file, back) = (server.database.file(), server.database.file().with_file_name("back.db"));
    let told = migrate(text(&file), &database.url()).ok_quietly();
    assert!(told.starts_with("copied 1 queue, 8 tasks (2 running), 1 observation in "), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    server.start_again();
    let before = server.snapshot();
    server.terminate();
    // As if the last server had been gone for a while.
    database.admin("UPDATE taskqueue.clock SET last_scan_at = last_scan_at - 60000000");
    migrate(&database.url(), text(&back)).ok();
    migrate(&database.url(), text(&back)).refuses_with(1, &["not empty"]);
    migrate(text(&back), text(&back)).refuses_with(1, &["in use"]);
    std::fs::rename(&back, &file).unwrap();
    server.start_again();
    assert_eq!(server.snapshot(), before);
    let shown = [12, 13, 14].map(|n| server.task(n)["last_run"].clone());
    assert!(shown.iter().all(|run| run["worker"] == json!({"host": "gpu-3", "nul": "\u{0}"})), "{shown:?}");
    assert_eq!(shown.map(|run| run["run_id"].clone()), [json!(null), json!(run_id(13)), json!(run_id(14))]);
    server.act(2, "heartbeat", 1002).expect(200);
    server.act(2, "complete", 1002).expect(204);
    server.act(2, "complete", 1002).expect(204);
    server.act(3, "fail", 1003).assert_error(409, "run_finalized");
    assert_eq!(server.task(2)["status"], "succeeded");
}

#[test]
fn a_source_that_a_server_uses_is_refused() {
    let (server, database) = (Server::alone(), Cluster::shared().database());
    migrate(text(&server.database.file()), &database.url()).refuses_with(1, &["in use", "--from"]);
    assert_eq!(queues(&database), None);
    server.create(1, json!({}));
}

#[test]
fn a_source_that_is_missing_or_no_database_of_ours_is_refused_and_no_target_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let (missing, target, foreign) =
        (directory.path().join("missing.db"), directory.path().join("target.db"), directory.path().join("letter"));
    std::fs::write(&foreign, "This is a letter, not a database.\n".repeat(200)).unwrap();
    let database = Cluster::shared().database();
    for source in [text(&missing), text(&foreign), &database.url()] {
        migrate(source, text(&target)).refuses_with(1, &[]);
        assert!(!target.exists() && !missing.exists());
    }
    run(&["migrate", "--from", text(&foreign), "--to", text(&target), "--from-schema", "x"], &[]).fails(2);
}

/// Kills a migration as soon as something is written to the target; then the target is empty, and the next one succeeds.
#[test]
fn a_migration_killed_in_the_middle_leaves_an_empty_target_and_can_be_repeated() {
    let server = Server::alone();
    in_parallel(4, |thread| {
        for n in 0..500 {
            server.create(1 + thread * 500 + n, json!({"args": {"text": "x".repeat(20_000)}}));
        }
    });
    let mut server = server;
    server.terminate();
    let database = Cluster::shared().database();
    let (file, other) = (server.database.file(), server.database.file().with_file_name("other.db"));
    for target in [database.url(), text(&other).to_owned()] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
        command.args(["migrate", "--from", text(&file), "--to", &target]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Tasks are being written; in a file, at least its tables are there.
        let log = format!("{}-wal", other.display());
        let writing =
            "SELECT 1 FROM pg_locks WHERE relation = to_regclass('taskqueue.tasks') AND mode = 'RowExclusiveLock'";
        let begun = || match target.starts_with("postgres") {
            true => !database.rows(writing).is_empty(),
            false => std::fs::metadata(&log).is_ok_and(|file| file.len() > 0),
        };
        while child.try_wait().unwrap().is_none() && !begun() {
            thread::yield_now();
        }
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ended.is_none(), "it was over before it could be killed: {ended:?}");
        if target.starts_with("postgres") {
            taskqueue_test_postgres::eventually("the connection is gone", || {
                let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND state LIKE '%transaction%' AND pid <> pg_backend_pid()";
                database.rows(others)[0][0].as_deref() == Some("0")
            });
            assert!(matches!(queues(&database).as_deref(), None | Some("0")));
        }
        migrate(text(&file), &target).ok_with(&["copied 1 queue, 2,000 tasks (0 running), 0 observations in "]);
    }
}
