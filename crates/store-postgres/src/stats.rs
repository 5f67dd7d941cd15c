//! What is going on in queues: figures from the tally, the observations and the pending order, and the activity that all processes
//! have counted. No read visits more tasks than routes are asked for, and each takes two or three round trips, however many queues
//! are asked for. The database sorts by route; of what it sends no more is held than is asked for, and a part of one queue. What
//! the numbers mean is in `core::stats`.
//!
//! Also how large the tables are, and saving what processes have counted.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use futures_util::future::{try_join3, try_join4};
use parking_lot::Mutex;
use taskqueue_core::activity::{Activity, Unit};
use taskqueue_core::pending_parts::CountedParts;
use taskqueue_core::stats::{ActivitySeries, KnownSpans, PendingDetail, QueueStats, SeriesSelection, waiting_since};
use taskqueue_core::{QueueFigures, QueueName, RouteSelection, Timestamp};
use taskqueue_store::activity::{ActivityLog, ActivityRow, ProcessId};
use taskqueue_store::figures::{ROUTES_AT_ONCE, StoreFigures};
use taskqueue_store::{Loaded, QueueKey, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::readers::{BEGIN, END, Lane, Read, Readers, in_snapshot};
use crate::reads::{existing_queue_and_time, no_queue};
use crate::rows::{self, Damaged, RouteSums};
use crate::session::{Param, Params, Session, Sql};
use crate::statements as sql;
use crate::transaction::PostgresTransaction;

/// Steps from one priority of a route to the next in one search for the tasks that have been pending longest, of all routes
/// together: some ten milliseconds.
const PRIORITY_STEPS: i64 = 10_000;

/// How many pending tasks of each queue are looked at to say what they wait for: a millisecond for a large queue. Dependencies are
/// looked at only if a queue has more tasks in the pending order than that, and those of ended tasks are among them
/// (docs/decisions/0060).
const COUNTED_ENTRIES: i64 = 1_000;
const COUNTED_DEPENDENCIES: i64 = 10_000;

/// Reads figures in one session.
pub(crate) struct StatsReader<'s> {
    pub(crate) session: &'s Session,
    pub(crate) log: &'s ActivityLog,
    /// A time instead of the database's, for tests.
    pub(crate) clock: Option<Timestamp>,
}

