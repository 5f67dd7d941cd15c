//! Notices that the whole worker was stopped for a while (SIGSTOP, a debugger, a frozen virtual machine): no heartbeat was sent, and
//! nobody could say so. What became of the leases is the server's decision, which the next heartbeats bring.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::context::WorkerContext;
use crate::events::Event;

const TICK: Duration = Duration::from_secs(1);

/// A pause that is shorter can be a busy machine.
const SHORTEST: Duration = Duration::from_secs(2);

impl WorkerContext {
    /// Sends an event for each pause in which a heartbeat was due. Never returns.
    pub(crate) async fn watch_for_pauses(&self) {
        loop {
            let before = Instant::now();
            sleep(TICK).await;
            let pause = before.elapsed().saturating_sub(TICK);
            if pause >= self.settings.intervals.heartbeat.max(SHORTEST) {
                self.events.on_event(&Event::Paused(pause));
            }
        }
    }
}
