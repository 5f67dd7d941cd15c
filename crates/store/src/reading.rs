//! The one way to read tasks and workers: a store visits them in the order and as far as it is asked to, and what is made of them
//! (pages, rows, counts, groups) is made here, the same for every backend.

use std::sync::Arc;

use parking_lot::Mutex;
use taskqueue_core::cursor::{OrderValue, Position};
use taskqueue_core::grouping::{GroupPage, GroupQuery, Groups, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::output::{Part, shown};
use taskqueue_core::selection::Page;
use taskqueue_core::{KeptOutput, Observation, ObservationQuery, RunId, Task, TaskId, TaskQuery, TaskView, WorkerId};

use crate::page::{NewRows, ReadRows, WriteTask, WrittenRows, WrittenTasks, group_position, observation_position};
use crate::{Output, QueueKey, StoreError, StoreResult};

/// The place where a read leaves what it has made. A read that starts over replaces it.
pub struct Answer<T>(Arc<Mutex<Option<T>>>);

impl<T> Answer<T> {
    pub fn set(&self, answer: T) {
        *self.0.lock() = Some(answer);
    }

    pub fn take(&self) -> StoreResult<T> {
        let answer = self.0.lock().take();
        answer.ok_or(StoreError::Broken("a read has left no answer"))
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// A read of the tasks of a queue.
#[derive(Clone)]
pub enum TaskRead {
    /// One task.
    Task(TaskId, Answer<Task>),
    /// The selected tasks in an order, each as soon as it is read, until the page is full ([`TaskPage`](crate::page::TaskPage)).
    Page(TaskQuery, NewRows),
    /// One page of groups of the selected tasks; the count and the groups are of one moment. Without dimensions nothing but the
    /// count is wanted.
    Groups(TaskGroupQuery, Answer<GroupPage>),
}

impl TaskRead {
    /// A page that `write` appends each task to.
    pub fn written(query: TaskQuery, write: WriteTask) -> (Self, Answer<WrittenTasks>) {
        let (answer, of) = (Answer::default(), query.clone());
        let page = answer.clone();
        let rows: NewRows = Arc::new(move || Box::new(WrittenRows::new(&of, Arc::clone(&write), page.clone())));
        (Self::Page(query, rows), answer)
    }

    /// A page of what `read` takes of each task, with how many bytes that takes.
    pub fn rows<T: Send + 'static>(
        query: TaskQuery,
        read: impl Fn(&TaskView<'_>) -> (T, usize) + Send + Sync + 'static,
    ) -> (Self, Answer<Page<T>>) {
        let (answer, read) = (Answer::default(), Arc::new(read));
        let page = answer.clone();
        let rows: NewRows = Arc::new(move || {
            let read = Arc::clone(&read);
            Box::new(ReadRows { read: move |task: &TaskView<'_>| read(task), items: Vec::new(), answer: page.clone() })
        });
        (Self::Page(query, rows), answer)
    }

    pub fn groups(query: TaskGroupQuery) -> (Self, Answer<GroupPage>) {
        let answer = Answer::default();
        (Self::Groups(query, answer.clone()), answer)
    }

    /// Returns what is being done, for logs.
    pub fn doing(&self) -> &'static str {
        match self {
            Self::Task(..) => "getting a task",
            Self::Page(..) => "listing tasks",
            Self::Groups(query, _) if query.dimensions.is_empty() => "counting tasks",
            Self::Groups(..) => "grouping tasks",
        }
    }
}

/// A read of the current observations of a queue.
#[derive(Clone)]
pub enum WorkerRead {
    /// A page, until it is full by number or by bytes.
    Page(ObservationQuery, Answer<Page<Observation>>),
    /// One page of groups. Without dimensions nothing but the count is wanted.
    Groups(ObservationGroupQuery, Answer<GroupPage>),
}

impl WorkerRead {
    pub fn page(query: ObservationQuery) -> (Self, Answer<Page<Observation>>) {
        let answer = Answer::default();
        (Self::Page(query, answer.clone()), answer)
    }

    pub fn groups(query: ObservationGroupQuery) -> (Self, Answer<GroupPage>) {
        let answer = Answer::default();
        (Self::Groups(query, answer.clone()), answer)
    }

    /// Returns whether what it costs is bounded by a page: without a filter an index leads to its end.
    pub fn is_bounded(&self) -> bool {
        matches!(self, Self::Page(query, _) if query.filter.is_none())
    }

    /// Begins to visit the observations of a queue, unless a cursor belongs to another one.
    pub fn begin(&self, queue: QueueKey) -> StoreResult<WorkerVisit<'_>> {
        let (after, groups) = match self {
            Self::Page(ObservationQuery { after, .. }, _) => {
                let after = after.as_ref().map(|position| observation_position(position, queue)).transpose()?;
                (after, Groups::new(0, None))
            }
            Self::Groups(query, _) => (None, Groups::new(query.limit, group_position(query, queue)?)),
        };
        Ok(WorkerVisit { read: self, queue, after, items: Vec::new(), bytes: 0, groups })
    }
}

/// More than an observation takes in an answer, without its metadata and telemetry.
const OBSERVATION_BYTES: usize = 1_024;

/// What was made so far of the observations of a queue, which come one after the other, by id.
pub struct WorkerVisit<'r> {
    read: &'r WorkerRead,
    queue: QueueKey,
    /// The observation behind which the read begins.
    pub after: Option<WorkerId>,
    items: Vec<Observation>,
    bytes: usize,
    groups: Groups,
}

impl WorkerVisit<'_> {
    /// Takes an observation, if it is selected. Returns false, without taking it, if no more are wanted.
    pub fn visit(&mut self, observation: Observation) -> bool {
        let (WorkerRead::Page(ObservationQuery { filter, .. }, _)
        | WorkerRead::Groups(GroupQuery { selection: filter, .. }, _)) = self.read;
        if filter.as_ref().is_some_and(|filter| !filter.matches(&observation)) {
            return true;
        }
        match self.read {
            WorkerRead::Page(query, _) => {
                let telemetry = observation.telemetry.as_ref().map_or(0, |telemetry| telemetry.value.as_str().len());
                let bytes = OBSERVATION_BYTES + observation.report.metadata.as_str().len() + telemetry;
                let has_room = self.items.is_empty() || self.bytes + bytes <= PAGE_BYTES;
                let fits = has_room && self.items.len() < usize::from(query.limit);
                if fits {
                    self.bytes += bytes;
                    self.items.push(observation);
                }
                fits
            }
            WorkerRead::Groups(query, _) => {
                self.groups.add_observation(&query.dimensions, &observation);
                true
            }
        }
    }

    /// Leaves the answer. `more`: whether there is an observation that was not taken.
    pub fn finish(self, more: bool) {
        let queue_key = self.queue.0;
        match self.read {
            WorkerRead::Page(_, answer) => {
                let place = |one: &Observation| OrderValue::Text(one.id.to_string().into());
                let position = |last| Position { queue_key, values: vec![place(last)] };
                let next = self.items.last().filter(|_| more).map(position);
                answer.set(Page { items: self.items, next });
            }
            WorkerRead::Groups(_, answer) => answer.set(self.groups.into_page(queue_key)),
        }
    }
}

// Reading kept output: the same on every backend, which loads the bytes of a part.

/// Returns what is kept from `offset` on, up to a gap or the size of an answer; empty at its end. `active` is the active run of
/// the task. `load` gives the bytes of a part.
pub fn read_output<E>(
    kept: &KeptOutput,
    active: Option<RunId>,
    mut offset: u64,
    mut load: impl FnMut(Part) -> Result<Vec<u8>, E>,
) -> Result<Output, E> {
    let KeptOutput { run_id, attempt, .. } = *kept;
    let ended = active != Some(run_id);
    while let Some(part) = kept.from(offset) {
        let bytes = load(part)?;
        let (start, text) = shown(part.start, &bytes);
        if !text.is_empty() {
            return Ok(Output { run_id, attempt, start, text: text.to_owned(), ended });
        }
        // Only a part of a character is left of it.
        offset = part.end;
    }
    Ok(Output { run_id, attempt, start: kept.end(), text: String::new(), ended })
}
