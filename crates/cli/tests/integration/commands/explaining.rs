//! `task explain`: why a task is not claimed, for people and for programs.

use serde_json::json;

use super::support::{A, B, C, Server};

fn explain(server: &Server) -> String {
    server.run_with(&["task", "explain", A]).ok()
}

#[test]
fn every_reason_is_a_line_the_one_that_weighs_most_first() {
    let server = Server::start();
    server.submit(B, &["--name", "prepare", "--route", "gpu"]);
    server.submit(A, &["--name", "report", "--after", B, "--delay", "10m"]);
    server.run("queue pause q").ok();
    let shown = explain(&server);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "t_aaaaaaaaaaaa (report) cannot be claimed now:");
    assert!(lines[1].starts_with("- the queue is paused") && lines[1].contains("taskqueue queue resume q"), "{shown}");
    assert!(lines[2].contains("t_bbbbbbbbbbbb (prepare) is pending"), "{shown}");
    assert!(lines[2].contains("task explain --queue q t_bbbbbbbbbbbb says why that one waits"), "{shown}");
    assert!(lines[3].starts_with("- it cannot be claimed before 2") && lines[3].contains("(in "), "{shown}");
    assert!(lines[4].starts_with("- no worker for route default is there"), "{shown}");
}

#[test]
fn a_task_that_was_cancelled_with_what_it_waits_for_says_so_and_a_requeue_of_it_alone_is_no_success() {
    let server = Server::with_tasks(&[B]);
    server.submit(A, &["--after", B, "--on-dependency-failure", "cancel"]);
    server.run_with(&["task", "cancel", B]).ok();
    let because = "the task t_bbbbbbbbbbbb that this one waits for was cancelled";
    let shown = explain(&server);
    assert!(shown.starts_with(&format!("{A} was cancelled because {because}; once that is pending")), "{shown}");
    let expected = format!("{A} was requeued, and cancelled again: {because}");
    server.run_with(&["task", "requeue", A]).fails_with(1, &[&expected]);
    server.submit(C, &[]);
    server.run_with(&["task", "requeue", A, C]).printed("1 requeued, 1 refused\n").fails_with(1, &[because]);
    let expected = ["nothing was changed", "would be cancelled again"];
    server.run(&format!("task requeue --filter id=='{A}' --yes")).fails_with(1, &expected);
    // In whatever order they are requeued.
    assert_eq!(server.run_with(&["task", "requeue", A, B]).ok(), "2 requeued\n");
}

#[test]
fn each_of_several_tasks_that_waits_for_itself_says_so() {
    let server = Server::with_tasks(&[C]);
    server.submit(A, &["--after", A]);
    server.submit(B, &["--after", B]);
    let waits = [A, B].map(|id| format!("{id}: it waits for itself, so for ever"));
    let get = server.run_with(&["task", "get", A, B, C]).said(&[&waits[0], &waits[1]]);
    assert_eq!(get.stderr.matches("it waits for itself").count(), 2, "{get:?}");
}

#[test]
fn programs_get_what_the_server_says() {
    let server = Server::with_task(&["--after", B]);
    let json = server.run_with(&["task", "explain", A, "-o", "json"]).json();
    assert_eq!(json["claimable"], false);
    assert_eq!(json["reasons"][0]["code"], "dependencies");
    assert_eq!(json["reasons"][0]["unmet"], json!([{"id": B, "status": "missing"}]));
    assert_eq!(server.run_with(&["task", "explain", A, "-o", "quiet"]).ok(), "dependencies\nno_worker\n");
    let csv = server.run_with(&["task", "explain", A, "-o", "csv"]).ok();
    assert!(csv.starts_with("code,message\ndependencies,"), "{csv}");
}

#[test]
fn a_task_that_is_not_pending_or_not_there_is_told_apart() {
    let server = Server::claimed();
    assert!(explain(&server).starts_with("t_aaaaaaaaaaaa is running; taskqueue task logs"));
    server.complete(A, 1);
    let expected = "has succeeded; taskqueue task rerun --queue q t_aaaaaaaaaaaa submits it again as a new task.";
    assert_eq!(explain(&server), format!("{A} {expected}\n"));
    server.run_with(&["task", "explain", B]).fails_with(1, &["task_not_found"]);
    server.run("task explain").fails(2);
}

#[test]
fn a_running_task_tells_who_runs_it() {
    let server = Server::with_tasks(&[A]);
    server.claim_as(r#"{"host":"gpu-3","slot":2,"pid":9,"name":"left"}"#);
    let told = "Its worker, on gpu-3 (left), slot 2, pid 9, was last heard of ";
    server.run_with(&["task", "explain", A]).ok_with(&[told]);
}
