//! How a backend turns rows into a page, and a cursor's position back into a place to begin: the same on every backend.
//! A position of an earlier queue of the same name is refused here, because only storage knows the queue's key.

use taskqueue_core::cursor::{InvalidCursor, Place, Position};
use taskqueue_core::grouping::{GroupQuery, Groups};
use taskqueue_core::ids::WorkerId;
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::observation::Observation;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{Page, TaskOrder, TaskPosition, worker_position};
use taskqueue_core::task::Task;

use crate::StoreError;
use crate::transaction::QueueKey;

const INVALID: StoreError = StoreError::Refused(Refusal::InvalidCursor);

/// Where a page of tasks begins.
pub fn task_position(position: Position, queue: QueueKey) -> Result<TaskPosition, StoreError> {
    own(&position, queue)?;
    TaskPosition::from_position(position).ok_or(INVALID)
}

/// Where a page of observations begins.
pub fn observation_position(position: &Position, queue: QueueKey) -> Result<WorkerId, StoreError> {
    own(position, queue)?;
    worker_position(position).ok_or(INVALID)
}

/// Where a page of groups begins.
pub fn group_position<S, D>(query: &GroupQuery<S, D>, queue: QueueKey) -> Result<Option<Vec<String>>, StoreError> {
    match &query.after {
        None => Ok(None),
        Some(Err(InvalidCursor)) => Err(INVALID),
        Some(Ok(position)) => {
            own(position, queue)?;
            Groups::key_of(position, query.dimensions.len()).map(Some).ok_or(INVALID)
        }
    }
}

fn own(position: &Position, queue: QueueKey) -> Result<(), StoreError> {
    if position.queue_key == queue.0 { Ok(()) } else { Err(INVALID) }
}

/// Collects a page of tasks, row by row in order, until it is full by number or by bytes.
pub struct TaskPage {
    order: TaskOrder,
    limit: usize,
    queue: QueueKey,
    bytes: usize,
    items: Vec<Task>,
}

impl TaskPage {
    /// An empty page.
    pub fn new(order: TaskOrder, limit: u16, queue: QueueKey) -> Self {
        Self { order, limit: usize::from(limit), queue, bytes: 0, items: Vec::new() }
    }

    /// Takes a task if the page has room for it and says so; otherwise the page is full and another one follows.
    pub fn takes(&mut self, task: Task) -> bool {
        let bytes = task.resource_bytes();
        let full = self.items.len() == self.limit || (!self.items.is_empty() && self.bytes + bytes > PAGE_BYTES);
        if !full {
            self.bytes += bytes;
            self.items.push(task);
        }
        !full
    }

    /// The page; `more` says whether a task was left that did not fit.
    pub fn finish(self, more: bool) -> Page<Task> {
        let last = self.items.last().filter(|_| more);
        let next = last.map(|task| TaskPosition::of(task, self.order).into_position(self.queue.0));
        Page { items: self.items, next }
    }
}

/// The page of the tasks that come in order.
pub fn page_of_tasks(tasks: impl Iterator<Item = Task>, order: TaskOrder, limit: u16, queue: QueueKey) -> Page<Task> {
    let mut page = TaskPage::new(order, limit, queue);
    for task in tasks {
        if !page.takes(task) {
            return page.finish(true);
        }
    }
    page.finish(false)
}

/// The page of the observations that come in the order of their ids.
pub fn page_of_observations(
    observations: impl Iterator<Item = Observation>,
    limit: u16,
    queue: QueueKey,
) -> Page<Observation> {
    let limit = usize::from(limit);
    let mut items: Vec<Observation> = observations.take(limit + 1).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let place = |one: &Observation| Place::Text(one.id.to_string().into());
    let next = items.last().filter(|_| more).map(|last| Position { queue_key: queue.0, places: vec![place(last)] });
    Page { items, next }
}
