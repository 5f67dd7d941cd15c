//! `--delay`, `--retry-delay`, `--timeout`, `--after` and their like: what reaches the server, and what is refused.

use serde_json::{Value, json};

use super::lost_answers::{Fate, Proxy};
use super::support::{A, B, C, Server, finish_with};

#[test]
fn a_task_gets_all_that_was_typed_and_shows_it() {
    let server = Server::start();
    let flags = "--not-before 2999-01-01T00:00:00Z --retry-delay 10s..1h --timeout 2h --on-dependency-failure cancel";
    let flags: Vec<&str> = flags.split(' ').collect();
    server.submit(A, &[&flags[..], &["--after", B, "--after", "t_cccccccccccc", "--after", B]].concat());
    let created = server.task(A);
    assert_eq!(created["not_before"], "2999-01-01T00:00:00.000000Z");
    assert_eq!(created["retry_delay"], json!({"factor": 2, "max_seconds": 3600, "seconds": 10}));
    assert_eq!((&created["timeout_seconds"], &created["on_dependency_failure"]), (&json!(7200), &json!("cancel")));
    assert_eq!(created["dependencies"], json!([B, C]));
    server.run_with(&["task", "get", A]).ok_with(&[
        "not_before             2999-01-01T00:00:00.000000Z (in ",
        "retry_delay            10s, 2 times as long each time, at most 1h",
        "timeout_seconds        7200 (2h)",
        "dependencies           t_bbbbbbbbbbbb, t_cccccccccccc",
        "on_dependency_failure  cancel",
    ]);
    server.run("task list").ok_with(&["NOTE", "delayed, in ", "; after 2 tasks"]);
}

#[test]
fn a_task_that_uses_nothing_of_it_is_shown_as_ever() {
    let server = Server::with_task(&["--delay", "0"]);
    let created = server.task(A);
    for field in ["not_before", "retry_delay", "timeout_seconds", "dependencies", "on_dependency_failure", "archived"] {
        assert!(created.get(field).is_none(), "{field}: {created}");
    }
    assert!(!server.run("task list").ok().contains("NOTE"));
}

#[test]
fn an_update_replaces_what_holds_a_task_back_and_takes_it_away() {
    let server = Server::with_task(&["--after", B, "--delay", "10m"]);
    let update = |flags: &[&str]| {
        server.run_with(&[&["task", "update", A], flags].concat()).ok();
        server.task(A)
    };
    let updated = update(&["--no-delay", "--timeout", "5m", "--retry-delay", "1m", "--after", C]);
    assert!(updated.get("not_before").is_none(), "{updated}");
    assert_eq!((&updated["timeout_seconds"], &updated["retry_delay"]["seconds"]), (&json!(300), &json!(60)));
    assert_eq!(updated["dependencies"], json!([C]));
    assert_eq!(update(&["--on-dependency-failure", "cancel"])["on_dependency_failure"], "cancel");
    let updated = update(&["--no-after", "--no-timeout", "--no-retry-delay"]);
    for field in ["dependencies", "timeout_seconds", "retry_delay"] {
        assert!(updated.get(field).is_none(), "{field}: {updated}");
    }
    server.claim("default", 1);
}

#[test]
fn a_batch_is_waited_for_by_its_label() {
    let server = Server::start();
    let sweep = "task sweep --arg x=1..3 --batch prep --metadata {\"k\":1}";
    server.run(sweep).ok();
    assert_eq!(server.count(r#"metadata.batch == "prep" and metadata.k == 1"#), 3);
    server.submit(A, &["--after-batch", "prep", "--after", B]);
    assert_eq!(server.task(A)["dependencies"].as_array().unwrap().len(), 4);
    server.run("task submit --after-batch perp").fails_with(1, &["no task of queue q was submitted with --batch perp"]);
    // The same sweep again, also as a version created it that kept no label.
    assert_eq!(server.run(sweep).ok(), "0 created, 3 already there\n");
    server.run("task update --status pending --unset-meta batch --yes").ok();
    assert_eq!(server.run(sweep).ok(), "0 created, 3 already there\n");
}

#[test]
fn a_batch_that_is_too_large_to_wait_for_says_what_to_do() {
    let server = Server::start();
    server.run("task sweep --arg x=1..1001 --batch many").ok();
    server.run("task submit --after-batch many").fails_with(2, &["at most 1000 others", "taskqueue task wait"]);
}

#[test]
fn lines_carry_the_fields_of_the_api_and_flags_count_for_the_others() {
    let server = Server::start();
    let lines = "{\"id\":\"t_aaaaaaaaaaaa\",\"timeout_seconds\":7,\"dependencies\":[\"t_cccccccccccc\"],\
                 \"retry_delay\":{\"seconds\":1}}\n{\"id\":\"t_bbbbbbbbbbbb\",\"not_before\":null}\n";
    let flags = "task submit --from - --timeout 1h --delay 1h --after t_dddddddddddd";
    let planned = server.run_reading(&format!("{flags} --dry-run -o jsonl"), lines).ok();
    let planned: Vec<Value> = planned.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&planned[0]["timeout_seconds"], &planned[1]["timeout_seconds"]), (&json!(7), &json!(3600)));
    assert!(planned[0]["not_before"].is_string() && planned[1].get("not_before").is_none(), "{planned:?}");
    let expected = ["WAITS", "timeout_seconds 7s; dependencies t_cccccccccccc"];
    server.run_reading(&format!("{flags} --dry-run"), lines).ok_with(&expected);
    assert_eq!(server.run_reading(flags, lines).ok(), "2 created\n");
    let (a, b) = (server.task(A), server.task(B));
    assert_eq!((&a["dependencies"], &b["dependencies"]), (&json!(["t_cccccccccccc"]), &json!(["t_dddddddddddd"])));
    assert_eq!(a["retry_delay"]["seconds"], 1);
    let expected = ["line 1: timeout_seconds: use an integer from 1 to 31536000", "line 2: dependencies: "];
    server.run_reading("task submit --from -", "{\"timeout_seconds\":0}\n{\"dependencies\":null}\n").said(&expected);
}

