//! The reads: lists, counts and groups in one snapshot each. The default order and the order by id follow an index
//! (`list_plain`); any other order visits every task of the queue, or of a few states (`sparse_reads.rs`), and keeps only the
//! page. Filters are evaluated row by row by the evaluator of `core`, never in SQL, so that a filter has one meaning.

use std::iter::once_with;

use rusqlite::{Row, params};
use taskqueue_core::cursor::OrderValue;
use taskqueue_core::definition::routes_of;
use taskqueue_core::filter::TaskFields;
use taskqueue_core::grouping::{GroupPage, Groups, TaskGroupQuery};
use taskqueue_core::selection::{FirstRows, TaskPosition};
use taskqueue_core::sparse::Need;
use taskqueue_core::{
    OrderField, QueueName, QueueSettings, Statuses, Task, TaskId, TaskQuery, TaskSelection, Timestamp, WorkerId,
};
use taskqueue_store::page::{NewRows, TaskPage, group_position, task_position};
use taskqueue_store::reading::{TaskRead, WorkerRead};
use taskqueue_store::{QueueKey, TaskKey};

use crate::published_index::PublishedIndex;
use crate::queries::{CONTINUE, NextRow, Read, Snapshot, first_row, no_queue};
use crate::rows::RowFields;
use crate::sparse_reads::{self, BegunRead, TaskAccess, each_selected, each_selected_tally};
use crate::{rows, statements as sql};

/// Sorts after every identifier.
const AFTER_EVERY_ID: &str = "\u{10ffff}";
/// Archived tasks that a bounded read passes over: some ten milliseconds.
const MOST_PASSED_OVER: usize = 10_000;

/// Returns all queues in the order of their creation.
pub(crate) fn list_queue_keys(file: &Snapshot<'_>) -> Read<Vec<(QueueKey, QueueName)>> {
    Ok(file.all_rows(&sql::LOAD_QUEUES, [], rows::queue)?.into_iter().flatten().collect())
}

/// Returns the settings of a queue.
pub(crate) fn queue_settings(file: &Snapshot<'_>, queue: &QueueName) -> Read<QueueSettings> {
    settings_of(file, file.existing_queue(queue)?)
}

/// Returns the settings of a queue by its key.
pub(crate) fn settings_of(file: &Snapshot<'_>, key: QueueKey) -> Read<QueueSettings> {
    Ok(first_row(file.connection, &sql::LOAD_SETTINGS, [key.0], rows::settings)?.unwrap_or_default())
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
    let values = [queue.as_str(), id.as_str()];
    let task = first_row(file.connection, &sql::GET_TASK, values, |row| rows::task(row, queue))?;
    task.ok_or_else(|| file.no_task(queue, id))
}

/// A page of tasks. A plain one in a bounded read is given up, without a page, if it would pass over too many archived tasks.
fn list_tasks(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    query: TaskQuery,
    rows: &NewRows,
) -> Read<Option<()>> {
    if query.is_plain() {
        return list_plain(file, queue, query, rows);
    }
    let wanted = query.selection.statuses();
    if query.order.field == OrderField::CreatedAt && wanted.is_within(Statuses::UNSUCCESSFUL) {
        let key = file.existing_queue(queue)?;
        return PageRead::new(file, (queue, key), query, rows)?.list_unsuccessful(wanted).map(Some);
    }
    let is_indexed = matches!(query.order.field, OrderField::CreatedAt | OrderField::Id);
    let need = if is_indexed { Need::Page { limit: query.limit } } else { Need::All };
    let begun = sparse_reads::begin(file, index, queue, &query.selection, need)?;
    let read = PageRead::new(file, (queue, begun.key), query, rows)?;
    match begun.access {
        // The walk ends when the page is full. If too few tasks come into question for that, it would not end before the last
        // task; a visit ends when all of them were seen, and the oldest tasks, which it sees first, are the first to succeed.
        TaskAccess::Visit { matching, is_sparse }
            if is_indexed && (!is_sparse || matching > u64::from(read.query.limit)) =>
        {
            read.list_by_index().map(Some)
        }
        _ => read.list_by_visiting(&begun).map(Some),
    }
}

/// Writes a page without a filter, in one of the two orders that have an index: by creation and by id. The walk along the index
/// ends when the page is full, so that it costs what it holds. Archived tasks are passed over; a page that would pass over many of
/// them becomes a long read, which looks at nothing but the narrow rows until it has found its tasks. `None` in a bounded read that
/// would pass over too many archived tasks.
pub(crate) fn list_plain(file: &Snapshot<'_>, queue: &QueueName, query: TaskQuery, rows: &NewRows) -> Read<Option<()>> {
    let read = PageRead::new(file, (queue, file.existing_queue(queue)?), query, rows)?;
    match read.list_some()? {
        None if file.active.is_some() => read.list_narrow().map(Some),
        listed => Ok(listed),
    }
}

