//! The pending order of a queue in memory: who is next for each route. What it costs per pending task and route is in
//! docs/memory.md; most routes of a queue with many routes have one pending task, and that one costs no tree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use taskqueue_core::definition::{Routes, check_route_count};
use taskqueue_store::transaction::TaskKey;

/// A task's place among the pending tasks of a route: highest priority first, then pending order.
pub(crate) type Place = (Reverse<i64>, i64);

/// The pending tasks of one route, at least one.
enum Places {
    One(Place, TaskKey),
    Many(BTreeMap<Place, TaskKey>),
}

/// What a route with a pending task takes besides its name: the entry of the table, at its emptiest, and the smallest
/// piece of memory for the name. Held by a test, as the next one is.
const ROUTE_BYTES: usize = 128;
/// What each further pending task of a route takes, and what a task with too many routes takes besides their text: a place
/// in a tree whose nodes are half full.
const PLACE_BYTES: usize = 56;

/// Routes for which the table may have room that it does not need.
const SPARE_ROUTES: usize = 1_024;

/// The pending tasks of a queue.
#[derive(Default)]
pub(crate) struct PendingOrder {
    /// What all of it takes in memory, at most.
    bytes: usize,
    routes: HashMap<Box<str>, Places>,
    /// Tasks that were stored with more routes than a request may name today. Each has one place here instead of one for
    /// each of its routes: a hundred thousand of those would cost fifty times what the task takes in the file.
    wide: BTreeMap<Place, (TaskKey, Routes)>,
}

/// The same while it is read from the file. Sorted lists make compact trees: inserting a million places one by one would
/// leave them half empty.
#[derive(Default)]
pub(crate) struct PendingLists {
    routes: HashMap<Box<str>, Vec<(Place, TaskKey)>>,
    wide: BTreeMap<Place, (TaskKey, Routes)>,
}

impl PendingLists {
    /// Adds a task; `routes` is the text that [`Routes::as_json`] gives.
    pub(crate) fn add(&mut self, place: Place, task: TaskKey, routes: &str) {
        let routes = Routes::from_json(routes);
        if is_wide(&routes) {
            self.wide.insert(place, (task, routes));
            return;
        }
        for route in routes.iter() {
            match self.routes.get_mut(route) {
                Some(places) => places.push((place, task)),
                None => drop(self.routes.insert(route.into(), vec![(place, task)])),
            }
        }
    }

    /// All of it in order.
    pub(crate) fn into_order(self) -> PendingOrder {
        let places = |list: Vec<(Place, TaskKey)>| match list[..] {
            [(place, task)] => Places::One(place, task),
            _ => Places::Many(list.into_iter().collect()),
        };
        let names: usize = self.routes.keys().map(|route| ROUTE_BYTES + route.len()).sum();
        let further: usize = self.routes.values().map(|list| (list.len() - 1) * PLACE_BYTES).sum();
        let wide: usize = self.wide.values().map(|(_, routes)| wide_bytes(routes)).sum();
        let bytes = names + further + wide;
        let routes = self.routes.into_iter().map(|(route, list)| (route, places(list))).collect();
        PendingOrder { bytes, routes, wide: self.wide }
    }
}

impl PendingOrder {
    /// Adds a task.
    pub(crate) fn add(&mut self, place: Place, task: TaskKey, routes: &Routes) {
        if is_wide(routes) {
            self.bytes += wide_bytes(routes);
            self.wide.insert(place, (task, routes.clone()));
            return;
        }
        for route in routes.iter() {
            match self.routes.get_mut(route) {
                Some(places) => {
                    self.bytes += PLACE_BYTES;
                    places.add(place, task);
                }
                None => {
                    self.bytes += ROUTE_BYTES + route.len();
                    self.routes.insert(route.into(), Places::One(place, task));
                }
            }
        }
    }