#[test]
fn the_same_sweep_with_a_delay_can_be_run_again_and_another_time_is_a_difference() {
    let server = Server::start();
    let delayed = "task sweep --arg x=1..2 --delay 1h";
    assert_eq!(server.run(delayed).ok(), "2 created\n");
    assert_eq!(server.run(delayed).ok(), "0 created, 2 already there\n");
    server
        .run("task sweep --arg x=1..2 --not-before 2999-01-01T00:00:00Z --timeout 1m")
        .fails_with(1, &["2 are already there with another definition (not_before, timeout_seconds)"]);
}

#[test]
fn a_server_that_lacks_an_extension_is_named_with_the_version_that_is_needed_and_nothing_is_changed() {
    let server = Server::with_tasks(&[A]);
    let proxy =
        Proxy::start(&server, |request| if request.contains("/capabilities ") { Fate::Missing } else { Fate::Passed });
    let state = || [server.run("task list -o json").ok(), server.run("queue settings q -o json").ok()];
    let before = state();
    let through_proxy = |line: &str| {
        let mut command = server.command(&line.split(' ').collect::<Vec<_>>());
        finish_with(command.env("TASKQUEUE_URL", &proxy.url), "{}\n")
    };
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "error: the server at {} has no archive; taskqueue {version} or newer is needed there: upgrade the server\n",
        proxy.url
    );
    for line in [
        "task submit --delay 1h",
        "task submit --retry-delay 1s",
        "task submit --timeout 1h",
        "task submit --after t_aaaaaaaaaaaa",
        "task submit --from -",
        "task sweep --arg x=1..2",
        "task update t_aaaaaaaaaaaa --timeout 1h",
        "task update t_aaaaaaaaaaaa --no-delay",
        "task update t_aaaaaaaaaaaa --retry-delay 1s",
        "task update --filter priority==0 --unset-meta a --yes",
        "task requeue t_aaaaaaaaaaaa --arg a=1",
        "task cancel --status pending --yes",
        "task explain t_aaaaaaaaaaaa",
        "task archive t_aaaaaaaaaaaa",
        "task logs t_aaaaaaaaaaaa",
        "queue pause q",
        "queue stats q",
        "loop -- true",
    ] {
        assert!(through_proxy(line).fails(1).ends_with(&expected), "{line}");
    }
    assert_eq!(state(), before);
    // What the contract has asks for nothing.
    for line in [
        "task submit",
        "task list",
        "task count",
        "task get t_aaaaaaaaaaaa",
        "task update t_aaaaaaaaaaaa --priority 1",
        "task cancel t_aaaaaaaaaaaa",
        "task requeue t_aaaaaaaaaaaa",
    ] {
        through_proxy(line).ok();
    }
}

#[test]
fn a_copy_has_the_limits_of_the_original_and_waits_for_nothing() {
    let server = Server::with_tasks(&[B]);
    server.run_well("default", B, 1);
    server.submit(A, &["--after", B, "--timeout", "1h", "--retry-delay", "5s", "--not-before", "2000-01-01T00:00:00Z"]);
    server.run_with(&["task", "cancel", A]).ok();
    let copies = server.run_with(&["task", "rerun", A, "-o", "json"]).json();
    let copy = server.task(copies[0]["new_id"].as_str().unwrap());
    assert_eq!((&copy["timeout_seconds"], &copy["retry_delay"]["seconds"]), (&json!(3600), &json!(5)));
    assert!(copy.get("dependencies").is_none() && copy.get("not_before").is_none(), "{copy}");
}
