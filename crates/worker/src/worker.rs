//! The worker: its slots, the reports that an earlier worker left, and its end.

use std::io;
use std::sync::Arc;

use taskqueue_client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::context::{Counts, EndReason, Queues, WorkerContext};
use crate::events::EventSink;
use crate::handler::Handler;
use crate::identity::{SlotIdentity, new_worker_id};
use crate::settings::Settings;
use crate::slot::Slot;
use crate::spool::Spool;
use crate::stop::StopMode;

/// Claims and runs tasks until there is a reason to end.
pub struct Worker {
    context: Arc<WorkerContext>,
    queues: Queues,
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
        let (context, queues) = WorkerContext::new(client, settings, spool, events);
        Ok(Self { context: Arc::new(context), queues, handler })
    }

    /// Works until the end, or until `stop` asks for it.
    pub async fn run(self, mut stop: watch::Receiver<StopMode>) -> (EndReason, Counts) {
        let context = &self.context;
        let (mut slots, mut services) = (JoinSet::new(), JoinSet::new());
        let Queues { fresh_wants, idle_wants, outgoing, beats } = self.queues;
        services.spawn(Arc::clone(context).serve_claims(fresh_wants, idle_wants));
        services.spawn(Arc::clone(context).serve_outgoing(outgoing));
        services.spawn(Arc::clone(context).serve_beats(beats));
        services.spawn(Arc::clone(context).serve_telemetry());
        services.spawn(Arc::clone(context).tell_why_idle());
        // Loaded before a slot can store a report of its own.
        let earlier = context.spool.load(&*context.events);
        let mut earlier = tokio::spawn(Arc::clone(context).deliver_earlier(earlier));
        for number in context.settings.slots.iter().copied() {
            match new_worker_id() {
                Ok(worker_id) => {
                    let (context, handler) = (Arc::clone(context), Arc::clone(&self.handler));
                    let identity = SlotIdentity { number, worker_id };
                    slots.spawn(Slot { identity, context, handler }.work());
                }
                Err(error) => context.end(EndReason::InternalError(error)),
            }
        }
        let watching = Arc::clone(context);
        services.spawn(async move { watching.watch_for_pauses().await });
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
        services.abort_all();
        context.finish_output().await;
        // Even a worker without tasks delivers the earlier reports before it ends, if the server answers.
        if timeout(context.settings.intervals.shutdown_timeout, &mut earlier).await.is_err() {
            earlier.abort();
        }
        context.reachability.finish();
        context.summary()
    }
}
