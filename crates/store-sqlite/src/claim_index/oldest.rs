//! Which tasks of routes have been pending longest of those that can be claimed. Reads ask for that; a claim does not need it, so
//! nothing is kept for it, and it is looked for in the pending order (docs/decisions/0059).

use taskqueue_core::definition::Routes;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::QueueKey;

use super::ClaimIndex;
use crate::pending_order::Placed;

/// Places that are looked at before the writer goes on: less than a millisecond, with the last route.
const MOST_STEPS: usize = 2_000;
/// Tasks of a queue that are looked at which are not in the order yet although their time has come.
const MOST_DUE: usize = 100;

/// A route of a queue.
pub(crate) type QueueRoute = (QueueKey, Box<str>);

/// What is known of the routes that a read asks about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OldestTasks {
    /// For as many of the routes as could be looked at, in their order: the task that has been pending longest.
    pub(crate) of_routes: Vec<Option<Placed>>,
    /// Tasks of the queues of these routes whose time has just come.
    pub(crate) due: Vec<(QueueKey, Placed, Routes)>,
    /// As long as this number is the same, no task has changed that is at the same place.
    pub(crate) updates: u64,
}

impl ClaimIndex {
    /// The oldest tasks of routes from `first` on. Those of a queue follow each other.
    pub(crate) fn oldest_pending(&self, asked: &[QueueRoute], first: usize, now: Timestamp) -> OldestTasks {
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
