//! The worker: its slots, the reports that an earlier worker left, and its end.

use std::io;
use std::sync::Arc;

use taskqueue_client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::context::{Counts, EndReason, WorkerContext};
use crate::events::{Event, EventSink};
use crate::handler::Handler;
use crate::identity::SlotIdentity;
use crate::ids;
use crate::intervals::Backoff;
use crate::report::{self, AfterError, FinalReport, RunKey};
use crate::settings::Settings;
use crate::slot::Slot;
use crate::spool::Spool;
use crate::stop::StopMode;

/// Claims and runs tasks until there is a reason to end.
pub struct Worker {
    context: Arc<WorkerContext>,
    handler: Arc<dyn Handler>,
}

impl Worker {
    /// `client` should not repeat calls itself ([`taskqueue_client::Retries::NONE`]): the worker decides what to repeat and when.
    pub fn new(
        client: Client,
        settings: Settings,
        handler: Arc<dyn Handler>,
        events: Arc<dyn EventSink>,
    ) -> io::Result<Self> {
        let spool = match &settings.spool {
            Some(spool) => Spool::open(&spool.run_dir, &spool.url)?,
            None => Spool::disabled(),
        };
        Ok(Self { context: Arc::new(WorkerContext::new(client, settings, spool, events)), handler })
    }

    /// Works until the end, or until `stop` asks for it.
    pub async fn run(self, mut stop: watch::Receiver<StopMode>) -> (EndReason, Counts) {
        let context = &self.context;
        let mut slots = JoinSet::new();
        // Loaded before a slot can store a report of its own.
        let earlier = context.spool.load(&*context.events);
        let mut earlier = tokio::spawn(deliver_earlier(Arc::clone(context), earlier));
        for number in context.settings.slots.iter().copied() {
            match ids::worker_id() {
                Ok(worker_id) => {
                    let (context, handler) = (Arc::clone(context), Arc::clone(&self.handler));
                    let identity = SlotIdentity { number, worker_id };
                    slots.spawn(Slot { identity, context, handler }.work());
                }
                Err(error) => context.end(EndReason::InternalError(error.to_string())),
            }
        }
        let watching = Arc::clone(context);
        let pauses = tokio::spawn(async move { watching.watch_for_pauses().await });
        let mut is_stop_open = true;
        while !slots.is_empty() {
            tokio::select! {
                biased;
                changed = stop.changed(), if is_stop_open => match changed {
                    Ok(()) => {
                        let wanted = *stop.borrow_and_update();
                        context.stop_at_least(wanted);
                    }
                    // The sender was dropped; the worker continues.
                    Err(_) => is_stop_open = false,
                },
                ended = slots.join_next() => {
                    if let Some(Err(error)) = ended {
                        context.end(EndReason::InternalError(error.to_string()));
                    }
                }
            }
        }
        pauses.abort();
        // Even a worker without tasks delivers the earlier reports before it ends, if the server answers.
        if timeout(context.settings.intervals.shutdown_timeout, &mut earlier).await.is_err() {
            earlier.abort();
        }
        context.summary()
    }
}

/// Delivers the reports that an earlier worker left in the spool, until none is left.
async fn deliver_earlier(context: Arc<WorkerContext>, mut reports: Vec<(RunKey, FinalReport)>) {
    let mut backoff = Backoff::new(context.settings.intervals.backoff);
    while !reports.is_empty() {
        let mut remaining = Vec::new();
        for (run, report) in reports {
            let refused = match report::send(&context.client, &run, &report).await {
                Ok(()) => None,
                Err(error) => match report::after_error(report, error) {
                    AfterError::Retry(report, error) => {
                        context.reachability.call_failed(&error);
                        remaining.push((run, report));
                        continue;
                    }
                    AfterError::ReportInstead(other) => {
                        remaining.push((run, other));
                        continue;
                    }
                    AfterError::GiveUp(error) => Some(error.to_string()),
                },
            };
            context.spool.remove(&run).await;
            context.events.on_event(&Event::EarlierReport { task_id: run.task_id, refused: refused.as_deref() });
        }
        reports = remaining;
        if !reports.is_empty() {
            sleep(backoff.next()).await;
        }
    }
}
