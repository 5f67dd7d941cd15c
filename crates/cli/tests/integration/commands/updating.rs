//! `task update`, by id and by filter: new values, and single members of args and metadata.

use serde_json::json;

use super::support::{A, B, C, Server, run_alone};

#[test]
fn every_field_can_be_changed() {
    let server = Server::with_task(&["--name", "old", "--args", r#"{"a":1,"b":2}"#]);
    let update = r#"task update t_aaaaaaaaaaaa -o json --name new --args {"b":3} --metadata {"m":1} --priority 4"#;
    let task = server.run(&format!(r#"{update} --max-attempts 9 --route gpu --result {{"r":1}}"#)).json();
    assert_eq!((&task["name"], &task["args"], &task["metadata"]), (&json!("new"), &json!({"b": 3}), &json!({"m": 1})));
    assert_eq!((&task["priority"], &task["max_attempts"]), (&json!(4), &json!(9)));
    assert_eq!((&task["routes"], &task["result"]), (&json!(["gpu"]), &json!({"r": 1})));
    assert_eq!(server.run("task update t_aaaaaaaaaaaa --no-name").ok(), "t_aaaaaaaaaaaa updated\n");
    assert_eq!(server.count("name == None"), 1);
}

#[test]
fn a_member_is_set_or_removed_and_all_others_are_kept() {
    let args = r#"{"lr": 0.1, "seed": 1, "model": {"layers": 2, "act": "relu"}}"#;
    let server = Server::with_task(&["--args", args, "--metadata", r#"{"owner": "ada", "tags": {"a": 1}}"#]);
    let update = "task update t_aaaaaaaaaaaa --arg lr=0.5 --arg model.layers=4 --unset-arg seed --unset-arg model.act";
    server.run(&format!("{update} --arg new.deep=[1,null] --meta tags.b=2 --unset-meta owner")).ok();
    let task = server.task(A);
    assert_eq!(task["args"], json!({"lr": 0.5, "model": {"layers": 4}, "new": {"deep": [1, null]}}));
    assert_eq!(task["metadata"], json!({"tags": {"a": 1, "b": 2}}));
    // The whole is replaced only by the flags that say so.
    server.run("task update t_aaaaaaaaaaaa --args {\"x\":null} --metadata {}").ok();
    let task = server.task(A);
    assert_eq!((&task["args"], &task["metadata"]), (&json!({"x": null}), &json!({})));
}

#[test]
fn matching_tasks_are_changed_together_after_consent() {
    let server = Server::start();
    for (id, priority) in [("t_aaaaaaaaaaaa", "1"), ("t_bbbbbbbbbbbb", "2"), ("t_cccccccccccc", "3")] {
        server.submit(id, &["--priority", priority]);
    }
    server.claim("default", 1);
    let update = ["task", "update", "--filter", "priority > 0", "--priority", "2"];
    server.run_with(&update).fails_with(2, &["Update 2 tasks of queue q (1 running left out): add --yes"]);
    let ran = server.run_with(&[&update[..], &["--yes"]].concat());
    let ran = ran.said(&["left out: 1 is running: wait for the end"]);
    assert_eq!(ran.ok(), "1 updated, 1 unchanged, 1 running left out\n");
    let again = server.run_with(&[&update[..], &["--yes", "-o", "json"]].concat());
    let again = again.printed("{\"updated\":0,\"unchanged\":2,\"running_left_out\":1}\n");
    again.fails_with(1, &["nothing was changed: 2 have these values already; 1 is running: "]);
}

#[test]
fn tasks_are_also_selected_by_status_and_a_failure_says_why_nothing_was_changed() {
    let server = Server::with_tasks(&[A, B, C]);
    server.run("task cancel t_aaaaaaaaaaaa t_bbbbbbbbbbbb").ok();
    assert_eq!(server.run("task update --status cancelled --priority 1 --yes").ok(), "2 updated\n");
    let update =
        ["task", "update", "--status", "cancelled", "--filter", "id < 't_b' or id > 't_c'", "--priority", "2", "-y"];
    assert_eq!(server.run_with(&update).ok(), "1 updated\n");
    assert_eq!((server.count("priority == 1"), server.count("priority == 2")), (1, 1));
    server.claim("default", 1);
    let expected = "nothing was changed: 1 is running: wait for the end";
    server.run("task update --status running --priority 3").fails_with(1, &[expected]);
    let ran = server.run("task update --status failed --priority 3").said(&["note: no task of queue q matches"]);
    assert_eq!(ran.ok(), "0 updated\n");
    server.run("task update t_aaaaaaaaaaaa --status failed --priority 3").fails_with(2, &["cannot be used with"]);
}

#[test]
fn a_refusal_for_one_of_many_named_tasks_is_reported_and_a_failure() {
    let server = Server::with_task(&[]);
    server.submit("t_bbbbbbbbbbbb", &["--priority", "9"]);
    server.claim("default", 1);
    let ran = server.run("task update t_aaaaaaaaaaaa t_bbbbbbbbbbbb --priority 5");
    ran.printed("1 updated, 1 refused\n").fails_with(1, &["t_bbbbbbbbbbbb", "task_running"]);
}

#[test]
fn the_help_names_no_values_that_are_not_set() {
    let words = ["Examples:", "--status", "--unset-arg", "Replace all args", "is merged"];
    let help = run_alone("task update --help").ok_with(&words);
    assert!(!help.contains("[default") && !help.contains("new tasks"), "{help}");
}

#[test]
fn a_dry_run_shows_what_would_change_and_changes_nothing() {
    let server = Server::with_task(&["--args", r#"{"lr":0.1,"model":{"layers":2}}"#]);
    server.submit("t_bbbbbbbbbbbb", &["--args", r#"{"lr":0.01,"model":{"layers":4}}"#, "--priority", "5"]);
    server.submit("t_cccccccccccc", &["--route", "gpu"]);
    server.claim("gpu", 1);
    let before = server.run("task list -o json").ok();
    let dry_run = |target: &[&str], format: &str| {
        let change = ["--arg", "model.layers=4", "--unset-arg", "lr", "--priority", "5", "--dry-run", "-o", format];
        server.run_with(&[&["task", "update"], target, &change].concat())
    };
    let table = dry_run(&["--filter", "priority >= 0"], "table");
    assert_eq!(
        table.stderr,
        "note: 2 tasks would be updated, 1 is running: wait for the end, or cancel first with taskqueue task cancel; nothing \
         was changed\n"
    );
    table.shows(&[
        "ID              STATUS   CHANGES",
        "t_bbbbbbbbbbbb  pending  args.lr: 0.01 -> none",
        "t_aaaaaaaaaaaa  pending  args.lr: 0.1 -> none, args.model.layers: 2 -> 4, priority: 0 -> 5",
    ]);
    let named = dry_run(&["t_aaaaaaaaaaaa"], "json").json();
    assert_eq!(
        named[0]["changes"],
        json!({"args.lr": {"from": 0.1}, "args.model.layers": {"from": 2, "to": 4},
            "priority": {"from": 0, "to": 5}})
    );
    assert_eq!(dry_run(&["t_aaaaaaaaaaaa", "t_cccccccccccc"], "quiet").fails(1).lines().count(), 1);
    assert_eq!(server.run("task list -o json").ok(), before);
    // What it shows is what is done.
    server.run_with(&["task", "update", "t_bbbbbbbbbbbb", "--unset-arg", "lr"]).ok();
    let same = dry_run(&["--filter", "priority == 5"], "quiet");
    assert_eq!(same.stderr, "note: 0 tasks would be updated, 1 would stay the same; nothing was changed\n");
}
