//! The bounded queue between callers and writers. A command that finds it full is refused as busy at once.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::bulk::PlannedWrite;
use crate::command::{BulkUpdate, Command, UpdateTasks, Updated};
use crate::submission::{PendingAnswer, Submission};
use crate::write_backlog::WriteBacklog;
use crate::write_request::WriteRequest;
use crate::{StoreError, StoreResult};

/// Commands that wait for a writer. At some 30,000 commands a second this is a wait of a tenth of a second.
pub(crate) const CAPACITY: usize = 4_096;
/// Items of a light command at most.
const LIGHT_ITEMS: usize = 4;

/// The senders' end. `S` is what a backend knows of the snapshot of a plan.
pub struct WriteQueue<S> {
    /// Nothing once closed.
    sender: RwLock<Option<mpsc::Sender<QueuedWrite<S>>>>,
}

impl<S> WriteQueue<S> {
    pub fn new() -> (Self, WriteBacklog<S>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self { sender: RwLock::new(Some(sender)) }, WriteBacklog::new(receiver))
    }

    pub fn submit(&self, write: QueuedWrite<S>) -> StoreResult<()> {
        let sender = self.sender.read();
        let sender = sender.as_ref().ok_or(StoreError::Unavailable)?;
        sender.try_send(write).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Closed(_) => StoreError::Unavailable,
        })
    }

    /// Hands a bulk update to the writer and waits for its answer.
    pub async fn write_bulk(&self, bulk: Arc<BulkUpdate>, plan: Option<PlannedWrite<S>>) -> StoreResult<Updated> {
        let answer_by = plan.as_ref().map(|plan| plan.limit.answer_by());
        let (write, answer) = QueuedWrite::bulk(bulk, plan);
        self.submit(write)?;
        match answer_by {
            Some(answer_by) => answer.wait_until(answer_by).await,
            None => answer.wait().await,
        }
    }

    /// Commands that no writer has received yet, and how many there may be.
    pub fn length_and_capacity(&self) -> (usize, usize) {
        let sender = self.sender.read();
        let waiting = |sender: &mpsc::Sender<_>| sender.max_capacity() - sender.capacity();
        (sender.as_ref().map_or(0, waiting), CAPACITY)
    }

    /// Returns whether it takes commands and a writer receives them.
    pub fn is_open(&self) -> bool {
        let sender = self.sender.read();
        sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// Takes no more commands. Writers end when they have executed those that wait.
    pub fn close(&self) {
        drop(self.sender.write().take());
    }
}

/// A command in the queue, with its plan if it is a planned bulk update.
pub struct QueuedWrite<S> {
    pub request: WriteRequest,
    pub plan: Option<PlannedWrite<S>>,
    pub queued_at: Instant,
    /// Its weight in a transaction.
    pub items: usize,
    /// How often it was tried and put back.
    pub retries: u32,
    /// True if a transaction was too full for it. Then it is among the first of the next one.
    pub was_left: bool,
}

impl<S> QueuedWrite<S> {
    pub fn new(request: WriteRequest) -> Self {
        let items = request.items();
        Self { request, plan: None, queued_at: Instant::now(), items, retries: 0, was_left: false }
    }

    /// A bulk update, without a plan if it is to be done in one step.
    pub fn bulk(bulk: Arc<BulkUpdate>, plan: Option<PlannedWrite<S>>) -> (Self, PendingAnswer<Updated>) {
        let (submission, answer) = Submission::new(UpdateTasks { bulk });
        (Self { plan, ..Self::new(UpdateTasks::into_request(submission)) }, answer)
    }

    /// Returns whether it takes little of a transaction for certain.
    pub fn is_light(&self) -> bool {
        self.items <= LIGHT_ITEMS && !self.request.may_weigh_more()
    }

    pub fn is_bulk_update(&self) -> bool {
        matches!(self.request, WriteRequest::UpdateTasks(_))
    }

    /// Returns whether the time of a planned bulk update is over before it is written: then it is not begun, because undoing it
    /// costs the others.
    pub fn is_late(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.limit.is_over())
    }

    /// Returns whether the write of a plan found that it is outdated.
    pub fn is_outdated(&self) -> bool {
        self.plan.as_ref().is_some_and(|write| write.plan.lock().outdated.is_some())
    }

    /// A transaction was too full for it, and it waits again.
    pub fn leave(&mut self) {
        self.was_left = true;
        self.request.reply().postpone();
    }

    pub fn release(mut self) {
        self.request.reply().release();
    }

    pub fn fail(mut self, error: StoreError) {
        self.request.reply().fail(error);
    }
}
