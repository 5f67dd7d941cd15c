//! Which reads may compute and which wait: the scheduling rule, without threads and without a clock.

use std::collections::BTreeMap;
use std::time::Duration;

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

    /// Whether a waiting read has computed for less than `used`.
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
#[path = "slots_tests.rs"]
mod tests;
