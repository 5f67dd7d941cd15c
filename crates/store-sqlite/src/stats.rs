//! What is going on in queues, read without visiting tasks: the kept counts, the observations, the activity that was counted,
//! and the oldest pending tasks, which the writer knows (`published_index.rs`). What the numbers mean is decided in
//! `core::stats`.

use std::collections::BTreeMap;

use rusqlite::params;
use taskqueue_core::activity::Unit;
use taskqueue_core::definition::routes_of;
use taskqueue_core::pending_parts::CountedParts;
use taskqueue_core::stats::{ActivitySeries, KnownSpans, PendingDetail, QueueStats, RouteFigures, SeriesSelection};
use taskqueue_core::{QueueFigures, QueueName, RouteSelection, Status, TaskSelection, Timestamp};
use taskqueue_store::figures::{ROUTES_AT_ONCE, StoreFigures};
use taskqueue_store::{QueueKey, StoreResult};

use crate::published_index::PublishedIndex;
use crate::queries::{CONTINUE, Read, Snapshot, no_queue};
use crate::readers::Lane;
use crate::reads::settings_of;
use crate::sparse_reads::each_selected_tally;
use crate::writer::SharedState;
use crate::{SqliteStore, rows, statements as sql};

/// Routes that a read of many queues looks at before it ends early: some ten milliseconds.
const ROUTES_LOOKED_AT: u64 = 20_000;
/// Times that a bounded read passes over the counts of a queue: 49,152 routes. With more it is a long read.
const BOUNDED_PASSES: usize = 4;

/// From when to when spans begin.
type SpanRange = (Timestamp, Timestamp);

impl SqliteStore {
    pub(crate) async fn stats_of(&self, queue: &QueueName, routes: &RouteSelection) -> StoreResult<QueueStats> {
        let (now, routes) = (self.shared.clock.now(), routes.clone());
        self.with_spans(queue, (Unit::Minute, QueueStats::needs(now)), move |shared, file, key, minutes| {
            let Some(figures) = queue_figures(file, key, &routes, now)? else { return Ok(None) };
            let mut figures = [(key, figures)];
            shared.oldest_pending.add_to(&shared.published_index, file, &mut figures, now)?;
            add_settings(file, &mut figures)?;
            let [(_, figures)] = figures;
            Ok(Some(QueueStats::of(now, figures, &minutes, since(file)?.min(now))))
        })
        .await
    }

    pub(crate) async fn activity_of(
        &self,
        queue: &QueueName,
        selection: SeriesSelection,
    ) -> StoreResult<ActivitySeries> {
        let (now, unit) = (self.shared.clock.now(), selection.unit);
        self.with_spans(queue, (unit, selection.range(now)), move |_, file, _, spans| {
            Ok(Some(ActivitySeries { unit, spans, since: since(file)?.min(now) }))
        })
        .await
    }

    /// Reads with the spans of a queue. What is in memory is taken before the snapshot: a span that is over leaves the memory
    /// when it has been saved.
    async fn with_spans<T: Send + 'static>(
        &self,
        queue: &QueueName,
        (unit, range): (Unit, SpanRange),
        read: impl Fn(&SharedState, &Snapshot<'_>, QueueKey, KnownSpans) -> Read<Option<T>> + Clone + Send + 'static,
    ) -> StoreResult<T> {
        let Self { threads, shared, .. } = self;
        let key = threads.readers.find_queue(queue).await?;
        let read_all = || {
            let (shared, name, read) = (shared.clone(), queue.clone(), read.clone());
            let in_memory = shared.activity.in_memory(key, unit, range);
            move |file: &Snapshot<'_>| {
                // One of this name that was created meanwhile is another queue: at some moment there was none.
                if file.existing_queue(&name)? != key {
                    return Err(no_queue(&name));
                }
                let of_range = params![key.0, unit.seconds(), rows::seconds(range.0), rows::seconds_up(range.1)];
                let saved = file.all_rows(&sql::LIST_ACTIVITY, of_range, rows::saved_span)?;
                read(&shared, file, key, shared.activity.sum(in_memory, saved))
            }
        };
        threads.readers.read_or_long(Lane::Page, "reading activity", read_all).await
    }

    pub(crate) async fn figures_of(
        &self,
        asked: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> StoreResult<StoreFigures> {
        let now = self.shared.clock.now();
        let read = || {
            let (shared, asked, routes) = (self.shared.clone(), asked.to_vec(), routes.clone());
            // Those of the first queues. Nothing if the first one has too many routes for a bounded read.
            move |file: &Snapshot<'_>| {
                let (mut queues, mut looked_at, mut seen) = (Vec::new(), 0, 0);
                for &key in &asked {
                    if seen >= ROUTES_LOOKED_AT {
                        break;
                    }
                    if file.connection.prepare_cached(&sql::HAS_QUEUE)?.exists([key.0])? {
                        match queue_figures(file, key, &routes, now)? {
                            Some(figures) => {
                                seen += figures.route_count();
                                queues.push((key, figures));
                            }
                            None if looked_at == 0 => return Ok(None),
                            None => break,
                        }
                    }
                    looked_at += 1;
                }
                shared.oldest_pending.add_to(&shared.published_index, file, &mut queues, now)?;
                add_settings(file, &mut queues)?;
                if pending == PendingDetail::ByState {
                    add_parts(file, &shared.published_index, &mut queues, now);
                }
                Ok(Some(StoreFigures { now, queues, looked_at, database_bytes: shared.ownership.bytes() }))
            }
        };
        self.threads.readers.read_or_long(Lane::Page, "reading figures", read).await
    }
}

