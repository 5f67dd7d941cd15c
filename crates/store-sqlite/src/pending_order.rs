//! The pending order of a queue in memory: which task is next for each route. What it costs per pending task and route is in
//! docs/memory.md; most routes of a queue with many routes have one pending task, and that one costs no tree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::successors;
use std::ops::Bound::{Excluded, Unbounded};

use taskqueue_core::{Routes, TaskHead};
use taskqueue_store::TaskKey;

/// A task's rank among the pending tasks of a route: highest priority first, then pending order.
pub(crate) type Rank = (Reverse<i64>, i64);

/// A task with its place in the pending order: of two the lesser has been pending longer.
pub(crate) type PlacedTask = (i64, TaskKey);

/// The rank of a task.
pub(crate) fn rank_of(head: &TaskHead) -> Rank {
    (Reverse(head.priority), head.lifecycle.pending_seq)
}

/// The pending tasks of one route, at least one.
enum RouteTasks {
    One(Rank, TaskKey),
    Many(BTreeMap<Rank, TaskKey>),
}

/// Memory of a route with one pending task, without its name: the entry of the table when it is least filled, and the
/// smallest allocation for the name. A test checks this number and the next one.
const ROUTE_BYTES: usize = 128;
/// Memory of each further pending task of a route: an entry of a tree whose nodes are half full.
pub(crate) const ENTRY_BYTES: usize = 56;

/// Priorities of a route among which its oldest task is looked for, the highest first: a third of a millisecond.
const MOST_PRIORITIES: usize = 1_000;

/// Unused capacity that the table of routes may keep.
const SPARE_ROUTES: usize = 1_024;

/// The pending tasks of a queue.
#[derive(Default)]
pub(crate) struct PendingOrder {
    /// An upper bound of the memory in use.
    bytes: usize,
    routes: HashMap<Box<str>, RouteTasks>,
}

/// A pending order while it is read from the file. Sorted lists make compact trees: inserting a million tasks one by one would
/// leave them half empty.
#[derive(Default)]
pub(crate) struct PendingLists {
    routes: HashMap<Box<str>, Vec<(Rank, TaskKey)>>,
}

impl PendingLists {
    /// Adds a task; `routes` is the text that [`Routes::as_json`] gives.
    pub(crate) fn add(&mut self, rank: Rank, task: TaskKey, routes: &str) {
        for route in Routes::from_json(routes).iter() {
            match self.routes.get_mut(route) {
                Some(tasks) => tasks.push((rank, task)),
                None => drop(self.routes.insert(route.into(), vec![(rank, task)])),
            }
        }
    }

    pub(crate) fn into_order(self) -> PendingOrder {
        let tasks = |list: Vec<(Rank, TaskKey)>| match list[..] {
            [(rank, task)] => RouteTasks::One(rank, task),
            _ => RouteTasks::Many(list.into_iter().collect()),
        };
        let names: usize = self.routes.keys().map(|route| ROUTE_BYTES + route.len()).sum();
        let further: usize = self.routes.values().map(|list| (list.len() - 1) * ENTRY_BYTES).sum();
        let routes = self.routes.into_iter().map(|(route, list)| (route, tasks(list))).collect();
        PendingOrder { bytes: names + further, routes }
    }
}

impl PendingOrder {
    /// Adds a task.
    pub(crate) fn add(&mut self, rank: Rank, task: TaskKey, routes: &Routes) {
        for route in routes.iter() {
            match self.routes.get_mut(route) {
                Some(tasks) => {
                    self.bytes += ENTRY_BYTES;
                    tasks.add(rank, task);
                }
                None => {
                    self.bytes += ROUTE_BYTES + route.len();
                    self.routes.insert(route.into(), RouteTasks::One(rank, task));
                }
            }
        }
    }

    /// Removes a task that was added with this rank and these routes.
    pub(crate) fn remove(&mut self, rank: Rank, routes: &Routes) {
        for route in routes.iter() {
            match self.routes.get_mut(route).map(|tasks| tasks.remove(rank)) {
                // Routes without a pending task are removed, so that the table does not grow with every route ever used.
                Some(true) => {
                    self.bytes -= ROUTE_BYTES + route.len();
                    self.routes.remove(route);
                }
                Some(false) => self.bytes -= ENTRY_BYTES,
                None => {}
            }
        }
        if self.routes.capacity() > SPARE_ROUTES && self.routes.len() < self.routes.capacity() / 4 {
            self.routes.shrink_to_fit();
        }
    }

    /// An upper bound of the memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first task of a route.
    pub(crate) fn first(&self, route: &str) -> Option<TaskKey> {
        match self.routes.get(route)? {
            RouteTasks::One(_, task) => Some(*task),
            RouteTasks::Many(tasks) => tasks.first_key_value().map(|(_, task)| *task),
        }
    }

    /// The task of a route that has been pending longest, whatever its priority. Adds to `steps` how many places were looked at.
    pub(crate) fn oldest(&self, route: &str, steps: &mut usize) -> Option<PlacedTask> {
        *steps += 1;
        self.routes.get(route)?.oldest(steps)
    }

    /// Adds the keys of all tasks to `keys`, some of them several times. Returns false, with a part of them, if there would be
    /// more than `most` in it.
    pub(crate) fn add_keys(&self, keys: &mut Vec<TaskKey>, most: usize) -> bool {
        for tasks in self.routes.values() {
            if keys.len() + tasks.count() > most {
                return false;
            }
            match tasks {
                RouteTasks::One(_, task) => keys.push(*task),
                RouteTasks::Many(tasks) => keys.extend(tasks.values()),
            }
        }
        true
    }

