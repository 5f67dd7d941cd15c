//! `task wait`: success, failure, and running out of time.

use std::process::Stdio;

use serde_json::json;

use crate::support::Server;

#[test]
fn waiting_ends_well_when_all_tasks_have_succeeded() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
    server.submit("t_bbbbbbbbbbbb", &[]);
    let mut command = server.command(&["task", "wait", "t_aaaaaaaaaaaa", "t_bbbbbbbbbbbb"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.claim("default", 1);
    server.complete("t_aaaaaaaaaaaa", 1);
    server.claim("default", 2);
    server.complete("t_bbbbbbbbbbbb", 2);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), "2 succeeded\n");
}

#[test]
fn any_other_end_is_a_failure_and_is_reported() {
    let server = Server::start();
    for (id, route) in [("t_aaaaaaaaaaaa", "a"), ("t_bbbbbbbbbbbb", "b"), ("t_cccccccccccc", "c")] {
        server.submit(id, &["--route", route, "--max-attempts", "1"]);
    }
    server.claim("a", 1);
    server.complete("t_aaaaaaaaaaaa", 1);
    server.claim("b", 2);
    server.fail("t_bbbbbbbbbbbb", 2);
    server.run("task cancel t_cccccccccccc").ok();
    let ran = server.run("task wait --filter max_attempts==1");
    assert_eq!(ran.stdout, "1 succeeded, 1 failed, 1 cancelled\n");
    let message = ran.fails(1);
    assert!(message.contains("t_bbbbbbbbbbbb failed: ValueError: bad seed"), "{message}");
    assert!(message.contains("t_cccccccccccc was cancelled"), "{message}");
    let message = server.run("task wait t_zzzzzzzzzzzz").fails(1);
    assert!(message.contains("task_not_found"), "{message}");
    assert_eq!(server.run("task wait t_aaaaaaaaaaaa --timeout 0").ok(), "1 succeeded\n");
}

#[test]
fn the_time_can_be_over() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
    let ran = server.run("task wait t_aaaaaaaaaaaa --timeout 1s -o json");
    let summary: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected =
        json!({"succeeded": 0, "failed": 0, "cancelled": 0, "missing": 0, "unfinished": 1, "timed_out": true});
    assert_eq!(summary, expected);
    assert!(ran.fails(1).contains("timed out"));
}
