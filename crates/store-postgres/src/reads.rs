//! The reads: lists, counts and groups, each in one snapshot. SQL narrows the rows (`dialect.rs`); where it cannot do so
//! exactly, the evaluator of `core` decides row by row, so that a filter has one meaning.
//!
//! If only tasks of a few states come into question, and few tasks have those states, then a read looks at these alone
//! (docs/decisions/0004): tables beside `tasks` have the keys of all pending, running, failed and cancelled tasks. Succeeded tasks
//! are in none; most tasks succeed.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;

use taskqueue_core::filter::TaskFields;
use taskqueue_core::grouping::{GroupPage, Groups, TaskGroupQuery};
use taskqueue_core::selection::{FirstRows, TaskPosition};
use taskqueue_core::sparse::{Need, StatusCounts, is_sparse_by_keys};
use taskqueue_core::{
    OrderField, QueueName, Refusal, Status, Statuses, Task, TaskId, TaskQuery, TaskSelection, Timestamp,
};
use taskqueue_store::page::{NewRows, TaskPage, group_position, task_position};
use taskqueue_store::reading::{TaskRead, WorkerRead};
use taskqueue_store::{QueueKey, StoreError, StoreResult};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, RowStream};

use crate::dialect::operand::Bound;
use crate::dialect::{self, Condition, order};
use crate::long_reader::Snapshot;
use crate::readers::{Lane, Read, ReadError, Readers, in_snapshot};
use crate::rows::RowFields;
use crate::session::{Param, Session, Sql};
use crate::{open, rows, statements as sql};

/// The largest number of rows that a list reads at a time if it has to evaluate each.
const CHUNK_ROWS: usize = 4_000;
/// Observations that are read at a time: with the largest metadata and telemetry they take 8 MiB.
const OBSERVATIONS_AT_ONCE: usize = 256;

pub(crate) fn refused(refusal: Refusal) -> ReadError {
    ReadError::Refused(StoreError::Refused(refusal))
}

pub(crate) fn no_queue(queue: &QueueName) -> ReadError {
    refused(Refusal::QueueNotFound { queue: queue.clone() })
}

/// Begins a snapshot and finds a queue that must exist.
pub(crate) async fn existing_queue(session: &Session, name: &QueueName) -> Read<QueueKey> {
    let found = in_snapshot(session, session.first(&sql::FIND_QUEUE, &[&name.as_str()])).await?;
    Ok(rows::found_queue(&found.ok_or_else(|| no_queue(name))?)?)
}

/// Begins a snapshot and finds a queue that must exist, and the time, unless `clock` gives one.
pub(crate) async fn existing_queue_and_time(
    session: &Session,
    name: &QueueName,
    clock: Option<Timestamp>,
) -> Read<(QueueKey, Timestamp)> {
    let found = in_snapshot(session, session.first(&sql::FIND_QUEUE_AND_TIME, &[&name.as_str()])).await?;
    let found = found.ok_or_else(|| no_queue(name))?;
    Ok((rows::found_queue(&found)?, clock.map_or_else(|| rows::get(&found, "now"), Ok)?))
}

/// The rows of a composed statement: `fixed` are the parameters of its file, the condition's follow.
pub(crate) async fn stream(
    session: &Session,
    text: &str,
    fixed: Vec<Param<'_>>,
    condition: &Condition,
) -> Read<Pin<Box<RowStream>>> {
    let params: Vec<Param<'_>> = fixed.into_iter().chain(condition.bound.iter().map(Bound::param)).collect();
    Ok(Box::pin(session.stream(text, &params).await?))
}

/// The number of the first parameter after those of a file.
pub(crate) fn next_parameter(statement: &Sql) -> usize {
    statement.types.len() + 1
}

/// In the order of their creation.
pub(crate) async fn list_queue_keys(session: &Session) -> Read<Vec<(QueueKey, QueueName)>> {
    let rows = session.query(&sql::LIST_QUEUE_KEYS, &[]).await?;
    Ok(rows.iter().map(rows::named_queue).collect::<Result<_, _>>()?)
}

pub(crate) async fn read_tasks(snapshot: &Snapshot<'_>, queue: &QueueName, read: &TaskRead) -> Read<()> {
    let session = snapshot.session;
    match read {
        TaskRead::Task(id, answer) => answer.set(get_task(session, queue, *id).await?),
        TaskRead::Page(query, rows) => list_tasks(snapshot, queue, query, rows).await?,
        TaskRead::Groups(query, answer) => {
            let (selection, is_count) = (&query.selection, query.dimensions.is_empty());
            let counted = |count| GroupPage { count, groups: Vec::new(), next: None };
            answer.set(match (selection.is_by_status_only(), is_count) {
                (true, true) => counted(count_tally(session, queue, selection).await?),
                (true, false) => group_tally(session, queue, query).await?,
                (false, true) => counted(count_tasks(snapshot, queue, selection).await?),
                (false, false) => group_tasks(snapshot, queue, query).await?,
            });
        }
    }
    Ok(())
}

