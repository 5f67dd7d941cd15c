//! Queries of lists and counts, and walks over all pages of a list, page by page or item by item.

use std::collections::VecDeque;

use taskqueue_api::lists::{Count, Page, read_groups};
use taskqueue_api::object_reader::Unreadable;
use taskqueue_api::paths;
use taskqueue_api::task::Task;
use taskqueue_api::worker::read_observation;
use taskqueue_core::grouping::{Group, TaskDimension, WorkerDimension};
use taskqueue_core::ids::QueueName;
use taskqueue_core::json::Value;
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::OrderField;
use taskqueue_core::task::Status;

use crate::call::{Call, queue_path};
use crate::client::Client;
use crate::error::Error;

/// Names and values of query parameters, not yet encoded.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// A selection that can be listed, counted and grouped: tasks and worker observations.
pub trait Selection {
    type Item;
    /// A field by which it can be grouped.
    type Dimension;

    /// The path of its lists.
    const LIST: &'static str;
    /// The path of its counts.
    const COUNT: &'static str;
    /// The word for a dimension.
    const WORD: fn(Self::Dimension) -> &'static str;
    /// The reader of an item.
    const READ: fn(&Value<'_>) -> Result<Self::Item, Unreadable>;
    /// Returns what the server is asked for: query parameters, not yet encoded.
    fn parameters(&self) -> Vec<(&'static str, String)>;
}

/// These parameters with this one, in place of an earlier value; without it if there is no value.
fn with(mut parameters: Parameters, name: &'static str, value: Option<String>) -> Parameters {
    parameters.retain(|(known, _)| *known != name);
    parameters.extend(value.map(|value| (name, value)));
    parameters
}

/// A selection of tasks; selectors are combined with AND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct TaskSelection(Parameters);

impl TaskSelection {
    /// All tasks of the queue.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only tasks of this status.
    pub fn status(self, status: Status) -> Self {
        Self(with(self.0, "status", Some(status.as_str().to_owned())))
    }

    /// Only tasks of exactly this name.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self(with(self.0, "name", Some(name.into())))
    }

    /// Only tasks whose names match this fuzzy search.
    pub fn name_fuzzy(self, words: impl Into<String>) -> Self {
        Self(with(self.0, "name_fuzzy", Some(words.into())))
    }

    /// Only tasks for which this filter expression holds.
    pub fn filter(self, filter: impl Into<String>) -> Self {
        Self(with(self.0, "filter", Some(filter.into())))
    }

    /// Archived tasks, too, or not. Only for a server that has [`ARCHIVE`](taskqueue_api::capabilities::ARCHIVE); others ignore it
    /// and have no such tasks.
    pub fn include_archived(self, include_archived: bool) -> Self {
        Self(with(self.0, "include_archived", include_archived.then(|| "true".to_owned())))
    }
}

impl Selection for TaskSelection {
    type Item = Task;
    type Dimension = TaskDimension;

    const LIST: &'static str = paths::TASKS;
    const COUNT: &'static str = paths::TASK_COUNT;
    const WORD: fn(TaskDimension) -> &'static str = TaskDimension::as_str;
    const READ: fn(&Value<'_>) -> Result<Task, Unreadable> = Task::read;

    fn parameters(&self) -> Parameters {
        self.0.clone()
    }
}

/// A selection of worker observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WorkerSelection(Parameters);

impl WorkerSelection {
    /// All observations of the queue.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only observations for which this filter expression holds.
    pub fn filter(self, filter: impl Into<String>) -> Self {
        Self(with(self.0, "filter", Some(filter.into())))
    }
}

impl Selection for WorkerSelection {
    type Item = Observation;
    type Dimension = WorkerDimension;

    const LIST: &'static str = paths::WORKERS;
    const COUNT: &'static str = paths::WORKER_COUNT;
    const WORD: fn(WorkerDimension) -> &'static str = WorkerDimension::as_str;
    const READ: fn(&Value<'_>) -> Result<Observation, Unreadable> = read_observation;

    fn parameters(&self) -> Parameters {
        self.0.clone()
    }
}

/// A reader of a page of groups by these dimensions, or of a page of items, which has none.
type PageReader<T> = fn(&Value<'_>, &[&'static str]) -> Result<Page<T>, Unreadable>;

/// A query whose answer is one page of many.
#[derive(Clone, Debug)]
#[must_use]
pub struct PageQuery<T> {
    path: &'static str,
    parameters: Parameters,
    dimensions: Vec<&'static str>,
    cursor: Option<String>,
    read: PageReader<T>,
}

/// A page of tasks.
pub type TaskQuery = PageQuery<Task>;
/// A page of worker observations, ordered by id.
pub type WorkerQuery = PageQuery<Observation>;
/// A page of groups, with how many items each has.
pub type GroupQuery = PageQuery<Group>;

impl<T> PageQuery<T> {
    /// The first page of these: of tasks the newest first.
    pub fn of<S: Selection<Item = T>>(selection: S) -> Self {
        Self::new(S::LIST, selection.parameters(), Vec::new(), |page, _| Page::read(page, S::READ))
    }

