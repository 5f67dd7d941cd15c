//! Load on one server: many connections, each going through the same cycle of requests, and what is measured meanwhile. Everything runs
//! on one thread, so that the generator takes as little as possible of what it measures.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{interval_at, timeout};

use crate::Result;
use crate::client::{Client, Endpoint};
use crate::figures::Latencies;
use crate::request::{Numbers, Operation, PAIRS, QUEUE, Template};
use crate::server::Server;
use crate::usage::Usage;

/// Long enough for caches, short enough to run before every turn.
pub(crate) const WARM_UP: Duration = Duration::from_millis(200);
/// An answer that takes longer than this is not coming.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// A load, and the state that all its connections share.
pub(crate) struct Load {
    endpoint: Endpoint,
    pid: u32,
    numbers: Rc<Numbers>,
    pub(crate) queue: String,
    /// The requests that a connection sends, over and over.
    pub(crate) cycle: &'static [Operation],
    /// Items of each request; 1 where requests are single.
    pub(crate) batch: usize,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    /// Requests per second of each connection for an open loop; none for a closed loop, where a connection sends as soon as it can.
    pub(crate) rate: Option<f64>,
    /// Tasks that exist and may be read: all that were created before.
    pub(crate) known: Range<u64>,
    /// How many items are asked for, and what is added to each that a batch creates.
    pub(crate) left: Cell<u64>,
    pub(crate) more: Rc<dyn Fn(u64) -> String>,
    measuring: Cell<bool>,
    stopped: Cell<bool>,
    dry: Notify,
    measured: RefCell<Measured>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// How long it was measured. Shorter than planned when the tasks ran out.
    pub(crate) seconds: f64,
    /// Of the requests with which a cycle begins; in an open loop from the intended start.
    pub(crate) latency: Latencies,
    /// Of the server.
    pub(crate) usage: Usage,
    /// Requests, or tasks that batches created, or claimed and completed.
    pub(crate) items: u64,
    /// Items with those of the warm-up.
    pub(crate) answered: u64,
}

impl Measured {
    /// Items per second.
    pub(crate) fn rate(&self) -> f64 {
        self.items as f64 / self.seconds
    }

    /// CPU time of the server for one item, in microseconds.
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.usage.cpu_seconds * 1e6 / self.items as f64
    }
}

impl Load {
    /// Single requests in a closed loop.
    pub(crate) fn new(server: &Server, cycle: &'static [Operation], connections: usize, seconds: f64) -> Self {
        Self {
            endpoint: server.endpoint.clone(),
            pid: server.pid(),
            numbers: server.numbers.clone(),
            queue: QUEUE.to_owned(),
            cycle,
            batch: 1,
            connections,
            seconds,
            rate: None,
            known: 0..server.numbers.tasks_so_far(),
            left: Cell::new(u64::MAX),
            more: Rc::new(|_| String::new()),
            measuring: Cell::default(),
            stopped: Cell::default(),
            dry: Notify::new(),
            measured: RefCell::default(),
        }
    }

