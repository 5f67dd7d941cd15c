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

/// Where a waiter of the world stands.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Its claim is on the way to the store.
    Looks,
    /// Its claim was executed with this outcome, of which it does not know yet.
    Looked(Option<TaskId>),
    Rests,
}

/// A store with its waiters, without any thread.
struct World {
    random: Random,
    registry: Registry,
    /// Claimable tasks: higher numbers come first, so that claims and hints cross.
    tasks: BTreeMap<TaskId, Routes>,
    waiters: BTreeMap<Ticket, (Route, Step)>,
    /// Committed and not yet told.
    untold: Vec<Hint>,
    taken: BTreeSet<TaskId>,
    created: usize,
    looks: usize,
    left: usize,
    /// Whether the queue exists.
    alive: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            registry: Registry::default(),
            tasks: BTreeMap::new(),
            waiters: BTreeMap::new(),
            untold: Vec::new(),
            taken: BTreeSet::new(),
            created: 0,
            looks: 0,
            left: 0,
            alive: true,
        }
    }

    fn enter(&mut self) {
        let route = route(self.random.pick(&["a", "b", "c"]));
        let ticket = self.registry.enter(&queue("q"), &route);
        self.waiters.insert(ticket, (route, Step::Looks));
    }

    fn create(&mut self) {
        self.created += 1;
        let all: [&[&str]; 5] = [&["a"], &["b"], &["a", "b"], &["b", "c"], &["a", "b", "c"]];
        let routes = self.random.pick(&all);
        let hint = hint(self.created, routes);
        self.tasks.insert(task(self.created), hint.routes.clone());
        self.untold.push(hint);
    }

    fn tell(&mut self) {
        if !self.untold.is_empty() {
            let hint = self.untold.swap_remove(self.random.below(self.untold.len()));
            self.registry.hint(hint);
        }
    }

    /// A backend that cannot say what it committed compares all lines with what is there.
    fn look_everywhere(&mut self) {
        self.untold.clear();
        for (queue, route, _) in self.registry.lines() {
            let tasks = self.tasks.values().filter(|routes| routes.contains(route.as_str())).count();
            self.registry.found(&queue, &route, tasks);
        }
    }

    /// One waiter goes one step.
    fn go_on(&mut self, ticket: Ticket) {
        let (route, step) = self.waiters[&ticket].clone();
        match step {
            Step::Looks => {
                self.looks += 1;
                let mine = |(_, routes): &(&TaskId, &Routes)| routes.contains(route.as_str());
                let found = self.tasks.iter().rev().find(mine).map(|(id, _)| *id);
                if let Some(id) = found {
                    self.tasks.remove(&id);
                    assert!(self.taken.insert(id), "a task was taken twice");
                }
                self.set(ticket, Step::Looked(found));
            }
            Step::Looked(Some(id)) => self.leave(ticket, Some(id)),
            Step::Looked(None) if !self.alive => self.leave(ticket, None),
            Step::Looked(None) => {
                let rests = self.registry.rest(ticket);
                self.set(ticket, if rests { Step::Rests } else { Step::Looks });
            }
            Step::Rests => {
                if self.registry.is_woken(ticket, Waker::noop()) {
                    self.set(ticket, Step::Looks);
                }
            }
        }
    }

    fn set(&mut self, ticket: Ticket, step: Step) {
        self.waiters.get_mut(&ticket).unwrap().1 = step;
    }

    fn leave(&mut self, ticket: Ticket, took: Option<TaskId>) {
        self.waiters.remove(&ticket);
        self.registry.leave(ticket, took);
        self.left += 1;
    }

    fn any_waiter(&mut self) -> Option<Ticket> {
        let tickets: Vec<Ticket> = self.waiters.keys().copied().collect();
        (!tickets.is_empty()).then(|| self.random.pick(&tickets))
    }

    /// Goes on until nothing moves any more.
    fn settle(&mut self) {
        while !self.untold.is_empty() {
            self.tell();
        }
        loop {
            let moving =
                |(ticket, (_, step)): (&Ticket, &(Route, Step))| (!matches!(step, Step::Rests)).then_some(*ticket);
            for ticket in self.waiters.keys().copied().collect::<Vec<_>>() {
                if matches!(self.waiters[&ticket].1, Step::Rests) {
                    self.go_on(ticket);
                }
            }
            let Some(ticket) = self.waiters.iter().find_map(moving) else { return };
            self.go_on(ticket);
        }
    }

    fn assert_nobody_is_forgotten(&self, seed: u64) {
        for (ticket, (route, _)) in &self.waiters {
            let mine = self.tasks.iter().find(|(_, routes)| routes.contains(route.as_str()));
            assert_eq!(mine, None, "seed {seed}: waiter {ticket} rests beside a task of {route}");
        }
        assert_eq!(self.registry.len(), self.waiters.len(), "seed {seed}");
        assert_eq!(self.taken.len() + self.tasks.len(), self.created, "seed {seed}");
    }
}

#[test]
fn whatever_the_order_nobody_rests_beside_a_task_for_it() {
    for seed in 0..4_000 {
        let mut world = World::new(seed);
        let steps = 20 + world.random.below(120);
        for _ in 0..steps {
            match world.random.below(100) {
                0..15 => world.enter(),
                15..30 => world.create(),
                30..42 => world.tell(),
                // Who leaves while its claim is executed leaves its task behind, taken but unheard.
                42..47 => {
                    if let Some(ticket) = world.any_waiter() {
                        world.leave(ticket, None);
                    }
                }
                // Its run is active already, so its claim gives it a task that nobody waits for.
                47..49 => {
                    if let Some(ticket) = world.any_waiter() {
                        world.leave(ticket, Some(task(0)));
                    }
                }
                49..53 => world.look_everywhere(),
                _ => {
                    if let Some(ticket) = world.any_waiter() {
                        world.go_on(ticket);
                    }
                }
            }
        }
        world.settle();
        world.assert_nobody_is_forgotten(seed);
    }
}

