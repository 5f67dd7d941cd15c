//! Limits of running tasks hold exactly over two servers on one database: while runs end in every way, limits change, and servers
//! are killed. `TASKQUEUE_TEST_SECONDS` makes it longer, for a proof by hand.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use taskqueue_test_postgres::eventually;

use super::servers::Addresses;
use super::{fresh_database, server};
use crate::support::*;

const CLIENTS: usize = 8;
const TASKS: usize = 5_000;
const SECONDS: u64 = 6;

/// At most so many running tasks, and so many of the route `gpu`.
#[derive(Clone, Copy, Debug)]
struct Limits {
    all: u64,
    gpu: u64,
}

const HIGH: Limits = Limits { all: 7, gpu: 3 };
const LOW: Limits = Limits { all: 3, gpu: 1 };

impl Limits {
    fn set(self, addresses: &Addresses, first: usize) {
        addresses.change_settings(first, &json!({"max_running": self.all, "route_limits": {"gpu": self.gpu}}));
    }
}

/// How many are running, and how many of them for `gpu`: each number is of one moment.
fn running(addresses: &Addresses, first: usize) -> Limits {
    let gpu = format!("status=running&filter={}", encode("last_route == 'gpu'"));
    Limits { all: addresses.count(first, "status=running"), gpu: addresses.count(first, &gpu) }
}

#[track_caller]
fn assert_within(seen: Limits, limits: Limits) {
    assert!(seen.all <= limits.all && seen.gpu <= limits.gpu, "{seen:?} is more than {limits:?}");
}

/// After a change to lower limits nothing is claimed until enough has ended: the numbers fall, and never rise above the limits.
fn observe_fall(addresses: &Addresses, to: Limits) {
    let mut before = running(addresses, 0);
    let begun = Instant::now();
    while before.all > to.all || before.gpu > to.gpu {
        let seen = running(addresses, 1);
        assert_within(seen, Limits { all: before.all.max(to.all), gpu: before.gpu.max(to.gpu) });
        before = seen;
        assert!(begun.elapsed() < Duration::from_secs(30), "{before:?} are still running");
    }
}

/// What a client does until it is told to stop: claims, and ends runs in turn by each kind of end. Every fifth task has a time
/// limit of a second, and nobody ends its run.
fn work(lane: usize, addresses: &Addresses, next_run: &AtomicUsize, claimed: &AtomicU64, stop: &AtomicBool) {
    let route = if lane.is_multiple_of(2) { "gpu" } else { "cpu" };
    let mut held: Vec<(usize, usize)> = Vec::new();
    let end = |task: usize, run: usize| {
        let action = ["complete", "fail", "unclaim", "cancel"][task % 4];
        // A cancel ignores its body.
        let request = Request::new("POST", &of_task(task, &format!("/{action}"))).json(action_body(action, run));
        let answer = addresses.send(lane, &request);
        // The server may have died after the first of two tries; a cancel is then a conflict.
        assert!(matches!(answer.status, 200 | 204) || action == "cancel", "{answer:?}");
    };
    while !stop.load(Ordering::SeqCst) {
        let run = next_run.fetch_add(1, Ordering::SeqCst);
        let answer = addresses.send(lane, &claim_request(route, run));
        if answer.status == 200 {
            let task = claimed_task(&answer);
            claimed.fetch_add(1, Ordering::SeqCst);
            if !task.is_multiple_of(5) {
                held.push((task, run));
            }
        }
        if held.len() > 1 || answer.status == 204 {
            held.drain(..).for_each(|(task, run)| end(task, run));
        }
    }
    held.drain(..).for_each(|(task, run)| end(task, run));
}

fn create_tasks(server: &Server) {
    let task = |n: usize| {
        let mut task = json!({"id": task_id(n), "routes": ["cpu", "gpu"], "max_attempts": 1_000});
        if n.is_multiple_of(5) {
            task["timeout_seconds"] = json!(1);
        }
        task
    };
    for from in (0..TASKS).step_by(1_000) {
        server.batch("create", json!({"tasks": (from..from + 1_000).map(task).collect::<Vec<_>>()}));
    }
}

/// Observes while limits change and servers are killed in turn; gives the highest number that it saw running.
fn observe(addresses: &Addresses, servers: &mut [Server], until: Instant) -> u64 {
    let mut most = 0;
    for round in 0.. {
        for n in 0..30 {
            let seen = running(addresses, n);
            assert_within(seen, HIGH);
            most = most.max(seen.all);
        }
        let victim = round % 2;
        servers[victim].kill();
        for n in 0..10 {
            assert_within(running(addresses, n), HIGH);
        }
        servers[victim].start_again();
        addresses.change(victim, &servers[victim].address);
        LOW.set(addresses, round);
        observe_fall(addresses, LOW);
        for n in 0..30 {
            assert_within(running(addresses, n), LOW);
        }
        if Instant::now() > until {
            return most;
        }
        HIGH.set(addresses, round + 1);
    }
    most
}

#[test]
fn limits_hold_over_two_servers_while_they_change_and_servers_are_killed() {
    let seconds = env::var("TASKQUEUE_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let database = fresh_database();
    let mut servers = vec![server(&database.url()), server(&database.url())];
    servers[0].create_queue("q");
    create_tasks(&servers[0]);
    let addresses = Addresses::of(&servers);
    HIGH.set(&addresses, 0);
    let (next_run, claimed, stop) = (AtomicUsize::new(1), AtomicU64::new(0), AtomicBool::new(false));
    let most = thread::scope(|scope| {
        for lane in 0..CLIENTS {
            let (addresses, next_run, claimed, stop) = (&addresses, &next_run, &claimed, &stop);
            scope.spawn(move || work(lane, addresses, next_run, claimed, stop));
        }
        // Also when the test fails.
        let _stop = StopAtTheEnd(&stop);
        observe(&addresses, &mut servers, Instant::now() + Duration::from_secs(seconds))
    });
    assert_eq!(most, HIGH.all, "the limit was never reached");
    assert!(claimed.load(Ordering::SeqCst) > most, "places were used again");
    eventually("the runs that nobody ended are over", || running(&addresses, 0).all == 0);
    HIGH.set(&addresses, 0);
    let given = |which: usize, route: &str, first: usize| {
        let runs: Vec<String> = (first..first + 50).map(run_id).collect();
        let items = servers[which].batch("claim", json!({"route": route, "run_ids": runs}));
        items.iter().filter(|item| item["outcome"] == "claimed").count() as u64
    };
    assert_eq!(given(0, "gpu", 90_000_000), HIGH.gpu, "the limit is reached again");
    assert_eq!(given(1, "gpu", 91_000_000), 0);
    assert_eq!(given(1, "cpu", 92_000_000), HIGH.all - HIGH.gpu);
    assert_eq!(given(0, "cpu", 93_000_000), 0);
}
