//! The scheduler of long reads: a fixed number computes at a time, in time slices. A read stops when its caller has gone, at
//! its deadline, and when it has used up its budget. Which read is next is decided in `slots.rs`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::StoreError;

/// How long a read may compute in all. 10 seconds are some 20 million small tasks, or 10 GB of large ones, on one core.
const BUDGET: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The caller has gone.
    Abandoned,
    /// The deadline has passed, or the budget is used up.
    OutOfTime,
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

pub struct ReadScheduler {
    started: Instant,
    state: Mutex<ReadSchedule>,
}

struct ReadSchedule {
    slots: Slots<Arc<ReadSignals>>,
    /// Every read that has not ended.
    reads: HashMap<u64, Arc<ReadSignals>>,
    last_id: u64,
    closed: bool,
}

/// Shared by a read, its caller and the scheduler.
#[derive(Default)]
struct ReadSignals {
    caller_gone: AtomicBool,
    closed: AtomicBool,
    has_slot: AtomicBool,
    /// Wakes a read that waits for a slot.
    slot_wakeup: Condvar,
    /// Wakes a read that waits for anything else.
    interrupted: Notify,
}

impl ReadScheduler {
    pub fn new(slots: usize) -> Arc<Self> {
        let state = ReadSchedule { slots: Slots::new(slots), reads: HashMap::new(), last_id: 0, closed: false };
        Arc::new(Self { started: Instant::now(), state: Mutex::new(state) })
    }

    /// Adds a read that must end within `timeout`. The guard stays with its caller, the read goes to its thread.
    pub fn add(self: &Arc<Self>, timeout: Duration) -> (CallerGuard, ScheduledRead) {
        let signals = Arc::new(ReadSignals::default());
        let mut state = self.state.lock();
        state.last_id += 1;
        let id = state.last_id;
        signals.closed.store(state.closed, Ordering::Relaxed);
        state.reads.insert(id, Arc::clone(&signals));
        drop(state);
        let deadline = self.now() + timeout;
        let caller = CallerGuard { scheduler: Arc::clone(self), signals: Arc::clone(&signals) };
        (caller, ScheduledRead { scheduler: Arc::clone(self), signals, id, deadline })
    }

    /// The number of reads that have not ended.
    pub fn count(&self) -> usize {
        self.state.lock().reads.len()
    }

    /// Stops all reads, including later ones.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for signals in state.reads.values() {
            signals.closed.store(true, Ordering::Relaxed);
            signals.interrupted.notify_one();
        }
        for signals in state.slots.waiting() {
            signals.slot_wakeup.notify_one();
        }
    }

    /// The time since the scheduler was created. A duration fits an atomic number, an instant does not.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

fn wake_next(next: Option<Arc<ReadSignals>>) {
    if let Some(signals) = next {
        signals.has_slot.store(true, Ordering::Relaxed);
        signals.slot_wakeup.notify_one();
    }
}

/// Held by the caller of a read. Dropping it stops the read.
pub struct CallerGuard {
    scheduler: Arc<ReadScheduler>,
    signals: Arc<ReadSignals>,
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.signals.caller_gone.store(true, Ordering::Relaxed);
        self.signals.interrupted.notify_one();
        // With the lock, the read either sees the flag before it waits, or is woken.
        let _state = self.scheduler.state.lock();
        self.signals.slot_wakeup.notify_one();
    }
}

/// A read that has not begun.
pub struct ScheduledRead {
    scheduler: Arc<ReadScheduler>,
    signals: Arc<ReadSignals>,
    id: u64,
    deadline: Duration,
}

impl ScheduledRead {
    /// Waits for a slot.
    pub fn begin(self) -> Result<ActiveRead, StopReason> {
        let active = ActiveRead { read: self, slice_end: AtomicU64::new(0), progress: Mutex::default() };
        active.acquire_slot()?;
        Ok(active)
    }
}

impl Drop for ScheduledRead {
    fn drop(&mut self) {
        self.scheduler.state.lock().reads.remove(&self.id);
    }
}

/// A read that has begun. It is used on one thread.
pub struct ActiveRead {
    read: ScheduledRead,
    /// End of the time slice in nanoseconds; 0 without a slot.
    slice_end: AtomicU64,
    progress: Mutex<ReadProgress>,
}

#[derive(Default)]
struct ReadProgress {
    /// Since when it has had its slot.
    since: Option<Duration>,
    used: Duration,
    stopped: Option<StopReason>,
}

impl ActiveRead {
    /// Must be called at least every few milliseconds while computing. If the time slice is used up and another read waits
    /// that has computed less, passes the slot on and waits for the next one.
    pub fn yield_if_due(&self) -> Result<(), StopReason> {
        let now = self.read.scheduler.now();
        if nanos(now) < self.slice_end.load(Ordering::Relaxed) && !self.is_interrupted() {
            return Ok(());
        }
        let mut progress = self.progress.lock();
        self.account(&mut progress, now);
        if let Some(stopped) = self.must_stop(&progress, now) {
            return Err(self.stop(progress, stopped));
        }
        let mut state = self.read.scheduler.state.lock();
        if progress.since.is_some() {
            if !state.slots.must_yield(progress.used) {
                drop(state);
                self.begin_slice(&mut progress, now);
                return Ok(());
            }
            wake_next(state.slots.release());
            progress.since = None;
        }
        self.wait(state, progress)
    }

    /// Must be called before waiting for anything else.
    pub fn release_slot(&self) {
        let mut progress = self.progress.lock();
        self.account(&mut progress, self.read.scheduler.now());
        self.leave_slot(&mut progress);
    }