#[test]
fn a_deleted_queue_keeps_nobody() {
    for seed in 0..500 {
        let mut world = World::new(seed);
        for _ in 0..40 {
            match world.random.below(10) {
                0..4 => world.enter(),
                _ => {
                    if let Some(ticket) = world.any_waiter() {
                        world.go_on(ticket);
                    }
                }
            }
        }
        (world.alive, world.tasks) = (false, BTreeMap::new());
        world.registry.queue_gone(&queue("q"));
        world.settle();
        assert!(world.registry.is_empty() && world.waiters.is_empty(), "seed {seed}");
        assert!(world.registry.queues.is_empty(), "seed {seed}: a line is left behind");
    }
}

#[test]
fn one_task_wakes_one_waiter_and_not_a_herd() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        (0..100).for_each(|_| world.enter());
        world.settle();
        let (looks, waiting) = (world.looks, world.registry.len());
        assert_eq!((looks, waiting), (100, 100));
        for _ in 0..50 {
            world.create();
            world.settle();
        }
        // Tasks come one by one, so nothing crosses: one look for each task that anybody waited for.
        assert_eq!(world.looks - looks, world.taken.len(), "seed {seed}");
        assert_eq!(world.taken.len(), world.left, "seed {seed}");
    }
}

/// A registry with resting waiters for `default`, first come first.
fn resting(count: usize) -> (Registry, Vec<Ticket>) {
    let mut registry = Registry::default();
    let tickets: Vec<Ticket> = (0..count).map(|_| registry.enter(&queue("q"), &route("default"))).collect();
    assert!(tickets.iter().all(|ticket| registry.rest(*ticket)));
    (registry, tickets)
}

fn woken(registry: &mut Registry, tickets: &[Ticket]) -> Vec<usize> {
    let woken = tickets.iter().enumerate().filter(|(_, ticket)| registry.is_woken(**ticket, Waker::noop()));
    woken.map(|(n, _)| n).collect()
}

#[test]
fn first_come_first_served_and_who_found_nothing_keeps_its_place() {
    let (mut registry, tickets) = resting(3);
    registry.hint(hint(1, &["default"]));
    assert_eq!(woken(&mut registry, &tickets), [0]);
    assert!(registry.rest(tickets[0]));
    registry.hint(hint(2, &["default"]));
    assert_eq!(woken(&mut registry, &tickets), [0]);
    registry.hint(hint(3, &["default"]));
    assert_eq!(woken(&mut registry, &tickets), [0, 1]);
}

#[test]
fn who_leaves_without_the_task_passes_the_hint_on() {
    for took in [None, Some(task(9))] {
        let (mut registry, tickets) = resting(2);
        registry.hint(hint(1, &["default"]));
        registry.leave(tickets[0], took);
        assert_eq!(registry.len(), 1);
        assert!(registry.is_woken(tickets[1], Waker::noop()), "{took:?}");
    }
    let (mut registry, tickets) = resting(2);
    registry.hint(hint(1, &["default"]));
    registry.leave(tickets[0], Some(task(1)));
    assert!(!registry.is_woken(tickets[1], Waker::noop()));
}

#[test]
fn a_hint_during_a_look_makes_it_look_again() {
    let mut registry = Registry::default();
    let ticket = registry.enter(&queue("q"), &route("default"));
    registry.hint(hint(1, &["default"]));
    assert!(!registry.rest(ticket));
    assert!(registry.rest(ticket));
    registry.hint(Hint { queue: queue("other"), ..hint(2, &["default"]) });
    registry.hint(hint(3, &["another"]));
    assert!(!registry.is_woken(ticket, Waker::noop()));
}

#[test]
fn a_look_of_the_backend_wakes_as_many_as_there_are_tasks() {
    let (mut registry, tickets) = resting(5);
    registry.found(&queue("q"), &route("default"), 2);
    assert_eq!(woken(&mut registry, &tickets), [0, 1]);
    assert_eq!(registry.lines(), [(queue("q"), route("default"), 3)]);
    registry.found(&queue("q"), &route("default"), 100);
    assert_eq!(woken(&mut registry, &tickets).len(), 5);
    assert_eq!(registry.lines(), [(queue("q"), route("default"), 0)]);
}

#[test]
fn who_leaves_with_a_task_that_it_had_before_passes_on_what_the_backend_saw() {
    let (mut registry, tickets) = resting(2);
    registry.found(&queue("q"), &route("default"), 1);
    // Its run was active already: nothing of what was seen is gone.
    registry.leave(tickets[0], Some(task(9)));
    assert!(registry.is_woken(tickets[1], Waker::noop()));
}

#[test]
fn what_the_backend_sees_while_somebody_looks_makes_it_look_again() {
    let mut registry = Registry::default();
    let ticket = registry.enter(&queue("q"), &route("default"));
    for (queue, route, _) in registry.lines() {
        registry.found(&queue, &route, 1);
    }
    assert!(!registry.rest(ticket));
    assert!(registry.rest(ticket));
}
