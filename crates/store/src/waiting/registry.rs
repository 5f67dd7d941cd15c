//! The waiters of each queue and route, and which of them is woken next. Nothing here waits, asks a store or reads a clock,
//! so that every interleaving can be tested (`registry_tests.rs`).
//!
//! A waiter is either *claiming* or *parked*. The rule that no wake-up is lost: a waiter parks only if no hint came since
//! its claim began, and a hint that wakes a parked waiter is held by it until it has claimed the task or passed the hint on.

use std::collections::{BTreeSet, HashMap};
use std::task::Waker;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, TaskId};

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
    /// The same for waiters of the other routes, if there are any.
    fn without(mut self, route: &Route) -> Option<Self> {
        let others = self.routes.iter().filter(|other| *other != route.as_str());
        self.routes = Routes::new(others.filter_map(Route::parse).collect())?;
        Some(self)
    }
}

#[derive(Default)]
pub struct Registry {
    waiters: HashMap<WaiterId, Entry>,
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

struct Entry {
    queue: QueueName,
    route: Route,
    state: State,
}

enum State {
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
        let state = State::Claiming { hint: None, missed_hints: waiters.missed_hints };
        self.waiters.insert(self.last_id, Entry { queue: queue.clone(), route: route.clone(), state });
        self.last_id
    }

    /// After a claim that found nothing. Returns whether the waiter is parked, in its old order; otherwise it must claim
    /// again. A waiter of another route may be woken: it may take the task of the hint where the limit of this route is
    /// reached.
    pub fn park(&mut self, id: WaiterId) -> (bool, Option<Waker>) {
        let Some(entry) = self.waiters.get_mut(&id) else { return (true, None) };
        let waiters = self.queues.get_mut(&entry.queue).and_then(|routes| routes.get_mut(&entry.route));
        let (State::Claiming { hint, missed_hints }, Some(waiters)) = (&mut entry.state, waiters) else {
            return (true, None);
        };
        let passed_on = hint.take().and_then(|hint| hint.without(&entry.route));
        let is_parked = *missed_hints == waiters.missed_hints;
        if is_parked {
            entry.state = State::Parked(None);
            waiters.claiming -= 1;
            waiters.parked.insert(id);
        } else {
            *missed_hints = waiters.missed_hints;
        }
        (is_parked, passed_on.and_then(|hint| self.hint(hint)))
    }

    /// Whether a waiter has been woken; if not, `waker` is called when it is.
    pub fn is_woken(&mut self, id: WaiterId, waker: &Waker) -> bool {
        match self.waiters.get_mut(&id).map(|entry| &mut entry.state) {
            Some(State::Parked(kept)) => {
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
        let claiming = State::Claiming { hint, missed_hints: waiters.missed_hints };
        match std::mem::replace(&mut entry.state, claiming) {
            State::Parked(waker) => waker,
            State::Claiming { .. } => None,
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
        let Entry { queue, route, state } = self.waiters.remove(&id)?;
        let routes = self.queues.get_mut(&queue)?;
        if let Some(waiters) = routes.get_mut(&route) {
            match state {
                State::Parked(_) => drop(waiters.parked.remove(&id)),
                State::Claiming { .. } => waiters.claiming -= 1,
            }
            if waiters.claiming == 0 && waiters.parked.is_empty() {
                routes.remove(&route);
            }
        }
        if routes.is_empty() {
            self.queues.remove(&queue);
        }
        match state {
            State::Claiming { hint: Some(hint), .. } if !is_used(&hint, claimed) => self.hint(hint),
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

/// Whether the task of the hint was claimed. A hint without a task is never used up: the claim may have repeated an
/// active run, and then the other task is still claimable.
fn is_used(hint: &Hint, claimed: &[TaskId]) -> bool {
    hint.task.is_some_and(|task| claimed.contains(&task))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
