//! Says what a slot does: an observation on every change and every minute. Whatever becomes of it never touches the slot.

use std::sync::Arc;

use taskqueue_client::{JsonObject, Report, TaskId, WorkerId, WorkerStatus};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::context::WorkerContext;
use crate::intervals::jittered;

/// Reports one slot until it is closed.
pub(crate) struct Observer {
    task_id: watch::Sender<Option<TaskId>>,
    reports: JoinHandle<()>,
}

impl Observer {
    /// Begins with an idle slot.
    pub(crate) fn start(shared: Arc<WorkerContext>, id: WorkerId) -> Self {
        let (task_id, changes) = watch::channel(None);
        Self { task_id, reports: tokio::spawn(report(shared, id, changes)) }
    }

    /// The slot works on this, or on nothing.
    pub(crate) fn now(&self, task_id: Option<TaskId>) {
        self.task_id.send_replace(task_id);
    }

    /// Withdraws, as far as that can be done in the time there is.
    pub(crate) async fn close(self, shared: &WorkerContext) {
        drop(self.task_id);
        let mut reports = self.reports;
        if timeout(shared.settings.pace.farewell, &mut reports).await.is_err() {
            reports.abort();
        }
    }
}

async fn report(shared: Arc<WorkerContext>, id: WorkerId, mut changes: watch::Receiver<Option<TaskId>>) {
    let pace = shared.settings.pace;
    let mut is_open = true;
    while is_open {
        let task_id = *changes.borrow_and_update();
        let status = if task_id.is_some() { WorkerStatus::Busy } else { WorkerStatus::Idle };
        let route = shared.settings.route.clone();
        let report = Report { route, status, task_id, metadata: JsonObject::empty() };
        let next = Instant::now() + jittered(pace.observation);
        let gap = Instant::now() + pace.observation_gap;
        // An observation that fails is replaced by the next one.
        is_open = tokio::select! {
            biased;
            _ = shared.client.report_worker(&shared.settings.queue, id, &report) => true,
            closed = closed(&changes) => !closed,
        };
        is_open = is_open && changes_until(&mut changes, gap, next).await;
    }
    // Best effort; what stays expires by itself.
    drop(shared.client.withdraw_worker(&shared.settings.queue, id).await);
}

/// Comes back when the slot is closed, so that a server that does not answer cannot hold up the withdrawal.
async fn closed(changes: &watch::Receiver<Option<TaskId>>) -> bool {
    let mut changes = changes.clone();
    while changes.changed().await.is_ok() {}
    true
}

/// Waits for the next moment to report: a change, but not before `gap`, or `next`. `false` when the slot is closed.
async fn changes_until(changes: &mut watch::Receiver<Option<TaskId>>, gap: Instant, next: Instant) -> bool {
    tokio::select! {
        biased;
        change = changes.changed() => {
            if change.is_err() {
                return false;
            }
        }
        () = sleep_until(next) => return true,
    }
    tokio::select! {
        biased;
        closed = closed(changes) => !closed,
        () = sleep_until(gap) => true,
    }
}
