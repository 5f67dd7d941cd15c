//! Pages, the same for every backend: from rows to a page, and from a cursor's position to the start of a page. A position of
//! an earlier queue of the same name is refused here, because only the storage knows the key of a queue.

use std::sync::Arc;

use taskqueue_core::cursor::{InvalidCursor, Position};
use taskqueue_core::grouping::{GroupQuery, Groups};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::selection::{Page, TaskPosition, worker_position};
use taskqueue_core::{Refusal, TaskOrder, TaskQuery, TaskView, WorkerId};

use crate::reading::Answer;
use crate::{QueueKey, StoreError, StoreResult};

const INVALID: StoreError = StoreError::Refused(Refusal::InvalidCursor);

/// Where a page of tasks begins.
pub fn task_position(position: Position, queue: QueueKey) -> StoreResult<TaskPosition> {
    check_queue(&position, queue)?;
    TaskPosition::from_position(position).ok_or(INVALID)
}

/// Where a page of observations begins.
pub(crate) fn observation_position(position: &Position, queue: QueueKey) -> StoreResult<WorkerId> {
    check_queue(position, queue)?;
    worker_position(position).ok_or(INVALID)
}

/// Where a page of groups begins.
pub fn group_position<S, D>(query: &GroupQuery<S, D>, queue: QueueKey) -> StoreResult<Option<Vec<String>>> {
    match &query.after {
        None => Ok(None),
        Some(Err(InvalidCursor)) => Err(INVALID),
        Some(Ok(position)) => {
            check_queue(position, queue)?;
            Groups::key_of(position, query.dimensions.len()).map(Some).ok_or(INVALID)
        }
    }
}

fn check_queue(position: &Position, queue: QueueKey) -> StoreResult<()> {
    if position.queue_key == queue.0 { Ok(()) } else { Err(INVALID) }
}

/// The rows of a page.
pub trait PageRows: Send {
    /// Appends what is wanted of a task. Returns how many bytes that takes.
    fn push(&mut self, task: &TaskView<'_>) -> usize;
    /// Removes what was appended last, which takes so many bytes.
    fn pop(&mut self, bytes: usize);
    /// The page is full, or there are no more tasks; `next` is where the next page begins.
    fn finish(self: Box<Self>, next: Option<Position>);
}

/// Makes an empty page. A read that starts over makes a new one.
pub type NewRows = Arc<dyn Fn() -> Box<dyn PageRows> + Send + Sync>;

/// Appends a task to a page, or what of it is wanted there.
pub type WriteTask = Arc<dyn Fn(&mut Vec<u8>, &TaskView<'_>) + Send + Sync>;

/// One page of tasks, as [`WriteTask`] wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenTasks {
    pub bytes: Vec<u8>,
    /// Where the next page begins; nothing if there are no more tasks.
    pub next: Option<Position>,
}

/// Estimated size of a small task, so that the buffer of a usual page seldom grows.
const TASK_BYTES: usize = 640;
const USUAL_TASKS: usize = 100;

/// A page that is written as bytes.
pub(crate) struct WrittenRows {
    write: WriteTask,
    bytes: Vec<u8>,
    max_bytes: usize,
    answer: Answer<WrittenTasks>,
}

impl WrittenRows {
    pub(crate) fn new(query: &TaskQuery, write: WriteTask, answer: Answer<WrittenTasks>) -> Self {
        let max_bytes = query.max_bytes.min(PAGE_BYTES);
        let bytes = Vec::with_capacity((usize::from(query.limit).min(USUAL_TASKS) * TASK_BYTES).min(max_bytes));
        Self { write, bytes, max_bytes, answer }
    }

    /// Doubles the buffer, but not beyond the size of the page.
    fn reserve(&mut self, needed: usize) {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        if length + needed > capacity {
            let wanted = (2 * capacity).min(self.max_bytes).max(length + needed);
            self.bytes.reserve_exact(wanted - length);
        }
    }
}

impl PageRows for WrittenRows {
    fn push(&mut self, task: &TaskView<'_>) -> usize {
        let before = self.bytes.len();
        self.reserve(TASK_BYTES + task.bytes());
        (self.write)(&mut self.bytes, task);
        self.bytes.len() - before
    }

    fn pop(&mut self, bytes: usize) {
        self.bytes.truncate(self.bytes.len() - bytes);
    }

    fn finish(self: Box<Self>, next: Option<Position>) {
        self.answer.set(WrittenTasks { bytes: self.bytes, next });
    }
}

/// A page of what is taken of each task, with how many bytes that takes.
pub(crate) struct ReadRows<T, R> {
    pub(crate) read: R,
    pub(crate) items: Vec<T>,
    pub(crate) answer: Answer<Page<T>>,
}

impl<T: Send, R: Fn(&TaskView<'_>) -> (T, usize) + Send> PageRows for ReadRows<T, R> {
    fn push(&mut self, task: &TaskView<'_>) -> usize {
        let (row, bytes) = (self.read)(task);
        self.items.push(row);
        bytes
    }

    fn pop(&mut self, _: usize) {
        self.items.pop();
    }

    fn finish(self: Box<Self>, next: Option<Position>) {
        self.answer.set(Page { items: self.items, next });
    }
}

/// Fills a page of tasks row by row, until it is full by number or by bytes.
pub struct TaskPage {
    order: TaskOrder,
    limit: usize,
    max_bytes: usize,
    queue: QueueKey,
    rows: Box<dyn PageRows>,
    bytes: usize,
    tasks: usize,
    last: Option<TaskPosition>,
}

impl TaskPage {
    pub fn new(query: &TaskQuery, queue: QueueKey, rows: Box<dyn PageRows>) -> Self {
        let (limit, max_bytes) = (usize::from(query.limit), query.max_bytes.min(PAGE_BYTES));
        Self { order: query.order, limit, max_bytes, queue, rows, bytes: 0, tasks: 0, last: None }
    }

    /// Appends a task. Returns false, without appending it, if the page is full.
    pub fn push(&mut self, task: &TaskView<'_>) -> bool {
        if self.tasks == self.limit || (self.tasks > 0 && self.bytes + task.bytes() > self.max_bytes) {
            return false;
        }
        let bytes = self.rows.push(task);
        if self.bytes + bytes > self.max_bytes && self.tasks > 0 {
            self.rows.pop(bytes);
            return false;
        }
        self.bytes += bytes;
        self.tasks += 1;
        self.last = Some(TaskPosition::of(task, self.order));
        true
    }

    /// `more`: whether there is a task that did not fit.
    pub fn finish(self, more: bool) {
        self.rows.finish(self.last.filter(|_| more).map(|last| last.into_position(self.queue.0)));
    }
}
