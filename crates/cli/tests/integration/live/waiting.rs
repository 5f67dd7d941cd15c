//! `taskqueue task wait` on a terminal.

use serde_json::json;

use super::terminal::Terminal;
use crate::support::{Server, of_task, run_id};

#[test]
fn the_progress_of_a_whole_queue_is_shown_while_it_is_waited_for() {
    let server = Server::alone();
    let report = |number: usize, step: usize| {
        let progress = json!({"run_id": run_id(1000 + number), "progress": {"step": step, "total": 100}});
        server.post(&of_task(number, "/progress"), progress).expect(204);
    };
    for number in 1..=2 {
        server.create_in_state(number, "running");
    }
    report(1, 50);
    report(2, 10);
    let mut terminal = Terminal::for_queue(&server, 120, 10, &["task", "wait"]);
    terminal.wait_for("30 % of all");
    report(2, 30);
    terminal.wait_for("40 % of all");
    server.act(1, "complete", 1001).expect(204);
    terminal.wait_for("30 %  30/100");
    server.act(2, "complete", 1002).expect(204);
    terminal.ends_with(0, &[]);
}
