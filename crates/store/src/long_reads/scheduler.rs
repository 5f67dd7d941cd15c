//! The turns of reads that compute: a fixed number computes at a time, in slices, and a read stops when nobody waits for
//! its answer, at its deadline, and when it has used up its budget. Which read is next is decided in `slots.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::slots::{Line, slice};
use crate::StoreError;

/// How long a read may compute in all. 10 seconds are some 20 million small tasks, or 10 GB of large ones, on one core.
const BUDGET: Duration = Duration::from_secs(10);

/// Why a read does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Nobody waits for its answer.
    Abandoned,
    /// It took too long, or computed for too long.
    OutOfTime,
    /// The store is closed.
    Closed,
}

impl From<Stopped> for StoreError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Abandoned | Stopped::OutOfTime => Self::Busy,
            Stopped::Closed => Self::Unavailable,
        }
    }
}

/// The places to compute at, and the reads under way.
pub struct Turns {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    line: Line<Arc<Watch>>,
    /// Every read that has not ended, by its number.
    reads: HashMap<u64, Arc<Watch>>,
    numbers: u64,
    closed: bool,
}

/// What a read and its caller share.
#[derive(Default)]
struct Watch {
    gone: AtomicBool,
    closed: AtomicBool,
    /// It has a place now.
    called: AtomicBool,
    /// For a read that waits for its turn.
    wake: Condvar,
    /// For a read that waits for anything else.
    ended: Notify,
}

impl Turns {
    /// So many places.
    pub fn new(places: usize) -> Arc<Self> {
        let state = State { line: Line::new(places), reads: HashMap::new(), numbers: 0, closed: false };
        Arc::new(Self { began: Instant::now(), state: Mutex::new(state) })
    }

    /// As many places as there are cores.
    pub fn of_this_machine() -> Arc<Self> {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// A new read, which must end within `patience`: what its caller holds, and what goes to its thread.
    pub fn read(self: &Arc<Self>, patience: Duration) -> (Caller, Ready) {
        let watch = Arc::new(Watch::default());
        let mut state = self.lock();
        state.numbers += 1;
        let number = state.numbers;
        watch.closed.store(state.closed, Ordering::Relaxed);
        state.reads.insert(number, Arc::clone(&watch));
        drop(state);
        let deadline = self.now() + patience;
        let caller = Caller { turns: Arc::clone(self), watch: Arc::clone(&watch) };
        (caller, Ready { turns: Arc::clone(self), watch, number, deadline })
    }

    /// How many reads have not ended.
    pub fn under_way(&self) -> usize {
        self.lock().reads.len()
    }

    /// Stops every read, and those that come.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for watch in state.reads.values() {
            watch.closed.store(true, Ordering::Relaxed);
            watch.ended.notify_one();
        }
        state.line.waiting().for_each(|watch| watch.wake.notify_one());
    }

    /// The time since these turns began. A duration fits an atomic number, an instant does not.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn call(next: Option<Arc<Watch>>) {
    if let Some(watch) = next {
        watch.called.store(true, Ordering::Relaxed);
        watch.wake.notify_one();
    }
}

/// Held by whoever waits for the answer. Dropped, it stops the read.
pub struct Caller {
    turns: Arc<Turns>,
    watch: Arc<Watch>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.watch.gone.store(true, Ordering::Relaxed);
        self.watch.ended.notify_one();
        // The lock makes sure that the read either sees this before it waits, or waits and is woken.
        let _state = self.turns.lock();
        self.watch.wake.notify_one();
    }
}

/// A read that has not begun.
pub struct Ready {
    turns: Arc<Turns>,
    watch: Arc<Watch>,
    number: u64,
    deadline: Duration,
}

impl Ready {
    /// Waits for the first turn.
    pub fn begin(self) -> Result<Turn, Stopped> {
        let turn = Turn { read: self, slice_end: AtomicU64::new(0), progress: Mutex::default() };
        turn.resume()?;
        Ok(turn)
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.turns.lock().reads.remove(&self.number);
    }
}

/// A read under way. It is used on one thread.
pub struct Turn {
    read: Ready,
    /// Until when it may go on without another look, in nanoseconds; 0 without a place.
    slice_end: AtomicU64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// Since when it computes; nothing without a place.
    since: Option<Duration>,
    used: Duration,
    stopped: Option<Stopped>,
}

