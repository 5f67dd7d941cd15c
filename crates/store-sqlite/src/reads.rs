//! The reads: lists, counts and groups in one snapshot each. The default order and the order by id follow an index; any
//! other order visits every task of the queue, or of a few states (`sparse_reads.rs`), and keeps only the page. Filters are evaluated row by row by the evaluator
//! of `core`, never in SQL, so that a filter has one meaning.

use std::cell::Cell;

use rusqlite::{Connection, OptionalExtension, Row, params};
use taskqueue_core::cursor::OrderValue;
use taskqueue_core::filter::{ObservationFilter, TaskFields};
use taskqueue_core::grouping::{GroupPage, Groups, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId, WorkerId};
use taskqueue_core::observation::Observation;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{
    FirstRows, ObservationQuery, OrderField, Page, TaskPosition, TaskQuery, TaskSelection,
};
use taskqueue_core::sparse::Need;
use taskqueue_core::status::Statuses;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::page::{
    ObservationPage, TaskPage, WriteTask, WrittenTasks, group_position, observation_position, task_position,
};
use taskqueue_store::transaction::{QueueKey, TaskKey};

use crate::each_row::{CONTINUE, NextRow};
use crate::published_index::PublishedIndex;
use crate::readers::ReadError;
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::sparse_reads::{self, Access, Begun, each_selected};
use crate::statements as sql;

pub(crate) type Read<T> = Result<T, ReadError>;

/// Sorts after every identifier.
const AFTER_EVERY_ID: &str = "\u{10ffff}";

pub(crate) fn refused(refusal: Refusal) -> ReadError {
    ReadError::Refused(StoreError::Refused(refusal))
}

/// The key of a queue that must exist.
pub(crate) fn existing_queue(file: &Snapshot<'_>, name: &QueueName) -> Read<QueueKey> {
    let mut statement = file.connection.prepare_cached(sql::FIND_QUEUE)?;
    let key = statement.query_row([name.as_str()], |row| row.get(0).map(QueueKey)).optional()?;
    key.ok_or_else(|| refused(Refusal::QueueNotFound { queue: name.clone() }))
}

pub(crate) fn list_queues(file: &Snapshot<'_>) -> Read<Vec<QueueName>> {
    let mut queues = Vec::new();
    file.each_row(sql::LIST_QUEUES, [], |row| {
        queues.extend(QueueName::parse(row.get_ref(0)?.as_str()?));
        Ok(CONTINUE)
    })?;
    Ok(queues)
}

pub(crate) fn get_task(file: &Snapshot<'_>, queue: &QueueName, id: TaskId) -> Read<Task> {
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

pub(crate) fn list_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    mut query: TaskQuery,
    write: WriteTask,
) -> Read<WrittenTasks> {
    let wanted = query.selection.statuses();
    if query.order.field == OrderField::CreatedAt && wanted.is_within(Statuses::UNSUCCESSFUL) {
        let key = existing_queue(file, queue)?;
        return list_unsuccessful(file, (queue, key), wanted, query, write);
    }
    let is_indexed = matches!(query.order.field, OrderField::CreatedAt | OrderField::Id);
    let need = if is_indexed { Need::Page { limit: query.limit } } else { Need::All };
    let begun = sparse_reads::begin(file, index, queue, &query.selection, need)?;
    let after = query.after.take().map(|position| task_position(position, begun.key)).transpose()?;
    let page = TaskPage::new(&query, begun.key, write);
    match begun.access {
        // The walk ends when the page is full. If too few tasks come into question for that, it would not end before the last
        // task; a visit ends when all of them were seen, and the oldest tasks, which it sees first, are the first to succeed.
        Access::Visit { matching, is_sparse } if is_indexed && (!is_sparse || matching > u64::from(query.limit)) => {
            list_by_index(file, queue, begun.key, &query, after, page)
        }
        _ => list_by_visiting(file, queue, &begun, &query, after, page),
    }
}