    /// Waits for a slot, unless the read has one.
    pub fn acquire_slot(&self) -> Result<(), StopReason> {
        let progress = self.progress.lock();
        if progress.since.is_some() {
            return Ok(());
        }
        if let Some(stopped) = self.must_stop(&progress, self.read.scheduler.now()) {
            return Err(self.stop(progress, stopped));
        }
        self.wait(self.read.scheduler.state.lock(), progress)
    }

    /// Why the read was stopped, if it was.
    pub fn stopped(&self) -> Option<StopReason> {
        self.progress.lock().stopped
    }

    /// Waits until the caller has gone or the store is closed.
    pub async fn interrupted(&self) {
        while !self.is_interrupted() {
            self.read.signals.interrupted.notified().await;
        }
    }

    pub fn time_left(&self) -> Duration {
        self.read.deadline.saturating_sub(self.read.scheduler.now())
    }

    fn is_interrupted(&self) -> bool {
        let signals = &self.read.signals;
        signals.caller_gone.load(Ordering::Relaxed) || signals.closed.load(Ordering::Relaxed)
    }

    fn must_stop(&self, progress: &ReadProgress, now: Duration) -> Option<StopReason> {
        if progress.stopped.is_some() {
            return progress.stopped;
        }
        if self.read.signals.closed.load(Ordering::Relaxed) {
            return Some(StopReason::Closed);
        }
        if self.read.signals.caller_gone.load(Ordering::Relaxed) {
            return Some(StopReason::Abandoned);
        }
        (now >= self.read.deadline || progress.used >= BUDGET).then_some(StopReason::OutOfTime)
    }

    fn wait(
        &self,
        mut state: MutexGuard<'_, ReadSchedule>,
        mut progress: MutexGuard<'_, ReadProgress>,
    ) -> Result<(), StopReason> {
        let signals = &self.read.signals;
        signals.has_slot.store(false, Ordering::Relaxed);
        if let Some(key) = state.slots.acquire(progress.used, Arc::clone(signals)) {
            while !signals.has_slot.load(Ordering::Relaxed) {
                let now = self.read.scheduler.now();
                if let Some(stopped) = self.must_stop(&progress, now) {
                    state.slots.cancel(key);
                    drop(state);
                    return Err(self.stop(progress, stopped));
                }
                let time_left = self.read.deadline.saturating_sub(now);
                signals.slot_wakeup.wait_for(&mut state, time_left);
            }
        }
        drop(state);
        self.begin_slice(&mut progress, self.read.scheduler.now());
        Ok(())
    }

    fn begin_slice(&self, progress: &mut ReadProgress, now: Duration) {
        progress.since = Some(now);
        let end = (now + time_slice(progress.used)).min(self.read.deadline);
        self.slice_end.store(nanos(end), Ordering::Relaxed);
    }

    /// Adds the time since the last call.
    fn account(&self, progress: &mut ReadProgress, now: Duration) {
        if let Some(since) = &mut progress.since {
            progress.used += now.saturating_sub(*since);
            *since = now;
        }
    }

    fn leave_slot(&self, progress: &mut ReadProgress) {
        self.slice_end.store(0, Ordering::Relaxed);
        if progress.since.take().is_some() {
            wake_next(self.read.scheduler.state.lock().slots.release());
        }
    }

    fn stop(&self, mut progress: MutexGuard<'_, ReadProgress>, stopped: StopReason) -> StopReason {
        progress.stopped = Some(stopped);
        self.leave_slot(&mut progress);
        stopped
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

/// The first time slice. Most reads need no second one, and a new read waits for one slice of those before it.
const FIRST_SLICE: Duration = Duration::from_millis(1);
/// The longest time slice. A switch costs some 20 microseconds, less than one percent of it.
const LONGEST_SLICE: Duration = Duration::from_millis(5);

/// The time slice of a read that has computed for `used`.
pub(super) fn time_slice(used: Duration) -> Duration {
    used.clamp(FIRST_SLICE, LONGEST_SLICE)
}

/// The order of waiting reads: by the time they have computed, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitKey {
    used: Duration,
    number: u64,
}

/// A fixed number of slots to compute in, and the reads that wait for one. `W` identifies a read.
#[derive(Debug)]
pub(super) struct Slots<W> {
    free: usize,
    waiting: BTreeMap<WaitKey, W>,
    last_number: u64,
}

impl<W> Slots<W> {
    pub(super) fn new(slots: usize) -> Self {
        Self { free: slots, waiting: BTreeMap::new(), last_number: 0 }
    }

    /// Takes a slot for a read that has computed for `used`. If none is free, the read waits under the returned key.
    pub(super) fn acquire(&mut self, used: Duration, waiter: W) -> Option<WaitKey> {
        if self.free > 0 {
            self.free -= 1;
            return None;
        }
        self.last_number += 1;
        let key = WaitKey { used, number: self.last_number };
        self.waiting.insert(key, waiter);
        Some(key)
    }

    /// Returns whether a waiting read has computed for less than `used`.
    pub(super) fn must_yield(&self, used: Duration) -> bool {
        self.waiting.first_key_value().is_some_and(|(first, _)| first.used < used)
    }

    /// Frees a slot. It passes to the waiting read that has computed least, which is returned and must be woken.
    pub(super) fn release(&mut self) -> Option<W> {
        let next = self.waiting.pop_first();
        self.free += usize::from(next.is_none());
        next.map(|(_, waiter)| waiter)
    }

    /// Stops waiting. Returns whether the read was still waiting; otherwise it has a slot.
    pub(super) fn cancel(&mut self, key: WaitKey) -> bool {
        self.waiting.remove(&key).is_some()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.values()
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "slots_tests.rs"]
mod slots_tests;
