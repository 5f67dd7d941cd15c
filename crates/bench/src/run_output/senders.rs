//! The workers that send, and those who follow, on a thread of their own: the load beside them has its thread for itself.

use std::net::SocketAddr;
use std::ops::Sub;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::followers;
use super::printing::{PIECE_BYTES, Printer};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;

const PERIOD: Duration = Duration::from_secs(1);
/// As often as a worker sends heartbeats, also while it prints nothing.
const HEARTBEAT_TICKS: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Paused,
    Sending,
    Ended,
}

/// How many requests were answered as they should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) outputs: u64,
    pub(super) progress: u64,
}

impl Sub for Sent {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { outputs: self.outputs - before.outputs, progress: self.progress - before.progress }
    }
}

#[derive(Debug, Default)]
struct Counters {
    outputs: AtomicU64,
    progress: AtomicU64,
}

pub(super) struct Senders {
    state: watch::Sender<State>,
    counters: Arc<Counters>,
    thread: JoinHandle<Result<Latencies>>,
}

impl Senders {
    /// Workers at the first address and followers of the first of them at the second. They begin paused.
    pub(super) fn start(
        (sending, following): (SocketAddr, SocketAddr),
        printers: Vec<Printer>,
        count: usize,
    ) -> Result<Self> {
        let (state, watched) = watch::channel(State::Paused);
        let counters: Arc<Counters> = Arc::default();
        let shared = counters.clone();
        let thread = std::thread::Builder::new().name("senders".to_owned()).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let work = run((sending, following), printers, count, watched, shared);
            LocalSet::new().block_on(&runtime, work)
        })?;
        Ok(Self { state, counters, thread })
    }

    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    pub(super) fn sent(&self) -> Sent {
        let Counters { outputs, progress } = &*self.counters;
        Sent { outputs: outputs.load(Ordering::Relaxed), progress: progress.load(Ordering::Relaxed) }
    }

    /// How old each piece was when its follower had it.
    pub(super) fn end(self) -> Result<Latencies> {
        self.set(State::Ended);
        self.thread.join().map_err(|_| Failure::new("the senders panicked".to_owned()))?
    }
}

async fn run(
    (sending, following): (SocketAddr, SocketAddr),
    printers: Vec<Printer>,
    count: usize,
    watched: watch::Receiver<State>,
    counters: Arc<Counters>,
) -> Result<Latencies> {
    let latencies: Rc<std::cell::RefCell<Latencies>> = Rc::default();
    let mut followers = JoinSet::new();
    for printer in printers.iter().take(count) {
        let client = Client::connect(following).await?;
        followers.spawn_local(followers::follow(client, following, printer.reading(), latencies.clone()));
    }
    let (begin, all) = (Instant::now() + PERIOD, printers.len());
    let mut workers = JoinSet::new();
    for (index, printer) in printers.into_iter().enumerate() {
        let client = Client::connect(sending).await?;
        // Spread over the second, as workers that were not started together are.
        let start = begin + PERIOD.mul_f64(index as f64 / all as f64);
        workers.spawn_local(work(client, printer, start, index as u64, watched.clone(), counters.clone()));
    }
    loop {
        tokio::select! {
            Some(ended) = followers.join_next() => ended.map_err(|error| Failure::new(error.to_string()))??,
            ended = workers.join_next() => match ended {
                Some(ended) => ended.map_err(|error| Failure::new(error.to_string()))??,
                None => return Ok(latencies.take()),
            },
        }
    }
}

/// Sends once a second while it should. What it cannot send in time is left out, and missing in the count.
async fn work(
    mut client: Client,
    mut printer: Printer,
    start: Instant,
    index: u64,
    watched: watch::Receiver<State>,
    counters: Arc<Counters>,
) -> Result<()> {
    let mut ticks = interval_at(start, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for tick in index.. {
        ticks.tick().await;
        let state = *watched.borrow();
        match state {
            State::Ended => break,
            State::Paused => {}
            State::Sending => {
                printer.print(&mut client, PIECE_BYTES).await?;
                counters.outputs.fetch_add(1, Ordering::Relaxed);
                printer.progress(&mut client).await?;
                counters.progress.fetch_add(1, Ordering::Relaxed);
            }
        }
        if tick % HEARTBEAT_TICKS == 0 {
            printer.heartbeat(&mut client).await?;
        }
    }
    Ok(())
}
