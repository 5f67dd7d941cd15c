//! Load on one server: many connections, each going through the same cycle of requests, and what is measured meanwhile. Everything runs
//! on one thread, so that the generator takes as little as possible of what it measures.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::Result;
use crate::client::{Answer, Client, Endpoint};
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
    pub(crate) endpoint: Endpoint,
    pub(crate) pid: u32,
    pub(crate) numbers: Rc<Numbers>,
    pub(crate) queue: &'static str,
    /// The requests that a connection sends, over and over.
    pub(crate) cycle: &'static [Operation],
    /// Items of each request; 1 where requests are single.
    pub(crate) batch: usize,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    /// Requests per second of each connection for an open loop; none for a closed loop, where a connection sends as soon as it can.
    pub(crate) rate: Option<f64>,
    /// Tasks that exist in the queue and are never removed.
    pub(crate) known: Range<u64>,
    begin: Instant,
    measuring: Cell<bool>,
    stopped: Cell<bool>,
    dry: Notify,
    measured: RefCell<Measured>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// How long it was measured. Shorter than planned when the tasks ran out.
    pub(crate) seconds: f64,
    /// Of requests; in an open loop from the intended start.
    pub(crate) latency: Latencies,
    /// Of these, those of claims.
    pub(crate) claims: Latencies,
    /// Errors by code, warm-up included.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Of the server.
    pub(crate) usage: Usage,
    pub(crate) body_bytes: u64,
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

    pub(crate) fn without_errors(self) -> Result<Self> {
        match self.errors.first_key_value() {
            None => Ok(self),
            Some((code, count)) => Err(format!("{code} x {count}").into()),
        }
    }
}

impl Load {
    /// Single requests in a closed loop, which read no known tasks.
    pub(crate) fn new(server: &Server, cycle: &'static [Operation], connections: usize, seconds: f64) -> Self {
        Self {
            endpoint: server.endpoint.clone(),
            pid: server.pid(),
            numbers: server.numbers.clone(),
            queue: QUEUE,
            cycle,
            batch: 1,
            connections,
            seconds,
            rate: None,
            known: 0..0,
            begin: Instant::now(),
            measuring: Cell::default(),
            stopped: Cell::default(),
            dry: Notify::new(),
            measured: RefCell::default(),
        }
    }

    /// Puts the load on the server and measures. Runs inside a `LocalSet`.
    pub(crate) async fn run(self) -> Result<Measured> {
        let mut clients = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            clients.push(Client::connect(&self.endpoint).await?);
        }
        let load = Rc::new(Self { begin: Instant::now(), ..self });
        let mut connections = JoinSet::new();
        for (index, client) in clients.into_iter().enumerate() {
            let load = load.clone();
            connections.spawn_local(async move {
                load.drive(client, index).await.unwrap_or_else(|failure| load.error(&failure.to_string()));
            });
        }
        load.measure().await?;
        if timeout(LONGEST_ANSWER, connections.join_all()).await.is_err() {
            load.error("no_answer");
        }
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
    async fn drive(&self, mut client: Client, index: usize) -> Result<()> {
        let Load { endpoint, queue, cycle, batch, numbers, .. } = self;
        let mut requests: Vec<Template> = cycle.iter().map(|each| each.template(endpoint.address, queue)).collect();
        let mut held = Vec::new();
        // Each connection begins elsewhere, so that they do not all list at the same time.
        let mut place = index * 7 % cycle.len();
        for turn in 0_u32.. {
            let begin = self.pace(index, turn).await;
            if self.stopped.get() {
                break;
            }
            let (operation, request) = (cycle[place], &mut requests[place]);
            place = (place + 1) % cycle.len();
            if operation.needs_run() && held.is_empty() {
                continue;
            }
            let items = if operation.needs_run() { held.clone() } else { self.choose(operation) };
            if operation.ends_run() {
                held.clear();
                if operation != Operation::Complete {
                    items.iter().for_each(|(task, _)| numbers.gives_back(*task));
                }
            }
            let done = if *batch == 1 {
                let answer = client.send(request.fill(items[0])).await?;
                self.take_answer(operation, begin, items[0], &answer)
            } else {
                let (done, bytes) = client.batch(operation, queue, &items, &|_| String::new()).await?;
                // Neither claims nor completions alone are pairs: the items are counted when they are complete.
                let claims = operation == Operation::Claim;
                self.record(claims, begin, if claims { 0 } else { done.len() }, bytes);
                if done.len() < items.len() {
                    self.run_dry();
                }
                done
            };
            if operation == Operation::Claim {
                done.iter().for_each(|(task, _)| numbers.handed_out(*task));
                held = done;
            }
        }
        // What was claimed is ended even when the time is over, so that no task stays behind.
        match cycle.iter().find(|operation| operation.ends_run() && !held.is_empty()) {
            None => {}
            // Whether it works does not matter any more.
            Some(end) if *batch == 1 => drop(client.operate(*end, queue, held[0]).await),
            Some(end) => drop(client.batch(*end, queue, &held, &|_| String::new()).await?),
        }
        Ok(())
    }

