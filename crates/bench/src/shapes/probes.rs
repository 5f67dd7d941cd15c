//! What others see while a shape is sent: `/health` and heartbeats on one connection, creations and claims on another, in a queue
//! of their own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::exchange::{Answer, Connection};
use crate::failure::{Failure, Result};
use crate::request;

/// The limit for `/health` and heartbeats (C1).
const READ_LIMIT: Duration = Duration::from_millis(250);
/// The limit for creations and claims that are not refused.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
const TASKS: &str = "/api/v2/queues/probe/tasks";
const RUNNING: &str = "t_probe0000000";
/// From so many answers on there is a 99th percentile.
pub(crate) const ROUNDS: usize = 100;
/// How many times the time of an idle server is added to what is allowed: on a machine that does nothing else it is next to nothing.
const MARGIN: u32 = 3;
/// From so many answers on there is a median.
const FEW: usize = 5;
/// The limit for each answer at a small size: far more than a stop of a busy machine, and far less than the 25 seconds that a
/// read may hold up whoever waits for it.
pub(crate) const HELD_UP: Duration = Duration::from_secs(10);
/// So that probes do not become the load.
const PAUSE: Duration = Duration::from_millis(5);

/// How long each kind of request took, and what should not have been answered.
#[derive(Default)]
pub(crate) struct Probed {
    pub(crate) health: Vec<Duration>,
    pub(crate) heartbeats: Vec<Duration>,
    pub(crate) writes: Vec<Duration>,
    /// Creations that were answered `database_busy`.
    pub(crate) refused: Vec<String>,
    wrong: Vec<String>,
}

pub(crate) fn p99(taken: &[Duration]) -> Duration {
    let mut sorted = taken.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

/// Half of them took no longer. Nothing where one slow answer could decide.
fn median(taken: &[Duration]) -> Duration {
    let mut sorted = taken.to_vec();
    sorted.sort_unstable();
    if sorted.len() < FEW { Duration::ZERO } else { sorted[sorted.len() / 2] }
}

pub(crate) fn longest(taken: &[Duration]) -> Duration {
    taken.iter().max().copied().unwrap_or_default()
}

/// A figure of many answers.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Median,
    P99,
    Longest,
}

impl Figure {
    fn of(self, taken: &[Duration]) -> Duration {
        match self {
            Self::Median => median(taken),
            Self::P99 => p99(taken),
            Self::Longest => longest(taken),
        }
    }
}

/// Which answers are judged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// Those beside one shape at full size, which are many.
    OneOfFullSize,
    /// Those beside one small shape, which are few: a busy machine may stop one of them, but not half of them.
    OneSmall,
    /// Those beside all shapes.
    All,
}

