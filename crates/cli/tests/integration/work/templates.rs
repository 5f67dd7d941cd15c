//! The command as a template: values of tasks, and mistakes that are found before a task is claimed.

use serde_json::json;

use super::server::Server;
use super::support::Setup;

const SHOW: &str = r#"printf '<%s>' "$@" > shown"#;

#[test]
fn arguments_of_the_task_become_arguments_of_the_command() {
    let server = Server::start();
    let args = json!({
        "text": "a  b\n$(id) `id` 'q' \"d\" ; rm -rf *", "int": 7, "float": 0.5, "yes": true, "none": null,
        "list": [1, "x"], "model": {"layers": 3, "deep": {"name": "ü"}}, "empty": "", "template": "%{int}", "slot": 99,
    });
    server.create_once(1, args);
    let table = [
        ("%{text}", "a  b\n$(id) `id` 'q' \"d\" ; rm -rf *"),
        ("--n=%{int}", "--n=7"),
        ("%{float}", "0.5"),
        ("%{yes}%{none}", "truenull"),
        ("%{list}", "[1,\"x\"]"),
        ("%{model.layers}/%{model.deep.name}", "3/ü"),
        ("%{model.deep}", "{\"name\":\"ü\"}"),
        ("%{empty}", ""),
        ("%{template}", "%{int}"),
        ("cuda:%{slot}", "cuda:0"),
        ("%{{int}", "%{int}"),
        ("100% {int} %%", "100% {int} %%"),
        ("*", "*"),
    ];
    let mut worker = Setup::new(&server).flags("--max-tasks 1").sh(SHOW, &table.map(|(template, _)| template));
    worker.finish_well();
    let expected: String = table.iter().map(|(_, value)| format!("<{value}>")).collect();
    assert_eq!(worker.read("shown"), expected);
}

#[test]
fn the_program_itself_can_be_filled_in() {
    let server = Server::start();
    server.create_once(1, json!({"tool": "touch"}));
    let mut worker = Setup::new(&server).flags("--max-tasks 1").start(&["/usr/bin/%{tool}", "made"]);
    worker.finish_well();
    assert!(worker.path("made").exists());
}

#[test]
fn arguments_that_cannot_be_given_fail_that_task_and_nothing_is_started() {
    let server = Server::start();
    let cases = [
        (json!({"x": {"y": "first"}}), "", ""),
        (json!({"other": 1}), "MissingArgument", "x.y"),
        (json!({"x": 3}), "MissingArgument", "x.y"),
        (json!({"x": {"y": "a\u{0}b"}}), "InvalidArgument", "x.y"),
        (json!({"x": {"y": "z".repeat(300_000)}}), "CommandTooLong", "TASKQUEUE_ARGS_FILE"),
        (json!({"x": {"y": "fine"}}), "", ""),
    ];
    for (index, (args, ..)) in cases.iter().enumerate() {
        server.create_once(index + 1, args.clone());
    }
    let mut worker = Setup::new(&server).flags("--max-tasks 6").sh("echo $1 >> started", &["%{x.y}"]);
    worker.finish_well();
    assert_eq!(worker.read("started"), "first\nfine\n");
    for (index, (_, kind, named)) in cases.iter().enumerate().take(5).skip(1) {
        let error = &server.task(index + 1)["last_error"];
        assert_eq!(error["type"], *kind, "{error}");
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
    assert_eq!(server.task(6)["status"], "succeeded");
}

#[test]
fn a_misspelt_name_is_found_at_the_first_task_which_is_given_back() {
    let server = Server::start();
    (1..=3).for_each(|n| server.create_once(n, json!({"batch_size": 32, "model": {"layers": n}})));
    for (jobs, name, advice) in [
        (1, "batch_sise", "did you mean batch_size?"),
        (2, "model.layer", "did you mean model.layers?"),
        (1, "prompt", "%{prompt:VALUE} gives a value to tasks without it"),
    ] {
        let setup = Setup::new(&server).flags(&format!("--jobs {jobs}"));
        let mut worker = setup.sh("echo > ran", &[&format!("%{{{name}}}")]);
        worker.finish().fails_with(2, &[&format!("error: the command needs {name}, and"), advice]);
        assert!(!worker.path("ran").exists());
        for n in 1..=3 {
            assert_eq!(server.assert_state(n, "pending", 0)["last_error"], json!(null));
        }
    }
}

#[test]
fn a_mistake_in_the_template_is_found_before_the_first_claim() {
    let server = Server::with_tasks(1);
    let mut worker = Setup::new(&server).start(&["echo", "fine %{x}", "ab%{a%{b}"]);
    worker.finish().fails_with(2, &["element 3 of the command, column 6:"]);
    let task = server.task(1);
    assert_eq!((&task["status"], &task["started_at"]), (&json!("pending"), &json!(null)));
}
