//! How many tasks a portion has: as many as the storage does in some ten milliseconds, so that no other command waits longer for
//! it.

use std::time::Duration;

/// The contract's bound (docs/reference/http-api.md §14.8).
const MOST: usize = 1_000;
/// Fewer cost less than their transaction does. A portion of slow tasks ends by itself before its last one.
const LEAST: usize = 100;
const FIRST: usize = 250;
/// A portion that took longer is followed by a smaller one. This includes what it waited for others.
const SLOW: Duration = Duration::from_millis(40);
/// One that took less is followed by a larger one.
const FAST: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
pub(super) struct PortionSize(usize);

impl Default for PortionSize {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl PortionSize {
    pub(super) fn tasks(self) -> usize {
        self.0
    }

    pub(super) fn took(&mut self, elapsed: Duration) {
        self.0 = match elapsed {
            elapsed if elapsed > SLOW => (self.0 / 2).max(LEAST),
            elapsed if elapsed < FAST => (self.0 * 2).min(MOST),
            _ => self.0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_grow_and_shrink_within_their_bounds() {
        let mut size = PortionSize::default();
        let mut took = |millis, times: usize| {
            (0..times).for_each(|_| size.took(Duration::from_millis(millis)));
            size.tasks()
        };
        assert_eq!(took(30, 5), FIRST);
        assert_eq!((took(1, 1), took(1, 9)), (2 * FIRST, MOST));
        assert_eq!((took(41, 1), took(41, 1), took(500, 20)), (MOST / 2, MOST / 4, LEAST));
    }
}
