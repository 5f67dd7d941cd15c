//! Since when the tasks wait that have been pending longest. The writer knows which ones these are, and the file since when; what
//! was read is remembered, so that asking again reads no task as long as the same ones are the oldest (docs/decisions/0059). A claim
//! does not need it, so the writer keeps nothing for it: it is looked for in the pending order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use taskqueue_core::limits::STATS_ROUTES;
use taskqueue_core::stats::pending_since;
use taskqueue_core::{QueueFigures, Routes, Status, Timestamp};
use taskqueue_store::QueueKey;

use crate::claim_index::ClaimIndex;
use crate::pending_order::PlacedTask;
use crate::published_index::{LOOK_TIMEOUT, PublishedIndex};
use crate::queries::{Read, Snapshot, first_row};
use crate::{rows, statements as sql};

/// Routes of all queues together that a read asks about: as many as an answer shows.
const MOST_ROUTES: usize = STATS_ROUTES;
/// Times that are remembered: half a megabyte. When there are more, all are forgotten.
const MOST_TIMES: usize = MOST_ROUTES;

/// Places that are looked at before the writer goes on: less than a millisecond, with the last route.
const MOST_STEPS: usize = 2_000;
/// Tasks of a queue that are looked at which are not in the order yet although their time has come.
const MOST_DUE: usize = 100;

/// A route of a queue.
type QueueRoute = (QueueKey, Box<str>);

/// The oldest tasks of the routes that a read asks about.
#[derive(Debug, Default, PartialEq, Eq)]
struct OldestTasks {
    /// For as many of the routes as could be looked at, in their order: the task that has been pending longest.
    of_routes: Vec<Option<PlacedTask>>,
    /// Tasks of the queues of these routes whose time has just come.
    due: Vec<(QueueKey, PlacedTask, Routes)>,
    /// As long as this number is the same, no task has changed that is at the same place.
    updates: u64,
}

impl OldestTasks {
    /// Asks the writer about these routes, those of a queue side by side: a slice of them at a time, so that the writer can go on.
    /// If it is busy for too long, that of some routes is not known. Waits; not for async threads.
    fn ask(index: &PublishedIndex, asked: &[QueueRoute]) -> Self {
        let (asked, until) = (Arc::<[QueueRoute]>::from(asked), Instant::now() + LOOK_TIMEOUT);
        let mut oldest = Self::default();
        while oldest.of_routes.len() < asked.len() {
            let (asked, first, now) = (Arc::clone(&asked), oldest.of_routes.len(), index.now());
            let slice = index.look_until(until, move |index| index.oldest_pending(&asked, first, now));
            let Some(slice) = slice else { break };
            oldest.of_routes.extend(slice.of_routes);
            oldest.due.extend(slice.due);
            oldest.updates = slice.updates;
        }
        oldest
    }
}

impl ClaimIndex {
    /// Returns the oldest tasks of routes from `first` on. Those of a queue follow each other.
    fn oldest_pending(&self, asked: &[QueueRoute], first: usize, now: Timestamp) -> OldestTasks {
        let mut oldest = OldestTasks { updates: self.updates, ..OldestTasks::default() };
        let mut steps = 0;
        for (place, (queue, route)) in asked.iter().enumerate().skip(first) {
            if steps >= MOST_STEPS {
                break;
            }
            steps += 1;
            let order = self.pending.get(queue);
            oldest.of_routes.push(order.and_then(|order| order.oldest(route, &mut steps)));
            let is_first_of_queue = place == 0 || asked[place - 1].0 != *queue;
            if !is_first_of_queue {
                continue;
            }
            for (task, delayed) in self.waiting.due_of(*queue, now).take(MOST_DUE) {
                oldest.due.push((*queue, (delayed.rank.1, task), delayed.routes.clone()));
                steps += 1;
            }
        }
        oldest
    }
}

/// Since when the oldest pending tasks wait, as far as that was read.
#[derive(Default)]
pub(crate) struct OldestPending(Mutex<KnownTimes>);

/// Since when tasks are pending.
#[derive(Default)]
struct KnownTimes {
    /// The number of updates before which this was read: they may change it.
    updates: u64,
    times: HashMap<PlacedTask, Timestamp>,
}