/// The position as the statements take it that list by creation: before all tasks if there is none.
fn creation_position(after: Option<TaskPosition>, descending: bool) -> (i64, String) {
    match after {
        Some(TaskPosition { value: OrderValue::Int(micros), id }) => (micros, id.to_string()),
        _ if descending => (i64::MAX, AFTER_EVERY_ID.to_owned()),
        _ => (i64::MIN, String::new()),
    }
}

/// A page of failed or cancelled tasks, by creation: costs what it holds, and what the filter passes over.
fn list_unsuccessful(
    file: &Snapshot<'_>,
    (queue, key): (&QueueName, QueueKey),
    statuses: Statuses,
    mut query: TaskQuery,
    write: WriteTask,
) -> Read<WrittenTasks> {
    let after = query.after.take().map(|position| task_position(position, key)).transpose()?;
    let page = TaskPage::new(&query, key, write);
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
    write_page(file, queue, first, page)
}

fn list_by_index(
    file: &Snapshot<'_>,
    queue: &QueueName,
    key: QueueKey,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    mut page: TaskPage,
) -> Read<WrittenTasks> {
    let more = Cell::new(false);
    let mut take = |row: &Row<'_>| {
        if !query.selection.matches(&RowFields::new(row)) {
            return Ok(CONTINUE);
        }
        more.set(!page.push(&rows::view(row, queue)?));
        Ok(if more.get() { NextRow::Break(()) } else { CONTINUE })
    };
    let descending = query.order.descending;
    if query.order.field == OrderField::Id {
        let statement = if descending { &sql::LIST_TASKS_BY_ID_DESCENDING } else { &sql::LIST_TASKS_BY_ID_ASCENDING };
        let first = if descending { AFTER_EVERY_ID } else { "" };
        let id = after.as_ref().map_or(first, |after| after.id.as_str());
        file.each_row(statement, params![key.0, id], take)?;
        return Ok(page.finish(more.get()));
    }
    let (rest_of_time, later) = match descending {
        false => (&sql::LIST_TASKS_OF_ONE_TIME_ASCENDING, &sql::LIST_TASKS_BY_CREATION_ASCENDING),
        true => (&sql::LIST_TASKS_OF_ONE_TIME_DESCENDING, &sql::LIST_TASKS_BY_CREATION_DESCENDING),
    };
    let is_continued = after.is_some();
    let (created_at, id) = creation_position(after, descending);
    if is_continued {
        file.each_row(rest_of_time, params![key.0, created_at, id], &mut take)?;
    }
    if !more.get() {
        file.each_row(later, params![key.0, created_at], take)?;
    }
    Ok(page.finish(more.get()))
}

fn list_by_visiting(
    file: &Snapshot<'_>,
    queue: &QueueName,
    begun: &Begun,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    page: TaskPage,
) -> Read<WrittenTasks> {
    let mut first = FirstRows::new(query.order, after, usize::from(query.limit) + 1);
    each_selected(file, begun, &query.selection, |row, fields| {
        first.offer(fields, rows::id(row)?, rows::key(row)?);
        Ok(())
    })?;
    write_page(file, queue, first, page)
}

/// A page of the tasks with these keys, in their order.
fn write_page(
    file: &Snapshot<'_>,
    queue: &QueueName,
    first: FirstRows<TaskKey>,
    mut page: TaskPage,
) -> Read<WrittenTasks> {
    let mut statement = file.connection.prepare_cached(&sql::LOAD_TASK)?;
    for task in first.into_sorted() {
        file.yield_if_due()?;
        if !statement.query_row([task.0], |row| Ok(page.push(&rows::view(row, queue)?)))? {
            return Ok(page.finish(true));
        }
    }
    Ok(page.finish(false))
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

/// How many tasks are selected.
pub(crate) fn count_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    selection: &TaskSelection,
) -> Read<u64> {
    let mut count = 0;
    if selection.is_by_status_only() {
        each_tally(file, existing_queue(file, queue)?, selection.statuses(), |line| count += line.tasks)?;
    } else {
        each_selected(file, &sparse_reads::begin(file, index, queue, selection, Need::All)?, selection, |_, _| {
            count += 1;
            Ok(())
        })?;
    }
    Ok(count)
}