    /// Returns how many tasks of a route come before a rank, counted up to `most`.
    pub(crate) fn ahead(&self, route: &str, rank: Rank, most: usize) -> usize {
        match self.routes.get(route) {
            None => 0,
            Some(RouteTasks::One(own, _)) => usize::from(*own < rank).min(most),
            Some(RouteTasks::Many(tasks)) => tasks.range(..rank).take(most).count(),
        }
    }

    /// Returns how many tasks a route has.
    pub(crate) fn count(&self, route: &str) -> usize {
        self.routes.get(route).map_or(0, RouteTasks::count)
    }
}

/// Returns what tasks with these routes would add to an order, which nobody may have needed yet.
pub(crate) fn growth<'a>(order: Option<&PendingOrder>, tasks: impl Iterator<Item = &'a Routes>) -> usize {
    let mut new_routes = HashSet::new();
    let is_known = |route: &str| order.is_some_and(|order| order.routes.contains_key(route));
    let bytes = |route: &'a str| match is_known(route) || !new_routes.insert(route) {
        true => ENTRY_BYTES,
        false => ROUTE_BYTES + route.len(),
    };
    tasks.flat_map(Routes::iter).map(bytes).sum()
}

impl RouteTasks {
    fn add(&mut self, rank: Rank, task: TaskKey) {
        match self {
            Self::One(other, other_task) => {
                *self = Self::Many(BTreeMap::from([(*other, *other_task), (rank, task)]));
            }
            Self::Many(tasks) => drop(tasks.insert(rank, task)),
        }
    }

    /// Removes a task and says whether none is left.
    fn remove(&mut self, rank: Rank) -> bool {
        match self {
            Self::One(own, _) => *own == rank,
            Self::Many(tasks) => {
                tasks.remove(&rank);
                tasks.is_empty()
            }
        }
    }

    /// Skips from priority to priority: the first task of each is its oldest.
    fn oldest(&self, steps: &mut usize) -> Option<PlacedTask> {
        let placed = |((_, seq), task): (&Rank, &TaskKey)| (*seq, *task);
        match self {
            Self::One(rank, task) => Some(placed((rank, task))),
            Self::Many(tasks) => {
                let next = |(rank, _): &(&Rank, _)| tasks.range((Excluded((rank.0, i64::MAX)), Unbounded)).next();
                let firsts = successors(tasks.first_key_value(), next).take(MOST_PRIORITIES);
                firsts.inspect(|_| *steps += 1).map(placed).min()
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Many(tasks) => tasks.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_store::conformance::commands::routes;

    use super::*;

    fn rank(seq: i64) -> Rank {
        (Reverse(0), seq)
    }

    #[test]
    fn what_was_added_and_removed_costs_nothing() {
        let tasks = [routes(&["a"]), routes(&["a", "b"]), routes(&["r7", "r8"]), routes(&["a", "r7"])];
        let mut order = PendingOrder::default();
        let mut lists = PendingLists::default();
        for (task, routes) in (1..).zip(&tasks) {
            order.add(rank(task), TaskKey(task), routes);
            lists.add(rank(task), TaskKey(task), routes.as_json());
        }
        assert_eq!(lists.into_order().bytes(), order.bytes());
        assert_eq!(order.first("r7"), Some(TaskKey(3)));
        assert_eq!((order.count("a"), order.count("r7"), order.count("x")), (3, 2, 0));
        let mut keys = Vec::new();
        assert!(order.add_keys(&mut keys, 7), "one for each route");
        keys.sort_unstable();
        assert_eq!(keys, [1, 2, 2, 3, 3, 4, 4].map(TaskKey));
        assert!(!order.add_keys(&mut Vec::new(), 6));
        for (task, routes) in (1..).zip(&tasks) {
            assert!(order.bytes() > 0);
            order.remove(rank(task), routes);
        }
        assert_eq!((order.bytes(), order.first("a"), order.first("r7")), (0, None, None));
    }

    #[test]
    fn the_oldest_task_of_a_route_may_have_any_priority() {
        let mut order = PendingOrder::default();
        let mut add = |task: i64, priority: i64, names: &[&str]| {
            order.add((Reverse(priority), task), TaskKey(100 + task), &routes(names));
        };
        add(4, 9, &["a", "b"]);
        add(3, 9, &["a"]);
        add(5, i64::MAX, &["a"]);
        add(2, i64::MIN, &["a"]);
        add(6, 0, &["a", "b"]);
        let oldest = |route| {
            let mut steps = 0;
            (order.oldest(route, &mut steps), steps)
        };
        assert_eq!(oldest("a"), (Some((2, TaskKey(102))), 5), "four priorities");
        assert_eq!(oldest("b"), (Some((4, TaskKey(104))), 3));
        assert_eq!(oldest("c"), (None, 1));
    }

    #[test]
    fn the_oldest_task_is_looked_for_among_a_thousand_priorities() {
        let mut order = PendingOrder::default();
        let tasks = MOST_PRIORITIES as i64 + 1;
        // The lower its priority, the longer a task has waited.
        (0..tasks).for_each(|task| order.add((Reverse(task), task), TaskKey(task), &routes(&["a"])));
        let mut steps = 0;
        assert_eq!(order.oldest("a", &mut steps), Some((1, TaskKey(1))), "the one of the lowest priority is not seen");
        assert_eq!(steps, MOST_PRIORITIES + 1);
    }

    #[test]
    fn a_table_that_was_large_becomes_small_again() {
        let name = |n: i64| routes(&[&format!("r{n}")]);
        let mut order = PendingOrder::default();
        (0..10_000).for_each(|n| order.add(rank(n), TaskKey(n), &name(n)));
        (0..10_000).for_each(|n| order.remove(rank(n), &name(n)));
        assert!(order.routes.capacity() <= SPARE_ROUTES, "{}", order.routes.capacity());
    }
}
