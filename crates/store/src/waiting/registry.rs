//! The waiters of each queue and route, and which of them is woken next. Nothing here waits, asks a store or reads a clock,
//! so that every interleaving can be tested (`registry_tests.rs`).
//!
//! A waiter is either *claiming* or *parked*. The rule that no wake-up is lost: a waiter parks only if no hint came since
//! its claim began, and a hint that wakes a parked waiter is held by it until it has claimed the task or passed the hint on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::task::Waker;

use taskqueue_core::{QueueName, Route, Routes, RunId, TaskId};

/// Lower ids came first.
pub type WaiterId = u64;

/// A task became claimable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub queue: QueueName,
    pub routes: Routes,
    /// Nothing if only the number of tasks is known.
    pub task: Option<TaskId>,
}

impl Hint {
    /// Returns the hint for waiters of the other routes, if there are any.
    fn without(mut self, route: &Route) -> Option<Self> {
        let others = self.routes.iter().filter(|other| *other != route.as_str());
        self.routes = Routes::new(others.filter_map(Route::parse).collect())?;
        Some(self)
    }
}

#[derive(Default)]
pub struct Registry {
    waiters: HashMap<WaiterId, WaiterEntry>,
    queues: HashMap<QueueName, HashMap<Route, RouteWaiters>>,
    last_id: WaiterId,
}

#[derive(Default)]
struct RouteWaiters {
    parked: BTreeSet<WaiterId>,
    claiming: usize,
    /// How many hints found no parked waiter. A waiter that is claiming meanwhile claims again before it parks.
    missed_hints: u64,
}

struct WaiterEntry {
    queue: QueueName,
    route: Route,
    state: WaiterState,
}

enum WaiterState {
    Parked(Option<Waker>),
    Claiming {
        /// The hint that woke it.
        hint: Option<Hint>,
        /// The count of its route when this claim began.
        missed_hints: u64,
    },
}

impl Registry {
    /// A new waiter is claiming: the tasks that exist already have no hint left.
    pub fn register(&mut self, queue: &QueueName, route: &Route) -> WaiterId {
        self.last_id += 1;
        let waiters = self.queues.entry(queue.clone()).or_default().entry(route.clone()).or_default();
        waiters.claiming += 1;
        let state = WaiterState::Claiming { hint: None, missed_hints: waiters.missed_hints };
        self.waiters.insert(self.last_id, WaiterEntry { queue: queue.clone(), route: route.clone(), state });
        self.last_id
    }

    /// After a claim that found nothing. Returns whether the waiter is parked, in its old order; otherwise it must claim
    /// again. A waiter of another route may be woken: it may take the task of the hint where the limit of this route is
    /// reached.
    pub fn park(&mut self, id: WaiterId) -> (bool, Option<Waker>) {
        let Some(entry) = self.waiters.get_mut(&id) else { return (true, None) };
        let waiters = self.queues.get_mut(&entry.queue).and_then(|routes| routes.get_mut(&entry.route));
        let (WaiterState::Claiming { hint, missed_hints }, Some(waiters)) = (&mut entry.state, waiters) else {
            return (true, None);
        };
        let passed_on = hint.take().and_then(|hint| hint.without(&entry.route));
        let is_parked = *missed_hints == waiters.missed_hints;
        if is_parked {
            entry.state = WaiterState::Parked(None);
            waiters.claiming -= 1;
            waiters.parked.insert(id);
        } else {
            *missed_hints = waiters.missed_hints;
        }
        (is_parked, passed_on.and_then(|hint| self.hint(hint)))
    }

