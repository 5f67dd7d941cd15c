//! `queue pause`, `resume`, `limit`, `retention` and `settings`.

use serde_json::json;

use super::support::{A, Server};

const CLAIM: &str = r#"{"route":"default","run_id":"r_run000000009"}"#;

#[test]
fn a_paused_queue_gives_no_task_until_it_is_resumed() {
    let server = Server::with_tasks(&[A]);
    assert_eq!(server.run("queue pause q").ok(), "queue q paused; running tasks go on\n");
    assert_eq!(server.post("tasks/claim", CLAIM), 204);
    assert_eq!(server.run("queue pause q -o json").json()["paused"], true);
    assert_eq!(server.run("queue resume q").ok(), "queue q resumed\n");
    assert_eq!(server.post("tasks/claim", CLAIM), 200);
}

#[test]
fn limits_are_set_one_by_one_and_removed() {
    let server = Server::start();
    server.run("queue limit q --max-running 8 --route gpu=4 --route cpu=16").ok();
    server.run("queue limit q --route cpu=none").ok();
    let settings = server.run("queue settings q -o json").json();
    assert_eq!((&settings["max_running"], &settings["route_limits"]), (&json!(8), &json!({"gpu": 4})));
    let shown = server.run("queue settings q").ok();
    for (name, value) in
        [("max running", "8"), ("max running by route", "gpu=4"), ("failed tasks are kept", "for ever")]
    {
        let line = shown.lines().find(|line| line.starts_with(&format!("{name}  "))).unwrap_or_default();
        assert!(line.ends_with(value), "{name} in {shown}");
    }
    let cleared = server.run("queue limit q --none -o json").json();
    assert_eq!((&cleared["max_running"], &cleared["route_limits"]), (&json!(null), &json!({})));
    server.run("queue limit q --max-running 0").ok();
    server.submit("t_aaaaaaaaaaaa", &[]);
    assert_eq!(server.post("tasks/claim", CLAIM), 204);
    assert_eq!(
        server.run("queue settings q -o csv").ok(),
        "paused,max_running,route_limits,retention.succeeded_seconds,retention.failed_seconds,retention.cancelled_seconds\n\
         false,0,{},,,\n"
    );
}

#[test]
fn a_retention_that_deletes_something_is_asked_about() {
    let server = Server::claimed();
    server.complete(A, 1);
    let kept = server.run("queue retention q --succeeded 7d --failed none").ok();
    assert!(kept.lines().any(|line| line.starts_with("succeeded tasks are kept") && line.ends_with("7d")), "{kept}");
    let question = "Delete 1 task of queue q that ended longer ago";
    server.run("queue retention q --succeeded 0").fails_with(2, &[question, "add --yes"]);
    assert_eq!(server.run("queue settings q -o json").json()["retention"]["succeeded_seconds"], 604_800);
    server.run("queue retention q --succeeded 0 --yes").ok();
    assert_eq!(server.run("queue retention q --none -o json").json()["retention"]["succeeded_seconds"], json!(null));
}

#[test]
fn what_is_wrong_is_said_with_what_to_type() {
    let server = Server::start();
    let cases = [
        ("queue limit q", "--max-running 8"),
        ("queue limit q --max-running many", "a number from 0, or none"),
        ("queue limit q --route gpu", "such as gpu=4"),
        ("queue limit q --route gpu=1 --route gpu=2", "is given twice"),
        ("queue limit q --none --max-running 1", "--max-running"),
        ("queue retention q", "--succeeded 7d"),
        ("queue retention q --failed never", "7d, or none"),
        ("queue pause", "NAME"),
    ];
    for (line, expected) in cases {
        server.run(line).fails_with(2, &[expected]);
    }
    server.run("queue pause qq").fails_with(1, &["there is no queue qq (queue_not_found)"]);
}
