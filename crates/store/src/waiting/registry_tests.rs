//! The registry under a scheduler that tries interleavings: each waiter, each creation and each hint is a step of its own,
//! taken in random order. Whatever the order, at the end nobody rests beside a task that it could have.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, TaskId};

use super::*;
use crate::conformance::random::Random;

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

fn route(name: &str) -> Route {
    Route::parse(name).unwrap()
}

fn task(n: usize) -> TaskId {
    TaskId::parse(&format!("t_{n:012}")).unwrap()
}

fn hint(n: usize, routes: &[&str]) -> Hint {
    let routes = Routes::new(routes.iter().map(|name| route(name)).collect()).unwrap();
    Hint { queue: queue("q"), routes, task: Some(task(n)) }
}

/// The routes of the world.
const ROUTES: [&str; 3] = ["a", "b", "c"];

/// Where a waiter of the world stands.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Its claim is on the way to the store.
    Claiming,
    /// Its claim was executed with this outcome, of which it does not know yet.
    Claimed(Option<TaskId>),
    Parked,
}

/// A store with its waiters, without any thread.
struct World {
    random: Random,
    registry: Registry,
    /// Claimable tasks: higher numbers come first, so that claims and hints cross.
    tasks: BTreeMap<TaskId, Routes>,
    waiters: BTreeMap<WaiterId, (Route, Step)>,
    /// Committed and not yet told.
    undelivered: Vec<Hint>,
    taken: BTreeSet<TaskId>,
    created: usize,
    claims: usize,
    left: usize,
    /// Whether the queue exists.
    alive: bool,
    /// How many tasks may be running; nothing if there is no limit.
    limit: Option<usize>,
    running: usize,
    paused: bool,
    /// A route whose limit is reached.
    full_route: Option<Route>,
    /// Tasks that cannot be claimed yet.
    delayed: BTreeMap<TaskId, Routes>,
    /// Whether all routes are to be looked at, because of a change of which no task is known.
    look_is_due: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            registry: Registry::default(),
            tasks: BTreeMap::new(),
            waiters: BTreeMap::new(),
            undelivered: Vec::new(),
            taken: BTreeSet::new(),
            created: 0,
            claims: 0,
            left: 0,
            alive: true,
            limit: None,
            running: 0,
            paused: false,
            full_route: None,
            delayed: BTreeMap::new(),
            look_is_due: false,
        }
    }

    /// How many tasks claims for a route may still take.
    fn room(&self, route: &Route) -> usize {
        let room = self.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.running));
        if self.paused || self.full_route.as_ref() == Some(route) { 0 } else { room }
    }

    /// A run ends: where there is a limit, a place is free.
    fn end_run(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.look_is_due |= self.limit.is_some();
    }

    /// Somebody changes the settings; what widens them makes all look again.
    fn change_settings(&mut self) {
        let room = |world: &Self| ROUTES.map(|name| world.room(&route(name)));
        let before = room(self);
        self.paused = self.random.percent(30);
        self.limit = self.random.pick(&[None, Some(0), Some(1), Some(2), Some(5)]);
        self.full_route = self.random.percent(50).then(|| route(self.random.pick(&ROUTES)));
        self.look_is_due |= room(self).iter().zip(before).any(|(now, before)| *now > before);
    }

    fn create_delayed(&mut self) {
        self.create();
        let hint = self.undelivered.pop().unwrap();
        let routes = self.tasks.remove(&task(self.created)).unwrap();
        assert_eq!(hint.routes, routes);
        self.delayed.insert(task(self.created), routes);
    }

    /// The time of all delayed tasks has come.
    fn release_all(&mut self) {
        self.look_is_due |= !self.delayed.is_empty();
        self.tasks.append(&mut self.delayed);
    }

    /// The last dependency of a task has succeeded: of this one it is known.
    fn release_one(&mut self) {
        if let Some((task, routes)) = self.delayed.pop_first() {
            self.undelivered.push(Hint { queue: queue("q"), routes: routes.clone(), task: Some(task) });
            self.tasks.insert(task, routes);
        }
    }

    fn register(&mut self) {
        let route = route(self.random.pick(&ROUTES));
        let id = self.registry.register(&queue("q"), &route);
        self.waiters.insert(id, (route, Step::Claiming));
    }

    fn create(&mut self) {
        self.created += 1;
        let all: [&[&str]; 5] = [&["a"], &["b"], &["a", "b"], &["b", "c"], &["a", "b", "c"]];
        let routes = self.random.pick(&all);
        let hint = hint(self.created, routes);
        self.tasks.insert(task(self.created), hint.routes.clone());
        self.undelivered.push(hint);
    }

    fn deliver_hint(&mut self) {
        if !self.undelivered.is_empty() {
            let hint = self.undelivered.swap_remove(self.random.below(self.undelivered.len()));
            self.registry.hint(hint);
        }
    }

    /// A backend that cannot say what it committed compares all lines with what is there.
    fn poll_all_routes(&mut self) {
        self.undelivered.clear();
        self.look_is_due = false;
        for (queue, route, _) in self.registry.waiting_routes() {
            let tasks = self.tasks.values().filter(|routes| routes.contains(route.as_str())).count();
            self.registry.wake_for_route(&queue, &route, tasks.min(self.room(&route)));
        }
    }

    /// One waiter goes one step.
    fn advance(&mut self, id: WaiterId) {
        let (route, step) = self.waiters[&id].clone();
        match step {
            Step::Claiming => {
                self.claims += 1;
                let mine = |(_, routes): &(&TaskId, &Routes)| routes.contains(route.as_str());
                let first = self.tasks.iter().rev().find(mine).map(|(id, _)| *id);
                let found = first.filter(|_| self.room(&route) > 0);
                if let Some(task) = found {
                    self.running += 1;
                    self.tasks.remove(&task);
                    assert!(self.taken.insert(task), "a task was taken twice");
                }
                self.set(id, Step::Claimed(found));
            }
            Step::Claimed(Some(task)) => self.unregister(id, &[task]),
            Step::Claimed(None) if !self.alive => self.unregister(id, &[]),
            Step::Claimed(None) => {
                let (rests, _) = self.registry.park(id);
                self.set(id, if rests { Step::Parked } else { Step::Claiming });
            }
            Step::Parked => {
                if self.registry.is_woken(id, Waker::noop()) {
                    self.set(id, Step::Claiming);
                }
            }
        }
    }

    fn set(&mut self, id: WaiterId, step: Step) {
        self.waiters.get_mut(&id).unwrap().1 = step;
    }

    fn unregister(&mut self, id: WaiterId, took: &[TaskId]) {
        self.waiters.remove(&id);
        self.registry.unregister(id, took);
        self.left += 1;
    }

    /// Lets a waiter, if there is any, do something.
    fn with_any_waiter(&mut self, act: impl Fn(&mut Self, WaiterId)) {
        let ids: Vec<WaiterId> = self.waiters.keys().copied().collect();
        if !ids.is_empty() {
            let id = self.random.pick(&ids);
            act(self, id);
        }
    }

    /// Goes on until nothing moves any more.
    fn run_to_rest(&mut self) {
        while !self.undelivered.is_empty() {
            self.deliver_hint();
        }
        if self.look_is_due {
            self.poll_all_routes();
        }
        loop {
            let moving = |(id, (_, step)): (&WaiterId, &(Route, Step))| (!matches!(step, Step::Parked)).then_some(*id);
            for id in self.waiters.keys().copied().collect::<Vec<_>>() {
                if matches!(self.waiters[&id].1, Step::Parked) {
                    self.advance(id);
                }
            }
            let Some(id) = self.waiters.iter().find_map(moving) else { return };
            self.advance(id);
        }
    }

    fn assert_nobody_is_forgotten(&self, seed: u64) {
        for (id, (route, _)) in self.waiters.iter().filter(|(_, (route, _))| self.room(route) > 0) {
            let mine = self.tasks.iter().find(|(_, routes)| routes.contains(route.as_str()));
            assert_eq!(mine, None, "seed {seed}: waiter {id} rests beside a task of {route}");
        }
        assert_eq!(self.registry.len(), self.waiters.len(), "seed {seed}");
        assert_eq!(self.taken.len() + self.tasks.len() + self.delayed.len(), self.created, "seed {seed}");
    }
}