pub(crate) async fn get_task(session: &Session, queue: &QueueName, id: TaskId) -> Read<Task> {
    let row = session.first(&sql::GET_TASK, &[&queue.as_str(), &id.as_str()]).await?;
    let row = row.ok_or_else(|| no_queue(queue))?;
    match rows::key_or_null(&row)? {
        Some(_) => Ok(rows::task(&row, queue)?),
        None => Err(refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id })),
    }
}

async fn list_tasks(snapshot: &Snapshot<'_>, queue: &QueueName, query: &TaskQuery, rows: &NewRows) -> Read<()> {
    let key = existing_queue(snapshot.session, queue).await?;
    let mut after = query.after.clone().map(|position| task_position(position, key)).transpose()?;
    let mut condition = dialect::condition(&query.selection, next_parameter(&sql::LIST_TASKS));
    let is_indexed = order::is_indexed(query.order.field);
    let need = if is_indexed { Need::Page { limit: query.limit } } else { Need::All };
    let few = few_keys(snapshot, key, &query.selection, need).await?;
    // Chunk by chunk, all tasks would be sorted again for each chunk.
    if few.is_some() || (!condition.exact && !is_indexed) {
        let keys = first_keys(snapshot, key, query, after.clone(), few.as_deref()).await?;
        condition = dialect::key_in(keys, next_parameter(&sql::LIST_TASKS));
    }
    let mut page = TaskPage::new(query, key, rows());
    let mut wanted = usize::from(query.limit) + 1;
    loop {
        let condition = match &after {
            None => condition.clone(),
            Some(after) => order::after(condition.clone(), next_parameter(&sql::LIST_TASKS), query.order, after)
                .map_err(|order::ForeignPosition| refused(Refusal::InvalidCursor))?,
        };
        match fill(snapshot, &mut page, (queue, key), query, &condition, wanted).await? {
            ControlFlow::Continue(last) => after = Some(last),
            ControlFlow::Break(more) => {
                page.finish(more);
                return Ok(());
            }
        }
        wanted = CHUNK_ROWS.min(wanted * 2);
    }
}

/// Fills a page with so many rows. Continues behind the last one if there is room and more rows may follow; otherwise breaks with
/// whether there is a task that did not fit.
async fn fill(
    snapshot: &Snapshot<'_>,
    page: &mut TaskPage,
    (queue, key): (&QueueName, QueueKey),
    query: &TaskQuery,
    condition: &Condition,
    wanted: usize,
) -> Read<ControlFlow<bool, TaskPosition>> {
    let text = order::with_order(&sql::LIST_TASKS.text, &condition.text, query.order);
    let text = if query.selection.include_archived { order::over_archive(&text, query.order) } else { text };
    // At least one row, however little room there is.
    let max_bytes = query.max_bytes.max(1);
    let (rows_wanted, bytes_wanted) = (as_int(wanted), as_int(max_bytes));
    let fixed: Vec<Param<'_>> = vec![(&key.0, Type::INT8), (&rows_wanted, Type::INT8), (&bytes_wanted, Type::INT8)];
    let mut found = stream(snapshot.session, &text, fixed, condition).await?;
    let (mut full, mut seen, mut bytes, mut last) = (false, 0, 0, None);
    while let Some(row) = snapshot.next(&mut found).await? {
        seen += 1;
        bytes += rows::bytes(&row)?;
        // The few rows after a full page are read too, because the connection is used again.
        if !full && (condition.exact || query.selection.matches(&RowFields::new(&row))) {
            full = !page.push(&RowFields::new(&row).view(queue)?);
        }
        last = Some(row);
    }
    let Some(last) = last.filter(|_| !full && (seen == wanted || bytes >= max_bytes)) else {
        return Ok(ControlFlow::Break(full));
    };
    let value = query.order.field.value_of(&RowFields::new(&last)).into_owned();
    Ok(ControlFlow::Continue(TaskPosition { value, id: rows::id(&last)? }))
}

