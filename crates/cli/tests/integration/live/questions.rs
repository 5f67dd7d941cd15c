//! Questions to a person who takes time to answer.

use std::time::Duration;

use serde_json::json;

use super::terminal::Terminal;
use crate::support::Server;

/// A progress bar that was there already was drawn over the question, which looked as if the command was at work.
#[test]
fn a_question_stays_on_the_screen_until_it_is_answered() {
    let server = Server::alone();
    server.create(1, json!({}));
    for action in ["cancel", "delete"] {
        let mut terminal = Terminal::for_queue(&server, 80, 24, &["task", action, "--filter", "priority == 0"]);
        let question = terminal.wait_for("[y/N]");
        assert_eq!(terminal.watch_for(Duration::from_secs(1)), question);
        terminal.press("n\r");
        terminal.ends_with(1, &["nothing was changed"]);
    }
}

/// Nobody agreed to the task that came meanwhile.
#[test]
fn a_number_that_is_another_one_after_the_answer_is_asked_about_again() {
    let server = Server::alone();
    server.create(1, json!({}));
    let mut terminal = Terminal::for_queue(&server, 80, 24, &["task", "cancel", "--filter", "priority == 0"]);
    terminal.wait_for("Cancel 1 task of queue q? [y/N]");
    server.create(2, json!({}));
    terminal.press("y\r");
    terminal.wait_for("Cancel 2 tasks of queue q? [y/N]");
    assert_eq!((&server.task(1)["status"], &server.task(2)["status"]), (&json!("pending"), &json!("pending")));
    terminal.press("y\r");
    terminal.ends_with(0, &["2 cancelled"]);
}