/// A page of tasks that is read.
struct PageRead<'a> {
    file: &'a Snapshot<'a>,
    queue: &'a QueueName,
    key: QueueKey,
    query: TaskQuery,
    after: Option<TaskPosition>,
    rows: &'a NewRows,
}

impl<'a> PageRead<'a> {
    fn new(
        file: &'a Snapshot<'a>,
        (queue, key): (&'a QueueName, QueueKey),
        mut query: TaskQuery,
        rows: &'a NewRows,
    ) -> Read<Self> {
        let after = query.after.take().map(|position| task_position(position, key)).transpose()?;
        Ok(Self { file, queue, key, query, after, rows })
    }

    fn empty_page(&self) -> TaskPage {
        TaskPage::new(&self.query, self.key, (self.rows)())
    }

    /// One task more than fits shows that there is a next page.
    fn wanted(&self) -> usize {
        usize::from(self.query.limit) + 1
    }

    /// A page of failed or cancelled tasks, by creation: costs what it holds, and what the filter passes over.
    fn list_unsuccessful(&self, statuses: Statuses) -> Read<()> {
        let (order, wanted) = (self.query.order, self.wanted());
        let mut first = FirstRows::new(order, self.after.clone(), wanted);
        let (created_at, id) = self.creation_position();
        for status in statuses.iter() {
            let mut taken = 0;
            let values = params![self.key.0, status.as_str(), created_at, id];
            self.file.each_row(sql::LIST_UNSUCCESSFUL.choose(order.descending), values, |row| {
                let fields = RowFields::new(row);
                if self.query.selection.matches(&fields) {
                    first.offer(&fields, rows::id(row)?, rows::key(row)?);
                    taken += 1;
                }
                Ok(if taken == wanted { NextRow::Break(()) } else { CONTINUE })
            })?;
        }
        self.write_page(first.into_sorted())
    }

    /// The walk along the index of the order, with a filter.
    fn list_by_index(&self) -> Read<()> {
        let (mut page, mut more) = (self.empty_page(), false);
        self.walk(|row| {
            if !self.query.selection.matches(&RowFields::new(row)) {
                return Ok(CONTINUE);
            }
            more = !page.push(&rows::view(row, self.queue)?);
            Ok(if more { NextRow::Break(()) } else { CONTINUE })
        })?;
        page.finish(more);
        Ok(())
    }

    fn list_by_visiting(&self, begun: &BegunRead) -> Read<()> {
        let mut first = FirstRows::new(self.query.order, self.after.clone(), self.wanted());
        each_selected(self.file, begun, &self.query.selection, |row, fields| {
            first.offer(fields, rows::id(row)?, rows::key(row)?);
            Ok(())
        })?;
        self.write_page(first.into_sorted())
    }

    /// The walk without a filter, which gives up where it would pass over too many archived tasks.
    fn list_some(&self) -> Read<Option<()>> {
        let (mut page, mut more, mut passed_over) = (self.empty_page(), false, 0);
        self.walk(|row| {
            let view = rows::view(row, self.queue)?;
            if view.archived && !self.query.selection.include_archived {
                passed_over += 1;
                return Ok(if passed_over > MOST_PASSED_OVER { NextRow::Break(()) } else { CONTINUE });
            }
            more = !page.push(&view);
            Ok(if more { NextRow::Break(()) } else { CONTINUE })
        })?;
        Ok((passed_over <= MOST_PASSED_OVER).then(|| page.finish(more)))
    }

    /// First finds the tasks of the page, then reads them.
    fn list_narrow(&self) -> Read<()> {
        let (wanted, mut keys, descending) = (self.wanted(), Vec::new(), self.query.order.descending);
        let take = |row: &Row<'_>| {
            if !RowFields::new(row).archived() {
                keys.push(rows::key(row)?);
            }
            Ok(if keys.len() == wanted { NextRow::Break(()) } else { CONTINUE })
        };
        if self.query.order.field == OrderField::Id {
            let statement = sql::LIST_HEADS_BY_ID.choose(descending);
            self.file.each_row(statement, params![self.key.0, self.id_position()], take)?;
        } else {
            let (created_at, id) = self.creation_position();
            let statement = sql::LIST_HEADS_BY_CREATION.choose(descending);
            self.file.each_row(statement, params![self.key.0, created_at, id], take)?;
        }
        self.write_page(keys)
    }