    /// Removes a task that was added with this place and these routes.
    pub(crate) fn remove(&mut self, place: Place, routes: &Routes) {
        if is_wide(routes) {
            self.bytes -= wide_bytes(routes);
            self.wide.remove(&place);
            return;
        }
        for route in routes.iter() {
            match self.routes.get_mut(route).map(|places| places.remove(place)) {
                // A route without a task is forgotten, so that routes that were used once do not stay for ever.
                Some(true) => {
                    self.bytes -= ROUTE_BYTES + route.len();
                    self.routes.remove(route);
                }
                Some(false) => self.bytes -= PLACE_BYTES,
                None => {}
            }
        }
        if self.routes.capacity() > SPARE_ROUTES && self.routes.len() < self.routes.capacity() / 4 {
            self.routes.shrink_to_fit();
        }
    }

    /// What all of it takes in memory, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first task of a route.
    pub(crate) fn first(&self, route: &str) -> Option<TaskKey> {
        let first = self.routes.get(route).and_then(Places::first);
        let before = |place: &Place| first.is_none_or(|(first, _)| *place < first);
        let mut wide = self.wide.iter().take_while(|(place, _)| before(place));
        match wide.find(|(_, (_, routes))| routes.contains(route)) {
            Some((_, (task, _))) => Some(*task),
            None => first.map(|(_, task)| task),
        }
    }

    /// How many tasks a route has.
    pub(crate) fn count(&self, route: &str) -> usize {
        let wide = self.wide.values().filter(|(_, routes)| routes.contains(route)).count();
        wide + self.routes.get(route).map_or(0, Places::count)
    }
}

impl Places {
    fn add(&mut self, place: Place, task: TaskKey) {
        match self {
            Self::One(other, other_task) => {
                *self = Self::Many(BTreeMap::from([(*other, *other_task), (place, task)]));
            }
            Self::Many(places) => drop(places.insert(place, task)),
        }
    }

    /// Removes a place and says whether none is left.
    fn remove(&mut self, place: Place) -> bool {
        match self {
            Self::One(own, _) => *own == place,
            Self::Many(places) => {
                places.remove(&place);
                places.is_empty()
            }
        }
    }

    fn first(&self) -> Option<(Place, TaskKey)> {
        match self {
            Self::One(place, task) => Some((*place, *task)),
            Self::Many(places) => places.first_key_value().map(|(place, task)| (*place, *task)),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Many(places) => places.len(),
        }
    }
}

fn wide_bytes(routes: &Routes) -> usize {
    PLACE_BYTES + routes.as_json().len()
}

fn is_wide(routes: &Routes) -> bool {
    check_route_count(routes.count()).is_err()
}

#[cfg(test)]
mod tests {
    use taskqueue_store::conformance::commands::{route, routes};

    use super::*;

    fn place(seq: i64) -> Place {
        (Reverse(0), seq)
    }

    #[test]
    fn what_was_added_and_removed_costs_nothing() {
        let wide = Routes::new((0..300).map(|n| route(&format!("r{n}"))).collect()).unwrap();
        let tasks = [routes(&["a"]), routes(&["a", "b"]), wide, routes(&["a", "r7"])];
        let mut order = PendingOrder::default();
        let mut lists = PendingLists::default();
        for (task, routes) in (1..).zip(&tasks) {
            order.add(place(task), TaskKey(task), routes);
            lists.add(place(task), TaskKey(task), routes.as_json());
        }
        assert_eq!(lists.into_order().bytes(), order.bytes());
        assert_eq!(order.first("r7"), Some(TaskKey(3)));
        assert_eq!((order.count("a"), order.count("r7"), order.count("x")), (3, 2, 0));
        for (task, routes) in (1..).zip(&tasks) {
            assert!(order.bytes() > 0);
            order.remove(place(task), routes);
        }
        assert_eq!((order.bytes(), order.first("a"), order.first("r7")), (0, None, None));
    }

    #[test]
    fn a_table_that_was_large_becomes_small_again() {
        let name = |n: i64| routes(&[&format!("r{n}")]);
        let mut order = PendingOrder::default();
        (0..10_000).for_each(|n| order.add(place(n), TaskKey(n), &name(n)));
        (0..10_000).for_each(|n| order.remove(place(n), &name(n)));
        assert!(order.routes.capacity() <= SPARE_ROUTES, "{}", order.routes.capacity());
    }
}
