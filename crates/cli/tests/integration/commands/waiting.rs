//! `task wait`: success, failure, nothing to wait for, running out of time, and servers that go away.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use super::running::Running;
use super::support::{A, B, Server, finish, run_alone};

/// A `task wait` that runs beside the test.
fn wait(server: &Server, arguments: &[&str]) -> Running {
    Running::start(&mut server.command(&[&["task", "wait"], arguments].concat()))
}

/// Runs 1 and 2 complete the tasks `A` and `B`.
fn complete_both(server: &Server) {
    for (run, id) in [(1, A), (2, B)] {
        server.run_well("default", id, run);
    }
}

#[test]
fn waiting_ends_well_when_all_tasks_have_succeeded() {
    let server = Server::with_tasks(&[A, B]);
    let waiting = wait(&server, &[A, B]);
    complete_both(&server);
    assert_eq!(waiting.end().ok(), "2 succeeded\n");
}

#[test]
fn without_ids_and_options_it_waits_for_the_whole_queue_and_for_what_comes_later() {
    let server = Server::with_tasks(&[A]);
    let mut waiting = wait(&server, &[]);
    waiting.says("no live worker");
    server.submit(B, &[]);
    complete_both(&server);
    assert_eq!(waiting.end().ok(), "2 succeeded\n");
}

#[test]
fn a_task_that_leaves_the_filter_by_running_is_still_waited_for() {
    let server = Server::with_task(&["--max-attempts", "1"]);
    let mut waiting = wait(&server, &["--filter", "status == 'pending'"]);
    waiting.says("no live worker");
    server.run_badly("default", "t_aaaaaaaaaaaa", 1);
    waiting.end().printed("0 succeeded, 1 failed\n").fails(1);
}

#[test]
fn any_other_end_is_a_failure_and_is_reported() {
    let server = Server::start();
    for (id, route) in [("t_aaaaaaaaaaaa", "a"), ("t_bbbbbbbbbbbb", "b"), ("t_cccccccccccc", "c")] {
        server.submit(id, &["--route", route, "--max-attempts", "1"]);
    }
    server.run_well("a", "t_aaaaaaaaaaaa", 1);
    server.run_badly("b", "t_bbbbbbbbbbbb", 2);
    server.run("task cancel t_cccccccccccc").ok();
    let ran = server.run("task wait --filter max_attempts==1").printed("1 succeeded, 1 failed, 1 cancelled\n");
    let failed = "t_bbbbbbbbbbbb failed: ValueError: bad seed";
    let summary = "error: 1 task failed, 1 task was cancelled; list them with:";
    ran.fails_with(1, &[failed, "t_cccccccccccc was cancelled", summary]);
    let missing = ["t_zzzzzzzzzzzz does not exist", "error: 1 task does not exist"];
    server.run("task wait t_zzzzzzzzzzzz t_aaaaaaaaaaaa").fails_with(1, &missing);
    assert_eq!(server.run("task wait t_aaaaaaaaaaaa --timeout 0").ok(), "1 succeeded\n");
    server.run("task wait --status pending").fails_with(2, &["--status"]);
}

#[test]
fn the_command_that_lists_what_went_wrong_can_be_copied_into_a_shell() {
    let server = Server::start();
    for (id, name) in [("t_aaaaaaaaaaaa", "it's  a"), ("t_bbbbbbbbbbbb", "it's  a"), ("t_cccccccccccc", "other")] {
        server.submit(id, &["--name", name, "--arg", "x=a  b"]);
    }
    server.run("task cancel t_aaaaaaaaaaaa t_cccccccccccc").ok();
    server.run_well("default", "t_bbbbbbbbbbbb", 1);
    let cases: [&[&str]; 4] = [
        &["--filter", "name == \"it's  a\""],
        &["--filter", "status != \"pending\" and args.x == 'a  b' and id < 't_c'"],
        &["--name", "it's  a"],
        &["t_aaaaaaaaaaaa", "t_bbbbbbbbbbbb"],
    ];
    for arguments in cases {
        let message = server.run_with(&[&["task", "wait"], arguments].concat()).fails(1);
        let command = message.lines().find(|line| line.starts_with("  taskqueue ")).unwrap();
        assert!(command.contains(" --queue q "), "{command}");
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_taskqueue")).parent().unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().env("PATH", program).env("TASKQUEUE_URL", &server.url).current_dir(server.folder.path());
        let listed = finish(shell.args(["-c", &format!("{command} --output quiet")])).ok();
        assert_eq!(listed, "t_aaaaaaaaaaaa\n", "{command}");
    }
}

