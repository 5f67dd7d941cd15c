//! The reads: lists, counts and groups in one snapshot each. The default order and the order by id follow an index; any
//! other order visits every task of the queue and keeps only the page. Filters are evaluated row by row by the evaluator
//! of `core`, never in SQL, so that a filter has one meaning.

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
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::page::{
    TaskPage, WriteTask, WrittenTasks, group_position, observation_position, page_of_observations, task_position,
};
use taskqueue_store::transaction::QueueKey;

use crate::each_row::{CONTINUE, NextRow};
use crate::readers::ReadError;
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::statements as sql;

type Read<T> = Result<T, ReadError>;

/// Sorts after every identifier.
const AFTER_EVERY_ID: &str = "\u{10ffff}";

fn refused(refusal: Refusal) -> ReadError {
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
    let key = existing_queue(file, queue)?;
    let mut statement = file.connection.prepare_cached(&sql::GET_TASK)?;
    let task = statement.query_row(params![key.0, id.as_str()], |row| rows::task(row, queue)).optional()?;
    task.ok_or_else(|| refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id }))
}

pub(crate) fn list_tasks(
    file: &Snapshot<'_>,
    queue: &QueueName,
    mut query: TaskQuery,
    write: WriteTask,
) -> Read<WrittenTasks> {
    let key = existing_queue(file, queue)?;
    let after = query.after.take().map(|position| task_position(position, key)).transpose()?;
    let page = TaskPage::new(&query, key, write);
    match query.order.field {
        OrderField::CreatedAt | OrderField::Id => list_by_index(file, queue, key, &query, after, page),
        _ => list_by_visiting_all(file, queue, key, &query, after, page),
    }
}

fn list_by_index(
    file: &Snapshot<'_>,
    queue: &QueueName,
    key: QueueKey,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    mut page: TaskPage,
) -> Read<WrittenTasks> {
    let mut more = false;
    let take = |row: &Row<'_>| {
        if !query.selection.matches(&RowFields(row)) {
            return Ok(CONTINUE);
        }
        more = !page.push(&rows::view(row, queue)?);
        Ok(if more { NextRow::Break(()) } else { CONTINUE })
    };
    let (start, end) = (String::new(), AFTER_EVERY_ID.to_owned());
    let id = after.as_ref().map(|after| after.id.to_string());
    let created_at = after.and_then(|after| match after.value {
        OrderValue::Int(micros) => Some(micros),
        _ => None,
    });
    match (query.order.field, query.order.descending) {
        (OrderField::Id, false) => {
            file.each_row(&sql::LIST_TASKS_BY_ID_ASCENDING, params![key.0, id.unwrap_or(start)], take)?;
        }
        (OrderField::Id, true) => {
            file.each_row(&sql::LIST_TASKS_BY_ID_DESCENDING, params![key.0, id.unwrap_or(end)], take)?;
        }
        (_, false) => {
            let position = params![key.0, created_at.unwrap_or(i64::MIN), id.unwrap_or(start)];
            file.each_row(&sql::LIST_TASKS_BY_CREATION_ASCENDING, position, take)?;
        }
        (_, true) => {
            let position = params![key.0, created_at.unwrap_or(i64::MAX), id.unwrap_or(end)];
            file.each_row(&sql::LIST_TASKS_BY_CREATION_DESCENDING, position, take)?;
        }
    }
    Ok(page.finish(more))
}

fn list_by_visiting_all(
    file: &Snapshot<'_>,
    queue: &QueueName,
    key: QueueKey,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    mut page: TaskPage,
) -> Read<WrittenTasks> {
    let mut first = FirstRows::new(query.order, after, usize::from(query.limit) + 1);
    each_selected(file, key, &query.selection, |row| {
        first.offer(&RowFields(row), rows::id(row)?, rows::key(row)?);
        Ok(CONTINUE)
    })?;
    let mut statement = file.connection.prepare_cached(&sql::LOAD_TASK)?;
    for task in first.into_sorted() {
        file.yield_if_due()?;
        if !statement.query_row([task.0], |row| Ok(page.push(&rows::view(row, queue)?)))? {
            return Ok(page.finish(true));
        }
    }
    Ok(page.finish(false))
}

