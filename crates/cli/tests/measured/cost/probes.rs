//! What a healthy client measures: `/health`, heartbeats, creations and claims, one after the other.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::support::{Connection, Request, Response, Server, in_queue, of_task, run_id};

/// Rounds at least. One slow answer alone is no miss: the machine may stop one client for a moment. Which answer of all is the slowest
/// is measured by `taskqueue-bench shapes`.
const ROUNDS: usize = 40;
/// How long they may take: all of them took some seconds, and each request may wait for its 503.
const ROUNDS_LIMIT: Duration = Duration::from_secs(120);
/// The limit for `/health` and heartbeats.
const READ_LIMIT: Duration = Duration::from_millis(250);
/// The limit for claims and creations that are not refused.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// How many times the time that the same takes beside cheap requests is added to what is allowed.
const MARGIN: u32 = 3;
/// The tasks of the probe, away from those of an attack.
const FIRST_TASK: usize = 900_000_000;

/// How long each kind of request took.
#[derive(Default)]
pub(super) struct Measured {
    health: Vec<Duration>,
    heartbeats: Vec<Duration>,
    writes: Vec<Duration>,
    refused: usize,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (health, heartbeats, writes) = (p99(&self.health), p99(&self.heartbeats), p99(&self.writes));
        write!(f, "{} rounds, health p99 {health:?}, heartbeats p99 {heartbeats:?}, ", self.health.len())?;
        write!(f, "claims and creations p99 {writes:?}, {} refused", self.refused)
    }
}

fn p99(taken: &[Duration]) -> Duration {
    let mut sorted = taken.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * 99).div_ceil(100).min(sorted.len().saturating_sub(1));
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

/// A client with a running task of its own, in a queue of its own.
pub(super) struct Probe<'s> {
    server: &'s Server,
    connection: Connection,
    round: usize,
    /// Creations that were answered with 503 `database_busy`.
    refused: Vec<usize>,
}

/// A path in the probe's queue.
fn own(path: &str) -> String {
    path.replacen("/queues/q/", "/queues/probe/", 1)
}

impl<'s> Probe<'s> {
    pub(super) fn new(server: &'s Server) -> Self {
        server.create_queue("probe");
        server.put(&own(&of_task(FIRST_TASK, "")), json!({})).expect(201);
        let claim = json!({"route": "default", "run_id": run_id(FIRST_TASK)});
        server.post(&own(&in_queue("/tasks/claim")), claim).expect(200);
        Self { server, connection: server.connect(), round: 0, refused: Vec::new() }
    }

    pub(super) fn server(&self) -> &'s Server {
        self.server
    }

    /// Measures for this time, and at least for `ROUNDS` rounds.
    pub(super) fn measure_for(&mut self, time: Duration) -> Measured {
        let (mut measured, begin) = (Measured::default(), Instant::now());
        while measured.health.len() < ROUNDS || begin.elapsed() < time {
            self.round(&mut measured);
            assert!(begin.elapsed() < ROUNDS_LIMIT, "{measured}");
        }
        measured
    }

    /// Measures until it is done.
    pub(super) fn measure(&mut self, done: &AtomicBool) -> Measured {
        let mut measured = Measured::default();
        while !done.load(Ordering::Relaxed) {
            self.round(&mut measured);
        }
        measured
    }

    fn round(&mut self, measured: &mut Measured) {
        self.round += 1;
        let number = FIRST_TASK + self.round;
        let (health, taken) = self.timed(&Request::new("GET", "/health"));
        measured.health.push(taken);
        health.expect(200);
        let heartbeat = Request::new("POST", &own(&of_task(FIRST_TASK, "/heartbeat")));
        let (beat, taken) = self.timed(&heartbeat.json(json!({"run_id": run_id(FIRST_TASK)})));
        measured.heartbeats.push(taken);
        beat.expect(200);
        let (created, taken) = self.timed(&Request::new("PUT", &own(&of_task(number, ""))).json(json!({})));
        if self.was_done(measured, &created, taken) {
            created.expect(201);
        } else {
            self.refused.push(number);
        }
        let claim = json!({"route": "default", "run_id": run_id(number)});
        let (claimed, taken) = self.timed(&Request::new("POST", &own(&in_queue("/tasks/claim"))).json(claim));
        self.was_done(measured, &claimed, taken);
    }

    fn timed(&mut self, request: &Request) -> (Response, Duration) {
        let begin = Instant::now();
        let answer = self.connection.exchange(request).unwrap();
        (answer, begin.elapsed())
    }

    /// Records a write that was done. Otherwise the answer must be 503 `database_busy`.
    fn was_done(&self, measured: &mut Measured, answer: &Response, taken: Duration) -> bool {
        if answer.status == 503 {
            answer.assert_error(503, "database_busy");
            measured.refused += 1;
            return false;
        }
        assert!(matches!(answer.status, 200 | 201 | 204), "{answer:?}");
        measured.writes.push(taken);
        true
    }

    /// What was refused as busy was not done, and has not been done since.
    pub(super) fn assert_refusals_did_nothing(&self) {
        for number in &self.refused {
            self.server.get(&own(&of_task(*number, ""))).assert_error(404, "task_not_found");
        }
    }
}

/// The client was served, as far as the machine allows: a few times what the same took beside cheap requests meanwhile is not held
/// against the attacked server. On a machine that does nothing else this is little.
pub(super) fn check_served(measured: &Measured, cheap: &Measured) -> Result<(), String> {
    let health = (p99(&measured.health), READ_LIMIT + MARGIN * p99(&cheap.health));
    let heartbeats = (p99(&measured.heartbeats), READ_LIMIT + MARGIN * p99(&cheap.heartbeats));
    let writes = (p99(&measured.writes), WRITE_LIMIT + MARGIN * p99(&cheap.writes));
    for (what, (taken, allowed)) in [("health", health), ("heartbeats", heartbeats), ("writes", writes)] {
        if taken > allowed {
            return Err(format!("{what}: {taken:?} instead of {allowed:?}"));
        }
    }
    Ok(())
}