impl StatsReader<'_> {
    /// What is going on in a queue.
    pub(crate) async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> Read<QueueStats> {
        let (key, begun_at) = existing_queue_and_time(self.session, queue, self.clock).await?;
        let range = QueueStats::needs(begun_at);
        let in_memory = self.log.in_memory(key, Unit::Minute, range);
        let keys = [key.0];
        let ((), mut queues, minutes, since) = try_join4(
            self.renew(),
            self.read_figures(&keys, routes, PendingDetail::Number, Some(begun_at)),
            self.load_spans(key, Unit::Minute, range, in_memory),
            self.query(&sql::LOAD_ACTIVITY_SINCE, &[]),
        )
        .await?;
        self.add_oldest(&mut queues).await?;
        // It may have been deleted meanwhile.
        let (_, figures) = queues.pop().ok_or_else(|| no_queue(queue))?;
        let (now, since) = self.now_and_since(&since)?;
        Ok(QueueStats::of(now, figures, &minutes, since))
    }

    /// What happened in a queue over time.
    pub(crate) async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> Read<ActivitySeries> {
        let (key, now) = existing_queue_and_time(self.session, queue, self.clock).await?;
        let (unit, range) = (selection.unit, selection.range(now));
        let spans = self.load_spans(key, unit, range, self.log.in_memory(key, unit, range));
        let (_, spans, since) = try_join3(self.renew(), spans, self.query(&sql::LOAD_ACTIVITY_SINCE, &[])).await?;
        Ok(ActivitySeries { unit, spans, since: self.now_and_since(&since)?.1 })
    }

    /// The figures of queues.
    pub(crate) async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> Read<StoreFigures> {
        let keys: Vec<i64> = queues.iter().map(|key| key.0).collect();
        let since = in_snapshot(self.session, self.session.query(&sql::LOAD_ACTIVITY_SINCE, &[])).await?;
        let mut figures = self.read_figures(&keys, routes, pending, self.clock).await?;
        self.add_oldest(&mut figures).await?;
        let (now, _) = self.now_and_since(&since)?;
        Ok(StoreFigures { now, queues: figures, looked_at: queues.len(), database_bytes: None })
    }

    /// A new snapshot in place of the one under way. The memory of this process was read in between: what has left it since the first
    /// snapshot, because it was saved, is in the second.
    async fn renew(&self) -> Read<()> {
        Ok(self.session.execute_text(&format!("{END}; {BEGIN}")).await?)
    }

    async fn query(&self, sql: &'static Sql, params: Params<'_>) -> Read<Vec<Row>> {
        Ok(self.session.query(sql, params).await?)
    }

    /// Returns the time of an answer, and since when activity is known.
    fn now_and_since(&self, rows: &[Row]) -> Read<(Timestamp, Timestamp)> {
        let row = rows.first().ok_or(StoreError::Broken("no row says since when activity is counted"))?;
        let now = self.clock.map_or_else(|| rows::get(row, "now"), Ok)?;
        // The clock of the database may have been set back.
        Ok((now, rows::get::<Timestamp>(row, "since")?.min(now)))
    }

    /// The tasks of queues by status, their routes and settings, and, if that is asked for, what their pending tasks wait for. Without
    /// their oldest pending tasks.
    async fn read_figures(
        &self,
        keys: &[i64],
        routes: &RouteSelection,
        pending: PendingDetail,
        time: Option<Timestamp>,
    ) -> Read<Vec<(QueueKey, QueueFigures)>> {
        let (of_queues, micros): (Params<'_>, _) = (&[&keys], time.map(Timestamp::as_micros));
        // What the pending tasks wait for, if somebody asks for it.
        let parts = async {
            if pending == PendingDetail::Number {
                return Ok(Vec::new());
            }
            self.query(&sql::LIST_PENDING_PARTS, &[&keys, &micros, &COUNTED_ENTRIES, &COUNTED_DEPENDENCIES]).await
        };
        let (counts, mut of_routes, settings, parts) = try_join4(
            self.query(&sql::LIST_FIGURES, of_queues),
            self.route_figures(keys, routes, micros),
            self.query(&sql::LOAD_SETTINGS, of_queues),
            parts,
        )
        .await?;
        let mut queues: HashMap<QueueKey, QueueFigures> = HashMap::new();
        for row in &counts {
            let key = rows::found_queue(row)?;
            let figures = queues.entry(key).or_insert_with(|| of_routes.remove(&key).unwrap_or_default());
            // A queue without tasks has no status.
            if let Some(status) = rows::get(row, "status")? {
                figures.add_tasks([], status, rows::get(row, "tasks")?);
            }
        }
        for row in &settings {
            if let (Some(figures), Some(other)) = (queues.get_mut(&rows::found_queue(row)?), rows::settings(row)?) {
                figures.settings = Arc::unwrap_or_clone(other);
            }
        }
        for row in &parts {
            if let Some(figures) = queues.get_mut(&rows::found_queue(row)?) {
                figures.set_pending(counted_parts(row)?);
            }
        }
        // Those that exist, in the order in which they were asked for.
        Ok(keys.iter().filter_map(|key| queues.remove_entry(&QueueKey(*key))).collect())
    }

    /// The routes of queues, with what was selected of each.
    async fn route_figures(
        &self,
        keys: &[i64],
        routes: &RouteSelection,
        micros: Option<i64>,
    ) -> Read<HashMap<QueueKey, QueueFigures>> {
        let params: [Param<'_>; 2] = [(&keys, Type::INT8_ARRAY), (&micros, Type::INT8)];
        let mut found = pin!(self.session.stream(&sql::LIST_ROUTE_FIGURES.text, &params).await?);
        let mut reading = RouteReading { routes, queues: HashMap::new(), current: None };
        while let Some(row) = found.try_next().await? {
            let (key, route, sums) = rows::route_row(&row)?;
            reading.add(key, route, sums)?;
        }
        reading.end_route(true)?;
        Ok(reading.queues)
    }

    /// Adds since when the oldest tasks of the routes with pending tasks are pending.
    async fn add_oldest(&self, queues: &mut [(QueueKey, QueueFigures)]) -> Read<()> {
        let pending = queues.iter().enumerate().flat_map(|(place, (_, figures))| {
            let routes = figures.routes().filter(|(_, figures)| figures.pending > 0);
            routes.map(move |(route, _)| (place, route.to_owned()))
        });
        let pending: Vec<(usize, String)> = pending.collect();
        if pending.is_empty() {
            return Ok(());
        }
        let keys: Vec<i64> = pending.iter().map(|(place, _)| queues[*place].0.0).collect();
        let routes: Vec<&str> = pending.iter().map(|(_, route)| route.as_str()).collect();
        // All routes take their first step before any takes its second.
        let steps = i64::try_from(pending.len()).unwrap_or(i64::MAX).saturating_add(PRIORITY_STEPS);
        for row in self.session.query(&sql::LIST_OLDEST_PENDING, &[&keys, &routes, &steps]).await? {
            let (number, was_run): (usize, bool) = (rows::get(&row, "route_number")?, rows::get(&row, "was_run")?);
            let since = waiting_since(rows::get(&row, "created_at")?, rows::get(&row, "updated_at")?, was_run);
            if let Some((queue, route)) = pending.get(number.wrapping_sub(1)) {
                queues[*queue].1.add_pending_since(route, since);
            }
        }
        Ok(())
    }

    /// Returns the spans of a queue: what this process had in memory, with what all processes have saved. Rows of other processes are added
    /// up as they come: a year of many servers is a lot.
    async fn load_spans(
        &self,
        key: QueueKey,
        unit: Unit,
        (from, to): (Timestamp, Timestamp),
        in_memory: KnownSpans,
    ) -> Read<KnownSpans> {
        let (unit, from, to) = (unit.seconds(), from.as_micros(), to.as_micros());
        let params: [Param<'_>; 4] =
            [(&key.0, Type::INT8), (&unit, Type::INT8), (&from, Type::INT8), (&to, Type::INT8)];
        let mut found = pin!(self.session.stream(&sql::LIST_ACTIVITY.text, &params).await?);
        let mut saved: BTreeMap<(Timestamp, bool), (ProcessId, Activity)> = BTreeMap::new();
        while let Some(row) = found.try_next().await? {
            let (start, process, activity): (_, _, Activity) =
                (rows::get(&row, "start_at")?, rows::get(&row, "process")?, rows::get(&row, "counted")?);
            match saved.entry((start, process == self.log.process)) {
                Entry::Occupied(mut known) => known.get_mut().1.merge(&activity),
                Entry::Vacant(new) => drop(new.insert((process, activity))),
            }
        }
        let rows = saved.into_iter().map(|((start, _), (process, activity))| (start, process, activity));
        Ok(self.log.sum(in_memory, rows))
    }
}

/// Routes as they come: by queue and by name, each with several rows. What was not selected is only counted.
struct RouteReading<'s> {
    routes: &'s RouteSelection,
    queues: HashMap<QueueKey, QueueFigures>,
    /// The one whose rows come now.
    current: Option<(QueueKey, Box<str>, RouteSums)>,
}

impl RouteReading<'_> {
    fn add(&mut self, key: QueueKey, route: &str, sums: RouteSums) -> Read<()> {
        match &mut self.current {
            Some((queue, current, so_far)) if *queue == key && **current == *route => {
                so_far.iter_mut().zip(sums).for_each(|(so_far, more)| *so_far += more);
            }
            _ => {
                let is_other_queue = self.current.as_ref().is_some_and(|(queue, ..)| *queue != key);
                self.end_route(is_other_queue)?;
                self.current = Some((key, route.into(), sums));
            }
        }
        Ok(())
    }

    fn end_route(&mut self, is_last_of_queue: bool) -> Read<()> {
        let Some((key, route, sums)) = self.current.take() else { return Ok(()) };
        let queue = self.queues.entry(key).or_default();
        if let Some(figures) = rows::route_figures(sums)? {
            queue.add_route(route, &figures);
        }
        if is_last_of_queue || queue.routes().len() >= self.routes.most().saturating_add(ROUTES_AT_ONCE) {
            queue.keep(self.routes);
        }
        Ok(())
    }
}

