//! Queries of lists and counts, and walks over all pages of a list, page by page or item by item.

use std::collections::VecDeque;
use std::future::Future;

use taskqueue_api::lists::{GroupPage, Page};
use taskqueue_api::task::Task;
use taskqueue_core::grouping::{Group, TaskDimension, WorkerDimension};
use taskqueue_core::ids::QueueName;
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{OrderField, TaskOrder};
use taskqueue_core::task::Status;

use crate::client::Client;
use crate::error::Error;

/// Names and values of query parameters, not yet encoded.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// A selection that can be listed, counted and grouped: tasks and worker observations.
pub trait Selection: Clone {
    /// A field by which it can be grouped.
    type Dimension: Copy;

    #[doc(hidden)]
    fn parameters(&self) -> Vec<(&'static str, String)>;

    #[doc(hidden)]
    fn word(dimension: Self::Dimension) -> &'static str;
}

/// A selection of tasks; selectors are combined with AND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSelection {
    status: Option<Status>,
    name: Option<String>,
    name_fuzzy: Option<String>,
    filter: Option<String>,
    include_archived: bool,
}

impl TaskSelection {
    /// All tasks of the queue.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only tasks of this status.
    #[must_use]
    pub fn status(self, status: Status) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Only tasks of exactly this name.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Only tasks whose names match this fuzzy search.
    #[must_use]
    pub fn name_fuzzy(self, words: impl Into<String>) -> Self {
        Self { name_fuzzy: Some(words.into()), ..self }
    }

    /// Only tasks for which this filter expression holds.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        Self { filter: Some(filter.into()), ..self }
    }

    /// Archived tasks, too, or not. Only for a server that has [`ARCHIVE`](taskqueue_api::capabilities::ARCHIVE); others ignore it
    /// and have no such tasks.
    #[must_use]
    pub fn include_archived(self, include_archived: bool) -> Self {
        Self { include_archived, ..self }
    }
}

impl Selection for TaskSelection {
    type Dimension = TaskDimension;

    fn parameters(&self) -> Parameters {
        let status = self.status.map(|status| status.as_str().to_owned());
        let given = [
            ("status", status),
            ("name", self.name.clone()),
            ("name_fuzzy", self.name_fuzzy.clone()),
            ("filter", self.filter.clone()),
            ("include_archived", self.include_archived.then(|| "true".to_owned())),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn word(dimension: TaskDimension) -> &'static str {
        dimension.as_str()
    }
}

/// A selection of worker observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSelection {
    filter: Option<String>,
}

impl WorkerSelection {
    /// All observations of the queue.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only observations for which this filter expression holds.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        Self { filter: Some(filter.into()) }
    }
}

impl Selection for WorkerSelection {
    type Dimension = WorkerDimension;

    fn parameters(&self) -> Parameters {
        self.filter.iter().map(|filter| ("filter", filter.clone())).collect()
    }

    fn word(dimension: WorkerDimension) -> &'static str {
        dimension.as_str()
    }
}

/// The size of a page, and the cursor where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PageRange {
    limit: Option<u16>,
    cursor: Option<String>,
}

impl PageRange {
    fn append_to(&self, parameters: &mut Parameters) {
        parameters.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        parameters.extend(self.cursor.iter().map(|cursor| ("cursor", cursor.clone())));
    }
}

/// Declares the methods of a query whose answer is a page: how large it is, and where it begins.
macro_rules! paged {
    () => {
        /// At most so many items per page, 1 to 1000; 100 by default.
        #[must_use]
        pub fn limit(mut self, limit: u16) -> Self {
            self.range.limit = Some(limit);
            self
        }

        /// Begins where an earlier page of the same selection ended.
        #[must_use]
        pub fn after(mut self, cursor: impl Into<String>) -> Self {
            self.range.cursor = Some(cursor.into());
            self
        }
    };
}

/// A page of tasks or of worker observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery<S: Selection> {
    selection: S,
    order: Option<TaskOrder>,
    range: PageRange,
}

/// A page of tasks.
pub type TaskQuery = ListQuery<TaskSelection>;
/// A page of worker observations, ordered by id.
pub type WorkerQuery = ListQuery<WorkerSelection>;

impl<S: Selection> ListQuery<S> {
    /// The first page of these: of tasks the newest first.
    pub fn of(selection: S) -> Self {
        Self { selection, order: None, range: PageRange::default() }
    }

    paged!();

    pub(crate) fn parameters(&self) -> Parameters {
        let mut parameters = self.selection.parameters();
        if let Some(order) = self.order {
            parameters.push(("order_by", order.field.as_str().to_owned()));
            parameters.push(("descending", order.descending.to_string()));
        }
        self.range.append_to(&mut parameters);
        parameters
    }
}

