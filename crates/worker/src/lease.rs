//! Keeps the lease of one run alive. Only the server's word about the run ends it: a server that is gone, slow or broken
//! never does, however long that lasts.

use std::time::Duration;

use taskqueue_client::{Client, Error};
use taskqueue_core::limits::LEASE_SECONDS;
use tokio::time::{Instant, sleep};

use crate::error_class::ErrorClass;
use crate::events::{Contact, Event, Listener};
use crate::intervals::{Intervals, jittered};
use crate::report::RunOf;

/// What keeping a lease needs.
pub(crate) struct Lease<'a> {
    pub(crate) client: &'a Client,
    pub(crate) contact: &'a Contact,
    pub(crate) listener: &'a dyn Listener,
    pub(crate) pace: &'a Intervals,
    pub(crate) run: &'a RunOf,
    pub(crate) slot: usize,
}

impl Lease<'_> {
    /// Sends heartbeats until the server says that the run is not ours any more; gives what it said. `since` is the moment
    /// before the claim was sent: a lease is counted from there, because nobody knows when the server began to count.
    pub(crate) async fn keep(&self, since: Instant) -> Error {
        let (mut renewed, mut pause, mut told) = (since, self.pace.heartbeat, false);
        loop {
            sleep(jittered(pause)).await;
            let sent = Instant::now();
            match self.beat().await {
                Ok(()) => (renewed, pause, told) = (sent, self.pace.heartbeat, false),
                Err(error) if ErrorClass::of(&error) == ErrorClass::Revoked => return error,
                Err(error) => {
                    self.contact.lost(self.listener, &error);
                    pause = self.pace.heartbeat_retry;
                }
            }
            if !told && renewed.elapsed() > Duration::from_secs(LEASE_SECONDS.unsigned_abs()) {
                told = true;
                self.listener.hear(&Event::LeaseInDoubt { slot: self.slot, task_id: self.run.task_id });
            }
        }
    }

    async fn beat(&self) -> Result<(), Error> {
        let RunOf { queue, task_id, run_id } = self.run;
        self.client.heartbeat(queue, *task_id, *run_id).await?;
        self.contact.made(self.listener);
        Ok(())
    }
}
