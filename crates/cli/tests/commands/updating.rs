//! `task update`, by id and by filter.

use serde_json::{Value, json};

use crate::support::Server;

#[test]
fn every_field_can_be_changed() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &["--name", "old", "--args", r#"{"a":1,"b":2}"#]);
    let update = [
        "task",
        "update",
        "t_aaaaaaaaaaaa",
        "-o",
        "json",
        "--name",
        "new",
        "--arg",
        "b=3",
        "--metadata",
        r#"{"m":1}"#,
        "--priority",
        "4",
        "--max-attempts",
        "9",
        "--route",
        "gpu",
        "--result",
        r#"{"r":1}"#,
    ];
    let task = server.run_with(&update).json();
    assert_eq!((&task["name"], &task["args"], &task["metadata"]), (&json!("new"), &json!({"b": 3}), &json!({"m": 1})));
    assert_eq!((&task["priority"], &task["max_attempts"]), (&json!(4), &json!(9)));
    assert_eq!((&task["routes"], &task["result"]), (&json!(["gpu"]), &json!({"r": 1})));
    assert_eq!(server.run("task update t_aaaaaaaaaaaa --no-name").ok(), "t_aaaaaaaaaaaa updated\n");
    assert_eq!(server.count("name == None"), 1);
}

#[test]
fn matching_tasks_are_changed_together_after_consent() {
    let server = Server::start();
    for (id, priority) in [("t_aaaaaaaaaaaa", "1"), ("t_bbbbbbbbbbbb", "2"), ("t_cccccccccccc", "3")] {
        server.submit(id, &["--priority", priority]);
    }
    server.claim("default", 1);
    let update = ["task", "update", "--filter", "priority > 0", "--priority", "2"];
    let message = server.run_with(&update).fails(2);
    assert!(message.contains("Update 2 tasks of queue q (1 running left out): add --yes"), "{message}");
    let ran = server.run_with(&[&update[..], &["--yes"]].concat());
    assert!(ran.stderr.contains("left out: 1 is running: wait for the end"), "{ran:?}");
    assert_eq!(ran.ok(), "1 updated, 1 unchanged, 1 running left out\n");
    let again = server.run_with(&[&update[..], &["--yes", "-o", "json"]].concat());
    let summary: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(summary, json!({"updated": 0, "unchanged": 2, "running_left_out": 1}));
    let message = again.fails(1);
    assert!(message.contains("nothing was changed: 2 have these values already; 1 is running: "), "{message}");
}

#[test]
fn tasks_are_also_selected_by_status_and_a_failure_says_why_nothing_was_changed() {
    let server = Server::start();
    for id in ["t_aaaaaaaaaaaa", "t_bbbbbbbbbbbb", "t_cccccccccccc"] {
        server.submit(id, &[]);
    }
    server.run("task cancel t_aaaaaaaaaaaa t_bbbbbbbbbbbb").ok();
    assert_eq!(server.run("task update --status cancelled --priority 1 --yes").ok(), "2 updated\n");
    let update =
        ["task", "update", "--status", "cancelled", "--filter", "id < 't_b' or id > 't_c'", "--priority", "2", "-y"];
    assert_eq!(server.run_with(&update).ok(), "1 updated\n");
    assert_eq!((server.count("priority == 1"), server.count("priority == 2")), (1, 1));
    server.claim("default", 1);
    let message = server.run("task update --status running --priority 3").fails(1);
    assert!(message.contains("nothing was changed: 1 is running: wait for the end"), "{message}");
    let ran = server.run("task update --status failed --priority 3");
    assert!(ran.stderr.contains("note: no task of queue q matches"), "{ran:?}");
    assert_eq!(ran.ok(), "0 updated\n");
    let message = server.run("task update t_aaaaaaaaaaaa --status failed --priority 3").fails(2);
    assert!(message.contains("cannot be used with"), "{message}");
}

#[test]
fn a_refusal_for_one_of_many_named_tasks_is_reported_and_a_failure() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
    server.submit("t_bbbbbbbbbbbb", &["--priority", "9"]);
    server.claim("default", 1);
    let ran = server.run("task update t_aaaaaaaaaaaa t_bbbbbbbbbbbb --priority 5");
    assert_eq!(ran.stdout, "1 updated, 1 refused\n");
    let message = ran.fails(1);
    assert!(message.contains("t_bbbbbbbbbbbb") && message.contains("task_running"), "{message}");
}