impl Limits {
    /// The limits of reads and of writes, for each figure.
    fn of_figures(self) -> Vec<(Figure, [Option<Duration>; 2])> {
        match self {
            Self::OneOfFullSize => {
                vec![(Figure::P99, [Some(READ_LIMIT), None]), (Figure::Longest, [None, Some(WRITE_LIMIT)])]
            }
            Self::OneSmall => {
                vec![(Figure::Median, [Some(WRITE_LIMIT); 2]), (Figure::Longest, [Some(HELD_UP); 2])]
            }
            Self::All => vec![(Figure::P99, [Some(READ_LIMIT), Some(WRITE_LIMIT)])],
        }
    }
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
        let claim = r#"{"route":"default","run_id":"r_probe0000000"}"#;
        for (request, expected) in [
            (request::with_body("PUT", address, "/api/v2/queues/probe", ""), 201),
            (request::with_body("PUT", address, &format!("{TASKS}/{RUNNING}"), "{}"), 201),
            (request::with_body("POST", address, &format!("{TASKS}/claim"), claim), 200),
        ] {
            let answer = connection.send(&request)?;
            if answer.status != expected {
                return Err(Failure::new(format!("probes: answered {}: {}", answer.status, answer.excerpt())));
            }
        }
        Ok(Self { address, next: AtomicUsize::new(1) })
    }

    /// All of it until it is done.
    pub(crate) fn measure(&self, done: &AtomicBool, rounds: &AtomicUsize) -> Probed {
        thread::scope(|scope| {
            let writing = scope.spawn(|| self.write(done));
            let read = self.read(done, rounds);
            read.and(writing.join().unwrap_or_default())
        })
    }

    /// Health and heartbeats until it is done, at least one of each.
    fn read(&self, done: &AtomicBool, rounds: &AtomicUsize) -> Probed {
        let mut probed = Probed::default();
        let Ok(mut connection) = Connection::new(self.address) else { return probed };
        let beat = request::with_body(
            "POST",
            self.address,
            &format!("{TASKS}/{RUNNING}/heartbeat"),
            r#"{"run_id":"r_probe0000000"}"#,
        );
        while !done.load(Ordering::Relaxed) || probed.health.is_empty() {
            let (health, taken) = timed(&mut connection, &request::get(self.address, "/health"));
            probed.health.push(taken);
            probed.expect("/health", &health, 200);
            let (answer, taken) = timed(&mut connection, &beat);
            probed.heartbeats.push(taken);
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
        while !done.load(Ordering::Relaxed)
            || (probed.writes.is_empty() && probed.refused.is_empty() && probed.wrong.is_empty())
        {
            let id = format!("{:012}", self.next.fetch_add(1, Ordering::Relaxed));
            let create = request::with_body("PUT", self.address, &format!("{TASKS}/t_{id}"), "{}");
            let (created, taken) = timed(&mut connection, &create);
            if !probed.wrote("a creation", &created, taken, 201) {
                probed.refused.push(format!("{TASKS}/t_{id}"));
            }
            let claim = format!(r#"{{"route":"default","run_id":"r_{id}"}}"#);
            let claim = request::with_body("POST", self.address, &format!("{TASKS}/claim"), &claim);
            let (claimed, taken) = timed(&mut connection, &claim);
            probed.wrote("a claim", &claimed, taken, 200);
            self.complete(&mut connection, &claimed, &id);
            thread::sleep(PAUSE);
        }
        probed
    }

    /// Ends a run, so that runs do not become more and more.
    fn complete(&self, connection: &mut Connection, claimed: &Result<Answer>, run: &str) {
        let Ok(claimed) = claimed else { return };
        let body = String::from_utf8_lossy(&claimed.body).into_owned();
        if let Some(task) = body.split("\"id\":\"").nth(1).and_then(|rest| rest.get(..14)) {
            let complete = format!(r#"{{"run_id":"r_{run}","result":{{}}}}"#);
            let path = format!("{TASKS}/{task}/complete");
            drop(connection.send(&request::with_body("POST", self.address, &path, &complete)));
        }
    }
}

fn timed(connection: &mut Connection, request: &[u8]) -> (Result<Answer>, Duration) {
    let begin = Instant::now();
    let answer = connection.send(request).map_err(Failure::from);
    (answer, begin.elapsed())
}

impl Probed {
    fn expect(&mut self, what: &str, answer: &Result<Answer>, status: u16) {
        match answer {
            Ok(answer) if answer.status == status => {}
            Ok(answer) => self.wrong.push(format!("{what} was answered {} {}", answer.status, answer.code())),
            Err(failure) => self.wrong.push(format!("{what}: {failure}")),
        }
    }

    /// Returns true if it was not refused as busy. A claim that finds nothing is right if the creation was refused.
    fn wrote(&mut self, what: &str, answer: &Result<Answer>, taken: Duration, status: u16) -> bool {
        match answer {
            Ok(answer) if answer.is_truthful_busy() => return false,
            Ok(answer) if answer.status == 204 && !self.refused.is_empty() => {}
            _ => self.expect(what, answer, status),
        }
        self.writes.push(taken);
        true
    }

    /// Both kinds together.
    fn and(mut self, other: Self) -> Self {
        self.writes = other.writes;
        self.refused = other.refused;
        self.wrong.extend(other.wrong);
        self
    }

    /// Those of all shapes. What was wrong with one of them is told there.
    pub(crate) fn merged<'p>(all: impl Iterator<Item = &'p Self>) -> Self {
        let mut merged = Self::default();
        for probed in all {
            merged.health.extend(&probed.health);
            merged.heartbeats.extend(&probed.heartbeats);
            merged.writes.extend(&probed.writes);
        }
        merged
    }

    /// Names what breaks C1, as far as an idle server on the same machine was quicker.
    pub(crate) fn misses(&self, idle: &Self, limits: Limits) -> Vec<String> {
        let mut misses = Vec::new();
        for (figure, [read_limit, write_limit]) in limits.of_figures() {
            for (what, taken, idle, limit) in [
                ("/health", &self.health, &idle.health, read_limit),
                ("heartbeats", &self.heartbeats, &idle.heartbeats, read_limit),
                ("creations and claims", &self.writes, &idle.writes, write_limit),
            ] {
                let (taken, idle) = (figure.of(taken), figure.of(idle));
                if limit.is_some_and(|limit| taken > limit + MARGIN * idle) {
                    let [taken, idle] = [taken, idle].map(|time| time.as_millis());
                    let limit = limit.unwrap_or_default().as_millis();
                    misses.push(format!("C1: {what}, {figure:?}: {taken} ms instead of {limit} (idle server: {idle})"));
                }
            }
        }
        if let Some(first) = self.wrong.first() {
            misses.push(format!("C1: {} probes were answered otherwise, such as: {first}", self.wrong.len()));
        }
        misses
    }
}
