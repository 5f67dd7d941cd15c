//! The one way to read tasks and workers: a store visits them in the order and as far as it is asked to, and what is made of them
//! (pages, rows, counts, groups) is made here, the same for every backend.

use std::sync::Arc;

use parking_lot::Mutex;
use taskqueue_core::cursor::{OrderValue, Position};
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, Groups, ObservationGroupQuery, TaskGroupQuery, WorkerDimension};
use taskqueue_core::ids::{TaskId, WorkerId};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{ObservationQuery, Page, TaskQuery};
use taskqueue_core::task::Task;
use taskqueue_core::task_view::TaskView;

use crate::page::{NewRows, ReadRows, WriteTask, WrittenRows, WrittenTasks, group_position, observation_position};
use crate::transaction::QueueKey;
use crate::{StoreError, StoreResult};

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

/// Takes observations one after the other, by id.
pub trait WorkerVisitor: Send {
    /// Takes one. Returns false, without taking it, if it wants no more.
    fn visit(&mut self, observation: Observation) -> bool;
    /// `more`: whether there is one that it did not take.
    fn finish(self: Box<Self>, more: bool);
}

/// Makes a visitor of the observations of a queue, unless a cursor belongs to another one.
type NewVisitor = Arc<dyn Fn(QueueKey) -> StoreResult<Box<dyn WorkerVisitor>> + Send + Sync>;

/// A read of the current observations of a queue.
#[derive(Clone)]
pub struct WorkerRead {
    pub filter: Option<ObservationFilter>,
    after: Option<Position>,
    /// True if a page is read, so that without a filter an index leads to its end.
    is_page: bool,
    new_visitor: NewVisitor,
}

impl WorkerRead {
    pub fn page(query: ObservationQuery) -> (Self, Answer<Page<Observation>>) {
        let (limit, page) = (usize::from(query.limit), Answer::default());
        let answer = page.clone();
        let new_visitor: NewVisitor = Arc::new(move |queue| {
            Ok(Box::new(PageVisitor { queue, limit, items: Vec::new(), bytes: 0, answer: answer.clone() }))
        });
        (Self { filter: query.filter, after: query.after, is_page: true, new_visitor }, page)
    }

    pub fn groups(query: ObservationGroupQuery) -> (Self, Answer<GroupPage>) {
        let (filter, page) = (query.selection.clone(), Answer::default());
        let answer = page.clone();
        let new_visitor: NewVisitor = Arc::new(move |queue| {
            let groups = Groups::new(query.limit, group_position(&query, queue)?);
            let dimensions = query.dimensions.clone();
            Ok(Box::new(GroupVisitor { queue, groups, dimensions, answer: answer.clone() }))
        });
        (Self { filter, after: None, is_page: false, new_visitor }, page)
    }

    /// Returns whether what it costs is bounded by a page.
    pub fn is_bounded(&self) -> bool {
        self.is_page && self.filter.is_none()
    }

    /// The observation behind which the read begins, and who visits.
    pub fn begin(&self, queue: QueueKey) -> StoreResult<(Option<WorkerId>, Box<dyn WorkerVisitor>)> {
        let after = self.after.as_ref().map(|position| observation_position(position, queue)).transpose()?;
        Ok((after, (self.new_visitor)(queue)?))
    }

    pub fn selects(&self, observation: &Observation) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(observation))
    }
}

/// More than an observation takes in an answer, without its metadata and telemetry.
const OBSERVATION_BYTES: usize = 1_024;

/// A page of observations, until it is full by number or by bytes.
struct PageVisitor {
    queue: QueueKey,
    limit: usize,
    items: Vec<Observation>,
    bytes: usize,
    answer: Answer<Page<Observation>>,
}

impl WorkerVisitor for PageVisitor {
    fn visit(&mut self, observation: Observation) -> bool {
        let telemetry = observation.telemetry.as_ref().map_or(0, |telemetry| telemetry.value.as_str().len());
        let bytes = OBSERVATION_BYTES + observation.report.metadata.as_str().len() + telemetry;
        let fits = self.items.len() < self.limit && (self.items.is_empty() || self.bytes + bytes <= PAGE_BYTES);
        if fits {
            self.bytes += bytes;
            self.items.push(observation);
        }
        fits
    }

    fn finish(self: Box<Self>, more: bool) {
        let place = |one: &Observation| OrderValue::Text(one.id.to_string().into());
        let position = |last| Position { queue_key: self.queue.0, values: vec![place(last)] };
        let next = self.items.last().filter(|_| more).map(position);
        self.answer.set(Page { items: self.items, next });
    }
}

struct GroupVisitor {
    queue: QueueKey,
    groups: Groups,
    dimensions: Vec<WorkerDimension>,
    answer: Answer<GroupPage>,
}

impl WorkerVisitor for GroupVisitor {
    fn visit(&mut self, observation: Observation) -> bool {
        self.groups.add_observation(&self.dimensions, &observation);
        true
    }

    fn finish(self: Box<Self>, _: bool) {
        self.answer.set(self.groups.into_page(self.queue.0));
    }
}
