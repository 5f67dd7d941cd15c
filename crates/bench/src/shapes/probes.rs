//! What others see while a shape is sent: `/health` and heartbeats on one connection, creations and claims on another, in a queue
//! of their own. Connections block, so that probes and clients, each on a thread of its own, do not wait for each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};

use parking_lot::Mutex;
use tokio::time::timeout;

use crate::client::{Answer, Client};
use crate::figures::Latencies;
use crate::request::Operation::{self, Claim, Complete, Create, Heartbeat, Page};
use crate::request::{TASKS, tasks, with_body};
use crate::{BESIDE, Result};

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The words of the page of the dashboard that stands for `database_busy`.
const BUSY_TITLE: &str = "The server is busy";
const BUSY_PROMISE: &str = "Nothing was changed.";

const QUEUE: &str = "probe";
/// The number of the run that sends heartbeats; further ones follow. A load has no such numbers, and a run has one task over all queues.
const FIRST: u64 = 1 << 35;
/// From so many answers on there is a 99th percentile, and a median.
pub(super) const ROUNDS: usize = 100;
const FEW: usize = 5;
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

/// The kinds of requests of probes.
const KINDS: [&str; 3] = ["/health", "heartbeats", "creations and claims"];
const WRITES: usize = 2;

/// How long the requests of each kind took, and what should not have been answered.
#[derive(Default)]
pub(crate) struct Probed {
    taken: [Latencies; 3],
    /// Creations that were answered `database_busy`.
    pub(super) refused: Vec<String>,
    wrong: Vec<String>,
}

/// Those who probe a server, from their start to their end; each kind of request is sent at least once.
pub(crate) struct Probes {
    over: Arc<AtomicBool>,
    probed: Arc<Mutex<Probed>>,
    threads: [JoinHandle<()>; 2],
}

impl Probes {
    /// Creates what the probes of a server need.
    pub(crate) fn prepare(address: SocketAddr) -> Result<()> {
        let mut connection = Connection::new(address);
        connection.call("PUT", &format!("/api/v2/queues/{QUEUE}"), "")?.succeed()?;
        for operation in [Create, Claim] {
            connection.send(&operation.request(address, QUEUE, (FIRST, FIRST)))?.succeed()?;
        }
        Ok(())
    }

    pub(crate) fn start(address: SocketAddr) -> Self {
        let (over, probed) = <(Arc<AtomicBool>, Arc<Mutex<Probed>>)>::default();
        let threads = [Probe::read, Probe::write].map(|send| {
            let mut probe = Probe { connection: Connection::new(address), probed: probed.clone() };
            let over = over.clone();
            thread::spawn(move || {
                loop {
                    send(&mut probe);
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep(PAUSE);
                }
            })
        });
        Self { over, probed, threads }
    }

    /// How often `/health` has answered so far.
    pub(super) fn rounds(&self) -> usize {
        self.probed.lock().taken[0].count()
    }

    pub(crate) fn end(self) -> Probed {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        mem::take(&mut *self.probed.lock())
    }
}

/// One who probes.
struct Probe {
    connection: Connection,
    probed: Arc<Mutex<Probed>>,
}

impl Probe {
    fn read(&mut self) {
        self.send(0, Page("/health"), (FIRST, FIRST));
        self.send(1, Heartbeat, (FIRST, FIRST));
    }

    /// Creates a task and claims one, which is then completed, so that runs do not become more and more.
    fn write(&mut self) {
        static NEXT: AtomicU64 = AtomicU64::new(FIRST + 1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.send(WRITES, Create, (number, number));
        let claimed = self.send(WRITES, Claim, (number, number));
        if let Some(task) = claimed.and_then(|claimed| claimed.claimed_task()) {
            drop(self.connection.send(&Complete.request(self.connection.address, QUEUE, (task, number))));
        }
    }

    /// Sends a request of this kind, and notes how long the answer took. A write may be refused as busy, and after such a creation a claim
    /// may find nothing.
    fn send(&mut self, kind: usize, operation: Operation, ids: (u64, u64)) -> Option<Answer> {
        let (request, begin) = (operation.request(self.connection.address, QUEUE, ids), Instant::now());
        let answer = self.connection.send(&request);
        let latency = begin.elapsed();
        let Probed { taken, refused, wrong } = &mut *self.probed.lock();
        match &answer {
            Ok(answer) if kind == WRITES && is_truthful_busy(answer) => {
                refused.extend((operation == Create).then(|| tasks(QUEUE, &format!("/{}", TASKS.id(ids.0)))));
                return None;
            }
            // Only after a refused creation there may be nothing to claim.
            Ok(answer) if answer.status == 204 && refused.is_empty() => {
                wrong.push(format!("{operation:?} found nothing"))
            }
            Ok(answer) if operation.expects(answer.status) => {}
            Ok(answer) => wrong.push(format!("{operation:?} was answered {} {}", answer.status, answer.code())),
            Err(error) => wrong.push(format!("{operation:?}: {error}")),
        }
        taken[kind].record(latency);
        answer.ok()
    }
}

impl Probed {
    /// Adds the times of another shape. What was wrong with it is told there.
    pub(super) fn add(&mut self, other: &Self) {
        self.taken.iter_mut().zip(&other.taken).for_each(|(taken, other)| taken.merge(other));
    }

