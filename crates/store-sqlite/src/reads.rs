//! The reads: lists, counts and groups in one snapshot each. The default order and the order by id follow an index
//! (`plain_pages.rs`); any other order visits every task of the queue, or of a few states (`sparse_reads.rs`), and keeps only the
//! page. Filters are evaluated row by row by the evaluator of `core`, never in SQL, so that a filter has one meaning.

use std::iter::once_with;

use rusqlite::{Connection, OptionalExtension, params};
use taskqueue_core::filter::TaskFields;
use taskqueue_core::grouping::{GroupPage, Groups, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId, WorkerId};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{FirstRows, OrderField, TaskPosition, TaskQuery, TaskSelection};
use taskqueue_core::sparse::Need;
use taskqueue_core::status::Statuses;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::page::{NewRows, TaskPage, group_position, task_position};
use taskqueue_store::reading::{TaskRead, WorkerRead};
use taskqueue_store::transaction::{QueueKey, TaskKey};

use crate::each_row::{CONTINUE, NextRow};
use crate::plain_pages::{self, creation_position, walk};
use crate::published_index::PublishedIndex;
use crate::readers::ReadError;
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::sparse_reads::{self, Access, Begun, each_selected};
use crate::statements as sql;

pub(crate) type Read<T> = Result<T, ReadError>;

pub(crate) fn refused(refusal: Refusal) -> ReadError {
    ReadError::Refused(StoreError::Refused(refusal))
}

/// The key of a queue that must exist.
pub(crate) fn existing_queue(file: &Snapshot<'_>, name: &QueueName) -> Read<QueueKey> {
    let mut statement = file.connection.prepare_cached(sql::FIND_QUEUE)?;
    let key = statement.query_row([name.as_str()], |row| row.get(0).map(QueueKey)).optional()?;
    key.ok_or_else(|| refused(Refusal::QueueNotFound { queue: name.clone() }))
}

/// In the order of their creation.
pub(crate) fn list_queue_keys(file: &Snapshot<'_>) -> Read<Vec<(QueueKey, QueueName)>> {
    let mut queues = Vec::new();
    file.each_row(sql::LOAD_QUEUES, [], |row| {
        queues.extend(rows::queue(row)?);
        Ok(CONTINUE)
    })?;
    queues.sort_unstable();
    Ok(queues)
}

/// Visits tasks. Nothing in a bounded read that would pass over too many archived tasks.
pub(crate) fn read_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    read: TaskRead,
) -> Read<Option<()>> {
    match read {
        TaskRead::Task(id, answer) => answer.set(get_task(file, queue, id)?),
        TaskRead::Page(query, rows) => return list_tasks(file, index, queue, query, &rows),
        TaskRead::Groups(query, answer) => answer.set(group_tasks(file, index, queue, &query)?),
    }
    Ok(Some(()))
}

fn get_task(file: &Snapshot<'_>, queue: &QueueName, id: TaskId) -> Read<Task> {
    let mut statement = file.connection.prepare_cached(&sql::GET_TASK)?;
    let task = statement.query_row([queue.as_str(), id.as_str()], |row| rows::task(row, queue)).optional()?;
    task.ok_or_else(|| no_task(file, queue, id))
}

/// Why a task is not there.
pub(crate) fn no_task(file: &Snapshot<'_>, queue: &QueueName, id: TaskId) -> ReadError {
    match existing_queue(file, queue) {
        Ok(_) => refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id }),
        Err(error) => error,
    }
}

