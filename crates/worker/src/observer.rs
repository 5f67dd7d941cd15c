//! Sends the observations of a slot: on every change and every minute. Their failure never affects the slot.

use std::sync::Arc;

use taskqueue_client::{Error, JsonObject, Report, TaskId, WorkerId, WorkerStatus};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::context::WorkerContext;
use crate::identity::SlotIdentity;
use crate::intervals::jittered;

pub(crate) struct Observer {
    task_id: watch::Sender<Option<TaskId>>,
    sender: JoinHandle<()>,
}

impl Observer {
    pub(crate) fn start(context: Arc<WorkerContext>, slot: SlotIdentity) -> Self {
        let (task_id, changes) = watch::channel(None);
        Self { task_id, sender: tokio::spawn(send_observations(context, slot, changes)) }
    }

    /// Sets what the slot works on; `None` means idle.
    pub(crate) fn set_task(&self, task_id: Option<TaskId>) {
        self.task_id.send_replace(task_id);
    }

    /// Withdraws the observation, unless that takes too long.
    pub(crate) async fn close(self, context: &WorkerContext) {
        drop(self.task_id);
        let mut sender = self.sender;
        if timeout(context.settings.intervals.shutdown_timeout, &mut sender).await.is_err() {
            sender.abort();
        }
    }
}

async fn send_observations(
    context: Arc<WorkerContext>,
    slot: SlotIdentity,
    mut changes: watch::Receiver<Option<TaskId>>,
) {
    let (intervals, mut metadata) = (context.settings.intervals, context.identity().in_observations(&slot));
    let mut is_open = true;
    while is_open {
        let task_id = *changes.borrow_and_update();
        let status = if task_id.is_some() { WorkerStatus::Busy } else { WorkerStatus::Idle };
        let route = context.settings.route.clone();
        let mut report = Report { route, status, task_id, metadata: metadata.clone() };
        let latest = Instant::now() + jittered(intervals.observation);
        let earliest = Instant::now() + intervals.observation_gap;
        // A failed observation is replaced by the next one.
        is_open = tokio::select! {
            biased;
            () = send(&context, slot.worker_id, &mut report) => true,
            () = closed(&changes) => false,
        };
        metadata = report.metadata;
        is_open = is_open && wait_for_next(&mut changes, earliest, latest).await;
    }
    // Best effort: an observation expires by itself.
    drop(context.client.withdraw_worker(&context.settings.queue, slot.worker_id).await);
}

/// Sends an observation. A server that refuses its metadata gets it without, now and from then on.
async fn send(context: &WorkerContext, id: WorkerId, report: &mut Report) {
    let queue = &context.settings.queue;
    if let Err(Error::Api { status: 422, .. }) = context.client.report_worker(queue, id, report).await
        && !report.metadata.is_empty_object()
    {
        report.metadata = JsonObject::empty();
        drop(context.client.report_worker(queue, id, report).await);
    }
}

/// Returns when the observer is closed, so that a server that does not answer cannot delay the withdrawal.
async fn closed(changes: &watch::Receiver<Option<TaskId>>) {
    let mut changes = changes.clone();
    while changes.changed().await.is_ok() {}
}

/// Waits for a change, but at least until `earliest`, and at most until `latest`. Returns `false` when the observer is closed.
async fn wait_for_next(changes: &mut watch::Receiver<Option<TaskId>>, earliest: Instant, latest: Instant) -> bool {
    tokio::select! {
        biased;
        change = changes.changed() => {
            if change.is_err() {
                return false;
            }
        }
        () = sleep_until(latest) => return true,
    }
    tokio::select! {
        biased;
        () = closed(changes) => false,
        () = sleep_until(earliest) => true,
    }
}
