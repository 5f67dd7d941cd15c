//! Walks all pages of a list, page by page or item by item. After an error the same page can be requested again.

use std::collections::VecDeque;
use std::future::Future;

use taskqueue_api::counts::GroupPage;
use taskqueue_api::page::Page;
use taskqueue_api::task::Task;
use taskqueue_core::grouping::Group;
use taskqueue_core::ids::QueueName;
use taskqueue_core::observation::Observation;

use crate::client::Client;
use crate::error::Error;
use crate::query::{GroupQuery, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};

/// A query whose answer is one page of many.
pub trait PageQuery: Clone {
    /// What the pages hold.
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
    /// The query of the next page; nothing after the last one.
    next: Option<Q>,
    /// Items of the latest page that were not taken yet.
    items: VecDeque<Q::Item>,
}

impl<Q: PageQuery> Walk<Q> {
    pub(crate) fn new(client: &Client, queue: &QueueName, query: Q) -> Self {
        Self { client: client.clone(), queue: queue.clone(), next: Some(query), items: VecDeque::new() }
    }

    /// The next page; nothing after the last one. Do not mix this with [`Walk::next`], which requests pages itself.
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

    /// The next item; nothing after the last one.
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
                self.cursor()
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
