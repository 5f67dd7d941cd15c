//! A connection that blocks, so that clients and probes, each on a thread of its own, do not wait for each other; and its answers.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::client::{self, Client};

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The words of the page of the dashboard that stands for `database_busy`.
const BUSY_TITLE: &str = "The server is busy";
const BUSY_PROMISE: &str = "Nothing was changed.";

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn parts(&self) -> client::Answer<'_> {
        client::Answer { status: self.status, head: &self.head, body: &self.body }
    }

    /// The code of an error; empty for others.
    pub(crate) fn code(&self) -> Cow<'_, str> {
        if self.status < 400 { "".into() } else { self.parts().code() }
    }

    /// A 503 that says that nothing was done, and when to try again. Pages have no code, and others are 503, too: one says that only a
    /// part was done.
    pub(crate) fn is_truthful_busy(&self) -> bool {
        let has_retry_after = self.parts().header("retry-after:").is_some();
        let is_page = self.parts().header("content-type:").is_some_and(|kind| kind.starts_with(b"text/html"));
        let is_busy = match is_page {
            true => self.text().contains(&format!("<h1>{BUSY_TITLE}</h1>")) && self.text().contains(BUSY_PROMISE),
            false => self.code() == "database_busy",
        };
        self.status == 503 && has_retry_after && is_busy
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The beginning of the body, for people.
    pub(crate) fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).into_owned()
    }

    #[cfg(test)]
    pub(super) fn with_body(body: &[u8]) -> Self {
        Self { status: 200, head: Vec::new(), body: body.to_vec() }
    }
}

pub(crate) struct Connection {
    address: SocketAddr,
    runtime: Runtime,
    client: Option<Client>,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { address, runtime: Builder::new_current_thread().enable_all().build()?, client: None })
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        let Self { address, runtime, client } = self;
        runtime.block_on(async {
            // A kept connection may have been closed as idle just before.
            if client.is_some() {
                match exchange(*address, client, request).await {
                    Err(error) if is_closed(&error) => {}
                    answered => return answered,
                }
            }
            exchange(*address, client, request).await
        })
    }
}

/// Sends a request over the connection that is kept, or over a new one, and keeps it if the server does.
async fn exchange(address: SocketAddr, kept: &mut Option<Client>, request: &[u8]) -> io::Result<Answer> {
    let mut client = match kept.take() {
        Some(client) => client,
        None => Client::connect(&address.into()).await?,
    };
    // Who is refused early may find the connection closed, and the answer there.
    let written = client.write(request).await;
    let answer = match timeout(PATIENCE, client.answer()).await? {
        Ok(client::Answer { status, head, body }) => Answer { status, head: head.to_vec(), body: body.to_vec() },
        Err(error) => return Err(written.err().unwrap_or(error)),
    };
    if answer.parts().header("connection:") != Some(b"close") {
        *kept = Some(client);
    }
    Ok(answer)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page for people and the error for programs are written there.
    const PROBLEMS: &str = include_str!("../../../dashboard/src/problem.rs");

    fn answered(status: u16, head: &str, body: &str) -> Answer {
        let head = format!("HTTP/1.1 {status} x\r\n{head}\r\n\r\n");
        Answer { status, head: head.into_bytes(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_503_is_busy_only_if_it_says_so_and_when_to_come_again() {
        let page = "content-type: text/html; charset=utf-8\r\nretry-after: 2";
        let json = "content-type: application/json\r\nretry-after: 1";
        let busy = "<h1>The server is busy</h1>\n<p>Too much to do. Nothing was changed. Reload.</p>";
        let code = r#"{"error":{"code":"database_busy"}}"#;
        for (answer, expected) in [
            (answered(503, page, busy), true),
            (answered(503, json, code), true),
            (answered(503, "content-type: text/html", busy), false),
            (answered(500, page, busy), false),
            (answered(503, page, "<h1>The database does not answer</h1>\n<p>Nothing was changed.</p>"), false),
            (answered(503, page, "<h1>Only a part of this was done</h1>"), false),
            (answered(503, json, r#"{"error":{"code":"database_unavailable"}}"#), false),
        ] {
            assert_eq!(answer.is_truthful_busy(), expected, "{}", answer.text());
        }
    }

    #[test]
    fn the_dashboard_has_the_page_that_is_looked_for() {
        let busy = PROBLEMS.split("fn busy()").nth(1).and_then(|rest| rest.split("\n    }").next()).unwrap_or_default();
        assert!(busy.contains(&format!("\"{BUSY_TITLE}\"")) && busy.contains(BUSY_PROMISE), "{busy}");
    }
}
