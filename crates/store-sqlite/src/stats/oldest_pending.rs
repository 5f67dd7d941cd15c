//! Since when the tasks wait that have been pending longest. The writer knows which ones these are, and the file since when; what
//! was read is remembered, so that asking again reads no task as long as the same ones are the oldest (docs/decisions/0059).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::OptionalExtension;
use taskqueue_core::limits::STATS_ROUTES;
use taskqueue_core::stats::{QueueFigures, pending_since};
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::QueueKey;

use crate::claim_index::{OldestTasks, QueueRoute};
use crate::pending_order::Placed;
use crate::published_index::PublishedIndex;
use crate::reads::Read;
use crate::rows;
use crate::snapshot::Snapshot;
use crate::statements as sql;

/// Routes of all queues together that a read asks about: as many as an answer shows.
const MOST_ROUTES: usize = STATS_ROUTES;
/// Times that are remembered: half a megabyte. When there are more, all are forgotten.
const MOST_TIMES: usize = MOST_ROUTES;

pub(crate) struct OldestPending {
    index: Arc<PublishedIndex>,
    known: Mutex<KnownTimes>,
}

/// Since when tasks are pending.
#[derive(Default)]
struct KnownTimes {
    /// The number of updates before which this was read: they may change it.
    updates: u64,
    times: HashMap<Placed, Timestamp>,
}

impl OldestPending {
    pub(super) fn new(index: Arc<PublishedIndex>) -> Self {
        Self { index, known: Mutex::default() }
    }

    /// Adds since when the oldest pending tasks of queues wait. The snapshot must be taken: the writer is asked after it, and so
    /// a task that it names and that is not pending there has become so since. If the writer is busy for too long, or there are
    /// more routes than an answer shows, that of some is not known.
    pub(super) fn add_to(
        &self,
        file: &Snapshot<'_>,
        queues: &mut [(QueueKey, QueueFigures)],
        now: Timestamp,
    ) -> Read<()> {
        let asked = queues.iter().flat_map(|(key, figures)| pending_routes(*key, figures));
        let asked: Vec<QueueRoute> = asked.take(MOST_ROUTES).collect();
        if asked.is_empty() {
            return Ok(());
        }
        file.release_slot();
        let found = self.index.oldest_pending(asked.clone());
        let (updates, answered) = (found.updates, found.of_routes.len());
        let mut oldest = oldest_by_route(&asked, found);
        for (key, figures) in queues {
            let unanswered = asked[answered..].iter().filter(|(asked, _)| asked == key);
            unanswered.for_each(|(_, route)| figures.oldest_is_unknown(route));
            for (route, placed) in oldest.remove(key).into_iter().flatten() {
                file.yield_if_due()?;
                figures.add_pending_since(route, self.since(file, placed, updates)?.unwrap_or(now));
            }
        }
        Ok(())
    }

    /// Since when a task waits, if it is pending at its place.
    fn since(&self, file: &Snapshot<'_>, placed: Placed, updates: u64) -> Read<Option<Timestamp>> {
        if let Some(since) = self.known(updates).times.get(&placed) {
            return Ok(Some(*since));
        }
        let (seq, task) = placed;
        let mut statement = file.connection.prepare_cached(&sql::LOAD_HEAD)?;
        let head = statement.query_row([task.0], rows::head).optional()?;
        let lifecycle = head.map(|head| head.lifecycle);
        let at_its_place = lifecycle.filter(|found| found.status == Status::Pending && found.pending_seq == seq);
        let since = at_its_place.as_ref().map(pending_since);
        if let Some(since) = since {
            self.known(updates).remember(placed, since);
        }
        Ok(since)
    }

    /// What is known as of so many updates.
    fn known(&self, updates: u64) -> MutexGuard<'_, KnownTimes> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.updates != updates {
            *known = KnownTimes { updates, ..KnownTimes::default() };
        }
        known
    }
}

impl KnownTimes {
    fn remember(&mut self, placed: Placed, since: Timestamp) {
        if self.times.len() >= MOST_TIMES {
            self.times.clear();
        }
        self.times.insert(placed, since);
    }
}

fn pending_routes(key: QueueKey, figures: &QueueFigures) -> impl Iterator<Item = QueueRoute> {
    let pending = figures.routes().filter(|(_, figures)| figures.pending > 0);
    pending.map(move |(route, _)| (key, route.into()))
}

/// The oldest task of each of these routes, if it is known.
fn oldest_by_route(asked: &[QueueRoute], found: OldestTasks) -> HashMap<QueueKey, BTreeMap<&str, Placed>> {
    let mut oldest: HashMap<QueueKey, BTreeMap<&str, Placed>> = HashMap::new();
    let known = asked.iter().zip(&found.of_routes);
    for ((key, route), placed) in known {
        oldest.entry(*key).or_default().extend(placed.map(|placed| (&**route, placed)));
    }
    // A task whose time has just come is not among those of its routes yet.
    for (key, placed, routes) in &found.due {
        let asked = asked[..found.of_routes.len()].iter().filter(|(asked, _)| asked == key);
        for (_, route) in asked.filter(|(_, route)| routes.contains(route)) {
            let oldest = oldest.entry(*key).or_default().entry(route).or_insert(*placed);
            *oldest = (*oldest).min(*placed);
        }
    }
    oldest
}
