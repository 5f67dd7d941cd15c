//! Load on one server: many connections, each going through the cycle of a phase; what came of it.
//! Everything here runs on one thread, so that the generator takes as little as possible of what it measures.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Answer, Client};
use crate::failure::Outcome;
use crate::histogram::Histogram;
use crate::ledger::Ledger;
use crate::number::Numbers;
use crate::operation::{OPERATIONS, Operation, Phase};
use crate::pace::Pace;
use crate::request::Requests;
use crate::usage::Usage;
use crate::wire;

/// An answer that takes longer than this is not coming.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// What to do, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The server.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) pid: u32,
    /// What the connections send.
    pub(crate) phase: Phase,
    /// How many connections.
    pub(crate) connections: usize,
    /// How long before anything counts.
    pub(crate) warm_up: Duration,
    /// How long after that.
    pub(crate) duration: Duration,
    /// Requests per second for an open loop; none for a closed loop, where a connection sends as soon as it can.
    pub(crate) rate: Option<f64>,
    /// Tasks that exist in the queue and are never removed.
    pub(crate) known: Range<u64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// How long it was measured. Shorter than planned when the tasks ran out.
    pub(crate) seconds: f64,
    /// Latencies in nanoseconds, by operation; in an open loop from the intended start.
    pub(crate) latencies: Vec<Histogram>,
    /// Errors by code, warm-up included.
    pub(crate) errors: BTreeMap<String, u64>,
    /// CPU time of the server while it was measured.
    pub(crate) cpu_seconds: f64,
    /// Memory of the server at the end.
    pub(crate) rss_bytes: u64,
    /// Bytes of all bodies.
    pub(crate) body_bytes: u64,
    /// Requests that were answered as they should be, warm-up included.
    pub(crate) answered: u64,
}

/// What all connections share.
struct Shared {
    load: Load,
    numbers: Rc<Numbers>,
    ledger: Rc<RefCell<Ledger>>,
    pace: Option<Pace>,
    measuring: Cell<bool>,
    stopped: Cell<bool>,
    dry: Notify,
    latencies: RefCell<Vec<Histogram>>,
    errors: RefCell<BTreeMap<String, u64>>,
    body_bytes: Cell<u64>,
    answered: Cell<u64>,
}

/// Puts the load on the server and measures. Runs inside a `LocalSet`.
pub(crate) async fn run(load: Load, numbers: Rc<Numbers>, ledger: Rc<RefCell<Ledger>>) -> Outcome<Measured> {
    let mut clients = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        clients.push(Client::connect(load.address).await?);
    }
    let shared = Rc::new(Shared {
        numbers,
        ledger,
        pace: load.rate.map(|rate| Pace::start(rate, load.warm_up + load.duration)),
        measuring: Cell::new(false),
        stopped: Cell::new(false),
        dry: Notify::new(),
        latencies: RefCell::new(vec![Histogram::default(); OPERATIONS]),
        errors: RefCell::default(),
        body_bytes: Cell::new(0),
        answered: Cell::new(0),
        load,
    });
    let mut connections = JoinSet::new();
    for (index, client) in clients.into_iter().enumerate() {
        connections.spawn_local(drive(client, index, shared.clone()));
    }
    let (seconds, before, after) = measure(&shared).await?;
    if timeout(LONGEST_ANSWER, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        shared.error("no_answer");
    }
    Ok(Measured {
        seconds,
        latencies: shared.latencies.take(),
        errors: shared.errors.take(),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        rss_bytes: after.rss_bytes,
        body_bytes: shared.body_bytes.get(),
        answered: shared.answered.get(),
    })
}

/// Lets the warm-up pass, then opens and closes the window in which requests count.
async fn measure(shared: &Shared) -> Outcome<(f64, Usage, Usage)> {
    let load = &shared.load;
    // When tasks run out in the warm-up already, the window is empty and the figure says so.
    drop(timeout(load.warm_up, shared.dry.notified()).await);
    let before = Usage::of(load.pid)?;
    let begin = Instant::now();
    shared.measuring.set(true);
    if !shared.stopped.get() {
        drop(timeout(load.duration, shared.dry.notified()).await);
    }
    shared.stopped.set(true);
    let seconds = begin.elapsed().as_secs_f64();
    Ok((seconds, before, Usage::of(load.pid)?))
}

