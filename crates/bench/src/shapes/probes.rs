//! What others see while a shape is sent: `/health` and heartbeats on one connection, creations and claims on another, in a queue
//! of their own.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::exchange::{Connection, is_truthful_busy};
use crate::Result;
use crate::client::Answer;
use crate::figures::Latencies;

const TASKS: &str = "/api/v2/queues/probe/tasks";
const RUNNING: &str = "t_probe0000000";
const RUN: &str = r#"{"route":"default","run_id":"r_probe0000000"}"#;
/// From so many answers on there is a 99th percentile, and a median.
pub(super) const ROUNDS: usize = 100;
const FEW: u64 = 5;
/// How many times the time of an idle server is added to what is allowed: on a machine that does nothing else it is next to nothing.
const MARGIN: f64 = 3.0;
/// So that probes do not become the load.
const PAUSE: Duration = Duration::from_millis(5);

/// The most that a figure of many answers may be, in milliseconds: its name, its share of the answers, the limit for `/health` and
/// heartbeats, and that for creations and claims that are not refused (C1).
pub(super) struct Limit(&'static str, f64, f64, f64);

/// Of those beside one shape at full size, which are many.
pub(super) const OF_ONE: &[Limit] =
    &[Limit("P99", 0.99, 250.0, f64::INFINITY), Limit("Longest", 1.0, f64::INFINITY, 1_000.0)];
/// Of those beside one small shape, which are few: a busy machine may stop one of them, but not half of them.
pub(super) const OF_ONE_SMALL: &[Limit] =
    &[Limit("Median", 0.5, 1_000.0, 1_000.0), Limit("Longest", 1.0, HELD_UP_MILLIS, HELD_UP_MILLIS)];
/// Of those beside all shapes.
pub(super) const OF_ALL: &[Limit] = &[Limit("P99", 0.99, 250.0, 1_000.0)];
/// The limit for each answer at a small size: far more than a stop of a busy machine, and far less than the 25 seconds that a read may
/// hold up whoever waits for it.
pub(super) const HELD_UP_MILLIS: f64 = 10_000.0;

/// How long each kind of request took, and what should not have been answered.
#[derive(Default)]
pub(crate) struct Probed {
    pub(crate) health: Latencies,
    pub(crate) heartbeats: Latencies,
    pub(crate) writes: Latencies,
    /// Creations that were answered `database_busy`.
    pub(super) refused: Vec<String>,
    wrong: Vec<String>,
}

/// Who probes a server, from its start to its end.
#[derive(Debug)]
pub(crate) struct Probes {
    address: SocketAddr,
    next: AtomicUsize,
}

impl Probes {
    pub(crate) fn new(address: SocketAddr) -> Result<Self> {
        let mut connection = Connection::new(address)?;
        connection.call("PUT", "/api/v2/queues/probe", "")?.succeed()?;
        connection.call("PUT", &format!("{TASKS}/{RUNNING}"), "{}")?.succeed()?;
        connection.call("POST", &format!("{TASKS}/claim"), RUN)?.succeed()?;
        Ok(Self { address, next: AtomicUsize::new(1) })
    }

    /// All of it until it is done.
    pub(crate) fn measure(&self, done: &AtomicBool, rounds: &AtomicUsize) -> Probed {
        thread::scope(|scope| {
            let writing = scope.spawn(|| self.write(done));
            let mut probed = self.read(done, rounds);
            let Probed { writes, refused, wrong, .. } = writing.join().unwrap_or_default();
            probed.wrong.extend(wrong);
            Probed { writes, refused, ..probed }
        })
    }

    /// Health and heartbeats until it is done, at least one of each.
    fn read(&self, done: &AtomicBool, rounds: &AtomicUsize) -> Probed {
        let mut probed = Probed::default();
        let Ok(mut connection) = Connection::new(self.address) else { return probed };
        let heartbeat = format!("{TASKS}/{RUNNING}/heartbeat");
        while !done.load(Ordering::Relaxed) || probed.health.count() == 0 {
            let begin = Instant::now();
            let answer = connection.call("GET", "/health", "");
            probed.health.record(begin.elapsed());
            probed.expect("/health", &answer, 200);
            let begin = Instant::now();
            let answer = connection.call("POST", &heartbeat, r#"{"run_id":"r_probe0000000"}"#);
            probed.heartbeats.record(begin.elapsed());
            probed.expect("a heartbeat", &answer, 200);
            rounds.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        probed
    }

    /// Creations, claims and completions until it is done, at least one of each.
    fn write(&self, done: &AtomicBool) -> Probed {
        let mut probed = Probed::default();
        let Ok(mut connection) = Connection::new(self.address) else { return probed };
        while !done.load(Ordering::Relaxed) || probed.is_without_writes() {
            let id = format!("{:012}", self.next.fetch_add(1, Ordering::Relaxed));
            let (path, begin) = (format!("{TASKS}/t_{id}"), Instant::now());
            let created = connection.call("PUT", &path, "{}");
            if !probed.wrote("a creation", &created, begin, 201) {
                probed.refused.push(path);
            }
            let (run, begin) = (format!(r#""run_id":"r_{id}""#), Instant::now());
            let claimed =
                connection.call("POST", &format!("{TASKS}/claim"), &format!(r#"{{"route":"default",{run}}}"#));
            probed.wrote("a claim", &claimed, begin, 200);
            // So that runs do not become more and more.
            if let Some(task) =
                claimed.ok().and_then(|claimed| claimed.json()["task"]["id"].as_str().map(str::to_owned))
            {
                drop(connection.call(
                    "POST",
                    &format!("{TASKS}/{task}/complete"),
                    &format!(r#"{{{run},"result":{{}}}}"#),
                ));
            }
            thread::sleep(PAUSE);
        }
        probed
    }
}

impl Probed {
    fn is_without_writes(&self) -> bool {
        self.writes.count() == 0 && self.refused.is_empty() && self.wrong.is_empty()
    }

    fn expect(&mut self, what: &str, answer: &io::Result<Answer>, status: u16) {
        match answer {
            Ok(answer) if answer.status == status => {}
            Ok(answer) => self.wrong.push(format!("{what} was answered {} {}", answer.status, answer.code())),
            Err(error) => self.wrong.push(format!("{what}: {error}")),
        }
    }

    /// Returns true if it was not refused as busy. A claim that finds nothing is right if the creation was refused.
    fn wrote(&mut self, what: &str, answer: &io::Result<Answer>, begin: Instant, status: u16) -> bool {
        let taken = begin.elapsed();
        match answer {
            Ok(answer) if is_truthful_busy(answer) => return false,
            Ok(answer) if answer.status == 204 && !self.refused.is_empty() => {}
            _ => self.expect(what, answer, status),
        }
        self.writes.record(taken);
        true
    }

    /// Adds the times of another shape. What was wrong with it is told there.
    pub(super) fn add(&mut self, other: &Self) {
        self.health.merge(&other.health);
        self.heartbeats.merge(&other.heartbeats);
        self.writes.merge(&other.writes);
    }

    /// Names what breaks C1, as far as an idle server on the same machine was quicker.
    pub(super) fn misses(&self, idle: &Self, limits: &[Limit]) -> Vec<String> {
        let mut misses = Vec::new();
        for Limit(figure, share, read_limit, write_limit) in limits {
            // Not a median where one slow answer could decide.
            let is_known = |taken: &Latencies| *share > 0.5 || taken.count() >= FEW;
            let millis = |taken: &Latencies| if is_known(taken) { taken.millis(*share) } else { 0.0 };
            for (what, taken, idle, limit) in [
                ("/health", &self.health, &idle.health, read_limit),
                ("heartbeats", &self.heartbeats, &idle.heartbeats, read_limit),
                ("creations and claims", &self.writes, &idle.writes, write_limit),
            ] {
                let (taken, idle) = (millis(taken), millis(idle));
                if taken > limit + MARGIN * idle {
                    misses.push(format!(
                        "C1: {what}, {figure}: {taken:.0} ms instead of {limit} (idle server: {idle:.0})"
                    ));
                }
            }
        }
        if let Some(first) = self.wrong.first() {
            misses.push(format!("C1: {} probes were answered otherwise, such as: {first}", self.wrong.len()));
        }
        misses
    }
}