#[test]
fn nothing_to_wait_for_is_a_failure_unless_it_is_allowed() {
    let server = Server::start();
    assert_eq!(server.run("task wait --name nobody").fails(1), "error: nothing matches; --allow-empty accepts that\n");
    assert_eq!(server.run("task wait --allow-empty").ok(), "0 succeeded\n");
    server.run("task wait t_zzzzzzzzzzzz --allow-empty").fails_with(1, &["t_zzzzzzzzzzzz does not exist"]);
}

#[test]
fn a_task_that_is_requeued_while_others_run_is_waited_for_again() {
    let server = Server::with_task(&["--max-attempts", "1"]);
    server.submit("t_bbbbbbbbbbbb", &["--route", "b"]);
    server.run_badly("default", "t_aaaaaaaaaaaa", 1);
    let mut waiting = wait(&server, &[A, B]);
    waiting.says("no live worker serves the route b");
    server.run("task requeue t_aaaaaaaaaaaa").ok();
    server.run_well("b", "t_bbbbbbbbbbbb", 2);
    server.run_well("default", "t_aaaaaaaaaaaa", 3);
    assert_eq!(waiting.end().ok(), "2 succeeded\n");
}

#[test]
fn the_time_can_be_over() {
    let server = Server::with_tasks(&[A]);
    for line in ["task wait t_aaaaaaaaaaaa --timeout 0 -o json", "task wait --timeout 5s -o json"] {
        let ran = server.run(line);
        let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
        let expected =
            json!({"succeeded": 0, "failed": 0, "cancelled": 0, "missing": 0, "unfinished": 1, "timed_out": true});
        assert_eq!(summary, expected);
        ran.fails_with(1, &["error: timed out: 1 task has not ended"]);
    }
}

#[test]
fn the_time_is_also_over_when_the_server_is_away_or_silent() {
    // Connections are accepted by the system and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    // A port that was free a moment ago.
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [away, silent.local_addr().unwrap()] {
        run_alone(&format!("task wait --timeout 1s --url http://{address}"))
            .fails_with(3, &["timed out", "was not reached"]);
    }
}

#[test]
fn a_server_that_goes_away_during_the_wait_is_exit_code_3() {
    let mut server = Server::with_tasks(&[A]);
    let mut waiting = wait(&server, &["--timeout", "30s"]);
    waiting.says("no live worker");
    server.stop();
    waiting.says("does not answer");
    waiting.says("timed out: the server at");
    waiting.end().printed("0 succeeded, 1 unfinished\n").fails(3);
}

#[test]
fn routes_without_a_live_worker_are_warned_of_once() {
    let server = Server::with_task(&["--route", "gpu"]);
    server.submit(B, &["--route", "gpu", "--route", "cpu"]);
    let report = |route: &str| format!(r#"{{"route":"{route}","status":"idle","task_id":null}}"#);
    let warnings = |line: &str| {
        let message = server.run(line).fails(1);
        let lines = message.lines().filter(|line| line.contains("no live worker"));
        lines.map(|line| line.split(';').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let gpu = |tasks: &str| format!("warning: no live worker serves the route gpu, which {tasks} for");
    let by_id = "task wait t_aaaaaaaaaaaa t_bbbbbbbbbbbb --timeout 0";
    for line in ["task wait --timeout 0", by_id] {
        let both =
            ["warning: no live worker serves the route cpu, which 1 task waits for".to_owned(), gpu("2 tasks wait")];
        assert_eq!(warnings(line), both, "{line}");
    }
    assert_eq!(server.post("workers/w_aaaaaaaaaaaa", &report("cpu")), 204);
    for line in ["task wait --timeout 0", "task wait --filter priority==0 --timeout 0", by_id] {
        assert_eq!(warnings(line), [gpu("1 task waits")], "{line}");
    }
    assert_eq!(server.post("workers/w_bbbbbbbbbbbb", &report("gpu")), 204);
    assert!(warnings("task wait --timeout 0").is_empty());
}
