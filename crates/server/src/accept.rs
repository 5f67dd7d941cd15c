//! The accept loop: takes connections up to the cap, closes idle ones to make room for new ones, goes on after errors of
//! the system, and closes them all at a stop.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use crate::config::Timeouts;
use crate::connection::{self, Handler, StopSignal};
use crate::idle_connections::{IdleConnections, IdleEntry};
use crate::listener::{ClientAddress, Stream};
use crate::memory_budget::Budgets;
use crate::throttled_line::ThrottledLine;
use crate::tls::Tls;

/// How long to wait after an accept that failed for want of descriptors or memory, until some may be free again.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How many connections may keep their buffers for a moment after each request (20 MiB in all), which saves the next
/// request 2 µs of work. Connections above this number free them at once: only requests under way cost memory then.
const BUFFERED_CONNECTIONS: usize = 1024;

/// How many connections a server has at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionCounts {
    pub(crate) open: usize,
    pub(crate) idle: usize,
    pub(crate) limit: usize,
}

/// All connections of a server.
pub(crate) struct Connections {
    /// One permit per connection; all of them are back when none is left.
    slots: Arc<Semaphore>,
    cap: u32,
    idle: Arc<IdleConnections>,
    timeouts: Timeouts,
    budgets: Arc<Budgets>,
    stop: watch::Sender<StopSignal>,
}

impl Connections {
    pub(crate) fn new(connection_cap: usize, timeouts: Timeouts, budgets: Arc<Budgets>) -> Self {
        let cap = u32::try_from(connection_cap.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let (slots, idle) = (Arc::new(Semaphore::new(cap as usize)), Arc::default());
        Self { slots, cap, idle, timeouts, budgets, stop: watch::Sender::new(StopSignal::None) }
    }

    /// Accepts and serves connections for ever, encrypted with `tls`. `next` waits for one; dropped, it loses none. May be dropped at any
    /// moment; the connections are served on.
    pub(crate) async fn accept<F: Future<Output = io::Result<Stream>>>(
        &self,
        next: impl Fn() -> F,
        tls: Option<&Tls>,
        handler: impl Handler,
    ) -> Infallible {
        let (mut full, mut failing) = (ThrottledLine::default(), ThrottledLine::default());
        loop {
            match next().await {
                Ok(stream) => {
                    let slot = self.slot(&mut full).await;
                    self.spawn(stream, tls.cloned(), slot, handler.clone());
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    if failing.count(Instant::now()).is_some() {
                        warn!(%error, "cannot accept connections; trying again");
                    }
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Waits for a permit for a new connection. If there is none, an idle connection is closed; while none is idle, the new
    /// connection waits, and the next ones wait in the backlog of the listener.
    async fn slot(&self, full: &mut ThrottledLine) -> OwnedSemaphorePermit {
        loop {
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                return slot;
            }
            if full.count(Instant::now()).is_some() {
                warn!(
                    connections = self.cap,
                    "the connection cap is reached; idle connections are closed for new ones"
                );
            }
            self.idle.close_one();
            // A connection that is busy now may be idle after the delay.
            if let Ok(Ok(slot)) = timeout(RETRY_DELAY, Arc::clone(&self.slots).acquire_owned()).await {
                return slot;
            }
        }
    }

    fn spawn(&self, stream: Stream, tls: Option<Tls>, slot: OwnedSemaphorePermit, handler: impl Handler) {
        let (mut timeouts, budgets, mut stop) = (self.timeouts, Arc::clone(&self.budgets), self.stop.subscribe());
        if self.open_count() > BUFFERED_CONNECTIONS {
            timeouts.park = Duration::ZERO;
        }
        let idle_entry = Arc::new(IdleEntry::new(Arc::clone(&self.idle)));
        // Now, not when its task first runs: until then only older connections could be closed.
        idle_entry.set_idle();
        let handler = handler.for_client(ClientAddress::of(&stream), &idle_entry);
        tokio::spawn(async move {
            let serving = async {
                let stream = match tls {
                    Some(tls) => Box::pin(connection::open_tls(&tls, stream, &handler, &timeouts, &mut stop)).await,
                    None => Some(stream),
                };
                if let Some(stream) = stream {
                    connection::serve(stream, handler, budgets, Arc::clone(&idle_entry), timeouts, stop).await;
                }
            };
            select! {
                biased;
                () = idle_entry.close_requested() => debug!("closed an idle connection to make room for another"),
                () = serving => {}
            }
            drop(slot);
        });
    }

    pub(crate) fn counts(&self) -> ConnectionCounts {
        ConnectionCounts { open: self.open_count(), idle: self.idle.count(), limit: self.cap as usize }
    }

    fn open_count(&self) -> usize {
        self.cap as usize - self.slots.available_permits()
    }

    /// Closes all connections: idle ones at once, the others after their request, or when the time for a stop is over.
    pub(crate) async fn drain(&self) {
        self.stop.send_replace(StopSignal::Drain);
        if timeout(self.timeouts.stop, self.slots.acquire_many(self.cap)).await.is_err() {
            warn!(connections = self.open_count(), "requests under way were cut off because they did not end in time");
            self.stop.send_replace(StopSignal::Abort);
            // They need a moment to free what they hold.
            drop(timeout(RETRY_DELAY, self.slots.acquire_many(self.cap)).await);
        }
    }
}

/// Returns whether an accept failed because of the connection that was to be accepted. The next one can be accepted at once.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests;