/// The keys of the tasks of a page and of one more. Visits every task once, or these few alone.
async fn first_keys(
    snapshot: &Snapshot<'_>,
    key: QueueKey,
    query: &TaskQuery,
    after: Option<TaskPosition>,
    few: Option<&[i64]>,
) -> Read<Vec<i64>> {
    let mut first = FirstRows::new(query.order, after, usize::from(query.limit) + 1);
    each_selected(snapshot, key, &query.selection, few, |row| {
        first.offer(&RowFields::new(row), rows::id(row)?, rows::key(row)?.0);
        Ok(())
    })
    .await?;
    Ok(first.into_sorted())
}

/// Archived tasks that a page in the order of the ids may walk over: the index of that order has them among the others.
const FEW_ARCHIVED: i64 = 20_000;

/// Whether a page is bounded: an index leads to it, and it walks over few tasks that are not on it.
pub(crate) async fn is_bounded(readers: &Readers, queue: &QueueName, query: &TaskQuery) -> StoreResult<bool> {
    if !query.is_plain() || query.order.field != OrderField::Id || query.selection.include_archived {
        return Ok(query.is_plain());
    }
    let has_many = |session: Arc<Session>| async move {
        let row = session.first(&sql::HAS_MANY_ARCHIVED, &[&queue.as_str(), &FEW_ARCHIVED]).await?;
        Ok(row.map(|row| rows::get(&row, 0)).transpose()?.unwrap_or(false))
    };
    Ok(!readers.read(Lane::Short, "counting archived tasks", has_many).await?)
}

fn as_int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Every selected task of a queue, in no particular order; heavy columns are there only if the filter reads them.
async fn each_selected(
    snapshot: &Snapshot<'_>,
    key: QueueKey,
    selection: &TaskSelection,
    few: Option<&[i64]>,
    mut read: impl FnMut(&Row) -> Read<()>,
) -> Read<()> {
    let condition = condition_among(selection, few, &sql::SCAN_TASKS);
    let text = order::with_condition(&sql::SCAN_TASKS.text, &condition.text);
    let reads = selection.filter.as_ref().map(|filter| filter.reads()).unwrap_or_default();
    let fixed: Vec<Param<'_>> =
        vec![(&key.0, Type::INT8), (&reads.definition, Type::BOOL), (&reads.outcome, Type::BOOL)];
    let mut found = stream(snapshot.session, &text, fixed, &condition).await?;
    while let Some(row) = snapshot.next(&mut found).await? {
        if selection.matches(&RowFields::new(&row)) {
            read(&row)?;
        }
    }
    Ok(())
}

/// The keys of all tasks that have a state which is selected, if it is cheaper to look these up than to visit the queue
/// (docs/decisions/0004). Nothing if they are too many to collect, or if the tables do not have all of them: the counts tell,
/// in the same snapshot.
pub(crate) async fn few_keys(
    snapshot: &Snapshot<'_>,
    key: QueueKey,
    selection: &TaskSelection,
    need: Need,
) -> Read<Option<Vec<i64>>> {
    let wanted = selection.statuses();
    if wanted == Statuses::ALL {
        return Ok(None);
    }
    snapshot.release_slot();
    let mut counts = StatusCounts::default();
    for row in snapshot.session.query(&sql::COUNT_STATUSES, &[&key.0]).await? {
        counts.add(rows::get(&row, "status")?, rows::get(&row, "tasks")?);
    }
    let statuses = counts.present(wanted);
    let matching = counts.of(statuses);
    if statuses.contains(Status::Succeeded) || !is_sparse_by_keys(matching, counts.total(), need) {
        return Ok(None);
    }
    let found = snapshot.session.query(&sql::LIST_KEYS_BY_STATUS, &[&key.0, &statuses.words()]).await?;
    snapshot.yield_if_due()?;
    let keys = found.iter().map(|row| Ok(rows::key(row)?.0)).collect::<Read<Vec<i64>>>()?;
    Ok((keys.len() as u64 == matching).then_some(keys))
}

/// The condition of a selection, among these tasks alone if there are any.
pub(crate) fn condition_among(selection: &TaskSelection, few: Option<&[i64]>, statement: &Sql) -> Condition {
    let condition = dialect::condition(selection, next_parameter(statement));
    match few {
        Some(keys) => dialect::among(condition, keys, next_parameter(statement)),
        None => condition,
    }
}

/// How many tasks are selected, from the tally. One statement.
pub(crate) async fn count_tally(session: &Session, queue: &QueueName, selection: &TaskSelection) -> Read<u64> {
    let (statuses, archived) = (selection.statuses().words(), selection.include_archived);
    let row = session.first(&sql::COUNT_TALLY, &[&queue.as_str(), &statuses, &archived]).await?;
    Ok(rows::get(&row.ok_or_else(|| no_queue(queue))?, "tasks")?)
}