    /// A page of the tasks with these keys, in their order.
    fn write_page(&self, keys: Vec<TaskKey>) -> Read<()> {
        let (mut page, mut more) = (self.empty_page(), false);
        let mut statement = self.file.connection.prepare_cached(&sql::LOAD_TASK)?;
        for task in keys {
            self.file.yield_if_due()?;
            more = !statement.query_row([task.0], |row| Ok(page.push(&rows::view(row, self.queue)?)))?;
            if more {
                break;
            }
        }
        page.finish(more);
        Ok(())
    }

    /// Passes whole tasks in the order of the query to `take`, from its position on, until it breaks.
    fn walk(&self, mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>) -> Read<()> {
        let (file, descending) = (self.file, self.query.order.descending);
        if self.query.order.field == OrderField::Id {
            let statement = sql::LIST_TASKS_BY_ID.choose(descending);
            return file.each_row(statement, params![self.key.0, self.id_position()], take);
        }
        let (created_at, id) = self.creation_position();
        let mut is_over = false;
        if self.after.is_some() {
            let rest_of_time = sql::LIST_TASKS_OF_ONE_TIME.choose(descending);
            file.each_row(rest_of_time, params![self.key.0, created_at, id], |row| {
                take(row).inspect(|next| is_over = next.is_break())
            })?;
        }
        let later = sql::LIST_TASKS_BY_CREATION.choose(descending);
        if is_over { Ok(()) } else { file.each_row(later, params![self.key.0, created_at], take) }
    }

    /// The position as the statements take it that list by creation: before all tasks if there is none.
    fn creation_position(&self) -> (i64, &str) {
        match &self.after {
            Some(TaskPosition { value: OrderValue::Int(micros), id }) => (*micros, id.as_str()),
            _ if self.query.order.descending => (i64::MAX, AFTER_EVERY_ID),
            _ => (i64::MIN, ""),
        }
    }

    fn id_position(&self) -> &str {
        let before_all = if self.query.order.descending { AFTER_EVERY_ID } else { "" };
        self.after.as_ref().map_or(before_all, |after| after.id.as_str())
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
        if query.dimensions.is_empty() {
            let count = count_tally(file, queue, &query.selection)?;
            return Ok(GroupPage { count, groups: Vec::new(), next: None });
        }
        let key = file.existing_queue(queue)?;
        let mut groups = Groups::new(query.limit, group_position(query, key)?);
        each_selected_tally(file, key, &query.selection, |line| {
            groups.add_tasks(&query.dimensions, routes_of(line.routes), line.status, line.tasks);
        })?;
        return Ok(groups.into_page(key.0));
    }
    let begun = sparse_reads::begin(file, index, queue, &query.selection, Need::All)?;
    let mut groups = Groups::new(query.limit, group_position(query, begun.key)?);
    each_selected(file, &begun, &query.selection, |_, fields| {
        // Not unpacked unless they are asked for.
        let routes = once_with(|| routes_of(fields.routes_text())).flatten();
        groups.add_tasks(&query.dimensions, routes, fields.status(), 1);
        Ok(())
    })?;
    Ok(groups.into_page(begun.key.0))
}

/// How many tasks have a state that is selected, from the counts: one statement, however many sets of routes there are.
fn count_tally(file: &Snapshot<'_>, queue: &QueueName, selection: &TaskSelection) -> Read<u64> {
    let values = params![queue.as_str(), selection.statuses().words().join(" "), selection.include_archived];
    let count = first_row(file.connection, &sql::COUNT_TALLY, values, |row| rows::count(row, "tasks"))?;
    count.ok_or_else(|| no_queue(queue))
}

/// Visits the current observations of a queue.
pub(crate) fn read_workers(file: &Snapshot<'_>, queue: &QueueName, read: &WorkerRead, now: Timestamp) -> Read<()> {
    let key = file.existing_queue(queue)?;
    let mut visit = read.begin(key)?;
    let after = visit.after;
    let after = after.as_ref().map(WorkerId::as_str).unwrap_or_default();
    let mut more = false;
    file.each_row(&sql::LIST_OBSERVATIONS, params![key.0, now.as_micros(), after], |row| {
        more = !visit.visit(rows::observation(row, queue)?);
        Ok(if more { NextRow::Break(()) } else { CONTINUE })
    })?;
    visit.finish(more);
    Ok(())
}

/// Returns whether the database answers.
pub(crate) fn check(file: &Snapshot<'_>) -> Read<()> {
    file.connection.prepare_cached(&sql::CHECK)?.query_row([], |_| Ok(()))?;
    Ok(())
}