/// Takes random steps in as many worlds, by a number below 100 each, and then goes on to the end.
fn try_orders(worlds: u64, fewest_steps: usize, more_steps: usize, step: impl Fn(&mut World, usize)) {
    for seed in 0..worlds {
        let mut world = World::new(seed);
        let steps = fewest_steps + world.random.below(more_steps);
        for _ in 0..steps {
            let number = world.random.below(100);
            step(&mut world, number);
        }
        world.run_to_rest();
        world.assert_nobody_is_forgotten(seed);
    }
}

/// With pauses, limits, times and dependencies: a million steps in all.
#[test]
fn whatever_the_order_nobody_rests_beside_a_task_that_there_is_room_for() {
    try_orders(10_000, 50, 100, |world, number| match number {
        0..14 => world.register(),
        14..22 => world.create(),
        22..30 => world.create_delayed(),
        30..38 => world.deliver_hint(),
        // Who leaves while its claim is executed leaves its task behind, taken but without an answer.
        38..41 => world.with_any_waiter(|world, id| world.unregister(id, &[])),
        41..43 => world.release_all(),
        43..47 => world.release_one(),
        47..51 => world.change_settings(),
        51..58 => world.end_run(),
        58..62 if world.look_is_due => world.poll_all_routes(),
        62..64 => world.poll_all_routes(),
        // Its run is active already, so its claim gives it a task that nobody waits for.
        64..66 => world.with_any_waiter(|world, id| world.unregister(id, &[task(0)])),
        _ => world.with_any_waiter(World::advance),
    });
}