/// Every selected task of a queue, in no particular order; heavy columns are there only if the filter reads them.
fn each_selected(
    file: &Snapshot<'_>,
    queue: QueueKey,
    selection: &TaskSelection,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>,
) -> Read<()> {
    let reads = selection.filter.as_ref().map(|filter| filter.reads());
    let heavy = reads.is_some_and(|reads| reads.definition || reads.outcome);
    let statement = all_tasks_statement(file.connection, queue, heavy)?;
    file.each_row(statement, [queue.0], |row| if selection.matches(&RowFields(row)) { read(row) } else { Ok(CONTINUE) })
}

/// The cheapest way to visit every task of a queue: a scan of the table if at least half of its tasks are in this queue,
/// else a walk along the queue's index.
pub(crate) fn all_tasks_statement(
    connection: &Connection,
    queue: QueueKey,
    heavy: bool,
) -> rusqlite::Result<&'static str> {
    let mut share = connection.prepare_cached(sql::COUNT_QUEUE_SHARE)?;
    let (own, all): (i64, i64) = share.query_row([queue.0], |row| Ok((row.get("own")?, row.get("every")?)))?;
    Ok(match (own.saturating_mul(2) >= all, heavy) {
        (true, false) => &sql::SCAN_TASKS,
        (true, true) => &sql::SCAN_WHOLE_TASKS,
        (false, false) => &sql::WALK_TASKS,
        (false, true) => &sql::WALK_WHOLE_TASKS,
    })
}

/// How many tasks are selected.
pub(crate) fn count_tasks(file: &Snapshot<'_>, queue: &QueueName, selection: &TaskSelection) -> Read<u64> {
    let key = existing_queue(file, queue)?;
    let mut count = 0;
    if selection.is_by_status_only() {
        each_tally(file, key, selection, |line| count += line.tasks)?;
    } else {
        each_selected(file, key, selection, |_| {
            count += 1;
            Ok(CONTINUE)
        })?;
    }
    Ok(count)
}

/// One page of groups of tasks.
pub(crate) fn group_tasks(file: &Snapshot<'_>, queue: &QueueName, query: &TaskGroupQuery) -> Read<GroupPage> {
    let key = existing_queue(file, queue)?;
    let mut groups = Groups::new(query.limit, group_position(query, key)?);
    if query.selection.is_by_status_only() {
        each_tally(file, key, &query.selection, |line| {
            let routes = taskqueue_core::definition::routes_of(&line.routes);
            groups.add_tasks(&query.dimensions, routes, line.status, line.tasks);
        })?;
    } else {
        each_selected(file, key, &query.selection, |row| {
            let routes = taskqueue_core::definition::routes_of(rows::routes_text(row)?);
            groups.add_tasks(&query.dimensions, routes, RowFields(row).status(), 1);
            Ok(CONTINUE)
        })?;
    }
    Ok(groups.into_page(key.0))
}

fn each_tally(
    file: &Snapshot<'_>,
    queue: QueueKey,
    selection: &TaskSelection,
    mut read: impl FnMut(rows::TallyRow),
) -> Read<()> {
    file.each_row(sql::LIST_TALLY, [queue.0], |row| {
        let line = rows::tally(row)?;
        if selection.status.is_none_or(|status| status == line.status) {
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
    let mut items = Vec::new();
    each_observation(file, queue, key, now, (query.filter.as_ref(), after), |observation| {
        items.push(observation);
        if items.len() > usize::from(query.limit) { NextRow::Break(()) } else { CONTINUE }
    })?;
    Ok(page_of_observations(items.into_iter(), query.limit, key))
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
