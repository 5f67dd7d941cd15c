//! Reads the tasks that a view compares: those that match, newest first, up to a number; or those that were chosen one by one.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{TaskOrder, TaskQuery, TaskSelection};
use taskqueue_core::task_view::TaskView;
use taskqueue_store::{Store, StoreError, StoreExt};

use super::collection::{Collection, Record, read_columns};
use super::value::Path;
use crate::problem::Problem;
use crate::state::on_own_thread;

/// Bytes of a page on its way from the store.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Chosen tasks that are read at once. Each may have two megabytes.
const READS_AT_ONCE: usize = 4;

/// Which tasks.
pub(super) struct Wanted<'w> {
    pub(super) selection: TaskSelection,
    /// These and no others, unless empty.
    pub(super) ids: &'w [TaskId],
    /// How many at most.
    pub(super) most: usize,
    /// Values that are needed in any case.
    pub(super) paths: Vec<Path>,
}

/// How much of what matches was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Whether everything was read.
    pub(super) is_all: bool,
    /// How many match, where that is known.
    pub(super) matching: Option<u64>,
    /// Chosen tasks that are not there.
    pub(super) gone: usize,
}

impl Wanted<'_> {
    pub(super) async fn read(self, store: &dyn Store, queue: &QueueName) -> Result<(Collection, Extent), Problem> {
        let mut collection = Collection::new(self.paths.iter().map(|path| path.text.as_str()));
        let extent = if self.ids.is_empty() {
            self.read_matching(store, queue, &mut collection).await?
        } else {
            self.read_chosen(store, queue, &mut collection).await?
        };
        Ok((collection, extent))
    }

    async fn read_matching(
        self,
        store: &dyn Store,
        queue: &QueueName,
        into: &mut Collection,
    ) -> Result<Extent, Problem> {
        let (selection, columns) = (self.selection, Arc::new(read_columns(&self.paths)));
        let mut after = None;
        loop {
            let limit = u16::try_from(self.most - into.rows.len()).unwrap_or(u16::MAX);
            let (selection, columns) = (selection.clone(), Arc::clone(&columns));
            let query = TaskQuery { selection, order: TaskOrder::default(), limit, after, max_bytes: PAGE_BYTES };
            let read = move |task: &TaskView<'_>| {
                let record = Record::of(task, &columns);
                let bytes = record.bytes();
                (record, bytes)
            };
            let page = store.list_rows(queue, query, read).await?;
            let (records, mut collection) = (page.items, std::mem::take(into));
            let collect = move || {
                records.into_iter().for_each(|record| collection.push(record));
                collection
            };
            *into = on_own_thread(collect).await?;
            after = page.next;
            if after.is_none() || into.rows.len() >= self.most || into.is_full() {
                break;
            }
        }
        if after.is_none() {
            return Ok(Extent { is_all: true, matching: Some(into.rows.len() as u64), gone: 0 });
        }
        // A count that takes too long is left out rather than the page.
        let matching = match store.count_tasks(queue, selection).await {
            Ok(count) => Some(count),
            Err(StoreError::Busy) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Extent { is_all: false, matching, gone: 0 })
    }

    async fn read_chosen(self, store: &dyn Store, queue: &QueueName, into: &mut Collection) -> Result<Extent, Problem> {
        let mut extent = Extent { is_all: true, ..Extent::default() };
        let mut tasks = stream::iter(self.ids.to_vec()).map(|id| store.get_task(queue, id)).buffered(READS_AT_ONCE);
        let chosen = Arc::new((self.selection, read_columns(&self.paths)));
        while let Some(task) = tasks.next().await {
            let task = match task {
                Ok(task) => task,
                Err(StoreError::Refused(Refusal::TaskNotFound { .. })) => {
                    extent.gone += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let (mut collection, chosen) = (std::mem::take(into), Arc::clone(&chosen));
            let collect = move || {
                let (view, (selection, columns)) = (task.view(), &*chosen);
                if !selection.matches(&view) {
                    return (collection, true);
                }
                if collection.is_full() {
                    return (collection, false);
                }
                collection.push(Record::of(&view, columns));
                (collection, true)
            };
            (*into, extent.is_all) = on_own_thread(collect).await?;
            if !extent.is_all {
                break;
            }
        }
        Ok(extent)
    }
}
