//! Who may compute and who waits: the rule of the scheduler, without threads and without a clock.

use std::collections::BTreeMap;
use std::time::Duration;

/// The first slice. Most reads need no second one, and a read that arrives waits for one slice of those before it.
const FIRST_SLICE: Duration = Duration::from_millis(1);
/// The longest slice. A hand-over costs some 20 microseconds, so that this loses less than one percent.
const LONGEST_SLICE: Duration = Duration::from_millis(5);

/// How long a read that has computed for `used` may go on before it looks whether others wait.
pub(super) fn slice(used: Duration) -> Duration {
    used.clamp(FIRST_SLICE, LONGEST_SLICE)
}

/// The place of a read that waits: what it has used, then when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitKey {
    used: Duration,
    number: u64,
}

/// A fixed number of places to compute at, and those who wait for one: `W` is how a read is called.
#[derive(Debug)]
pub(super) struct Slots<W> {
    free: usize,
    waiting: BTreeMap<WaitKey, W>,
    tickets: u64,
}

impl<W> Slots<W> {
    /// So many places, all free.
    pub(super) fn new(places: usize) -> Self {
        Self { free: places, waiting: BTreeMap::new(), tickets: 0 }
    }

    /// A read that has computed for `used` wants to compute. It has a place at once, or waits with the ticket.
    pub(super) fn enter(&mut self, used: Duration, waiter: W) -> Option<WaitKey> {
        if self.free > 0 {
            self.free -= 1;
            return None;
        }
        self.tickets += 1;
        let ticket = WaitKey { used, number: self.tickets };
        self.waiting.insert(ticket, waiter);
        Some(ticket)
    }

    /// Whether somebody who waits has computed for less than `used`.
    pub(super) fn goes_before(&self, used: Duration) -> bool {
        self.waiting.first_key_value().is_some_and(|(first, _)| first.used < used)
    }

    /// A read leaves its place. It goes to the one who has used the least, who must be called.
    pub(super) fn leave(&mut self) -> Option<W> {
        let next = self.waiting.pop_first();
        self.free += usize::from(next.is_none());
        next.map(|(_, waiter)| waiter)
    }

    /// A read waits no longer. Whether it was still waiting: otherwise it has a place.
    pub(super) fn withdraw(&mut self, ticket: WaitKey) -> bool {
        self.waiting.remove(&ticket).is_some()
    }

    /// Everybody who waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.values()
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