/// One connection.
async fn drive(mut client: Client, index: usize, shared: Rc<Shared>) {
    let cycle = shared.load.phase.cycle();
    let mut requests = Requests::new(shared.load.address, shared.load.phase.queue());
    let mut held = None;
    // Each connection begins elsewhere, so that they do not all list at the same time.
    let mut place = index * 7 % cycle.len();
    while !shared.stopped.get() {
        let operation = cycle[place];
        place = (place + 1) % cycle.len();
        if operation.needs_run() && held.is_none() {
            continue;
        }
        let Some(begin) = shared.begin().await else { break };
        let (task, run) = shared.choose(operation, held);
        if operation.ends_run() {
            shared.ledger.borrow_mut().ends(task, operation == Operation::Complete);
            held = None;
        }
        match client.send(requests.of(operation).fill(task, run)).await {
            Ok(answer) => {
                let claimed = shared.take_answer(operation, begin, &answer);
                held = claimed.map(|task| (task, run)).or(held);
            }
            Err(error) => return shared.error(&format!("connection: {error}")),
        }
    }
    if let Some((task, run)) = held {
        shared.ledger.borrow_mut().ends(task, true);
        // Only so that no task stays behind; whether it works does not matter any more.
        drop(client.send(requests.of(Operation::Complete).fill(task, run)).await);
    }
}

impl Shared {
    /// When the next request is to begin: now, or when the pace says; none when the pace has ended.
    async fn begin(&self) -> Option<Instant> {
        match &self.pace {
            Some(pace) => pace.next().await,
            None => Some(Instant::now()),
        }
    }

    /// The numbers of the task and the run that a request speaks of.
    fn choose(&self, operation: Operation, held: Option<(u64, u64)>) -> (u64, u64) {
        let run = self.numbers.next_run();
        match operation {
            Operation::Create => (self.numbers.next_task(), run),
            Operation::Get => {
                let Range { start, end } = self.load.known;
                // A large odd step, so that neighbours in time are not neighbours on disk.
                (start + run.wrapping_mul(7919) % (end - start).max(1), run)
            }
            _ if operation.needs_run() => held.unwrap_or_default(),
            _ => (run, run),
        }
    }

    /// Books an answer; the task, if it hands one out.
    fn take_answer(&self, operation: Operation, begin: Instant, answer: &Answer<'_>) -> Option<u64> {
        if !operation.expects(answer.status) {
            let code = wire::error_code(answer.body).map_or_else(|| answer.status.to_string(), str::to_owned);
            self.error(&code);
            return None;
        }
        let claims = operation == Operation::Claim;
        if claims && answer.status == 204 {
            if self.load.phase == Phase::ClaimComplete {
                self.stopped.set(true);
                self.dry.notify_one();
            }
            return None;
        }
        self.answered.set(self.answered.get() + 1);
        if self.measuring.get() && !self.stopped.get() {
            let nanoseconds = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.latencies.borrow_mut()[operation as usize].record(nanoseconds);
            self.body_bytes.set(self.body_bytes.get() + answer.body.len() as u64);
        }
        let task = claims.then(|| wire::claimed_task(answer.body))?;
        match task {
            Some(task) => self.ledger.borrow_mut().handed_out(task),
            None => self.error("claim_without_task"),
        }
        task
    }

    fn error(&self, code: &str) {
        *self.errors.borrow_mut().entry(code.to_owned()).or_default() += 1;
    }
}

impl Measured {
    /// Requests that were answered as they should be.
    pub(crate) fn requests(&self) -> u64 {
        self.latencies.iter().map(Histogram::total).sum()
    }

    /// The same per second.
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn rate(&self) -> f64 {
        self.requests() as f64 / self.seconds
    }

    /// CPU time of the server for one request, in microseconds.
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.requests() as f64
    }

    /// The latencies of all operations together.
    pub(crate) fn latency(&self) -> Histogram {
        let mut all = Histogram::default();
        self.latencies.iter().for_each(|latency| all.merge(latency));
        all
    }

    /// How much longer the slowest hundredth of claims takes than a usual one.
    #[allow(clippy::cast_precision_loss, reason = "nanoseconds of far less than a year")]
    pub(crate) fn claim_tail(&self) -> f64 {
        let claims = &self.latencies[Operation::Claim as usize];
        claims.quantile(0.99) as f64 / claims.quantile(0.5) as f64
    }
}
