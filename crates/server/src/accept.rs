//! The accept loop: takes connections up to the cap, closes idle ones for newcomers, survives what the system throws at it,
//! and ends them all.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use crate::config::{Config, Timeouts};
use crate::connection::{self, Handler, Stop};
use crate::idle_connections::{IdleConnections, IdleEntry};
use crate::listener::{Listener, Stream};
use crate::memory_budget::Budgets;

/// Rest after an accept that failed for want of something (descriptors, memory), so that others can let go of it.
const PAUSE: Duration = Duration::from_millis(100);

/// The same complaint is not repeated before this time is over.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// So many connections may keep their buffers for a moment after each request (20 MiB in all), which saves the next
/// request 2 µs of work. The ones above let go at once: only requests under way cost memory, not connections.
const PATIENT_CONNECTIONS: usize = 1024;

/// Where connections come from.
pub(crate) trait Accept {
    /// Waits for the next connection. May be dropped without losing one.
    fn accept(&self) -> impl Future<Output = io::Result<Stream>> + Send;
}

impl Accept for Listener {
    async fn accept(&self) -> io::Result<Stream> {
        Listener::accept(self).await
    }
}

/// All connections of a server.
pub(crate) struct Connections {
    /// One permit per connection; all of them are back when none is left.
    slots: Arc<Semaphore>,
    cap: u32,
    idle: Arc<IdleConnections>,
    timeouts: Timeouts,
    budgets: Arc<Budgets>,
    stop: watch::Sender<Stop>,
}

impl Connections {
    pub(crate) fn new(config: &Config, budgets: Arc<Budgets>) -> Self {
        let cap = u32::try_from(config.connection_cap.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let slots = Arc::new(Semaphore::new(cap as usize));
        let (idle, timeouts) = (Arc::default(), config.timeouts);
        Self { slots, cap, idle, timeouts, budgets, stop: watch::Sender::new(Stop::Run) }
    }

    /// Takes and serves connections for ever. May be dropped at any moment; the connections live on.
    pub(crate) async fn accept(&self, source: &impl Accept, handler: impl Handler) -> Infallible {
        let (mut full, mut failing) = (ThrottledWarning::default(), ThrottledWarning::default());
        loop {
            match source.accept().await {
                Ok(stream) => {
                    let slot = self.slot(&mut full).await;
                    self.spawn(stream, slot, handler.clone());
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if failing.is_due(Instant::now()) {
                        warn!(%error, "cannot accept connections; trying on");
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// A place for a connection that has come. Where there is none, an idle connection is closed for it; while none is
    /// idle, it waits, and those behind it in the backlog of the listener.
    async fn slot(&self, full: &mut ThrottledWarning) -> OwnedSemaphorePermit {
        loop {
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                return slot;
            }
            if full.is_due(Instant::now()) {
                warn!(
                    connections = self.cap,
                    "the connection cap is reached; idle connections are closed for new ones"
                );
            }
            self.idle.close_one();
            // Whoever is busy now may be idle after the pause.
            if let Ok(Ok(slot)) = timeout(PAUSE, Arc::clone(&self.slots).acquire_owned()).await {
                return slot;
            }
        }
    }

    fn spawn(&self, stream: Stream, slot: OwnedSemaphorePermit, handler: impl Handler) {
        let (mut timeouts, budgets, stop) = (self.timeouts, Arc::clone(&self.budgets), self.stop.subscribe());
        if self.open() > PATIENT_CONNECTIONS {
            timeouts.park = Duration::ZERO;
        }
        let idle_entry = Arc::new(IdleEntry::new(Arc::clone(&self.idle)));
        // Now, not when its task first runs: until then only those who have been here for longer could be closed.
        idle_entry.rests();
        tokio::spawn(async move {
            let serving = connection::serve(stream, handler, budgets, Arc::clone(&idle_entry), timeouts, stop);
            select! {
                biased;
                () = idle_entry.closed() => debug!("closed an idle connection to make room for another"),
                () = serving => {}
            }
            drop(slot);
        });
    }

    /// Connections that are open now.
    fn open(&self) -> usize {
        self.cap as usize - self.slots.available_permits()
    }

    /// Ends all connections: idle ones at once, the others after their request, or when patience is over.
    pub(crate) async fn drain(&self) {
        self.stop.send_replace(Stop::Drain);
        if timeout(self.timeouts.stop, self.slots.acquire_many(self.cap)).await.is_err() {
            warn!(connections = self.open(), "requests under way were cut off because they did not end in time");
            self.stop.send_replace(Stop::Abort);
            // They need a moment to let go of what they hold, not more.
            drop(timeout(PAUSE, self.slots.acquire_many(self.cap)).await);
        }
    }
}

/// Something worth one line in the log, but not one for every connection.
#[derive(Default)]
struct ThrottledWarning(Option<Instant>);

impl ThrottledWarning {
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.0.is_none_or(|last| now.duration_since(last) >= WARNING_INTERVAL);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

/// Whether an accept failed because of the connection that was to be accepted. Others can follow at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests;