    fn new(path: &'static str, parameters: Parameters, dimensions: Vec<&'static str>, read: PageReader<T>) -> Self {
        Self { path, parameters, dimensions, cursor: None, read }
    }

    /// At most so many items per page, 1 to 1000; 100 by default.
    pub fn limit(self, limit: u16) -> Self {
        Self { parameters: with(self.parameters, "limit", Some(limit.to_string())), ..self }
    }

    /// Begins where an earlier page of the same selection ended.
    pub fn after(self, cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), ..self }
    }

    fn call(&self, queue: &QueueName) -> Call {
        let mut parameters = self.parameters.clone();
        parameters.extend(self.cursor.iter().map(|cursor| ("cursor", cursor.clone())));
        Call::read(queue_path(self.path, queue)).query(parameters)
    }
}

impl TaskQuery {
    /// Smallest first; unnamed, unclaimed or unfinished tasks last.
    pub fn ascending_by(self, field: OrderField) -> Self {
        self.ordered(field, false)
    }

    /// Largest first; unnamed, unclaimed or unfinished tasks last.
    pub fn descending_by(self, field: OrderField) -> Self {
        self.ordered(field, true)
    }

    fn ordered(self, field: OrderField, descending: bool) -> Self {
        let parameters = with(self.parameters, "order_by", Some(field.as_str().to_owned()));
        Self { parameters: with(parameters, "descending", Some(descending.to_string())), ..self }
    }
}

impl GroupQuery {
    /// The first page of the groups of these items by one dimension, or by two in this order.
    pub fn by<S: Selection>(dimensions: impl IntoIterator<Item = S::Dimension>, selection: S) -> Self {
        let dimensions: Vec<_> = dimensions.into_iter().map(S::WORD).collect();
        let mut parameters = selection.parameters();
        parameters.push(("group_by", dimensions.join(",")));
        Self::new(S::COUNT, parameters, dimensions, read_groups)
    }
}

impl Client {
    /// One page of tasks, of worker observations, or of groups. A server that answers with a plain count where groups were asked
    /// for is refused.
    pub async fn page<T>(&self, queue: &QueueName, query: &PageQuery<T>) -> Result<Page<T>, Error> {
        self.ask(query.call(queue), |page| (query.read)(page, &query.dimensions)).await
    }

    /// All pages from this one on.
    pub fn walk<T>(&self, queue: &QueueName, query: PageQuery<T>) -> Walk<T> {
        Walk { client: self.clone(), queue: queue.clone(), next: Some(query), items: VecDeque::new() }
    }

    /// Counts the tasks; or the observations, approximately.
    pub async fn count<S: Selection>(&self, queue: &QueueName, selection: &S) -> Result<u64, Error> {
        let call = Call::read(queue_path(S::COUNT, queue)).query(selection.parameters());
        Ok(self.ask(call, Count::read).await?.count)
    }
}

/// A walk over all pages of one query.
///
/// Later pages show current data: an item that exists unchanged during the whole walk comes exactly once.
#[derive(Debug)]
pub struct Walk<T> {
    client: Client,
    queue: QueueName,
    /// The query of the next page; `None` after the last one.
    next: Option<PageQuery<T>>,
    /// Items of the latest page that were not taken yet.
    items: VecDeque<T>,
}

impl<T> Walk<T> {
    /// The next page; `None` after the last one. Do not mix this with [`Walk::next`], which requests pages itself.
    pub async fn next_page(&mut self) -> Result<Option<Page<T>>, Error> {
        let Some(query) = &mut self.next else { return Ok(None) };
        let page = self.client.page(&self.queue, query).await?;
        if page.next_cursor.is_some() && page.next_cursor == query.cursor {
            // Without this check the walk would never end.
            let message = "the cursor of the next page is that of this one".to_owned();
            return Err(Error::Protocol { status: 200, message, from_taskqueue: true });
        }
        query.cursor.clone_from(&page.next_cursor);
        self.next.take_if(|query| query.cursor.is_none());
        Ok(Some(page))
    }

    /// The next item; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        while self.items.is_empty() {
            let Some(page) = self.next_page().await? else { return Ok(None) };
            self.items = page.items.into();
        }
        Ok(self.items.pop_front())
    }
}
