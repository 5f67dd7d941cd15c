//! Load on one server: many connections, each going through the cycle of a phase, and the measured figures.
//! Everything here runs on one thread, so that the generator takes as little as possible of what it measures.

mod batches;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::batches::drive_batches;
use crate::answer_parser;
use crate::client::{Answer, Client, QueueClient};
use crate::double_claim_check::DoubleClaimCheck;
use crate::encryption::Endpoint;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::open_loop::OpenLoop;
use crate::operation::{OPERATIONS, Operation, Phase};
use crate::process::Server;
use crate::usage::Usage;

/// Long enough for caches, short enough to run before every round.
pub(crate) const WARM_UP: Duration = Duration::from_millis(200);
/// An answer that takes longer than this is not coming.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) endpoint: Endpoint,
    pub(crate) pid: u32,
    pub(crate) phase: Phase,
    pub(crate) connections: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Requests per second for an open loop; none for a closed loop, where a connection sends as soon as it can.
    pub(crate) rate: Option<f64>,
    /// Tasks that exist in the queue and are never removed.
    pub(crate) known: Range<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// How long it was measured. Shorter than planned when the tasks ran out.
    pub(crate) seconds: f64,
    /// By operation; in an open loop from the intended start.
    pub(crate) latencies: Vec<Latencies>,
    /// Errors by code, warm-up included.
    pub(crate) errors: BTreeMap<String, u64>,
    /// CPU time of the server while it was measured.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_bytes: u64,
    pub(crate) body_bytes: u64,
    /// Tasks created, or claimed and completed, by batches while it was measured; none where requests are single.
    pub(crate) batch_items: Option<u64>,
    /// Requests, or items of batches, that were answered as they should be, warm-up included.
    pub(crate) answered: u64,
}

/// The state that all connections share.
struct LoadState {
    load: Load,
    numbers: Rc<Numbers>,
    claim_check: Rc<RefCell<DoubleClaimCheck>>,
    open_loop: Option<OpenLoop>,
    measuring: Cell<bool>,
    stopped: Cell<bool>,
    dry: Notify,
    latencies: RefCell<Vec<Latencies>>,
    errors: RefCell<BTreeMap<String, u64>>,
    body_bytes: Cell<u64>,
    batch_items: Cell<u64>,
    answered: Cell<u64>,
}

/// Puts the load on the server and measures. Runs inside a `LocalSet`.
pub(crate) async fn run(
    load: Load,
    numbers: Rc<Numbers>,
    claim_check: Rc<RefCell<DoubleClaimCheck>>,
) -> Result<Measured> {
    let mut clients = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        clients.push(Client::connect(load.endpoint).await?);
    }
    let state = Rc::new(LoadState {
        numbers,
        claim_check,
        open_loop: load.rate.map(|rate| OpenLoop::start(rate, load.warm_up + load.duration)),
        measuring: Cell::new(false),
        stopped: Cell::new(false),
        dry: Notify::new(),
        latencies: RefCell::new(vec![Latencies::default(); OPERATIONS]),
        errors: RefCell::default(),
        body_bytes: Cell::new(0),
        batch_items: Cell::new(0),
        answered: Cell::new(0),
        load,
    });
    let mut connections = JoinSet::new();
    for (index, client) in clients.into_iter().enumerate() {
        match state.load.phase.items_of_a_batch() {
            Some(items) => connections.spawn_local(drive_batches(client, items, state.clone())),
            None => connections.spawn_local(drive(client, index, state.clone())),
        };
    }
    let (seconds, before, after) = measure(&state).await?;
    if timeout(LONGEST_ANSWER, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        state.error("no_answer");
    }
    Ok(Measured {
        seconds,
        latencies: state.latencies.take(),
        errors: state.errors.take(),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        rss_bytes: after.rss_bytes,
        body_bytes: state.body_bytes.get(),
        batch_items: state.load.phase.items_of_a_batch().map(|_| state.batch_items.get()),
        answered: state.answered.get(),
    })
}

/// Lets the warm-up pass, then opens and closes the window in which requests count.
async fn measure(state: &LoadState) -> Result<(f64, Usage, Usage)> {
    let load = &state.load;
    // When tasks run out in the warm-up already, the window is empty and the figure says so.
    drop(timeout(load.warm_up, state.dry.notified()).await);
    let before = Usage::of(load.pid)?;
    let begin = Instant::now();
    state.measuring.set(true);
    if !state.stopped.get() {
        drop(timeout(load.duration, state.dry.notified()).await);
    }
    state.stopped.set(true);
    let seconds = begin.elapsed().as_secs_f64();
    Ok((seconds, before, Usage::of(load.pid)?))
}