/// A page of tasks. A plain one in a bounded read is given up, without a page, if it would pass over too many archived tasks.
fn list_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    mut query: TaskQuery,
    rows: &NewRows,
) -> Read<Option<()>> {
    if query.is_plain() {
        return plain_pages::list(file, queue, query, rows);
    }
    let wanted = query.selection.statuses();
    if query.order.field == OrderField::CreatedAt && wanted.is_within(Statuses::UNSUCCESSFUL) {
        let key = existing_queue(file, queue)?;
        return list_unsuccessful(file, (queue, key), wanted, query, rows).map(Some);
    }
    let is_indexed = matches!(query.order.field, OrderField::CreatedAt | OrderField::Id);
    let need = if is_indexed { Need::Page { limit: query.limit } } else { Need::All };
    let begun = sparse_reads::begin(file, index, queue, &query.selection, need)?;
    let after = query.after.take().map(|position| task_position(position, begun.key)).transpose()?;
    let page = TaskPage::new(&query, begun.key, rows());
    match begun.access {
        // The walk ends when the page is full. If too few tasks come into question for that, it would not end before the last
        // task; a visit ends when all of them were seen, and the oldest tasks, which it sees first, are the first to succeed.
        Access::Visit { matching, is_sparse } if is_indexed && (!is_sparse || matching > u64::from(query.limit)) => {
            list_by_index(file, queue, begun.key, &query, after, page).map(Some)
        }
        _ => list_by_visiting(file, queue, &begun, &query, after, page).map(Some),
    }
}

/// A page of failed or cancelled tasks, by creation: costs what it holds, and what the filter passes over.
fn list_unsuccessful(
    file: &Snapshot<'_>,
    (queue, key): (&QueueName, QueueKey),
    statuses: Statuses,
    mut query: TaskQuery,
    rows: &NewRows,
) -> Read<()> {
    let after = query.after.take().map(|position| task_position(position, key)).transpose()?;
    let page = TaskPage::new(&query, key, rows());
    let wanted = usize::from(query.limit) + 1;
    let mut first = FirstRows::new(query.order, after.clone(), wanted);
    let (created_at, id) = creation_position(after, query.order.descending);
    let statement = match query.order.descending {
        false => &sql::LIST_UNSUCCESSFUL_ASCENDING,
        true => &sql::LIST_UNSUCCESSFUL_DESCENDING,
    };
    for status in statuses.iter() {
        let mut taken = 0;
        file.each_row(statement, params![key.0, status.as_str(), created_at, id], |row| {
            let fields = RowFields::new(row);
            if query.selection.matches(&fields) {
                first.offer(&fields, rows::id(row)?, rows::key(row)?);
                taken += 1;
            }
            Ok(if taken == wanted { NextRow::Break(()) } else { CONTINUE })
        })?;
    }
    write_page(file, queue, first.into_sorted(), page)
}

/// The walk along the index of the order, with a filter.
fn list_by_index(
    file: &Snapshot<'_>,
    queue: &QueueName,
    key: QueueKey,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    mut page: TaskPage,
) -> Read<()> {
    let mut more = false;
    walk(file, key, query, after, |row| {
        if !query.selection.matches(&RowFields::new(row)) {
            return Ok(CONTINUE);
        }
        more = !page.push(&rows::view(row, queue)?);
        Ok(if more { NextRow::Break(()) } else { CONTINUE })
    })?;
    page.finish(more);
    Ok(())
}

fn list_by_visiting(
    file: &Snapshot<'_>,
    queue: &QueueName,
    begun: &Begun,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    page: TaskPage,
) -> Read<()> {
    let mut first = FirstRows::new(query.order, after, usize::from(query.limit) + 1);
    each_selected(file, begun, &query.selection, |row, fields| {
        first.offer(fields, rows::id(row)?, rows::key(row)?);
        Ok(())
    })?;
    write_page(file, queue, first.into_sorted(), page)
}

/// A page of the tasks with these keys, in their order.
pub(crate) fn write_page(file: &Snapshot<'_>, queue: &QueueName, keys: Vec<TaskKey>, mut page: TaskPage) -> Read<()> {
    let mut statement = file.connection.prepare_cached(&sql::LOAD_TASK)?;
    for task in keys {
        file.yield_if_due()?;
        if !statement.query_row([task.0], |row| Ok(page.push(&rows::view(row, queue)?)))? {
            page.finish(true);
            return Ok(());
        }
    }
    page.finish(false);
    Ok(())
}

/// How many of all tasks are in one queue.
#[derive(Clone, Copy)]
pub(crate) struct QueueShare {
    own: u64,
    every: u64,
}