/// One page of groups of tasks.
pub(crate) fn group_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    query: &TaskGroupQuery,
) -> Read<GroupPage> {
    if query.selection.is_by_status_only() {
        let key = existing_queue(file, queue)?;
        let mut groups = Groups::new(query.limit, group_position(query, key)?);
        each_tally(file, key, query.selection.statuses(), |line| {
            let routes = taskqueue_core::definition::routes_of(&line.routes);
            groups.add_tasks(&query.dimensions, routes, line.status, line.tasks);
        })?;
        return Ok(groups.into_page(key.0));
    }
    let begun = sparse_reads::begin(file, index, queue, &query.selection, Need::All)?;
    let mut groups = Groups::new(query.limit, group_position(query, begun.key)?);
    each_selected(file, &begun, &query.selection, |_, fields| {
        let routes = taskqueue_core::definition::routes_of(fields.routes_text());
        groups.add_tasks(&query.dimensions, routes, fields.status(), 1);
        Ok(())
    })?;
    Ok(groups.into_page(begun.key.0))
}

/// The counts of a queue for tasks of these states.
pub(crate) fn each_tally(
    file: &Snapshot<'_>,
    queue: QueueKey,
    statuses: Statuses,
    mut read: impl FnMut(rows::TallyRow),
) -> Read<()> {
    file.each_row(sql::LIST_TALLY, [queue.0], |row| {
        let line = rows::tally(row)?;
        if statuses.contains(line.status) {
            read(line);
        }
        Ok(CONTINUE)
    })
}

/// The current observations of a queue that a filter selects, by id.
fn each_observation(
    file: &Snapshot<'_>,
    queue: &QueueName,
    key: QueueKey,
    now: Timestamp,
    (filter, after): (Option<&ObservationFilter>, Option<WorkerId>),
    mut read: impl FnMut(Observation) -> NextRow,
) -> Read<()> {
    let after = after.as_ref().map(WorkerId::as_str).unwrap_or_default();
    file.each_row(&sql::LIST_OBSERVATIONS, params![key.0, now.as_micros(), after], |row| {
        let observation = rows::observation(row, queue)?;
        let selected = filter.is_none_or(|filter| filter.matches(&observation));
        Ok(if selected { read(observation) } else { CONTINUE })
    })
}

/// One page of observations.
pub(crate) fn list_workers(
    file: &Snapshot<'_>,
    queue: &QueueName,
    query: &ObservationQuery,
    now: Timestamp,
) -> Read<Page<Observation>> {
    let key = existing_queue(file, queue)?;
    let after = query.after.as_ref().map(|position| observation_position(position, key)).transpose()?;
    let (mut page, mut more) = (ObservationPage::new(query.limit, key), false);
    each_observation(file, queue, key, now, (query.filter.as_ref(), after), |observation| {
        more = !page.push(observation);
        if more { NextRow::Break(()) } else { CONTINUE }
    })?;
    Ok(page.finish(more))
}

/// How many observations are selected.
pub(crate) fn count_workers(
    file: &Snapshot<'_>,
    queue: &QueueName,
    filter: Option<&ObservationFilter>,
    now: Timestamp,
) -> Read<u64> {
    let key = existing_queue(file, queue)?;
    let mut count = 0;
    each_observation(file, queue, key, now, (filter, None), |_| {
        count += 1;
        CONTINUE
    })?;
    Ok(count)
}

/// One page of groups of observations.
pub(crate) fn group_workers(
    file: &Snapshot<'_>,
    queue: &QueueName,
    query: &ObservationGroupQuery,
    now: Timestamp,
) -> Read<GroupPage> {
    let key = existing_queue(file, queue)?;
    let mut groups = Groups::new(query.limit, group_position(query, key)?);
    each_observation(file, queue, key, now, (query.selection.as_ref(), None), |observation| {
        groups.add_observation(&query.dimensions, &observation);
        CONTINUE
    })?;
    Ok(groups.into_page(key.0))
}

/// Whether the database answers.
pub(crate) fn check(file: &Snapshot<'_>) -> Read<()> {
    file.connection.prepare_cached(sql::CHECK)?.query_row([], |_| Ok(()))?;
    Ok(())
}