/// Where the pending tasks of a queue are, as far as they were counted.
fn counted_parts(row: &Row) -> Result<CountedParts, Damaged> {
    let below = |bound: i64, column: &str| rows::get::<i64>(row, column).map(|found| found < bound);
    let order_is_counted = below(COUNTED_ENTRIES, "ordered_entries")?;
    let due_are_counted = below(COUNTED_ENTRIES, "due_tasks")?;
    let later_are_counted = below(COUNTED_ENTRIES, "later_tasks")?;
    // They are not looked at where all others were counted.
    let others_are_counted = order_is_counted && due_are_counted && later_are_counted;
    let dependencies_are_counted = !others_are_counted && below(COUNTED_DEPENDENCIES, "noted_dependencies")?;
    let claimable = rows::get::<u64>(row, "ordered_tasks")? + rows::get::<u64>(row, "due_tasks")?;
    Ok(CountedParts {
        claimable: (order_is_counted && due_are_counted).then_some(claimable),
        delayed: Some(rows::get(row, "later_tasks")?).filter(|_| later_are_counted),
        blocked: Some(rows::get(row, "blocked_tasks")?).filter(|_| dependencies_are_counted),
    })
}

/// How long a measurement counts.
const KEPT: Duration = Duration::from_secs(60);
/// The pause after one that failed: each failure is logged.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(crate) struct DatabaseSize(Mutex<Measured>);