    /// Returns whether a waiter has been woken; if not, `waker` is called when it is.
    pub fn is_woken(&mut self, id: WaiterId, waker: &Waker) -> bool {
        match self.waiters.get_mut(&id).map(|entry| &mut entry.state) {
            Some(WaiterState::Parked(kept)) => {
                if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
                    *kept = Some(waker.clone());
                }
                false
            }
            _ => true,
        }
    }

    /// Wakes the parked waiter that has waited longest for any of the routes.
    pub fn hint(&mut self, hint: Hint) -> Option<Waker> {
        let routes = self.queues.get_mut(&hint.queue)?;
        let first = |route| routes.get(route).and_then(|waiters: &RouteWaiters| waiters.parked.first().copied());
        if let Some(id) = hint.routes.iter().filter_map(first).min() {
            return self.wake(id, Some(hint));
        }
        for route in hint.routes.iter() {
            if let Some(waiters) = routes.get_mut(route) {
                waiters.missed_hints += 1;
            }
        }
        None
    }

    fn wake(&mut self, id: WaiterId, hint: Option<Hint>) -> Option<Waker> {
        let entry = self.waiters.get_mut(&id)?;
        let waiters = self.queues.get_mut(&entry.queue)?.get_mut(&entry.route)?;
        if !waiters.parked.remove(&id) {
            return None;
        }
        waiters.claiming += 1;
        let claiming = WaiterState::Claiming { hint, missed_hints: waiters.missed_hints };
        match std::mem::replace(&mut entry.state, claiming) {
            WaiterState::Parked(waker) => waker,
            WaiterState::Claiming { .. } => None,
        }
    }

    /// Wakes as many waiters of a route as there are tasks.
    pub fn wake_for_route(&mut self, queue: &QueueName, route: &Route, tasks: usize) -> Vec<Waker> {
        let Some(routes) = Routes::new(vec![route.clone()]) else { return Vec::new() };
        let Some(waiters) = self.queues.get_mut(queue).and_then(|routes| routes.get_mut(route)) else {
            return Vec::new();
        };
        waiters.missed_hints += u64::from(tasks > 0);
        let chosen: Vec<WaiterId> = waiters.parked.iter().take(tasks).copied().collect();
        let hint = Hint { queue: queue.clone(), routes, task: None };
        chosen.into_iter().filter_map(|id| self.wake(id, Some(hint.clone()))).collect()
    }

    /// Wakes all waiters of a deleted queue; their claims report it.
    pub fn queue_deleted(&mut self, queue: &QueueName) -> Vec<Waker> {
        let Some(routes) = self.queues.get_mut(queue) else { return Vec::new() };
        routes.values_mut().for_each(|waiters| waiters.missed_hints += 1);
        let chosen: Vec<WaiterId> = routes.values().flat_map(|waiters| waiters.parked.iter().copied()).collect();
        chosen.into_iter().filter_map(|id| self.wake(id, None)).collect()
    }

    /// Removes a waiter. A hint whose task is not among those it claimed passes to the next waiter.
    pub fn unregister(&mut self, id: WaiterId, claimed: &[TaskId]) -> Option<Waker> {
        let WaiterEntry { queue, route, state } = self.waiters.remove(&id)?;
        let routes = self.queues.get_mut(&queue)?;
        if let Some(waiters) = routes.get_mut(&route) {
            match state {
                WaiterState::Parked(_) => drop(waiters.parked.remove(&id)),
                WaiterState::Claiming { .. } => waiters.claiming -= 1,
            }
            if waiters.claiming == 0 && waiters.parked.is_empty() {
                routes.remove(&route);
            }
        }
        if routes.is_empty() {
            self.queues.remove(&queue);
        }
        match state {
            WaiterState::Claiming { hint: Some(hint), .. } if !is_used(&hint, claimed) => self.hint(hint),
            _ => None,
        }
    }

    pub fn wake_all(&mut self) -> Vec<Waker> {
        let all: Vec<WaiterId> = self.waiters.keys().copied().collect();
        all.into_iter().filter_map(|id| self.wake(id, None)).collect()
    }

    /// The routes with waiters, and how many of them are parked. Routes whose waiters are all claiming are included: they may
    /// have missed a task.
    pub fn waiting_routes(&self) -> Vec<(QueueName, Route, usize)> {
        let routes = self.queues.iter().flat_map(|(queue, routes)| routes.iter().map(move |waiters| (queue, waiters)));
        routes.map(|(queue, (route, waiters))| (queue.clone(), route.clone(), waiters.parked.len())).collect()
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

/// Returns whether the task of the hint was claimed. A hint without a task is never used up: the claim may have repeated an
/// active run, and then the other task is still claimable.
fn is_used(hint: &Hint, claimed: &[TaskId]) -> bool {
    hint.task.is_some_and(|task| claimed.contains(&task))
}

/// A run, and the number of one of its watchers: a heartbeat that was repeated may be held twice, and many may read one output.
pub(super) type WatcherId = (RunId, u64);

#[derive(Default)]
pub(super) struct WatchedRuns {
    watchers: BTreeMap<WatcherId, RunWatch>,
    last_number: u64,
}

#[derive(Default)]
struct RunWatch {
    /// Woken since the last wake-up was taken.
    is_woken: bool,
    waker: Option<Waker>,
}

impl WatchedRuns {
    pub(super) fn add(&mut self, run_id: RunId) -> WatcherId {
        self.last_number += 1;
        let id = (run_id, self.last_number);
        self.watchers.insert(id, RunWatch::default());
        id
    }

    pub(super) fn remove(&mut self, id: WatcherId) {
        self.watchers.remove(&id);
    }

    /// Wakes all watchers of a run.
    pub(super) fn wake(&mut self, run_id: RunId) -> impl Iterator<Item = Waker> {
        let watchers = self.watchers.range_mut((run_id, 0)..=(run_id, u64::MAX));
        watchers.filter_map(|(_, watcher)| watcher.wake())
    }

    pub(super) fn wake_all(&mut self) -> impl Iterator<Item = Waker> {
        self.watchers.values_mut().filter_map(RunWatch::wake)
    }

    /// Returns whether a watcher has been woken since the last wake-up was taken; if not, `waker` is called when it is.
    pub(super) fn is_woken(&mut self, id: WatcherId, waker: &Waker) -> bool {
        let Some(watcher) = self.watchers.get_mut(&id) else { return true };
        if !watcher.is_woken && !watcher.waker.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            watcher.waker = Some(waker.clone());
        }
        watcher.is_woken
    }

    /// Takes the wake-up of a watcher, if there is one.
    pub(super) fn take_wake_up(&mut self, id: WatcherId) -> bool {
        self.watchers.get_mut(&id).is_some_and(|watcher| std::mem::take(&mut watcher.is_woken))
    }

    /// Each watched run, once for each of its watchers.
    pub(super) fn run_ids(&self) -> Vec<RunId> {
        self.watchers.keys().map(|(run_id, _)| *run_id).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.watchers.len()
    }
}

