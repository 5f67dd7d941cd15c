//! Questions to a person who takes time to answer.

use std::time::Duration;

use serde_json::json;

use crate::support::Server;
use crate::terminal::Terminal;

/// A progress bar that was there already was drawn over the question, which looked as if the command was at work.
#[test]
fn a_question_stays_on_the_screen_until_it_is_answered() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let url = format!("http://{}", server.address);
    for action in ["cancel", "delete"] {
        let arguments = ["task", action, "--filter", "priority == 0", "--queue", "q", "--url", &url];
        let mut terminal = Terminal::start(80, 24, &arguments, &[]);
        let question = terminal.wait_for("[y/N]");
        assert_eq!(terminal.watch_for(Duration::from_secs(1)), question);
        terminal.press("n\r");
        let (status, left) = terminal.wait_for_end();
        assert_eq!(status.code(), Some(1), "{left}");
        assert!(left.contains("nothing was changed"), "{left}");
    }
}