    /// Puts the load on the server and measures. Fails if any request does. Runs inside a `LocalSet`.
    pub(crate) async fn run(self) -> Result<Measured> {
        let mut clients = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            clients.push(Client::connect(&self.endpoint).await?);
        }
        let (load, begin, mut connections) = (Rc::new(self), Instant::now(), JoinSet::new());
        for (index, client) in clients.into_iter().enumerate() {
            let load = load.clone();
            // The first failure ends the load.
            connections
                .spawn_local(async move { load.drive(client, index, begin).await.inspect_err(|_| load.run_dry()) });
        }
        load.measure().await?;
        let ended = timeout(LONGEST_ANSWER, connections.join_all()).await;
        ended.map_err(|_| "an answer did not come")?.into_iter().collect::<Result<()>>()?;
        Ok(load.measured.take())
    }

    /// Lets the warm-up pass, then opens and closes the window in which requests count.
    async fn measure(&self) -> Result<()> {
        // When tasks run out in the warm-up already, the window is empty and the figure says so.
        drop(timeout(WARM_UP, self.dry.notified()).await);
        let (before, begin) = (Usage::of(self.pid)?, Instant::now());
        self.measuring.set(true);
        if !self.stopped.get() {
            drop(timeout(Duration::from_secs_f64(self.seconds), self.dry.notified()).await);
        }
        self.stopped.set(true);
        let mut measured = self.measured.borrow_mut();
        measured.seconds = begin.elapsed().as_secs_f64();
        measured.usage = Usage::of(self.pid)?.since(before);
        Ok(())
    }

    /// Sends the requests of the cycle, over and over.
    async fn drive(&self, mut client: Client, index: usize, begin: Instant) -> Result<()> {
        let Load { endpoint, queue, cycle, numbers, more, .. } = self;
        let mut requests: Vec<Template> = cycle.iter().map(|each| each.template(endpoint.address, queue)).collect();
        let mut ticks = self.rate.map(|rate| {
            let period = Duration::from_secs_f64(1.0 / rate);
            interval_at((begin + period.mul_f64(index as f64 / self.connections as f64)).into(), period)
        });
        let mut held = Vec::new();
        // Each connection begins elsewhere, so that they do not all list at the same time.
        for place in (0..cycle.len()).cycle().skip(index * 7 % cycle.len()) {
            let begin = match &mut ticks {
                Some(ticks) => ticks.tick().await.into_std(),
                None => Instant::now(),
            };
            let (operation, request) = (cycle[place], &mut requests[place]);
            // What was claimed is ended even when the time is over, so that no task stays behind.
            if self.stopped.get() && held.is_empty() {
                break;
            }
            if operation.needs_run() && held.is_empty() || self.stopped.get() && !operation.ends_run() {
                continue;
            }
            let items = if operation.needs_run() { held.clone() } else { self.choose(operation) };
            if items.is_empty() {
                self.run_dry();
                break;
            }
            if operation.ends_run() {
                held.clear();
                if operation != Operation::Complete {
                    items.iter().for_each(|(task, _)| numbers.gives_back(*task));
                }
            }
            let done = match self.batch {
                1 => client.single(operation, request.fill(items[0]), items[0]).await?,
                _ => client.batch(operation, queue, &items, &**more).await?,
            };
            if done.len() < items.len() && (self.batch > 1 || *cycle == PAIRS) {
                self.run_dry();
            }
            let is_claim = operation == Operation::Claim;
            // Neither claims nor completions of a batch alone are pairs: the items are counted when they are complete.
            let counted = if is_claim && self.batch > 1 { 0 } else { done.len() };
            self.record(begin, place == 0 && !done.is_empty(), counted);
            if is_claim {
                if done.iter().any(|(task, _)| numbers.is_handed_out_twice(*task)) {
                    return Err("a task was handed out twice".into());
                }
                held = done;
            }
        }
        Ok(())
    }

    /// The numbers of the tasks and the runs in a request that is about no run that is held; none if nothing is left to ask for.
    fn choose(&self, operation: Operation) -> Vec<(u64, u64)> {
        let one = |_| {
            let run = self.numbers.next_run();
            let task = match operation {
                Operation::Create => self.numbers.next_task(),
                // A large odd step, so that neighbours in time are not neighbours on disk.
                Operation::Get => {
                    self.known.start + run.wrapping_mul(7919) % (self.known.end - self.known.start).max(1)
                }
                Operation::Page(_) => self.numbers.tasks_so_far().saturating_sub(1),
                _ => run,
            };
            (task, run)
        };
        let count = self.left.get().min(self.batch as u64);
        self.left.set(self.left.get() - count);
        (0..count).map(one).collect()
    }

    /// Counts an answer. What came while the window is not open is only known to have been answered.
    fn record(&self, begin: Instant, is_timed: bool, items: usize) {
        let mut measured = self.measured.borrow_mut();
        measured.answered += items as u64;
        if self.measuring.get() && !self.stopped.get() {
            measured.items += items as u64;
            if is_timed {
                measured.latency.record(begin.elapsed());
            }
        }
    }

    /// There is nothing left to claim or to ask for: the window ends.
    fn run_dry(&self) {
        self.stopped.set(true);
        self.dry.notify_one();
    }
}