    /// Returns the milliseconds that this share of the answers to creations and claims does not exceed.
    pub(crate) fn write_millis(&self, share: f64) -> f64 {
        self.taken[WRITES].millis(share)
    }

    /// Returns the 99th percentile of those that are not writes, in milliseconds; of the slower kind.
    pub(crate) fn read_p99_millis(&self) -> f64 {
        self.taken[0].millis(0.99).max(self.taken[1].millis(0.99))
    }

    /// Names what breaks C1, as far as an idle server on the same machine was quicker.
    pub(super) fn misses(&self, idle: &Self, limits: &[Limit]) -> Vec<String> {
        let mut misses = Vec::new();
        for Limit(figure, share, read_limit, write_limit) in limits {
            // Not a median where one slow answer could decide.
            let is_known = |taken: &Latencies| *share > 0.5 || taken.count() >= FEW;
            let millis = |taken: &Latencies| if is_known(taken) { taken.millis(*share) } else { 0.0 };
            for (kind, what) in KINDS.iter().enumerate() {
                let (taken, idle) = (millis(&self.taken[kind]), millis(&idle.taken[kind]));
                let limit = if kind == WRITES { write_limit } else { read_limit };
                if taken > limit + MARGIN * idle {
                    let instead = format!("{taken:.0} ms instead of {limit} (idle server: {idle:.0})");
                    misses.push(format!("C1: {what}, {figure}: {instead}"));
                }
            }
        }
        if let Some(first) = self.wrong.first() {
            misses.push(format!("C1: {} probes were answered otherwise, such as: {first}", self.wrong.len()));
        }
        misses
    }
}

/// A 503 that says that nothing was done, and when to try again. Pages have no code, and others are 503, too: one says that only a part
/// was done.
pub(super) fn is_truthful_busy(answer: &Answer) -> bool {
    let is_page = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    let says_so = || match is_page {
        true => answer.text().contains(&format!("<h1>{BUSY_TITLE}</h1>")) && answer.text().contains(BUSY_PROMISE),
        false => answer.code() == "database_busy",
    };
    answer.status == 503 && answer.header("retry-after").is_some() && says_so()
}

/// A connection that is made when it is first needed, and blocks.
pub(super) struct Connection {
    pub(super) address: SocketAddr,
    client: Option<Client>,
}

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, client: None }
    }

    pub(super) fn call(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        self.send(&with_body(method, self.address, path, body))
    }

    pub(super) fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.call("GET", path, "")
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let is_closed = |error: &io::Error| {
            matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        };
        let was_kept = self.client.is_some();
        match BESIDE.block_on(self.exchange(request)) {
            // A kept connection may have been closed as idle just before.
            Err(error) if was_kept && is_closed(&error) => BESIDE.block_on(self.exchange(request)),
            answered => answered,
        }
    }

    /// Sends a request over the connection that is kept, or over a new one, and keeps it if the server does. A server that takes nothing
    /// any more is an error, too.
    async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        let (kept, address) = (self.client.take(), self.address.into());
        let exchange = async {
            let mut client = match kept {
                Some(client) => client,
                None => Client::connect(&address).await?,
            };
            // Who is refused early may find the connection closed, and the answer there.
            let written = client.write(request).await;
            let answer = client.answer().await.map_err(|error| written.err().unwrap_or(error))?;
            io::Result::Ok((client, answer))
        };
        let (client, answer) = timeout(PATIENCE, exchange).await??;
        self.client = Some(client).filter(|_| answer.header("connection") != Some("close"));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page for people and the error for programs are written there.
    const PROBLEMS: &str = include_str!("../../../dashboard/src/problem.rs");

    #[test]
    fn a_503_is_busy_only_if_it_says_so_and_when_to_come_again() {
        let page = "content-type: text/html; charset=utf-8\r\nretry-after: 2";
        let json = "content-type: application/json\r\nretry-after: 1";
        let busy = "<h1>The server is busy</h1>\n<p>Too much to do. Nothing was changed. Reload.</p>";
        let code = r#"{"error":{"code":"database_busy"}}"#;
        for (answer, expected) in [
            (Answer::of(503, page, busy), true),
            (Answer::of(503, json, code), true),
            (Answer::of(503, "content-type: text/html", busy), false),
            (Answer::of(500, page, busy), false),
            (Answer::of(503, page, "<h1>The database does not answer</h1>\n<p>Nothing was changed.</p>"), false),
            (Answer::of(503, page, "<h1>Only a part of this was done</h1>"), false),
            (Answer::of(503, json, r#"{"error":{"code":"database_unavailable"}}"#), false),
        ] {
            assert_eq!(is_truthful_busy(&answer), expected, "{}", answer.text());
        }
    }

    #[test]
    fn the_dashboard_has_the_page_that_is_looked_for() {
        let busy = PROBLEMS.split("fn busy()").nth(1).and_then(|rest| rest.split("\n    }").next()).unwrap_or_default();
        assert!(busy.contains(&format!("\"{BUSY_TITLE}\"")) && busy.contains(BUSY_PROMISE), "{busy}");
    }
}
