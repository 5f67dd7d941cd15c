//! What is going on in queues: figures from the tally, the observations and the pending order, and the activity that all processes
//! have counted. No read visits more tasks than there are routes, and each takes two or three round trips, however many queues
//! there are. What the numbers mean is in `core::stats`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;

use futures_util::TryStreamExt;
use futures_util::future::{try_join3, try_join5};
use taskqueue_core::activity::{Activity, Unit};
use taskqueue_core::definition::routes_of;
use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::{ActivitySeries, KnownSpans, QueueFigures, QueueStats, SeriesSelection};
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::activity::{ActivityLog, ProcessId};
use taskqueue_store::figures::{NamedFigures, StoreFigures};
use taskqueue_store::transaction::QueueKey;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::readers::{BEGIN, END, in_snapshot};
use crate::reads::{Read, no_queue};
use crate::rows::{self, OldestRow, SavedSpan};
use crate::session::{Param, Session, Sql};
use crate::statements as sql;

/// Steps from one priority of a route to the next in one search for the tasks that have been pending longest, of all routes
/// together: some ten milliseconds.
const PRIORITY_STEPS: i64 = 10_000;
/// Routes of all queues together whose oldest pending task metrics tell.
const ROUTES_OF_FIGURES: usize = 1_000;

/// What is going on in a queue. `clock` is a time instead of the database's, for tests.
pub(crate) async fn queue_stats(
    session: &Session,
    queue: &QueueName,
    log: &ActivityLog,
    clock: Option<Timestamp>,
) -> Read<QueueStats> {
    let (key, begun_at) = begin(session, queue, clock).await?;
    let spans = Spans::in_memory(log, key, Unit::Minute, QueueStats::needs(begun_at));
    let (_, tally, workers, minutes, since) = try_join5(
        renew(session),
        query(session, &sql::LIST_FIGURES, &[&key.0]),
        query(session, &sql::LIST_WORKER_STATES, &[&key.0, &begun_at.as_micros()]),
        spans.load(session),
        query(session, &sql::LOAD_ACTIVITY_SINCE, &[]),
    )
    .await?;
    let mut queues = named_figures(&tally, &workers)?;
    add_oldest(session, &mut queues, usize::MAX).await?;
    // It may have been deleted meanwhile.
    let figures = queues.pop().ok_or_else(|| no_queue(queue))?.figures;
    let Known { now, since } = Known::of(&since, clock)?;
    Ok(QueueStats::of(now, figures, &minutes, since))
}

/// What happened in a queue over time.
pub(crate) async fn activity_series(
    session: &Session,
    queue: &QueueName,
    selection: SeriesSelection,
    log: &ActivityLog,
    clock: Option<Timestamp>,
) -> Read<ActivitySeries> {
    let (key, now) = begin(session, queue, clock).await?;
    let spans = Spans::in_memory(log, key, selection.unit, selection.range(now));
    let (_, spans, since) =
        try_join3(renew(session), spans.load(session), query(session, &sql::LOAD_ACTIVITY_SINCE, &[])).await?;
    Ok(ActivitySeries { unit: selection.unit, spans, since: Known::of(&since, clock)?.since })
}

/// The figures of all queues.
pub(crate) async fn figures(session: &Session, clock: Option<Timestamp>) -> Read<StoreFigures> {
    let (all, micros) = (None::<i64>, clock.map(Timestamp::as_micros));
    let params: [&(dyn ToSql + Sync); 2] = [&all, &micros];
    let asked = try_join3(
        session.query(&sql::LIST_FIGURES, &params[..1]),
        session.query(&sql::LIST_WORKER_STATES, &params),
        session.query(&sql::LOAD_ACTIVITY_SINCE, &[]),
    );
    let (tally, workers, since) = in_snapshot(session, asked).await?;
    let mut queues = named_figures(&tally, &workers)?;
    add_oldest(session, &mut queues, ROUTES_OF_FIGURES).await?;
    Ok(StoreFigures { now: Known::of(&since, clock)?.now, queues, database_bytes: None })
}

/// Begins a snapshot and finds a queue that must exist, and the time.
async fn begin(session: &Session, queue: &QueueName, clock: Option<Timestamp>) -> Read<(QueueKey, Timestamp)> {
    let found = in_snapshot(session, session.first(&sql::FIND_QUEUE_AND_TIME, &[&queue.as_str()])).await?;
    let found = found.ok_or_else(|| no_queue(queue))?;
    Ok((rows::found_queue(&found)?, clock.map_or_else(|| rows::found_time(&found), Ok)?))
}

/// A new snapshot in place of the one under way. The memory of this process was read in between: what has left it since the first
/// snapshot, because it was saved, is in the second.
async fn renew(session: &Session) -> Read<()> {
    Ok(session.execute_text(&format!("{END}; {BEGIN}")).await?)
}

