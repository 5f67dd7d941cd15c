//! `taskqueue task logs --follow` on a terminal.

use serde_json::json;

use super::terminal::Terminal;
use crate::support::{Server, of_task, run_id, task_id};

#[test]
fn a_progress_bar_is_drawn_in_place_and_colours_stay() {
    let server = Server::alone();
    server.create_in_state(1, "running");
    let print = |offset: usize, text: &str| {
        let body = json!({"run_id": run_id(1001), "offset": offset, "text": text});
        server.post(&of_task(1, "/output"), body).expect(204);
    };
    let mut terminal = Terminal::for_queue(&server, 40, 10, &["task", "logs", &task_id(1), "--follow"]);
    terminal.wait_for("printed nothing yet");
    print(0, "start\n 10%");
    terminal.wait_for(" 10%");
    print(10, "\r\u{1b}[31m 50%\u{1b}[0m");
    let screen = terminal.wait_for(" 50%");
    assert!(screen.contains("start") && !screen.contains("10%"), "{screen}");
    let long = format!("\r{}", "x".repeat(100));
    print(24, &long);
    terminal.wait_until("one line of it", |screen| screen.lines().any(|line| line.trim_end() == "x".repeat(39)));
    print(24 + long.len(), "\r\u{1b}[2Kdone\n");
    server.act(1, "complete", 1001).expect(204);
    let left = terminal.ends_with(0, &["is succeeded"]);
    let shown: Vec<&str> = left.lines().map(str::trim_end).collect();
    assert_eq!(shown[shown.len() - 3..shown.len() - 1], ["start", "done"], "{left}");
}