impl TaskQuery {
    /// Smallest first; unnamed, unclaimed or unfinished tasks last.
    #[must_use]
    pub fn ascending_by(self, field: OrderField) -> Self {
        Self { order: Some(TaskOrder { field, descending: false }), ..self }
    }

    /// Largest first; unnamed, unclaimed or unfinished tasks last.
    #[must_use]
    pub fn descending_by(self, field: OrderField) -> Self {
        Self { order: Some(TaskOrder { field, descending: true }), ..self }
    }
}

/// A page of groups, with how many items each has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupQuery<S: Selection> {
    selection: S,
    dimensions: Vec<&'static str>,
    range: PageRange,
}

impl<S: Selection> GroupQuery<S> {
    /// The first page of the groups of these items by one dimension, or by two in this order.
    pub fn by(dimensions: impl IntoIterator<Item = S::Dimension>, selection: S) -> Self {
        let dimensions = dimensions.into_iter().map(S::word).collect();
        Self { selection, dimensions, range: PageRange::default() }
    }

    paged!();

    pub(crate) fn dimensions(&self) -> &[&'static str] {
        &self.dimensions
    }

    pub(crate) fn parameters(&self) -> Parameters {
        let mut parameters = self.selection.parameters();
        parameters.push(("group_by", self.dimensions.join(",")));
        self.range.append_to(&mut parameters);
        parameters
    }
}

/// A query whose answer is one page of many.
pub trait PageQuery: Clone {
    /// An item of a page.
    type Item;
    /// A page.
    type Page;

    #[doc(hidden)]
    fn fetch(&self, client: &Client, queue: &QueueName) -> impl Future<Output = Result<Self::Page, Error>> + Send;

    #[doc(hidden)]
    fn start(&self) -> Option<&str>;

    #[doc(hidden)]
    fn starting_at(self, cursor: String) -> Self;

    #[doc(hidden)]
    fn next_cursor(page: &Self::Page) -> Option<&str>;

    #[doc(hidden)]
    fn into_items(page: Self::Page) -> Vec<Self::Item>;
}

/// A walk over all pages of one query.
///
/// Later pages show current data: an item that exists unchanged during the whole walk comes exactly once.
#[derive(Debug)]
pub struct Walk<Q: PageQuery> {
    client: Client,
    queue: QueueName,
    /// The query of the next page; `None` after the last one.
    next: Option<Q>,
    /// Items of the latest page that were not taken yet.
    items: VecDeque<Q::Item>,
}

impl<Q: PageQuery> Walk<Q> {
    pub(crate) fn new(client: &Client, queue: &QueueName, query: Q) -> Self {
        Self { client: client.clone(), queue: queue.clone(), next: Some(query), items: VecDeque::new() }
    }

    /// The next page; `None` after the last one. Do not mix this with [`Walk::next`], which requests pages itself.
    pub async fn next_page(&mut self) -> Result<Option<Q::Page>, Error> {
        let Some(query) = &self.next else { return Ok(None) };
        let page = query.fetch(&self.client, &self.queue).await?;
        let next = Q::next_cursor(&page);
        if next.is_some() && next == query.start() {
            // Without this check the walk would never end.
            let message = "the cursor of the next page is that of this one".to_owned();
            return Err(Error::Protocol { status: 200, message, from_taskqueue: true });
        }
        self.next = next.map(|cursor| query.clone().starting_at(cursor.to_owned()));
        Ok(Some(page))
    }

    /// The next item; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Q::Item>, Error> {
        while self.items.is_empty() {
            match self.next_page().await? {
                Some(page) => self.items = Q::into_items(page).into(),
                None => return Ok(None),
            }
        }
        Ok(self.items.pop_front())
    }
}

/// Implements [`PageQuery`] for a query that the client answers with the given method.
macro_rules! page_query {
    ($query:ty, $page:ty, $item:ty, $fetch:ident) => {
        impl PageQuery for $query {
            type Item = $item;
            type Page = $page;

            async fn fetch(&self, client: &Client, queue: &QueueName) -> Result<$page, Error> {
                client.$fetch(queue, self).await
            }

            fn start(&self) -> Option<&str> {
                self.range.cursor.as_deref()
            }

            fn starting_at(self, cursor: String) -> Self {
                self.after(cursor)
            }

            fn next_cursor(page: &$page) -> Option<&str> {
                page.next_cursor.as_deref()
            }

            fn into_items(page: $page) -> Vec<$item> {
                page.items
            }
        }
    };
}

page_query!(TaskQuery, Page<Task>, Task, tasks);
page_query!(WorkerQuery, Page<Observation>, Observation, workers);
page_query!(GroupQuery<TaskSelection>, GroupPage, Group, group_tasks);
page_query!(GroupQuery<WorkerSelection>, GroupPage, Group, group_workers);
