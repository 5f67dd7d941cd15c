//! Pages of the two orders that have an index: by creation and by id. The walk along the index ends when the page is full, so that a
//! page without a filter costs what it holds. Archived tasks are passed over; a page that would pass over many of them becomes a
//! long read, which looks at nothing but the narrow rows until it has found its tasks.

use std::cell::Cell;

use rusqlite::{Row, params};
use taskqueue_core::cursor::OrderValue;
use taskqueue_core::filter::TaskFields;
use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::{OrderField, TaskPosition, TaskQuery};
use taskqueue_store::page::{NewRows, TaskPage, task_position};
use taskqueue_store::transaction::QueueKey;

use crate::each_row::{CONTINUE, NextRow};
use crate::reads::{Read, existing_queue, write_page};
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::statements as sql;

/// Sorts after every identifier.
const AFTER_EVERY_ID: &str = "\u{10ffff}";
/// Archived tasks that a bounded read passes over: some ten milliseconds.
const MOST_PASSED_OVER: usize = 10_000;

/// A page without a filter. Nothing in a bounded read that would pass over too many archived tasks.
pub(crate) fn list(file: &Snapshot<'_>, queue: &QueueName, mut query: TaskQuery, rows: &NewRows) -> Read<Option<()>> {
    let key = existing_queue(file, queue)?;
    let after = query.after.take().map(|position| task_position(position, key)).transpose()?;
    if list_some(file, (queue, key), &query, after.clone(), TaskPage::new(&query, key, rows()))?.is_some() {
        return Ok(Some(()));
    }
    match file.active {
        None => Ok(None),
        Some(_) => list_narrow(file, (queue, key), &query, after, TaskPage::new(&query, key, rows())).map(Some),
    }
}

fn list_some(
    file: &Snapshot<'_>,
    (queue, key): (&QueueName, QueueKey),
    query: &TaskQuery,
    after: Option<TaskPosition>,
    mut page: TaskPage,
) -> Read<Option<()>> {
    let (mut more, mut passed_over) = (false, 0);
    let include_archived = query.selection.include_archived;
    walk(file, key, query, after, |row| {
        let view = rows::view(row, queue)?;
        if view.archived && !include_archived {
            passed_over += 1;
            return Ok(if passed_over > MOST_PASSED_OVER { NextRow::Break(()) } else { CONTINUE });
        }
        more = !page.push(&view);
        Ok(if more { NextRow::Break(()) } else { CONTINUE })
    })?;
    Ok((passed_over <= MOST_PASSED_OVER).then(|| page.finish(more)))
}

/// First finds the tasks of the page, then reads them.
fn list_narrow(
    file: &Snapshot<'_>,
    (queue, key): (&QueueName, QueueKey),
    query: &TaskQuery,
    after: Option<TaskPosition>,
    page: TaskPage,
) -> Read<()> {
    let (wanted, mut keys) = (usize::from(query.limit) + 1, Vec::new());
    let take = |row: &Row<'_>| {
        if !RowFields::new(row).archived() {
            keys.push(rows::key(row)?);
        }
        Ok(if keys.len() == wanted { NextRow::Break(()) } else { CONTINUE })
    };
    let descending = query.order.descending;
    if query.order.field == OrderField::Id {
        let statement = if descending { &sql::LIST_HEADS_BY_ID_DESCENDING } else { &sql::LIST_HEADS_BY_ID_ASCENDING };
        file.each_row(statement, params![key.0, id_position(after, descending)], take)?;
    } else {
        let (created_at, id) = creation_position(after, descending);
        let statement = match descending {
            false => &sql::LIST_HEADS_BY_CREATION_ASCENDING,
            true => &sql::LIST_HEADS_BY_CREATION_DESCENDING,
        };
        file.each_row(statement, params![key.0, created_at, id], take)?;
    }
    write_page(file, queue, keys, page)
}

/// Passes whole tasks in the order of a query to `take`, from a position on, until it breaks.
pub(crate) fn walk(
    file: &Snapshot<'_>,
    key: QueueKey,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>,
) -> Read<()> {
    let descending = query.order.descending;
    if query.order.field == OrderField::Id {
        let statement = if descending { &sql::LIST_TASKS_BY_ID_DESCENDING } else { &sql::LIST_TASKS_BY_ID_ASCENDING };
        return file.each_row(statement, params![key.0, id_position(after, descending)], take);
    }
    let (rest_of_time, later) = match descending {
        false => (&sql::LIST_TASKS_OF_ONE_TIME_ASCENDING, &sql::LIST_TASKS_BY_CREATION_ASCENDING),
        true => (&sql::LIST_TASKS_OF_ONE_TIME_DESCENDING, &sql::LIST_TASKS_BY_CREATION_DESCENDING),
    };
    let is_continued = after.is_some();
    let (created_at, id) = creation_position(after, descending);
    let is_over = Cell::new(false);
    let mut take = |row: &Row<'_>| {
        let next = take(row)?;
        is_over.set(next.is_break());
        Ok(next)
    };
    if is_continued {
        file.each_row(rest_of_time, params![key.0, created_at, id], &mut take)?;
    }
    if is_over.get() { Ok(()) } else { file.each_row(later, params![key.0, created_at], take) }
}

/// The position as the statements take it that list by creation: before all tasks if there is none.
pub(crate) fn creation_position(after: Option<TaskPosition>, descending: bool) -> (i64, String) {
    match after {
        Some(TaskPosition { value: OrderValue::Int(micros), id }) => (micros, id.to_string()),
        _ if descending => (i64::MAX, AFTER_EVERY_ID.to_owned()),
        _ => (i64::MIN, String::new()),
    }
}

fn id_position(after: Option<TaskPosition>, descending: bool) -> String {
    let before_all = if descending { AFTER_EVERY_ID } else { "" };
    after.map_or_else(|| before_all.to_owned(), |after| after.id.to_string())
}