/// How many tasks are selected. Visits them.
pub(crate) async fn count_tasks(snapshot: &Snapshot<'_>, queue: &QueueName, selection: &TaskSelection) -> Read<u64> {
    let key = existing_queue(snapshot.session, queue).await?;
    let few = few_keys(snapshot, key, selection, Need::All).await?;
    let condition = condition_among(selection, few.as_deref(), &sql::COUNT_TASKS);
    let mut count = 0;
    if condition.exact {
        let text = order::with_condition(&sql::COUNT_TASKS.text, &condition.text);
        let mut found = stream(snapshot.session, &text, vec![(&key.0, Type::INT8)], &condition).await?;
        while let Some(row) = snapshot.next(&mut found).await? {
            count = rows::get(&row, "tasks")?;
        }
    } else {
        each_selected(snapshot, key, selection, few.as_deref(), |_| {
            count += 1;
            Ok(())
        })
        .await?;
    }
    Ok(count)
}

/// One page of groups of tasks, from the tally. One statement.
pub(crate) async fn group_tally(session: &Session, queue: &QueueName, query: &TaskGroupQuery) -> Read<GroupPage> {
    let (statuses, archived) = (query.selection.statuses().words(), query.selection.include_archived);
    let lines = session.query(&sql::LIST_TALLY, &[&queue.as_str(), &statuses, &archived]).await?;
    let key = rows::found_queue(lines.first().ok_or_else(|| no_queue(queue))?)?;
    let mut groups = Groups::new(query.limit, group_position(query, key)?);
    for line in &lines {
        if let Some(line) = rows::tally_or_null(line)? {
            add_line(&mut groups, query, &line);
        }
    }
    Ok(groups.into_page(key.0))
}

fn add_line(groups: &mut Groups, query: &TaskGroupQuery, line: &rows::TallyRow<'_>) {
    let routes = taskqueue_core::definition::routes_of(line.routes);
    groups.add_tasks(&query.dimensions, routes, line.status, line.tasks);
}

/// One page of groups of tasks. Visits them.
pub(crate) async fn group_tasks(snapshot: &Snapshot<'_>, queue: &QueueName, query: &TaskGroupQuery) -> Read<GroupPage> {
    let key = existing_queue(snapshot.session, queue).await?;
    let mut groups = Groups::new(query.limit, group_position(query, key)?);
    let few = few_keys(snapshot, key, &query.selection, Need::All).await?;
    let condition = condition_among(&query.selection, few.as_deref(), &sql::GROUP_TASKS);
    if condition.exact {
        let text = order::with_condition(&sql::GROUP_TASKS.text, &condition.text);
        let mut found = stream(snapshot.session, &text, vec![(&key.0, Type::INT8)], &condition).await?;
        while let Some(row) = snapshot.next(&mut found).await? {
            add_line(&mut groups, query, &rows::tally(&row)?);
        }
    } else {
        each_selected(snapshot, key, &query.selection, few.as_deref(), |row| {
            let fields = RowFields::new(row);
            let line = rows::TallyRow { routes: fields.routes_text(), status: fields.status(), tasks: 1 };
            add_line(&mut groups, query, &line);
            Ok(())
        })
        .await?;
    }
    Ok(groups.into_page(key.0))
}

/// Visits the current observations of a queue, at the caller's time if it has one, else at the service's.
pub(crate) async fn read_workers(
    snapshot: &Snapshot<'_>,
    queue: &QueueName,
    read: &WorkerRead,
    now: Option<Timestamp>,
) -> Read<()> {
    let session = snapshot.session;
    let (key, now) = existing_queue_and_time(session, queue, now).await?;
    let mut visit = read.begin(key)?;
    let mut after = visit.after.map(|id| id.to_string()).unwrap_or_default();
    loop {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&key.0, &now.as_micros(), &after, &as_int(OBSERVATIONS_AT_ONCE)];
        snapshot.release_slot();
        let found = session.query(&sql::LIST_OBSERVATIONS, &params).await?;
        for row in &found {
            snapshot.yield_if_due()?;
            let observation = rows::observation(row, queue)?;
            after = observation.id.to_string();
            if !visit.visit(observation) {
                visit.finish(true);
                return Ok(());
            }
        }
        if found.len() < OBSERVATIONS_AT_ONCE {
            visit.finish(false);
            return Ok(());
        }
    }
}

/// Whether the database answers, and what its settings risk.
pub(crate) async fn check(session: &Session) -> Read<Vec<String>> {
    session.first(&sql::CHECK, &[]).await?;
    Ok(open::weaknesses(session.client()).await?)
}