pub(crate) fn queue_share(connection: &Connection, queue: QueueKey) -> rusqlite::Result<QueueShare> {
    let mut share = connection.prepare_cached(sql::COUNT_QUEUE_SHARE)?;
    share
        .query_row([queue.0], |row| Ok(QueueShare { own: rows::count(row, "own")?, every: rows::count(row, "every")? }))
}

impl QueueShare {
    /// A task on the walk along the index of the queue costs twice as much as one in a scan of the table.
    fn is_scanned(self) -> bool {
        self.own.saturating_mul(2) >= self.every
    }

    /// What it costs to visit every task of the queue, in tasks of a scan.
    pub(crate) fn cost_of_visit(self) -> u64 {
        self.every.min(self.own.saturating_mul(2))
    }

    /// The cheapest way to visit every task of the queue.
    pub(crate) fn visit_statement(self, heavy: bool) -> &'static str {
        match (self.is_scanned(), heavy) {
            (true, false) => &sql::SCAN_TASKS,
            (true, true) => &sql::SCAN_WHOLE_TASKS,
            (false, false) => &sql::WALK_TASKS,
            (false, true) => &sql::WALK_WHOLE_TASKS,
        }
    }
}

/// One page of groups of tasks.
fn group_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    query: &TaskGroupQuery,
) -> Read<GroupPage> {
    if query.selection.is_by_status_only() {
        let key = existing_queue(file, queue)?;
        let mut groups = Groups::new(query.limit, group_position(query, key)?);
        each_selected_tally(file, key, &query.selection, |line| {
            let routes = taskqueue_core::definition::routes_of(&line.routes);
            groups.add_tasks(&query.dimensions, routes, line.status, line.tasks);
        })?;
        return Ok(groups.into_page(key.0));
    }
    let begun = sparse_reads::begin(file, index, queue, &query.selection, Need::All)?;
    let mut groups = Groups::new(query.limit, group_position(query, begun.key)?);
    each_selected(file, &begun, &query.selection, |_, fields| {
        // Not unpacked unless they are asked for.
        let routes = once_with(|| taskqueue_core::definition::routes_of(fields.routes_text())).flatten();
        groups.add_tasks(&query.dimensions, routes, fields.status(), 1);
        Ok(())
    })?;
    Ok(groups.into_page(begun.key.0))
}

/// The counts of a queue.
pub(crate) fn each_tally(file: &Snapshot<'_>, queue: QueueKey, mut read: impl FnMut(rows::TallyRow)) -> Read<()> {
    file.each_row(sql::LIST_TALLY, [queue.0], |row| {
        read(rows::tally(row)?);
        Ok(CONTINUE)
    })
}

/// The counts of the tasks of a queue that are selected by nothing but their state and the archive; none of them is 0.
pub(crate) fn each_selected_tally(
    file: &Snapshot<'_>,
    queue: QueueKey,
    selection: &TaskSelection,
    mut read: impl FnMut(rows::TallyRow),
) -> Read<()> {
    let statuses = selection.statuses();
    each_tally(file, queue, |mut line| {
        line.tasks -= if selection.include_archived { 0 } else { line.archived.min(line.tasks) };
        if line.tasks > 0 && statuses.contains(line.status) {
            read(line);
        }
    })
}

/// Visits the current observations of a queue.
pub(crate) fn read_workers(file: &Snapshot<'_>, queue: &QueueName, read: &WorkerRead, now: Timestamp) -> Read<()> {
    let key = existing_queue(file, queue)?;
    let (after, mut visitor) = read.begin(key)?;
    let after = after.as_ref().map(WorkerId::as_str).unwrap_or_default();
    let mut more = false;
    file.each_row(&sql::LIST_OBSERVATIONS, params![key.0, now.as_micros(), after], |row| {
        let observation = rows::observation(row, queue)?;
        more = read.selects(&observation) && !visitor.visit(observation);
        Ok(if more { NextRow::Break(()) } else { CONTINUE })
    })?;
    visitor.finish(more);
    Ok(())
}

/// Whether the database answers.
pub(crate) fn check(file: &Snapshot<'_>) -> Read<()> {
    file.connection.prepare_cached(sql::CHECK)?.query_row([], |_| Ok(()))?;
    Ok(())
}
