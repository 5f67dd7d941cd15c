//! Renews the lease of a run. Only an answer of the server about this run ends it: an unreachable, slow or broken server never
//! does, however long that lasts.

use std::time::Duration;

use taskqueue_client::Error;
use taskqueue_core::limits::LEASE_SECONDS;
use tokio::time::{Instant, sleep};

use crate::context::WorkerContext;
use crate::error_class::ErrorClass;
use crate::events::Event;
use crate::intervals::jittered;
use crate::report::RunKey;

impl WorkerContext {
    /// Sends heartbeats until the server says that the run is over, and returns that answer. `claim_sent` is the earliest moment
    /// at which the server can have started the lease.
    pub(crate) async fn renew_lease(&self, run: &RunKey, slot: usize, claim_sent: Instant) -> Error {
        let intervals = &self.settings.intervals;
        let (mut renewed, mut pause, mut is_in_doubt) = (claim_sent, intervals.heartbeat, false);
        loop {
            sleep(jittered(pause)).await;
            let sent = Instant::now();
            match self.client.heartbeat(&run.queue, run.task_id, run.run_id).await {
                Ok(_) => {
                    self.reachability.call_succeeded();
                    (renewed, pause, is_in_doubt) = (sent, intervals.heartbeat, false);
                }
                Err(error) if ErrorClass::of(&error) == ErrorClass::RunOver => return error,
                Err(error) => {
                    self.reachability.call_failed(&error);
                    pause = intervals.heartbeat_retry;
                }
            }
            if !is_in_doubt && renewed.elapsed() > Duration::from_secs(LEASE_SECONDS.unsigned_abs()) {
                is_in_doubt = true;
                self.events.on_event(&Event::LeaseInDoubt { slot, task_id: run.task_id });
            }
        }
    }
}