#[derive(Default)]
struct Measured {
    bytes: Option<u64>,
    /// When to measure again; at once if nothing is there.
    due: Option<Instant>,
    is_under_way: bool,
}

impl DatabaseSize {
    /// The last measurement, if there is one. Begins a new one if it is time for it.
    pub(crate) fn known(self: &Arc<Self>, readers: &Arc<Readers>) -> Option<u64> {
        let mut measured = self.0.lock();
        if !measured.is_under_way && measured.due.is_none_or(|due| Instant::now() >= due) {
            measured.is_under_way = true;
            tokio::spawn(Arc::clone(self).measure(Arc::clone(readers)));
        }
        measured.bytes
    }

    async fn measure(self: Arc<Self>, readers: Arc<Readers>) {
        let read = |session: Arc<Session>| async move {
            let row = session.first(&sql::MEASURE_TABLES, &[]).await?;
            Ok(row.map_or(Ok(0), |row| rows::get(&row, "bytes"))?)
        };
        let answer = readers.read(Lane::Short, "measuring the tables", read).await;
        let pause = if answer.is_ok() { KEPT } else { PAUSE_AFTER_FAILURE };
        let mut measured = self.0.lock();
        *measured = Measured { bytes: answer.ok(), due: Some(Instant::now() + pause), is_under_way: false };
    }
}

impl PostgresTransaction<'_> {
    /// Busy if another transaction has a queue for itself. The rows of the other queues are saved all the same: when this is tried
    /// again, saving them once more changes nothing.
    pub(crate) fn save_counted(&mut self, process: ProcessId, counted: &[ActivityRow]) -> Loaded<()> {
        if counted.is_empty() {
            return Ok(());
        }
        let queues: Vec<i64> = counted.iter().map(|row| row.queue.0).collect();
        let units: Vec<i64> = counted.iter().map(|row| row.span.unit.seconds()).collect();
        let starts: Vec<i64> = counted.iter().map(|row| row.span.start.as_micros()).collect();
        let bytes: Vec<Vec<u8>> = counted.iter().map(|row| row.activity.to_bytes()).collect();
        self.wrote = true;
        let params: Params<'_> = &[&queues, &units, &starts, &process.0, &bytes];
        let saved = self.query("saving activity", &sql::SAVE_ACTIVITY, params)?;
        let mut left_out: BTreeSet<i64> = queues.into_iter().collect();
        for row in &saved {
            left_out.remove(&rows::found_queue(row)?.0);
        }
        if left_out.is_empty() {
            return Ok(());
        }
        let row = self.first("finding queues", &sql::CHECK_QUEUES, &[&Vec::from_iter(left_out)])?;
        let any_exists = row.map(|row| rows::get(&row, 0)).transpose()?.unwrap_or(false);
        if any_exists { Err(StoreError::Busy) } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