/// Adds what the pending tasks of queues wait for: the writer knows that. It is asked after the snapshot was taken; if it is
/// busy for too long, what they wait for is not known.
fn add_parts(file: &Snapshot<'_>, index: &PublishedIndex, queues: &mut [(QueueKey, QueueFigures)], now: Timestamp) {
    let keys: Vec<QueueKey> = queues.iter().map(|(key, _)| *key).collect();
    let has_pending = queues.iter().any(|(_, figures)| figures.tasks(Status::Pending) > 0);
    let counts = if has_pending {
        file.release_slot();
        index.look(move |index| keys.iter().map(|key| index.waiting.counts_of(*key, now)).collect::<Vec<_>>())
    } else {
        Some(vec![(0, 0); keys.len()])
    };
    for ((_, figures), (delayed, blocked)) in queues.iter_mut().zip(counts.into_iter().flatten()) {
        let (delayed, blocked) = (Some(delayed as u64), Some(blocked as u64));
        figures.set_pending(CountedParts { claimable: None, delayed, blocked });
    }
}

fn add_settings(file: &Snapshot<'_>, queues: &mut [(QueueKey, QueueFigures)]) -> Read<()> {
    for (key, figures) in queues {
        figures.settings = settings_of(file, *key)?;
    }
    Ok(())
}

/// All but the oldest pending tasks. Nothing if the queue has more routes than a bounded read passes over again and again.
fn queue_figures(
    file: &Snapshot<'_>,
    key: QueueKey,
    routes: &RouteSelection,
    now: Timestamp,
) -> Read<Option<QueueFigures>> {
    let (mut figures, mut window) = (QueueFigures::default(), RouteWindow::new(ROUTES_AT_ONCE));
    for passes in 1.. {
        // Archived tasks are left out.
        each_selected_tally(file, key, &TaskSelection::default(), |line| {
            let living = RouteFigures::of_tasks(line.status, line.tasks);
            if living != RouteFigures::default() {
                routes_of(line.routes).for_each(|route| window.add(route, &living));
            }
            if passes == 1 {
                figures.add_tasks([], line.status, line.tasks);
            }
        })?;
        file.each_row(&sql::LIST_WORKER_STATES, params![key.0, now.as_micros()], |row| {
            let (route, status) = rows::worker_state(row)?;
            window.add(route.as_str(), &RouteFigures::of_workers(status, 1));
            Ok(CONTINUE)
        })?;
        let has_more = window.move_to(&mut figures);
        figures.keep(routes);
        if !has_more {
            break;
        }
        if passes == BOUNDED_PASSES && file.active.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(figures))
}

/// From when on activity is known.
fn since(file: &Snapshot<'_>) -> Read<Timestamp> {
    Ok(file.connection.prepare_cached(&sql::LOAD_ACTIVITY_SINCE)?.query_row([], rows::since)?)
}

/// The routes of a queue, some at a time in the order of their names: there may be any number of them, and what is held of them is
/// bounded. The counts of a queue are by sets of routes and in no order, so each window reads all of them.
struct RouteWindow {
    most: usize,
    /// The last one that was seen.
    after: Option<Box<str>>,
    routes: BTreeMap<Box<str>, RouteFigures>,
    /// True if some did not fit.
    has_more: bool,
}

impl RouteWindow {
    fn new(most: usize) -> Self {
        Self { most, after: None, routes: BTreeMap::new(), has_more: false }
    }

    /// Adds what is counted for a route, if it is in the window.
    fn add(&mut self, route: &str, figures: &RouteFigures) {
        if self.after.as_deref().is_some_and(|after| route <= after) {
            return;
        }
        if let Some(known) = self.routes.get_mut(route) {
            known.merge(figures);
            return;
        }
        let is_full = self.routes.len() >= self.most;
        self.has_more |= is_full;
        // What was dropped comes after the last one, and so it stays out.
        if is_full && self.routes.last_key_value().is_some_and(|(last, _)| route > &**last) {
            return;
        }
        self.routes.insert(route.into(), *figures);
        if is_full {
            self.routes.pop_last();
        }
    }

    /// Moves the routes to the figures of their queue, and says whether there are more.
    fn move_to(&mut self, figures: &mut QueueFigures) -> bool {
        let routes = std::mem::take(&mut self.routes);
        self.after = routes.last_key_value().map(|(last, _)| last.clone());
        routes.into_iter().for_each(|(route, of_route)| figures.add_route(route, &of_route));
        std::mem::take(&mut self.has_more)
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::status::Status;

    use super::*;

    #[test]
    fn windows_of_any_size_see_each_route_once_with_all_its_counts() {
        // Each route three times, in no order.
        let counted: Vec<String> = (0..60).map(|n| format!("r{:02}", n * 7 % 20)).collect();
        for most in 1..25 {
            let (mut window, mut figures, mut windows) = (RouteWindow::new(most), QueueFigures::default(), 0);
            loop {
                for route in &counted {
                    window.add(route, &RouteFigures::of_tasks(Status::Pending, 1));
                    assert!(window.routes.len() <= most);
                }
                windows += 1;
                if !window.move_to(&mut figures) {
                    break;
                }
            }
            assert_eq!(windows, 20_usize.div_ceil(most), "{most}");
            assert_eq!(figures.routes().len(), 20);
            assert!(figures.routes().all(|(_, route)| route.pending == 3), "{most}");
        }
    }
}