    /// Waits until the next request is to begin: now, or as the rate of an open loop says. A connection that is late began when it
    /// should have; one that is not begins when the timer, which is a millisecond coarse, wakes it.
    async fn pace(&self, index: usize, turn: u32) -> Instant {
        let Some(rate) = self.rate else { return Instant::now() };
        let turns_before = index as f64 / self.connections as f64 + f64::from(turn);
        let intended = self.begin + Duration::from_secs_f64(turns_before / rate);
        if intended <= Instant::now() {
            return intended;
        }
        sleep_until(intended.into()).await;
        Instant::now()
    }

    /// The numbers of the tasks and the runs in a request that is about no run that is held.
    fn choose(&self, operation: Operation) -> Vec<(u64, u64)> {
        let one = |_| {
            let run = self.numbers.next_run();
            let task = match operation {
                Operation::Create => self.numbers.next_task(),
                Operation::Get => {
                    let Range { start, end } = self.known;
                    // A large odd step, so that neighbours in time are not neighbours on disk.
                    start + run.wrapping_mul(7919) % (end - start).max(1)
                }
                _ => run,
            };
            (task, run)
        };
        (0..self.batch).map(one).collect()
    }

    /// Records the answer to a single request; the task and the run, if it hands one out.
    fn take_answer(&self, operation: Operation, begin: Instant, ids: (u64, u64), answer: &Answer) -> Vec<(u64, u64)> {
        let claims = operation == Operation::Claim;
        if !operation.expects(answer.status) {
            self.error(&answer.code());
        } else if !claims {
            self.record(false, begin, 1, answer.body().len());
        } else if answer.status != 204 {
            self.record(true, begin, 1, answer.body().len());
            match answer.claimed_task() {
                Some(task) => return vec![(task, ids.1)],
                None => self.error("claim_without_task"),
            }
        } else if self.cycle == PAIRS {
            self.run_dry();
        }
        Vec::new()
    }

    /// Counts an answer. What came while the window is not open is only known to have been answered.
    fn record(&self, claims: bool, begin: Instant, items: usize, body_bytes: usize) {
        let mut measured = self.measured.borrow_mut();
        measured.answered += items as u64;
        if self.measuring.get() && !self.stopped.get() {
            let taken = begin.elapsed();
            measured.latency.record(taken);
            if claims {
                measured.claims.record(taken);
            }
            measured.items += items as u64;
            measured.body_bytes += body_bytes as u64;
        }
    }

    /// There is nothing left to claim: the window ends.
    fn run_dry(&self) {
        self.stopped.set(true);
        self.dry.notify_one();
    }

    fn error(&self, code: &str) {
        *self.measured.borrow_mut().errors.entry(code.to_owned()).or_default() += 1;
    }
}