async fn drive(client: Client, index: usize, state: Rc<LoadState>) {
    let mut client = QueueClient::new(client, state.load.endpoint.address, state.load.phase.queue());
    let cycle = state.load.phase.cycle();
    let mut held = None;
    // Each connection begins elsewhere, so that they do not all list at the same time.
    let mut place = index * 7 % cycle.len();
    while !state.stopped.get() {
        let operation = cycle[place];
        place = (place + 1) % cycle.len();
        if operation.needs_run() && held.is_none() {
            continue;
        }
        let Some(begin) = state.begin().await else { break };
        let (task, run) = state.choose(operation, held);
        if operation.ends_run() {
            state.claim_check.borrow_mut().ends(task, operation == Operation::Complete);
            held = None;
        }
        match client.send(operation, task, run).await {
            Ok(answer) => {
                let claimed = state.take_answer(operation, begin, &answer);
                held = claimed.map(|task| (task, run)).or(held);
            }
            Err(error) => return state.error(&format!("connection: {error}")),
        }
    }
    if let Some((task, run)) = held {
        state.claim_check.borrow_mut().ends(task, true);
        // Only so that no task stays behind; whether it works does not matter any more.
        drop(client.send(Operation::Complete, task, run).await);
    }
}

impl LoadState {
    /// When the next request is to begin: now, or as the open loop says; none when that has ended.
    async fn begin(&self) -> Option<Instant> {
        match &self.open_loop {
            Some(open_loop) => open_loop.next().await,
            None => Some(Instant::now()),
        }
    }

    /// The numbers of the task and the run in a request.
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

    /// Records an answer; the task, if it hands one out.
    fn take_answer(&self, operation: Operation, begin: Instant, answer: &Answer<'_>) -> Option<u64> {
        if !operation.expects(answer.status) {
            let code = answer_parser::error_code(answer.body).map_or_else(|| answer.status.to_string(), str::to_owned);
            self.error(&code);
            return None;
        }
        let claims = operation == Operation::Claim;
        if claims && answer.status == 204 {
            if self.load.phase == Phase::ClaimComplete {
                self.run_dry();
            }
            return None;
        }
        self.answered.set(self.answered.get() + 1);
        self.record(operation, begin, answer.body.len());
        let task = claims.then(|| answer_parser::claimed_task(answer.body))?;
        match task {
            Some(task) => self.claim_check.borrow_mut().handed_out(task),
            None => self.error("claim_without_task"),
        }
        task
    }

    /// Counts an answer, if it came while the window is open; whether it did.
    fn record(&self, operation: Operation, begin: Instant, body_bytes: usize) -> bool {
        let counts = self.measuring.get() && !self.stopped.get();
        if counts {
            self.latencies.borrow_mut()[operation as usize].record(begin.elapsed());
            self.body_bytes.set(self.body_bytes.get() + body_bytes as u64);
        }
        counts
    }

    /// There is nothing left to claim: the window ends.
    fn run_dry(&self) {
        self.stopped.set(true);
        self.dry.notify_one();
    }

    fn error(&self, code: &str) {
        *self.errors.borrow_mut().entry(code.to_owned()).or_default() += 1;
    }
}

impl Load {
    /// A closed loop on tasks that it creates itself.
    pub(crate) fn new(server: &Server, phase: Phase, connections: usize, seconds: f64) -> Self {
        Self::on(server.endpoint(), server.pid(), phase, connections, seconds)
    }

    /// The same on any process that listens at an address.
    pub(crate) fn on(endpoint: impl Into<Endpoint>, pid: u32, phase: Phase, connections: usize, seconds: f64) -> Self {
        let (endpoint, duration) = (endpoint.into(), Duration::from_secs_f64(seconds));
        Self { endpoint, pid, phase, connections, warm_up: WARM_UP, duration, rate: None, known: 0..0 }
    }
}

impl Measured {
    /// Fails if there were errors.
    pub(crate) fn require_no_errors(self) -> Result<Self> {
        match self.errors.iter().next() {
            None => Ok(self),
            Some((code, count)) => Err(Failure::new(format!("{code} x {count}"))),
        }
    }

    /// Requests that were answered as they should be.
    pub(crate) fn requests(&self) -> u64 {
        self.latencies.iter().map(Latencies::count).sum()
    }

    /// What is counted: requests, or tasks that batches created, or claimed and completed.
    pub(crate) fn items(&self) -> u64 {
        self.batch_items.unwrap_or_else(|| self.requests())
    }

    /// Items per second.
    pub(crate) fn rate(&self) -> f64 {
        self.items() as f64 / self.seconds
    }

    /// Tasks per second that were claimed and completed.
    pub(crate) fn pairs_rate(&self) -> f64 {
        if self.batch_items.is_some() { self.rate() } else { self.rate() / 2.0 }
    }

    /// CPU time of the server for one item, in microseconds.
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.items() as f64
    }

    pub(crate) fn latency(&self) -> Latencies {
        let mut all = Latencies::default();
        self.latencies.iter().for_each(|latency| all.merge(latency));
        all
    }

    /// The 99th percentile of claims over their median.
    pub(crate) fn claim_tail(&self) -> f64 {
        let claims = &self.latencies[Operation::Claim as usize];
        claims.quantile_millis(0.99) / claims.quantile_millis(0.5)
    }
}
