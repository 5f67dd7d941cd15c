//! Who waits for what: the lines of waiters, one for each queue and route, and who is to look next. Nothing here waits,
//! asks a store or knows a clock, so that every interleaving can be tried (`registry_tests.rs`).
//!
//! A waiter is either *looking* (its claim is under way) or *parked*. The rule that keeps wake-ups from being lost:
//! whoever comes to rest has looked after every hint that was given while it looked, and every hint that finds somebody at
//! rest is held by a waiter that looks, until that one has taken the task, found nothing, or passed the hint on.

use std::collections::{BTreeSet, HashMap};
use std::task::Waker;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, TaskId};

/// A waiter's place: lower ones came first.
pub type WaiterId = u64;

/// A task became claimable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub queue: QueueName,
    /// For which routes.
    pub routes: Routes,
    /// Which; nothing when only its being there is known.
    pub task: Option<TaskId>,
}

/// All waiters of a server.
#[derive(Default)]
pub struct Registry {
    waiters: HashMap<WaiterId, Entry>,
    queues: HashMap<QueueName, HashMap<Route, RouteWaiters>>,
    last_id: WaiterId,
}

/// The waiters of one route.
#[derive(Default)]
struct RouteWaiters {
    parked: BTreeSet<WaiterId>,
    claiming: usize,
    /// How many hints found nobody at rest. Who looks meanwhile looks again before it rests.
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
        /// What it was woken by, and answers for.
        hint: Option<Hint>,
        /// What the line had not heard when this look began.
        missed_hints: u64,
    },
}

impl Registry {
    /// A new waiter. It looks first: what is there already has no hint left.
    pub fn register(&mut self, queue: &QueueName, route: &Route) -> WaiterId {
        self.last_id += 1;
        let line = self.queues.entry(queue.clone()).or_default().entry(route.clone()).or_default();
        line.claiming += 1;
        let state = State::Claiming { hint: None, missed_hints: line.missed_hints };
        self.waiters.insert(self.last_id, Entry { queue: queue.clone(), route: route.clone(), state });
        self.last_id
    }

    /// A look found nothing. Whether the waiter rests now, in its old place; otherwise it must look again.
    pub fn park(&mut self, id: WaiterId) -> bool {
        let Some(entry) = self.waiters.get_mut(&id) else { return true };
        let line = self.queues.get_mut(&entry.queue).and_then(|lines| lines.get_mut(&entry.route));
        let (State::Claiming { hint, missed_hints }, Some(line)) = (&mut entry.state, line) else { return true };
        // What it was woken by is gone: the look came later.
        *hint = None;
        if *missed_hints != line.missed_hints {
            *missed_hints = line.missed_hints;
            return false;
        }
        entry.state = State::Parked(None);
        line.claiming -= 1;
        line.parked.insert(id);
        true
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

    /// Wakes the one who has waited longest for any of the routes, if somebody rests there.
    pub fn hint(&mut self, hint: Hint) -> Option<Waker> {
        let lines = self.queues.get_mut(&hint.queue)?;
        let first = |route| lines.get(route).and_then(|line: &RouteWaiters| line.parked.first().copied());
        if let Some(id) = hint.routes.iter().filter_map(first).min() {
            return self.wake(id, Some(hint));
        }
        for route in hint.routes.iter() {
            if let Some(line) = lines.get_mut(route) {
                line.missed_hints += 1;
            }
        }
        None
    }

    fn wake(&mut self, id: WaiterId, hint: Option<Hint>) -> Option<Waker> {
        let entry = self.waiters.get_mut(&id)?;
        let line = self.queues.get_mut(&entry.queue)?.get_mut(&entry.route)?;
        if !line.parked.remove(&id) {
            return None;
        }
        line.claiming += 1;
        let claiming = State::Claiming { hint, missed_hints: line.missed_hints };
        match std::mem::replace(&mut entry.state, claiming) {
            State::Parked(waker) => waker,
            State::Claiming { .. } => None,
        }
    }

    /// So many tasks were seen for a route: as many waiters are woken.
    pub fn wake_for_route(&mut self, queue: &QueueName, route: &Route, tasks: usize) -> Vec<Waker> {
        let Some(routes) = Routes::new(vec![route.clone()]) else { return Vec::new() };
        let Some(line) = self.queues.get_mut(queue).and_then(|lines| lines.get_mut(route)) else { return Vec::new() };
        line.missed_hints += u64::from(tasks > 0);
        let chosen: Vec<WaiterId> = line.parked.iter().take(tasks).copied().collect();
        let hint = Hint { queue: queue.clone(), routes, task: None };
        chosen.into_iter().filter_map(|id| self.wake(id, Some(hint.clone()))).collect()
    }

    /// A queue is gone: all its waiters look, and see that.
    pub fn queue_deleted(&mut self, queue: &QueueName) -> Vec<Waker> {
        let Some(lines) = self.queues.get_mut(queue) else { return Vec::new() };
        lines.values_mut().for_each(|line| line.missed_hints += 1);
        let chosen: Vec<WaiterId> = lines.values().flat_map(|line| line.parked.iter().copied()).collect();
        chosen.into_iter().filter_map(|id| self.wake(id, None)).collect()
    }

    /// A waiter leaves, with a task or without. What it was woken by and did not take goes to the next one.
    pub fn unregister(&mut self, id: WaiterId, took: Option<TaskId>) -> Option<Waker> {
        let Entry { queue, route, state } = self.waiters.remove(&id)?;
        let lines = self.queues.get_mut(&queue)?;
        if let Some(line) = lines.get_mut(&route) {
            match state {
                State::Parked(_) => drop(line.parked.remove(&id)),
                State::Claiming { .. } => line.claiming -= 1,
            }
            if line.claiming == 0 && line.parked.is_empty() {
                lines.remove(&route);
            }
        }
        if lines.is_empty() {
            self.queues.remove(&queue);
        }
        match state {
            State::Claiming { hint: Some(hint), .. } if !is_settled(&hint, took) => self.hint(hint),
            _ => None,
        }
    }

    /// Everybody who rests is woken.
    pub fn wake_all(&mut self) -> Vec<Waker> {
        let all: Vec<WaiterId> = self.waiters.keys().copied().collect();
        all.into_iter().filter_map(|id| self.wake(id, None)).collect()
    }

    /// The routes at which somebody waits, and how many of them rest. Also where all of them look: what is found there
    /// they may have missed.
    pub fn waiting_routes(&self) -> Vec<(QueueName, Route, usize)> {
        let lines = self.queues.iter().flat_map(|(queue, lines)| lines.iter().map(move |line| (queue, line)));
        lines.map(|(queue, (route, line))| (queue.clone(), route.clone(), line.parked.len())).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

/// Whether whoever took this task has done what a hint was for. Where the hint does not say which task it is about, nobody
/// knows: this one may be of a run that was active before, and then the other is still there.
fn is_settled(hint: &Hint, took: Option<TaskId>) -> bool {
    took.is_some() && hint.task == took
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