impl RunWatch {
    fn wake(&mut self) -> Option<Waker> {
        self.is_woken = true;
        self.waker.take()
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;

#[cfg(test)]
mod watched_runs_tests {
    use super::*;
    use crate::conformance::commands::run_id;

    fn woken(runs: &mut WatchedRuns, ids: &[WatcherId]) -> Vec<bool> {
        ids.iter().map(|id| runs.is_woken(*id, Waker::noop()) && runs.take_wake_up(*id)).collect()
    }

    #[test]
    fn the_end_of_a_run_wakes_all_of_its_watchers_and_no_others() {
        let mut runs = WatchedRuns::default();
        let ids = [1, 2, 2, 3].map(|run| runs.add(run_id(run)));
        assert_eq!(woken(&mut runs, &ids), [false; 4]);
        assert_eq!(runs.wake(run_id(2)).count(), 2);
        assert_eq!(woken(&mut runs, &ids), [false, true, true, false]);
        assert_eq!(runs.wake_all().count(), 2, "two of them do not wait");
        assert_eq!(woken(&mut runs, &ids), [true; 4]);
        assert_eq!(runs.run_ids(), [1, 2, 2, 3].map(run_id));
        ids.into_iter().for_each(|id| runs.remove(id));
        assert!(runs.len() == 0 && runs.wake(run_id(2)).next().is_none());
    }

    #[test]
    fn an_end_that_comes_before_a_watcher_asks_is_kept_until_it_is_taken() {
        let mut runs = WatchedRuns::default();
        let id = runs.add(run_id(1));
        assert_eq!(runs.wake(run_id(1)).count(), 0, "it does not wait yet");
        assert!(runs.is_woken(id, Waker::noop()) && runs.is_woken(id, Waker::noop()));
        assert_eq!(woken(&mut runs, &[id]), [true]);
        assert_eq!(woken(&mut runs, &[id]), [false]);
    }
}