async fn query(session: &Session, sql: &'static Sql, params: &[&(dyn ToSql + Sync)]) -> Read<Vec<Row>> {
    Ok(session.query(sql, params).await?)
}

/// The time of an answer, and since when activity is known.
struct Known {
    now: Timestamp,
    since: Timestamp,
}

impl Known {
    fn of(rows: &[Row], clock: Option<Timestamp>) -> Read<Self> {
        let row = rows.first().ok_or(StoreError::Broken("no row says since when activity is counted"))?;
        let now = clock.map_or_else(|| rows::found_time(row), Ok)?;
        // The clock of the database may have been set back.
        Ok(Self { now, since: rows::known_since(row)?.min(now) })
    }
}

/// The figures of queues, by key, without the oldest pending tasks.
fn named_figures(tally: &[Row], workers: &[Row]) -> Read<Vec<NamedFigures>> {
    let mut queues: BTreeMap<QueueKey, (QueueName, QueueFigures)> = BTreeMap::new();
    for row in tally {
        let (key, name) = rows::named_queue(row)?;
        let (_, figures) = queues.entry(key).or_insert_with(|| (name, QueueFigures::default()));
        if let Some(line) = rows::tally_or_null(row)? {
            figures.add_tasks(routes_of(line.routes), line.status, line.tasks);
        }
    }
    for row in workers {
        let line = rows::workers(row)?;
        if let Some((_, figures)) = queues.get_mut(&line.queue) {
            figures.add_workers(line.route, line.status, line.workers);
        }
    }
    let named = |(key, (queue, figures))| NamedFigures { key, queue, figures };
    Ok(queues.into_iter().map(named).collect())
}

/// Adds since when the oldest tasks of the routes with pending tasks are pending, of so many routes at most.
async fn add_oldest(session: &Session, queues: &mut [NamedFigures], most_routes: usize) -> Read<()> {
    let pending = queues.iter().enumerate().flat_map(|(place, named)| {
        let routes = named.figures.routes().filter(|(_, figures)| figures.pending > 0);
        routes.map(move |(route, _)| (place, route.to_owned()))
    });
    let pending: Vec<(usize, String)> = pending.take(most_routes).collect();
    if pending.is_empty() {
        return Ok(());
    }
    let keys: Vec<i64> = pending.iter().map(|(place, _)| queues[*place].key.0).collect();
    let routes: Vec<&str> = pending.iter().map(|(_, route)| route.as_str()).collect();
    // All routes take their first step before any takes its second.
    let steps = i64::try_from(pending.len()).unwrap_or(i64::MAX).saturating_add(PRIORITY_STEPS);
    for row in session.query(&sql::LIST_OLDEST_PENDING, &[&keys, &routes, &steps]).await? {
        let OldestRow { place, since } = rows::oldest_pending(&row)?;
        if let Some((queue, route)) = pending.get(place) {
            queues[*queue].figures.add_pending_since(route, since);
        }
    }
    Ok(())
}

/// Spans of a queue: what this process has in memory, and what is to be loaded.
struct Spans<'a> {
    log: &'a ActivityLog,
    key: QueueKey,
    unit: Unit,
    range: (Timestamp, Timestamp),
    in_memory: KnownSpans,
}

impl<'a> Spans<'a> {
    fn in_memory(log: &'a ActivityLog, key: QueueKey, unit: Unit, range: (Timestamp, Timestamp)) -> Self {
        Self { log, key, unit, range, in_memory: log.in_memory(key, unit, range) }
    }

    /// With what all processes have saved. Rows of other processes are added up as they come: a year of many servers is a lot.
    async fn load(self, session: &Session) -> Read<KnownSpans> {
        let Self { log, key, unit, range: (from, to), in_memory } = self;
        let (unit, from, to) = (unit.seconds(), from.as_micros(), to.as_micros());
        let params: [Param<'_>; 4] =
            [(&key.0, Type::INT8), (&unit, Type::INT8), (&from, Type::INT8), (&to, Type::INT8)];
        let mut found = pin!(session.stream(&sql::LIST_ACTIVITY.text, &params).await?);
        let mut saved: BTreeMap<(Timestamp, bool), (ProcessId, Activity)> = BTreeMap::new();
        while let Some(row) = found.try_next().await? {
            let SavedSpan { start, process, activity } = rows::saved_span(&row)?;
            match saved.entry((start, process == log.process())) {
                Entry::Occupied(mut known) => known.get_mut().1.merge(&activity),
                Entry::Vacant(new) => drop(new.insert((process, activity))),
            }
        }
        let rows = saved.into_iter().map(|((start, _), (process, activity))| (start, process, activity));
        Ok(log.sum(in_memory, rows))
    }
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
