//! What a worker says of itself: its first line, and why it has nothing to do.

use serde_json::json;

use super::server::{Server, task_id};
use super::support::Setup;

#[test]
fn the_first_line_says_who_claims_what_from_where() {
    let server = Server::start();
    let mut worker = Setup::new(&server).flags("--slots 2,5 --route gpu").sh("true", &[]);
    let pid = worker.pid().as_raw_nonzero();
    worker.wait_for_line("claiming from");
    let stderr = worker.stop();
    let folder = worker.path("runs").canonicalize().unwrap();
    let first =
        format!("worker {pid}: claiming from q/gpu of {} with 2 slots; runs are in {}", server.url(), folder.display());
    assert_eq!(stderr.lines().next(), Some(first.as_str()), "{stderr}");
}

#[test]
fn an_idle_worker_says_why_and_again_only_when_the_reason_changes() {
    let server = Server::start();
    let settings = |patch| assert_eq!(server.call("PATCH", "/settings", &patch).0, 200);
    (1..=5).for_each(|n| server.create(n, json!({"routes": ["gpu"]})));
    let mut worker = Setup::new(&server).sh("true", &[]);
    let told = |text: &str| worker.wait_for_line(&format!("idle: {text}"));
    told("5 tasks wait for route gpu, this worker serves default");

    settings(json!({"paused": true}));
    server.create_once(6, json!({}));
    // Newer ones of another route, more than the worker looks at.
    (11..=17).for_each(|n| server.create(n, json!({"routes": ["gpu"]})));
    told("queue q is paused; this lets it go on: taskqueue queue resume q");
    settings(json!({"paused": false, "max_running": 0}));
    told("queue q runs as many tasks as its limit allows (0)");
    settings(json!({"max_running": null, "route_limits": {"default": 0}}));
    told("route default runs as many tasks as its limit allows");
    settings(json!({"route_limits": null}));
    server.wait_for(6, "succeeded");

    server.create(7, json!({"not_before": "2100-01-01T00:00:00Z"}));
    told("1 task for route default cannot be claimed yet; one is delayed until 2100-01-01T00:00:00");
    server.cancel(7);
    server.create(8, json!({"dependencies": [task_id(1)]}));
    told("1 task for route default cannot be claimed yet; one waits for other tasks");
    (1..=5).chain([8]).chain(11..=17).for_each(|n| server.cancel(n));
    told("no task waits for route default of queue q");

    let stderr = worker.stop();
    for reason in ["5 tasks wait", "is paused", "its limit allows (0)", "delayed until", "no task waits"] {
        assert_eq!(stderr.matches(reason).count(), 1, "{reason}: {stderr}");
    }
}
