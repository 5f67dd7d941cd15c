//! The scheduler of reads that compute: a fixed number computes at a time, in slices, and a read stops when nobody waits for
//! its answer, at its deadline, and when it has used up its budget. Which read is next is decided in `slots.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::slots::{Slots, slice};
use crate::StoreError;

/// How long a read may compute in all. 10 seconds are some 20 million small tasks, or 10 GB of large ones, on one core.
const BUDGET: Duration = Duration::from_secs(10);

/// Why a read does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Nobody waits for its answer.
    Abandoned,
    /// It took too long, or computed for too long.
    OutOfTime,
    /// The store is closed.
    Closed,
}

impl From<StopReason> for StoreError {
    fn from(stopped: StopReason) -> Self {
        match stopped {
            StopReason::Abandoned | StopReason::OutOfTime => Self::Busy,
            StopReason::Closed => Self::Unavailable,
        }
    }
}

/// The places to compute at, and the reads under way.
pub struct ReadScheduler {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    line: Slots<Arc<ReadSignals>>,
    /// Every read that has not ended, by its number.
    reads: HashMap<u64, Arc<ReadSignals>>,
    numbers: u64,
    closed: bool,
}

/// What a read and its caller share.
#[derive(Default)]
struct ReadSignals {
    gone: AtomicBool,
    closed: AtomicBool,
    /// It has a place now.
    called: AtomicBool,
    /// For a read that waits for its turn.
    wake: Condvar,
    /// For a read that waits for anything else.
    ended: Notify,
}

impl ReadScheduler {
    /// So many places.
    pub fn new(places: usize) -> Arc<Self> {
        let state = State { line: Slots::new(places), reads: HashMap::new(), numbers: 0, closed: false };
        Arc::new(Self { began: Instant::now(), state: Mutex::new(state) })
    }

    /// As many places as there are cores.
    pub fn of_this_machine() -> Arc<Self> {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// A new read, which must end within `patience`: what its caller holds, and what goes to its thread.
    pub fn read(self: &Arc<Self>, patience: Duration) -> (CallerGuard, ScheduledRead) {
        let watch = Arc::new(ReadSignals::default());
        let mut state = self.lock();
        state.numbers += 1;
        let number = state.numbers;
        watch.closed.store(state.closed, Ordering::Relaxed);
        state.reads.insert(number, Arc::clone(&watch));
        drop(state);
        let deadline = self.now() + patience;
        let caller = CallerGuard { scheduler: Arc::clone(self), watch: Arc::clone(&watch) };
        (caller, ScheduledRead { scheduler: Arc::clone(self), watch, number, deadline })
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

    /// The time since these scheduler began. A duration fits an atomic number, an instant does not.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn call(next: Option<Arc<ReadSignals>>) {
    if let Some(watch) = next {
        watch.called.store(true, Ordering::Relaxed);
        watch.wake.notify_one();
    }
}

/// Held by whoever waits for the answer. Dropped, it stops the read.
pub struct CallerGuard {
    scheduler: Arc<ReadScheduler>,
    watch: Arc<ReadSignals>,
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.watch.gone.store(true, Ordering::Relaxed);
        self.watch.ended.notify_one();
        // The lock makes sure that the read either sees this before it waits, or waits and is woken.
        let _state = self.scheduler.lock();
        self.watch.wake.notify_one();
    }
}

/// A read that has not begun.
pub struct ScheduledRead {
    scheduler: Arc<ReadScheduler>,
    watch: Arc<ReadSignals>,
    number: u64,
    deadline: Duration,
}

impl ScheduledRead {
    /// Waits for the first turn.
    pub fn begin(self) -> Result<ActiveRead, StopReason> {
        let turn = ActiveRead { read: self, slice_end: AtomicU64::new(0), progress: Mutex::default() };
        turn.acquire_slot()?;
        Ok(turn)
    }
}

impl Drop for ScheduledRead {
    fn drop(&mut self) {
        self.scheduler.lock().reads.remove(&self.number);
    }
}

/// A read under way. It is used on one thread.
pub struct ActiveRead {
    read: ScheduledRead,
    /// Until when it may go on without another look, in nanoseconds; 0 without a place.
    slice_end: AtomicU64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// Since when it computes; nothing without a place.
    since: Option<Duration>,
    used: Duration,
    stopped: Option<StopReason>,
}

impl ActiveRead {
    /// To be called often while computing, at least every few milliseconds. Hands over to others if a slice is used up and
    /// somebody waits; then it returns when it is this read's turn again.
    pub fn yield_if_due(&self) -> Result<(), StopReason> {
        let now = self.read.scheduler.now();
        if nanos(now) < self.slice_end.load(Ordering::Relaxed) && !self.is_interrupted() {
            return Ok(());
        }
        let mut progress = self.progress();
        self.account(&mut progress, now);
        if let Some(stopped) = self.must_stop(&progress, now) {
            return Err(self.stop(progress, stopped));
        }
        let mut state = self.read.scheduler.lock();
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
    pub fn release_slot(&self) {
        let mut progress = self.progress();
        self.account(&mut progress, self.read.scheduler.now());
        self.leave(&mut progress);
    }

    /// Waits for a place again.
    pub fn acquire_slot(&self) -> Result<(), StopReason> {
        let progress = self.progress();
        if progress.since.is_some() {
            return Ok(());
        }
        if let Some(stopped) = self.must_stop(&progress, self.read.scheduler.now()) {
            return Err(self.stop(progress, stopped));
        }
        self.wait(self.read.scheduler.lock(), progress)
    }

    /// Why the read was stopped, if it was.
    pub fn stopped(&self) -> Option<StopReason> {
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
        self.read.deadline.saturating_sub(self.read.scheduler.now())
    }

    fn is_interrupted(&self) -> bool {
        let watch = &self.read.watch;
        watch.gone.load(Ordering::Relaxed) || watch.closed.load(Ordering::Relaxed)
    }

    fn must_stop(&self, progress: &Progress, now: Duration) -> Option<StopReason> {
        if progress.stopped.is_some() {
            return progress.stopped;
        }
        if self.read.watch.closed.load(Ordering::Relaxed) {
            return Some(StopReason::Closed);
        }
        if self.read.watch.gone.load(Ordering::Relaxed) {
            return Some(StopReason::Abandoned);
        }
        (now >= self.read.deadline || progress.used >= BUDGET).then_some(StopReason::OutOfTime)
    }

    /// Waits in the line until this read is called.
    fn wait(&self, mut state: MutexGuard<'_, State>, mut progress: MutexGuard<'_, Progress>) -> Result<(), StopReason> {
        let watch = &self.read.watch;
        watch.called.store(false, Ordering::Relaxed);
        if let Some(ticket) = state.line.enter(progress.used, Arc::clone(watch)) {
            while !watch.called.load(Ordering::Relaxed) {
                let now = self.read.scheduler.now();
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
        self.begin_slice(&mut progress, self.read.scheduler.now());
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
            call(self.read.scheduler.lock().line.leave());
        }
    }

    fn stop(&self, mut progress: MutexGuard<'_, Progress>, stopped: StopReason) -> StopReason {
        progress.stopped = Some(stopped);
        self.leave(&mut progress);
        stopped
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRead {
    fn drop(&mut self) {
        self.release_slot();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
