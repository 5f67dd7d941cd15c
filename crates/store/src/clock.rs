//! The clock of an embedded store: the machine's clock with the correction of `clock/correction.rs`. It never goes back, and
//! steps of the machine's clock do not affect leases.

pub mod correction;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use taskqueue_core::time::Timestamp;

use self::correction::{CorrectedTime, Correction, Reading};

pub trait Clock: Send + Sync {
    /// The current time. It never goes back.
    fn now(&self) -> Timestamp;

    /// Begins at the latest time in storage if that is ahead, unless that time must be wrong ([`correction::start`]): then
    /// the clock is before `latest`.
    fn start_after(&self, latest: Timestamp);

    /// How often the machine's clock was found far ahead of the time that had passed. The machine may have slept, without
    /// heartbeats.
    fn times_found_ahead(&self) -> u64 {
        0
    }
}

pub struct SystemClock {
    started: Instant,
    state: Mutex<ClockReadings>,
    times_found_ahead: AtomicU64,
}

struct ClockReadings {
    correction: Correction,
    /// The last reading: the machine's clock, and the time since the start.
    wall_micros: i64,
    elapsed_micros: i64,
}

impl SystemClock {
    fn read(&self, state: &mut ClockReadings) -> Timestamp {
        let elapsed_micros = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let clock_micros = wall_clock().as_micros();
        let passed_micros = elapsed_micros.saturating_sub(state.elapsed_micros);
        let step_micros = clock_micros.saturating_sub(state.wall_micros).saturating_sub(passed_micros);
        let CorrectedTime { correction, now, found_ahead } =
            state.correction.apply(Reading { clock_micros, step_micros, passed_micros });
        *state = ClockReadings { correction, wall_micros: clock_micros, elapsed_micros };
        self.times_found_ahead.fetch_add(u64::from(found_ahead), Ordering::Relaxed);
        now
    }
}

/// This moment, by the clock of this machine.
pub fn wall_clock() -> Timestamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(wall.as_micros()).unwrap_or(i64::MAX))
}

impl Default for SystemClock {
    fn default() -> Self {
        let wall_micros = wall_clock().as_micros();
        let state = ClockReadings { correction: Correction::default(), wall_micros, elapsed_micros: 0 };
        Self { started: Instant::now(), state: Mutex::new(state), times_found_ahead: AtomicU64::new(0) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.read(&mut self.state.lock())
    }

    fn start_after(&self, latest: Timestamp) {
        let mut state = self.state.lock();
        let now = self.read(&mut state);
        let ahead_micros = correction::start(now, latest).as_micros().saturating_sub(now.as_micros());
        state.correction.offset_micros = state.correction.offset_micros.saturating_add(ahead_micros);
    }

    fn times_found_ahead(&self) -> u64 {
        self.times_found_ahead.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::default();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_stored_time_ahead_of_the_wall_clock_is_kept_and_time_goes_on_from_there() {
        let clock = SystemClock::default();
        let ahead = clock.now().plus_seconds(3600);
        clock.start_after(ahead);
        assert!(clock.now() >= ahead);
        assert!(clock.now() < ahead.plus_seconds(60));
    }

    #[test]
    fn a_stored_time_years_ahead_of_the_wall_clock_is_not_believed() {
        let clock = SystemClock::default();
        let before = clock.now();
        clock.start_after(before.plus_seconds(86_400 * 365));
        assert!(clock.now() < before.plus_seconds(60));
    }
}
