//! Renews the lease of a run, and hears of its end. The server is asked to hold each heartbeat until the run is over, so that a cancel
//! arrives at once; those that it does not hold are sent with those of other runs (docs/decisions/0036). Only an answer of the server about this run ends it: an unreachable, slow or broken server never does, however
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
        let mut is_alone = false;
        loop {
            let (sent, answer) = self.send_heartbeat(run, &mut holding, jittered(pause), is_alone).await;
            is_alone = answer.is_err();
            match answer {
                Ok(applied) => {
                    self.reachability.call_succeeded(sent);
                    (renewed, is_in_doubt) = (sent, false);
                    pause = holding.after_answer(applied, sent.elapsed(), self.reports_together());
                }
                Err(error) if ErrorClass::of(&error) == ErrorClass::RunOver => return error,
                Err(error) => match holding.after_error(sent.elapsed()) {
                    AfterError::AskAtOnce => pause = Duration::ZERO,
                    AfterError::Pause => {
                        self.reachability.call_failed(&error, sent);
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

    /// Sends a heartbeat after a pause, for the server to hold it if that is worthwhile, and otherwise with those of other runs. Returns
    /// the moment before it was sent, and how long the server says that it held it.
    async fn send_heartbeat(
        &self,
        run: &RunKey,
        holding: &mut Holding,
        pause: Duration,
        is_alone: bool,
    ) -> (Instant, Result<Option<u32>, Error>) {
        let is_together = self.reports_together() && !is_alone;
        if is_together && !holding.wants_hold() {
            holding.next(false);
            return self.heartbeat_with_others(run, pause).await;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let permit = self.held_heartbeats.try_acquire();
        match holding.next(permit.is_ok()) {
            // A held heartbeat renews when it arrives and is answered later, so the lease counts from when it was sent.
            Some(hold) => {
                let (sent, RunKey { queue, task_id, run_id, .. }) = (Instant::now(), run);
                let answer = self.client_of(run).heartbeat_waiting(queue, *task_id, *run_id, whole_seconds(hold)).await;
                (sent, answer.map(|answer| answer.wait_applied))
            }
            None if is_together => self.heartbeat_with_others(run, Duration::ZERO).await,
            None => {
                let sent = Instant::now();
                (sent, self.heartbeat(run, true).await.map(|_| None))
            }
        }
    }

    async fn heartbeat_with_others(&self, run: &RunKey, pause: Duration) -> (Instant, Result<Option<u32>, Error>) {
        match self.heartbeat_after(run, pause).await {
            Ok(sent) => (sent, Ok(None)),
            // When it was sent does not matter.
            Err(error) => (Instant::now(), Err(error)),
        }
    }
}
