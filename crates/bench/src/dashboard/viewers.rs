//! Those who have a page open, on a thread of their own: the load beside them has its thread for itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Away,
    Looking,
    Ended,
}

pub(super) struct Viewers {
    state: watch::Sender<State>,
    asked: Arc<AtomicU64>,
    thread: JoinHandle<Result<()>>,
}

impl Viewers {
    /// So many of them, each with one of the pages. They are away at first.
    pub(super) fn start(address: SocketAddr, paths: &[String], count: usize) -> Self {
        let (state, seen) = watch::channel(State::Away);
        let (asked, paths) = (Arc::<AtomicU64>::default(), paths.to_vec());
        let counter = Arc::clone(&asked);
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, async move {
                let mut viewers = JoinSet::new();
                for number in 0..count {
                    let (path, seen, counter) =
                        (paths[number % paths.len()].clone(), seen.clone(), Arc::clone(&counter));
                    viewers.spawn_local(async move { look(address, &path, seen, &counter).await });
                }
                while let Some(ended) = viewers.join_next().await {
                    ended.map_err(|error| Failure::new(format!("a viewer ended: {error}")))??;
                }
                Ok(())
            })
        });
        Self { state, asked, thread }
    }

    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    /// How many pages they were given.
    pub(super) fn end(self) -> Result<u64> {
        self.set(State::Ended);
        self.thread.join().map_err(|_| Failure::new("the viewers panicked".to_owned()))??;
        Ok(self.asked.load(Ordering::Relaxed))
    }
}

/// One viewer: asks while somebody looks, and again after as long as the page says.
async fn look(address: SocketAddr, path: &str, mut state: watch::Receiver<State>, asked: &AtomicU64) -> Result<()> {
    let (mut client, request) = (Client::connect(address).await?, request::get(address, path));
    loop {
        // The sender lives as long as this thread.
        let now = *state
            .wait_for(|state| *state != State::Away)
            .await
            .map_err(|_| Failure::new("the viewers are gone".to_owned()))?;
        if now == State::Ended {
            return Ok(());
        }
        // A connection that was idle for too long is closed by the server.
        if client.write(&request).await.is_err() {
            client = Client::connect(address).await?;
            client.write(&request).await?;
        }
        let answer = client.answer().await?;
        if answer.status != 200 {
            return Err(Failure::new(format!("{path} was answered with {}", answer.status)));
        }
        asked.fetch_add(1, Ordering::Relaxed);
        let pause = Duration::from_secs(refresh_seconds(answer.body).unwrap_or(2));
        tokio::select! {
            () = sleep(pause) => {}
            _ = state.wait_for(|state| *state == State::Ended) => return Ok(()),
        }
    }
}

/// After how many seconds a page may be asked for again.
fn refresh_seconds(page: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"data-refresh=\"";
    let at = page.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let digits: Vec<u8> = page[at..].iter().copied().take_while(u8::is_ascii_digit).collect();
    String::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_when_it_may_be_asked_for_again() {
        assert_eq!(refresh_seconds(b"<body data-refresh=\"20\">"), Some(20));
        assert_eq!(refresh_seconds(b"<body>"), None);
    }
}
