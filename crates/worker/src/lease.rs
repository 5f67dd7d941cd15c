//! Renews the lease of a run, and hears of its end. The server is asked to hold each heartbeat until the run is over, so that a cancel
//! arrives at once. Only an answer of the server about this run ends it: an unreachable, slow or broken server never does, however
//! long that lasts.

mod holding;

use std::time::Duration;

use taskqueue_client::Error;
use taskqueue_core::limits::LEASE_SECONDS;
use tokio::time::{Instant, sleep};

use self::holding::{AfterError, Holding};
use crate::context::WorkerContext;
use crate::error_class::ErrorClass;
use crate::events::Event;
use crate::intervals::jittered;
use crate::report::RunKey;
use crate::waits::whole_seconds;

impl WorkerContext {
    /// Sends heartbeats until the server says that the run is over, and returns that answer. `claim_sent` is the earliest moment
    /// at which the server can have started the lease.
    pub(crate) async fn renew_lease(&self, run: &RunKey, slot: usize, claim_sent: Instant) -> Error {
        let intervals = &self.settings.intervals;
        let mut holding = Holding::new(intervals);
        let (mut renewed, mut pause, mut is_in_doubt) = (claim_sent, intervals.first_heartbeat, false);
        loop {
            if !pause.is_zero() {
                sleep(jittered(pause)).await;
            }
            // A held heartbeat renews when it arrives and is answered later, so the lease counts from when it was sent.
            let sent = Instant::now();
            match self.send_heartbeat(run, holding.next()).await {
                Ok(applied) => {
                    self.reachability.call_succeeded();
                    (renewed, is_in_doubt) = (sent, false);
                    pause = holding.after_answer(applied, sent.elapsed());
                }
                Err(error) if ErrorClass::of(&error) == ErrorClass::RunOver => return error,
                Err(error) => match holding.after_error(sent.elapsed()) {
                    AfterError::AskAtOnce => pause = Duration::ZERO,
                    AfterError::Pause => {
                        self.reachability.call_failed(&error);
                        pause = intervals.heartbeat_retry;
                    }
                },
            }
            if !is_in_doubt && renewed.elapsed() > Duration::from_secs(LEASE_SECONDS.unsigned_abs()) {
                is_in_doubt = true;
                self.events.on_event(&Event::LeaseInDoubt { slot, task_id: run.task_id });
            }
        }
    }

    /// Sends a heartbeat that the server may hold for so long. Returns how long it says that it did.
    async fn send_heartbeat(&self, run: &RunKey, hold: Option<Duration>) -> Result<Option<u32>, Error> {
        let RunKey { queue, task_id, run_id } = run;
        match hold {
            Some(hold) => {
                let answer = self.client.heartbeat_waiting(queue, *task_id, *run_id, whole_seconds(hold)).await?;
                Ok(answer.wait_applied)
            }
            None => self.client.heartbeat(queue, *task_id, *run_id).await.map(|_| None),
        }
    }
}
