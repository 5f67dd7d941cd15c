//! Failed handshakes in the log: one line in a minute, with how many there were before it. Everybody who reaches the port
//! can cause them, so each one alone is worth a debug line only.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info};

use crate::connection::ClientAddress;

const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    last_line: Option<Instant>,
    /// Failures since then that have no line.
    unlogged: u64,
}

impl FailureLog {
    pub(crate) fn note(&self, client: ClientAddress, reason: &str) {
        let unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner).count(Instant::now());
        match unlogged {
            Some(earlier) => info!(%client, reason, earlier, "a TLS handshake failed"),
            None => debug!(%client, reason, "a TLS handshake failed"),
        }
    }
}

impl Counted {
    /// Counts a failure. If a line is due: how many there were without one.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if self.last_line.is_some_and(|last| now.duration_since(last) < INTERVAL) {
            self.unlogged += 1;
            return None;
        }
        self.last_line = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_failures_is_one_line_a_minute() {
        let (start, mut counted) = (Instant::now(), Counted::default());
        let lines = [0, 1, 2, 59, 60, 61, 300].map(|second| counted.count(start + Duration::from_secs(second)));
        assert_eq!(lines, [Some(0), None, None, None, Some(3), None, Some(1)]);
    }
}