#[test]
fn a_deleted_queue_keeps_nobody() {
    for seed in 0..500 {
        let mut world = World::new(seed);
        for _ in 0..40 {
            match world.random.below(10) {
                0..4 => world.register(),
                _ => world.with_any_waiter(World::advance),
            }
        }
        (world.alive, world.tasks) = (false, BTreeMap::new());
        world.registry.queue_deleted(&queue("q"));
        world.run_to_rest();
        assert!(world.registry.is_empty() && world.waiters.is_empty(), "seed {seed}");
        assert!(world.registry.queues.is_empty(), "seed {seed}: a line is left behind");
    }
}

#[test]
fn one_task_wakes_one_waiter_and_not_a_herd() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        (0..100).for_each(|_| world.register());
        world.run_to_rest();
        let (claims, waiting) = (world.claims, world.registry.len());
        assert_eq!((claims, waiting), (100, 100));
        for _ in 0..50 {
            world.create();
            world.run_to_rest();
        }
        // Tasks come one by one, so nothing crosses: one look for each task that anybody waited for.
        assert_eq!(world.claims - claims, world.taken.len(), "seed {seed}");
        assert_eq!(world.taken.len(), world.left, "seed {seed}");
    }
}

/// A registry with parked waiters for `default`, first come first.
fn parked(count: usize) -> (Registry, Vec<WaiterId>) {
    let mut registry = Registry::default();
    let ids: Vec<WaiterId> = (0..count).map(|_| registry.register(&queue("q"), &route("default"))).collect();
    assert!(ids.iter().all(|id| registry.park(*id).0));
    (registry, ids)
}

fn woken(registry: &mut Registry, ids: &[WaiterId]) -> Vec<usize> {
    let woken = ids.iter().enumerate().filter(|(_, id)| registry.is_woken(**id, Waker::noop()));
    woken.map(|(n, _)| n).collect()
}

#[test]
fn first_come_first_served_and_who_found_nothing_keeps_its_place() {
    let (mut registry, ids) = parked(3);
    registry.hint(hint(1, &["default"]));
    assert_eq!(woken(&mut registry, &ids), [0]);
    assert!(registry.park(ids[0]).0);
    registry.hint(hint(2, &["default"]));
    assert_eq!(woken(&mut registry, &ids), [0]);
    registry.hint(hint(3, &["default"]));
    assert_eq!(woken(&mut registry, &ids), [0, 1]);
}

/// Whose route has reached its limit cannot take the task, and somebody else may.
#[test]
fn who_found_nothing_passes_the_hint_on_to_the_other_routes() {
    let mut registry = Registry::default();
    let ids = ROUTES.map(|name| registry.register(&queue("q"), &route(name)));
    assert!(ids.iter().all(|id| registry.park(*id).0));
    registry.hint(hint(1, &["a", "b"]));
    assert_eq!(woken(&mut registry, &ids), [0]);
    assert!(registry.park(ids[0]).0);
    assert_eq!(woken(&mut registry, &ids), [1]);
    assert!(registry.park(ids[1]).0);
    assert_eq!(woken(&mut registry, &ids), [], "nobody is left who was not asked");
    // Who is claiming meanwhile claims again.
    registry.hint(hint(2, &["a", "c"]));
    registry.hint(hint(3, &["c"]));
    assert_eq!(woken(&mut registry, &ids), [0, 2]);
    assert!(registry.park(ids[0]).0);
    assert!(!registry.park(ids[2]).0);
}

#[test]
fn a_hint_during_a_look_makes_it_look_again() {
    let mut registry = Registry::default();
    let id = registry.register(&queue("q"), &route("default"));
    registry.hint(hint(1, &["default"]));
    assert!(!registry.park(id).0);
    assert!(registry.park(id).0);
    registry.hint(Hint { queue: queue("other"), ..hint(2, &["default"]) });
    registry.hint(hint(3, &["another"]));
    assert!(!registry.is_woken(id, Waker::noop()));
}

#[test]
fn a_look_of_the_backend_wakes_as_many_as_there_are_tasks() {
    let (mut registry, ids) = parked(5);
    registry.wake_for_route(&queue("q"), &route("default"), 2);
    assert_eq!(woken(&mut registry, &ids), [0, 1]);
    assert_eq!(registry.waiting_routes(), [(queue("q"), route("default"), 3)]);
    registry.wake_for_route(&queue("q"), &route("default"), 100);
    assert_eq!(woken(&mut registry, &ids).len(), 5);
    assert_eq!(registry.waiting_routes(), [(queue("q"), route("default"), 0)]);
}
