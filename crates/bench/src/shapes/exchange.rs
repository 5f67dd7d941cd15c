//! A connection that blocks, so that clients and probes, each on a thread of its own, do not wait for each other; and what says that a
//! server is busy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::client::{Answer, Client};
use crate::request::with_body;

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The words of the page of the dashboard that stands for `database_busy`.
const BUSY_TITLE: &str = "The server is busy";
const BUSY_PROMISE: &str = "Nothing was changed.";

/// A 503 that says that nothing was done, and when to try again. Pages have no code, and others are 503, too: one says that only a part
/// was done.
pub(super) fn is_truthful_busy(answer: &Answer) -> bool {
    let is_page = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    let says_so = || match is_page {
        true => answer.text().contains(&format!("<h1>{BUSY_TITLE}</h1>")) && answer.text().contains(BUSY_PROMISE),
        false => answer.code() == "database_busy",
    };
    answer.status == 503 && answer.header("retry-after").is_some() && says_so()
}

pub(super) struct Connection {
    pub(super) address: SocketAddr,
    runtime: Runtime,
    client: Option<Client>,
}

impl Connection {
    pub(super) fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { address, runtime: Builder::new_current_thread().enable_all().build()?, client: None })
    }

    pub(super) fn call(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        self.send(&with_body(method, self.address, path, body))
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let was_kept = self.client.is_some();
        let is_closed = |error: &io::Error| {
            matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        };
        match self.exchange(request) {
            // A kept connection may have been closed as idle just before.
            Err(error) if was_kept && is_closed(&error) => self.exchange(request),
            answered => answered,
        }
    }

    /// Sends a request over the connection that is kept, or over a new one, and keeps it if the server does.
    fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        let Self { address, runtime, client: kept } = self;
        runtime.block_on(async {
            let mut client = match kept.take() {
                Some(client) => client,
                None => Client::connect(&(*address).into()).await?,
            };
            // Who is refused early may find the connection closed, and the answer there.
            let written = client.write(request).await;
            let answered = timeout(PATIENCE, client.answer()).await?;
            let answer = answered.map_err(|error| written.err().unwrap_or(error))?;
            *kept = Some(client).filter(|_| answer.header("connection") != Some("close"));
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page for people and the error for programs are written there.
    const PROBLEMS: &str = include_str!("../../../dashboard/src/problem.rs");

    #[test]
    fn a_503_is_busy_only_if_it_says_so_and_when_to_come_again() {
        let page = "content-type: text/html; charset=utf-8\r\nretry-after: 2";
        let json = "content-type: application/json\r\nretry-after: 1";
        let busy = "<h1>The server is busy</h1>\n<p>Too much to do. Nothing was changed. Reload.</p>";
        let code = r#"{"error":{"code":"database_busy"}}"#;
        for (answer, expected) in [
            (Answer::of(503, page, busy), true),
            (Answer::of(503, json, code), true),
            (Answer::of(503, "content-type: text/html", busy), false),
            (Answer::of(500, page, busy), false),
            (Answer::of(503, page, "<h1>The database does not answer</h1>\n<p>Nothing was changed.</p>"), false),
            (Answer::of(503, page, "<h1>Only a part of this was done</h1>"), false),
            (Answer::of(503, json, r#"{"error":{"code":"database_unavailable"}}"#), false),
        ] {
            assert_eq!(is_truthful_busy(&answer), expected, "{}", answer.text());
        }
    }

    #[test]
    fn the_dashboard_has_the_page_that_is_looked_for() {
        let busy = PROBLEMS.split("fn busy()").nth(1).and_then(|rest| rest.split("\n    }").next()).unwrap_or_default();
        assert!(busy.contains(&format!("\"{BUSY_TITLE}\"")) && busy.contains(BUSY_PROMISE), "{busy}");
    }
}