impl Turn {
    /// To be called often while computing, at least every few milliseconds. Hands over to others if a slice is used up and
    /// somebody waits; then it returns when it is this read's turn again.
    pub fn pause(&self) -> Result<(), Stopped> {
        let now = self.read.turns.now();
        if nanos(now) < self.slice_end.load(Ordering::Relaxed) && !self.is_interrupted() {
            return Ok(());
        }
        let mut progress = self.progress();
        self.account(&mut progress, now);
        if let Some(stopped) = self.must_stop(&progress, now) {
            return Err(self.stop(progress, stopped));
        }
        let mut state = self.read.turns.lock();
        if progress.since.is_some() {
            if !state.line.goes_before(progress.used) {
                drop(state);
                self.begin_slice(&mut progress, now);
                return Ok(());
            }
            call(state.line.leave());
            progress.since = None;
        }
        self.wait(state, progress)
    }

    /// Gives the place back, to wait for something else than a turn.
    pub fn release(&self) {
        let mut progress = self.progress();
        self.account(&mut progress, self.read.turns.now());
        self.leave(&mut progress);
    }

    /// Waits for a place again.
    pub fn resume(&self) -> Result<(), Stopped> {
        let progress = self.progress();
        if progress.since.is_some() {
            return Ok(());
        }
        if let Some(stopped) = self.must_stop(&progress, self.read.turns.now()) {
            return Err(self.stop(progress, stopped));
        }
        self.wait(self.read.turns.lock(), progress)
    }

    /// Why the read was stopped, if it was.
    pub fn stopped(&self) -> Option<Stopped> {
        self.progress().stopped
    }

    /// Done when the read must stop for another reason than time.
    pub async fn interrupted(&self) {
        while !self.is_interrupted() {
            self.read.watch.ended.notified().await;
        }
    }

    /// How long the read may still take.
    pub fn time_left(&self) -> Duration {
        self.read.deadline.saturating_sub(self.read.turns.now())
    }

    fn is_interrupted(&self) -> bool {
        let watch = &self.read.watch;
        watch.gone.load(Ordering::Relaxed) || watch.closed.load(Ordering::Relaxed)
    }

    fn must_stop(&self, progress: &Progress, now: Duration) -> Option<Stopped> {
        if progress.stopped.is_some() {
            return progress.stopped;
        }
        if self.read.watch.closed.load(Ordering::Relaxed) {
            return Some(Stopped::Closed);
        }
        if self.read.watch.gone.load(Ordering::Relaxed) {
            return Some(Stopped::Abandoned);
        }
        (now >= self.read.deadline || progress.used >= BUDGET).then_some(Stopped::OutOfTime)
    }

    /// Waits in the line until this read is called.
    fn wait(&self, mut state: MutexGuard<'_, State>, mut progress: MutexGuard<'_, Progress>) -> Result<(), Stopped> {
        let watch = &self.read.watch;
        watch.called.store(false, Ordering::Relaxed);
        if let Some(ticket) = state.line.enter(progress.used, Arc::clone(watch)) {
            while !watch.called.load(Ordering::Relaxed) {
                let now = self.read.turns.now();
                if let Some(stopped) = self.must_stop(&progress, now) {
                    state.line.withdraw(ticket);
                    drop(state);
                    return Err(self.stop(progress, stopped));
                }
                let patience = self.read.deadline.saturating_sub(now);
                let woken = watch.wake.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
                state = woken.0;
            }
        }
        drop(state);
        self.begin_slice(&mut progress, self.read.turns.now());
        Ok(())
    }

    fn begin_slice(&self, progress: &mut Progress, now: Duration) {
        progress.since = Some(now);
        let end = (now + slice(progress.used)).min(self.read.deadline);
        self.slice_end.store(nanos(end), Ordering::Relaxed);
    }

    /// Counts what was computed until now.
    fn account(&self, progress: &mut Progress, now: Duration) {
        if let Some(since) = &mut progress.since {
            progress.used += now.saturating_sub(*since);
            *since = now;
        }
    }

    fn leave(&self, progress: &mut Progress) {
        self.slice_end.store(0, Ordering::Relaxed);
        if progress.since.take().is_some() {
            call(self.read.turns.lock().line.leave());
        }
    }

    fn stop(&self, mut progress: MutexGuard<'_, Progress>, stopped: Stopped) -> Stopped {
        progress.stopped = Some(stopped);
        self.leave(&mut progress);
        stopped
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.release();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
