//! What `serve` prints when it is ready: its base URL for programs, and on a terminal also where to look and how to begin.

use std::io::{self, IsTerminal};

use taskqueue_core::ids::QueueName;
use taskqueue_server::{DashboardMode, Listener};

use crate::config::{DEFAULT_QUEUE, DEFAULT_URL};
use crate::output;

pub(super) struct Greeting {
    base_url: String,
    dashboard_url: Option<String>,
    client_command: Option<String>,
    begin: Option<String>,
}

impl Greeting {
    /// `client_command` is for clients that need to be told whom to trust, `queue` one that is there.
    pub(super) fn new(
        listener: &Listener,
        dashboard: DashboardMode,
        client_command: Option<String>,
        has_token: bool,
        queue: Option<&QueueName>,
    ) -> Self {
        let base_url = listener.base_url();
        let dashboard_url = listener.dashboard_url().filter(|_| dashboard != DashboardMode::Off);
        // With TLS it depends on the certificate what a client has to be told.
        let begin = base_url.starts_with("http://").then(|| begin_line(&base_url, has_token, queue));
        Self { base_url, dashboard_url, client_command, begin }
    }

    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(super) fn print(&self) {
        output::text(&self.base_url);
        self.client_command.iter().for_each(|command| output::text(command));
        if io::stdout().is_terminal() {
            self.dashboard_url.iter().for_each(|url| output::text(&format!("dashboard: {url}")));
            self.begin.iter().for_each(|line| output::text(line));
        }
    }
}

/// Commands for somebody who has never used this.
fn begin_line(url: &str, has_token: bool, queue: Option<&QueueName>) -> String {
    let token = if has_token { " with the token in TASKQUEUE_TOKEN" } else { "" };
    let server = if url == DEFAULT_URL { String::new() } else { format!("export TASKQUEUE_URL={url}; ") };
    let queue = match queue {
        None => format!("taskqueue queue create {DEFAULT_QUEUE}; "),
        Some(name) if name.as_str() == DEFAULT_QUEUE => String::new(),
        Some(name) => format!("export TASKQUEUE_QUEUE={name}; "),
    };
    format!(
        "to begin, in another terminal{token}: {server}{queue}taskqueue task submit --arg text=hello; \
         taskqueue loop -- echo %{{text}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_to_begin_with_are_those_for_this_server() {
        let queue = |name| QueueName::parse(name).unwrap();
        let rest = "taskqueue task submit --arg text=hello; taskqueue loop -- echo %{text}";
        let cases = [
            (DEFAULT_URL, false, None, ": taskqueue queue create default; "),
            (DEFAULT_URL, false, Some(queue("default")), ": "),
            (DEFAULT_URL, true, Some(queue("q")), " with the token in TASKQUEUE_TOKEN: export TASKQUEUE_QUEUE=q; "),
            ("http://[::1]:9", false, Some(queue("default")), ": export TASKQUEUE_URL=http://[::1]:9; "),
        ];
        for (url, has_token, queue, words) in cases {
            let expected = format!("to begin, in another terminal{words}{rest}");
            assert_eq!(begin_line(url, has_token, queue.as_ref()), expected);
        }
    }
}
