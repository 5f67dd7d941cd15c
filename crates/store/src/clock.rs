//! The clock of an embedded store. It never goes back, and a wall clock that is set back does not slow it down:
//! it is the monotonic clock plus the largest distance to the wall clock that was ever seen.
//! A wall clock that jumps forward is followed; the lease scan then sees a gap and grants the outage credit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use taskqueue_core::time::Timestamp;

/// Where a store takes its time from.
pub trait Clock: Send + Sync {
    /// The current time; never earlier than any time it gave before.
    fn now(&self) -> Timestamp;

    /// Makes sure that no later reading lies before `floor` (a time found in storage at start).
    fn not_before(&self, floor: Timestamp);
}

/// The time of the machine.
pub struct SystemClock {
    started: Instant,
    /// Microseconds between 1970 and `started`, as far as known; only ever grows.
    offset_micros: AtomicI64,
}

impl SystemClock {
    /// A clock that begins with the wall clock of the machine.
    pub fn new() -> Self {
        Self { started: Instant::now(), offset_micros: AtomicI64::new(i64::MIN) }
    }

    fn elapsed_micros(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn raise(&self, offset: i64) -> i64 {
        self.offset_micros.fetch_max(offset, Ordering::Relaxed).max(offset)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let elapsed = self.elapsed_micros();
        let offset = self.raise(i64::try_from(wall).unwrap_or(i64::MAX).saturating_sub(elapsed));
        Timestamp::from_micros(offset.saturating_add(elapsed))
    }

    fn not_before(&self, floor: Timestamp) {
        self.raise(floor.as_micros().saturating_sub(self.elapsed_micros()));
    }
}

/// A time that tests pass by hand.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_micros())))
    }

    /// Passes that many seconds.
    pub fn advance_seconds(&self, seconds: i64) {
        self.advance_micros(seconds * 1_000_000);
    }

    /// Passes that many microseconds.
    pub fn advance_micros(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn not_before(&self, floor: Timestamp) {
        self.0.fetch_max(floor.as_micros(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_floor_ahead_of_the_wall_clock_is_kept_and_time_goes_on_from_there() {
        let clock = SystemClock::new();
        let ahead = clock.now().plus_seconds(3600);
        clock.not_before(ahead);
        assert!(clock.now() >= ahead);
        assert!(clock.now() < ahead.plus_seconds(60));
    }
}
