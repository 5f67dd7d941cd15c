//! `taskqueue top`.

use rustix::process::Signal;
use serde_json::json;

use super::terminal::Terminal;
use crate::support::{Server, of_task, of_worker, run, run_id, task_id};

const CTRL_C: &str = "\u{3}";
const DOWN: &str = "\u{1b}[B";

/// A server with a queue `q` in which something of every kind has happened, and an empty queue `zz`.
fn server_with_work() -> Server {
    let server = Server::alone();
    server.create_queue("zz");
    for (number, state) in ["running", "succeeded", "failed", "cancelled"].into_iter().enumerate() {
        server.create_in_state(number + 1, state);
    }
    server.create(5, json!({"name": "later", "routes": ["gpu"]}));
    server.put(&of_worker(1), json!({"route": "gpu", "status": "idle", "task_id": null}));
    server
}

fn top(server: &Server, columns: u16, rows: u16) -> Terminal {
    Terminal::start(columns, rows, &["top", "--interval", "0.2"], &[("TASKQUEUE_URL", &server.url())])
}

#[test]
fn the_first_screen_shows_the_queues_and_q_gives_the_terminal_back() {
    let server = server_with_work();
    let mut terminal = top(&server, 120, 40);
    let screen = terminal.wait_for("gpu");
    for text in ["> q ", "  zz", "PENDING", "[Routes]", "ROUTE", &server.address, env!("CARGO_PKG_VERSION"), "ok"] {
        assert!(screen.contains(text), "{text} in\n{screen}");
    }
    assert_eq!(terminal.quit().trim(), "");
}

#[test]
fn tab_shows_running_tasks_workers_and_failed_tasks() {
    let server = server_with_work();
    let mut terminal = top(&server, 80, 24);
    terminal.wait_for("gpu");
    terminal.press("\t");
    terminal.wait_until("the running task", |screen| screen.contains("RUNS FOR") && screen.contains(&task_id(1)));
    terminal.press("\t");
    terminal.wait_for("0 busy 1 idle");
    terminal.press("\t");
    terminal.wait_until("the failed task", |screen| screen.contains("E: m") && screen.contains(&task_id(3)));
    terminal.press(DOWN);
    terminal.wait_until("the other queue", |screen| screen.contains("> zz") && screen.contains("nothing has failed"));
    terminal.press(CTRL_C);
    terminal.ends_with(0, &[]);
}

#[test]
fn the_output_of_a_running_task_can_be_opened_and_follows() {
    let server = server_with_work();
    let print = |offset: usize, text: &str| {
        let body = json!({"run_id": run_id(1001), "offset": offset, "text": text});
        server.post(&of_task(1, "/output"), body).expect(204);
    };
    let progress = json!({"run_id": run_id(1001), "progress": {"step": 1, "total": 4}});
    server.post(&of_task(1, "/progress"), progress).expect(204);
    let mut terminal = top(&server, 80, 24);
    terminal.wait_for("gpu");
    terminal.press("\t");
    terminal.wait_until("the progress", |screen| screen.contains("PROGRESS") && screen.contains("25 %"));
    terminal.press("\r\r");
    terminal.wait_for("nothing that it printed is kept");
    print(0, "epoch 1\n 10%\r 20%");
    let screen = terminal.wait_until("the output", |screen| screen.contains("epoch 1") && screen.contains(" 20%"));
    assert!(screen.contains("[=====>              ]  25 %  1/4"), "{screen}");
    print(17, "\repoch 2\u{1b}[2J\n");
    terminal.wait_for("epoch 2");
    terminal.press("\u{1b}");
    terminal.wait_for("[Running 1]");
    terminal.quit();
}

#[test]
fn what_happens_on_the_server_appears_and_a_pause_stops_it() {
    let server = server_with_work();
    let mut terminal = top(&server, 80, 24);
    terminal.wait_for("Running 1");
    server.act(1, "complete", 1001).expect(204);
    terminal.wait_for("Running 0");
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    terminal.press(" ?");
    terminal.wait_for("any key closes this");
    terminal.press("q");
    terminal.wait_for("[Routes]");
    terminal.press("\u{1b}");
    terminal.ends_with(0, &[]);
}

#[test]
fn an_unreachable_server_is_retried() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", directory.path().join("socket").display());
    let mut server = Server::with_arguments(&["--listen", &address, "--queue", "default"]);
    let environment = [("TASKQUEUE_URL", address.as_str())];
    let mut terminal = Terminal::start(120, 24, &["top", "--interval", "0.2"], &environment);
    terminal.wait_for("> default");

    server.kill();
    let screen = terminal.wait_for("NO ANSWER, data");
    assert!(screen.contains("> default"), "the data stays:\n{screen}");
    server.start_again();
    run(&["task", "submit"], &environment).ok();
    let has_task = |line: &str| line.split_whitespace().take(3).eq([">", "default", "1"]);
    terminal.wait_until("the new task", |screen| !screen.contains("NO ANSWER") && screen.lines().any(has_task));
    terminal.quit();
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for_too() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", directory.path().join("socket").display());
    let mut terminal = Terminal::start(80, 24, &["top", "--interval", "0.2", "--url", &address], &[]);
    terminal.wait_for("NO ANSWER, no data yet");
    let _server = Server::with_arguments(&["--listen", &address, "--queue", "default"]);
    terminal.wait_for("> default");
    terminal.quit();
}

#[test]
fn the_size_may_change_and_sigterm_gives_the_terminal_back() {
    let server = server_with_work();
    let mut terminal = top(&server, 40, 10);
    let screen = terminal.wait_for("gpu");
    assert!(screen.contains("> q") && screen.contains("[Routes]"), "{screen}");
    terminal.resize(100, 30);
    terminal.wait_for("FINISHED/S");
    terminal.resize(1, 1);
    terminal.resize(80, 24);
    terminal.wait_for("SUCCEEDED");
    terminal.signal(Signal::TERM);
    terminal.ends_with(0, &[]);
}

#[test]
fn a_refusal_at_the_start_ends_with_a_line_on_the_ordinary_screen() {
    let server = Server::with_token("secret");
    top(&server, 80, 24).ends_with(1, &["unauthorized", "--token-file"]);

    let server = server_with_work();
    let terminal = Terminal::for_queue(&server, 80, 24, &["top", "--queue", "zzz"]);
    terminal.ends_with(1, &["there is no queue zzz"]);
}

#[test]
fn without_a_terminal_there_is_a_command_for_programs() {
    run(&["top"], &[]).refuses_with(2, &["taskqueue task count", "--output json"]);
}