impl OldestPending {
    /// Adds since when the oldest pending tasks of queues wait. The snapshot must be taken: the writer is asked after it, and so
    /// a task that it names and that is not pending there has become so since. If the writer is busy for too long, or there are
    /// more routes than an answer shows, that of some is not known.
    pub(crate) fn add_to(
        &self,
        index: &PublishedIndex,
        file: &Snapshot<'_>,
        queues: &mut [(QueueKey, QueueFigures)],
        now: Timestamp,
    ) -> Read<()> {
        let asked = queues.iter().flat_map(|(key, figures)| {
            let pending = figures.routes().filter(|(_, figures)| figures.pending > 0);
            pending.map(move |(route, _)| (*key, route.into()))
        });
        let asked: Vec<QueueRoute> = asked.take(MOST_ROUTES).collect();
        if asked.is_empty() {
            return Ok(());
        }
        file.release_slot();
        let found = OldestTasks::ask(index, &asked);
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
    fn since(&self, file: &Snapshot<'_>, placed: PlacedTask, updates: u64) -> Read<Option<Timestamp>> {
        if let Some(since) = self.known(updates).times.get(&placed) {
            return Ok(Some(*since));
        }
        let (seq, task) = placed;
        let head = first_row(file.connection, &sql::LOAD_HEAD, [task.0], rows::head)?;
        let lifecycle = head.map(|head| head.lifecycle);
        let at_its_place = lifecycle.filter(|found| found.status == Status::Pending && found.pending_seq == seq);
        let since = at_its_place.as_ref().map(pending_since);
        if let Some(since) = since {
            let mut known = self.known(updates);
            if known.times.len() >= MOST_TIMES {
                known.times.clear();
            }
            known.times.insert(placed, since);
        }
        Ok(since)
    }

    /// Returns what is known as of so many updates.
    fn known(&self, updates: u64) -> MutexGuard<'_, KnownTimes> {
        let mut known = self.0.lock();
        if known.updates != updates {
            *known = KnownTimes { updates, ..KnownTimes::default() };
        }
        known
    }
}

/// The oldest task of each of these routes, if it is known.
fn oldest_by_route(asked: &[QueueRoute], found: OldestTasks) -> HashMap<QueueKey, BTreeMap<&str, PlacedTask>> {
    let mut oldest: HashMap<QueueKey, BTreeMap<&str, PlacedTask>> = HashMap::new();
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

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use taskqueue_store::conformance::commands::routes;
    use taskqueue_store::transaction::TaskKey;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(10);

    fn asked(routes: usize) -> Vec<QueueRoute> {
        (0..routes).map(|n| (QueueKey(1), format!("r{n}").into())).collect()
    }

    #[test]
    fn what_is_asked_is_answered_in_slices_of_bounded_length() {
        let mut index = ClaimIndex::default();
        let order = index.pending.entry(QueueKey(1)).or_default();
        let asked = asked(3 * MOST_STEPS);
        for (n, (_, name)) in (1..).zip(&asked) {
            order.add((Reverse(0), n), TaskKey(n), &routes(&[name]));
        }
        let mut found = Vec::new();
        while found.len() < asked.len() {
            let slice = index.oldest_pending(&asked, found.len(), NOW);
            assert!((1..=MOST_STEPS).contains(&slice.of_routes.len()));
            found.extend(slice.of_routes);
        }
        let expected: Vec<_> = (1..).take(asked.len()).map(|n| Some((n, TaskKey(n)))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_task_whose_time_has_come_is_told_once_for_its_queue_before_the_next_batch() {
        let mut index = ClaimIndex::default();
        let due = |micros| (Timestamp::from_micros(micros), TaskKey(micros));
        for micros in [10, 11] {
            index.waiting.add_delayed(QueueKey(1), due(micros), (Reverse(0), micros), &routes(&["a", "b"]));
        }
        let asked: Vec<_> = [(1, "a"), (1, "b"), (2, "a")].map(|(key, name)| (QueueKey(key), name.into())).into();
        let oldest = index.oldest_pending(&asked, 0, NOW);
        assert_eq!(oldest.of_routes, [None; 3]);
        assert_eq!(oldest.due, [(QueueKey(1), (10, TaskKey(10)), routes(&["a", "b"]))]);
        assert_eq!(index.oldest_pending(&asked, 1, NOW).due, []);
    }
}
