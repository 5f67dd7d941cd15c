//! The bounded queue between callers and writers. A command that finds it full is refused as busy at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;
use taskqueue_core::QueueName;
use tokio::sync::mpsc;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};

use crate::bulk::PlannedWrite;
use crate::command::{BulkUpdate, Command, UpdateTasks, Updated};
use crate::submission::{PendingAnswer, Submission};
use crate::weight::MAX_ITEMS;
use crate::{StoreError, StoreResult, WriteRequest};

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
        answer.wait_until(answer_by).await
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
    pub plan: Option<Box<PlannedWrite<S>>>,
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
        (Self { plan: plan.map(Box::new), ..Self::new(UpdateTasks::into_request(submission)) }, answer)
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

// What writers have received and not begun, and which of it the next transaction takes. Transactions are filled by weight
// (`weight.rs`). What is heavy waits in lines of its own, one for each queue, which take turns: light commands come first, none of
// them waits for more than one transaction that is full, and no queue has the writer for itself while another one waits
// (docs/decisions/0039).

/// Light commands of one transaction at most. A longer one would let its first caller wait for no gain: so many share
/// the sync already that its part of each command is below a microsecond.
pub const MAX_LIGHT: usize = 256;

/// The receivers' end of a [`WriteQueue`].
pub struct WriteBacklog<S> {
    receiver: Receiver<QueuedWrite<S>>,
    light: VecDeque<QueuedWrite<S>>,
    heavy: Lines<S>,
    /// True if the last transaction had many items of heavy commands. Light commands that came meanwhile have waited for
    /// it, and do not wait for another one like it.
    was_full: bool,
    /// True if the last transaction had light commands that were committed before a large command. Now it is its turn.
    was_put_off: bool,
}

impl<S> WriteBacklog<S> {
    pub(crate) fn new(receiver: Receiver<QueuedWrite<S>>) -> Self {
        Self { receiver, light: VecDeque::new(), heavy: Lines::default(), was_full: false, was_put_off: false }
    }

    /// The commands of the next transaction, without waiting: none if none is there. Nothing when no more can come.
    pub fn try_next(&mut self) -> Option<Vec<QueuedWrite<S>>> {
        let is_open = self.receive();
        let next = self.take();
        (is_open || !next.is_empty()).then_some(next)
    }

    /// Waits for a command. Returns whether one came; if not, no more can come.
    pub fn blocking_wait(&mut self) -> bool {
        let received = self.receiver.blocking_recv();
        received.map(|write| self.add(write)).is_some()
    }

    /// The commands of the next transaction: none when no more can come. Cancel safe.
    pub async fn next(&mut self) -> Vec<QueuedWrite<S>> {
        loop {
            match self.try_next() {
                Some(next) if next.is_empty() => {
                    if let Some(write) = self.receiver.recv().await {
                        self.add(write);
                    }
                }
                next => return next.unwrap_or_default(),
            }
        }
    }

    /// Takes back what a transaction was too full for, before all others of its kind.
    pub fn put_back(&mut self, writes: Vec<QueuedWrite<S>>) {
        for write in writes.into_iter().rev() {
            if write.is_light() { self.light.push_front(write) } else { self.heavy.push_front(write) }
        }
    }

    /// Receives until there are enough light commands. Returns whether more can come.
    fn receive(&mut self) -> bool {
        while self.light.len() < MAX_LIGHT {
            match self.receiver.try_recv() {
                Ok(write) => self.add(write),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn add(&mut self, write: QueuedWrite<S>) {
        if write.is_light() {
            self.light.push_back(write);
        } else if let Some(write) = self.heavy.push_back(write) {
            write.fail(StoreError::Busy);
        }
    }

    fn take(&mut self) -> Vec<QueuedWrite<S>> {
        let was_put_off = std::mem::take(&mut self.was_put_off);
        if (was_put_off || self.light.is_empty())
            && let Some(large) = self.heavy.pop_front_if(|write| write.items > MAX_ITEMS)
        {
            self.was_full = true;
            return vec![large];
        }
        let (mut next, mut items) = (Vec::new(), 0);
        let fits = |items, more| items == 0 || items + more <= MAX_ITEMS;
        while next.len() < MAX_LIGHT
            && let Some(write) = self.light.pop_front_if(|write| fits(items, write.items))
        {
            items += write.items;
            next.push(write);
        }
        if self.heavy.front().is_some_and(|write| write.items > MAX_ITEMS) {
            (self.was_put_off, self.was_full) = (true, false);
            return next;
        }
        let is_pressed = self.was_full && items > 0;
        let (most, light_items) = (if is_pressed { MAX_LIGHT } else { MAX_ITEMS }, items);
        let fits = |items, more| items + more <= most || items == light_items && !is_pressed;
        while let Some(write) = self.heavy.pop_front_if(|write| fits(items, write.items)) {
            items += write.items;
            next.push(write);
        }
        self.was_full = items - light_items > MAX_LIGHT;
        next
    }
}

/// Commands of one queue that may wait, so that others find room. When the last of them has its turn, its caller has left long ago.
const LINE_CAPACITY: usize = CAPACITY / 4;

struct Lines<S> {
    /// The queues that have a line, the next one first.
    turns: VecDeque<Option<QueueName>>,
    /// None of them is empty.
    lines: HashMap<Option<QueueName>, VecDeque<QueuedWrite<S>>>,
    count: usize,
}

impl<S> Default for Lines<S> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), lines: HashMap::new(), count: 0 }
    }
}

impl<S> Lines<S> {
    /// Gives the command back if there is no room for it.
    fn push_back(&mut self, write: QueuedWrite<S>) -> Option<QueuedWrite<S>> {
        let queue = write.request.queue().cloned();
        let waiting = self.lines.get(&queue).map_or(0, VecDeque::len);
        if self.count == CAPACITY || waiting == LINE_CAPACITY {
            return Some(write);
        }
        let line = self.lines.entry(queue.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(queue);
        }
        line.push_back(write);
        self.count += 1;
        None
    }

    /// Puts a command before the others of its queue, whose turn is the next one if it had no others.
    fn push_front(&mut self, write: QueuedWrite<S>) {
        let queue = write.request.queue().cloned();
        let line = self.lines.entry(queue.clone()).or_default();
        if line.is_empty() {
            self.turns.push_front(queue);
        }
        line.push_front(write);
        self.count += 1;
    }

    fn front(&self) -> Option<&QueuedWrite<S>> {
        self.lines.get(self.turns.front()?)?.front()
    }

    /// Takes the command whose turn it is, if it fulfils the condition.
    fn pop_front_if(&mut self, condition: impl FnOnce(&mut QueuedWrite<S>) -> bool) -> Option<QueuedWrite<S>> {
        let line = self.lines.get_mut(self.turns.front()?)?;
        let write = line.pop_front_if(condition)?;
        self.count -= 1;
        let queue = self.turns.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&queue);
        } else {
            self.turns.push_back(queue);
        }
        Some(write)
    }
}

#[cfg(test)]
#[path = "write_backlog_tests.rs"]
mod tests;
