//! A run that the server has ended is stopped, with everything that it has started, and nothing of it is reported.

use serde_json::Value;

use super::processes::is_alive;
use super::server::Server;
use super::support::{Setup, Worker, until};

/// Leaves a child, a grandchild that ignores SIGTERM, and a daemon that has left group, session and parents; then waits.
const FAMILY: &str = r#"
sleep 1000 & echo $! > child
sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 0.1; done' &
setsid sh -c 'setsid sh -c "trap \"\" TERM HUP; echo \$\$ > daemon; while :; do sleep 0.1; done" &'
while [ ! -s grandchild ] || [ ! -s daemon ]; do sleep 0.02; done
echo $$ > leader
while [ ! -e go ]; do sleep 0.05; done
"#;

/// A worker whose run has started the whole family, and the numbers of its members.
fn with_family(server: &Server, flags: &str) -> (Worker, Vec<String>) {
    let worker = Setup::new(server).flags(flags).sh(FAMILY, &[]);
    worker.wait_for_file("leader");
    let pids: Vec<String> = ["leader", "child", "grandchild", "daemon"].map(|name| worker.read(name)).to_vec();
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    (worker, pids)
}

#[test]
fn a_cancelled_run_is_stopped_with_everything_that_it_has_started() {
    let server = Server::with_tasks(1);
    let (mut worker, pids) = with_family(&server, "--max-tasks 1 --grace 1");
    server.cancel(1);
    let cancelled = server.task(1);
    worker.wait_for_line("revoked t_000000000001");
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    worker.finish_saying(&["run_finalized", "0 succeeded, 0 failed, 1 revoked"]);
    assert_eq!(server.task(1), cancelled, "a revoked run changes nothing");
}

#[test]
fn a_task_that_is_requeued_while_it_runs_is_run_again_from_its_beginning() {
    let server = Server::with_tasks(1);
    let script = "echo $TASKQUEUE_RUN_ID >> runs.txt; [ -e go ] || { touch go; sleep 1000; }";
    let mut worker = Setup::new(&server).flags("--max-tasks 2").sh(script, &[]);
    until("the first run", || worker.path("go").exists());
    server.cancel(1);
    assert_eq!(server.call("POST", "/tasks/t_000000000001/requeue", &Value::Null).0, 200);
    worker.finish_saying(&["1 succeeded, 0 failed, 1 revoked"]);
    server.assert_state(1, "succeeded", 1);
    assert_eq!(worker.read("runs.txt").lines().count(), 2);
}

#[test]
fn a_queue_that_is_deleted_stops_its_runs_and_ends_the_worker() {
    let server = Server::with_tasks(1);
    let (mut worker, pids) = with_family(&server, "--grace 1");
    server.cancel(1);
    assert_eq!(server.call("DELETE", "?cascade=true", &Value::Null).0, 204);
    worker.finish().fails_with(1, &["there is no queue q"]);
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    worker.assert_nothing_is_left();
}
