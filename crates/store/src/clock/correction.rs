//! How the time of the service follows a clock that is stepped or suspended: pure functions over readings
//! (docs/decisions/0005). The readings come from `clock.rs` and the backends.
//!
//! - Steps of the clock, in either direction, do not change the time of the service.
//! - It never goes back. While it is ahead of the clock it runs slower by one percent, until the clock has caught up.
//! - A clock that is ahead by more than an outage for a minute is followed in one jump. The machine may have slept, without
//!   heartbeats, so both the detection and the jump count as an outage.

use taskqueue_core::limits::OUTAGE_SECONDS;
use taskqueue_core::time::Timestamp;

/// How long a clock must be ahead before it is followed: longer than a mistake that is corrected at once, shorter than a
/// lease.
const FOLLOW_AFTER_SECONDS: i64 = 60;
/// Time that is ahead runs slower by one part in this many: a lease of 300 seconds lasts 3 seconds longer.
const SLOWDOWN_DIVISOR: i64 = 100;
/// At start, a clock that is behind the stored time by more than this is trusted; the stored time is trusted otherwise.
pub const MAX_STORED_AHEAD_SECONDS: i64 = 86_400;
/// 2026-01-01, when this was written. A clock that shows less is wrong, for example one that starts at 1970.
pub const EARLIEST: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// The state between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correction {
    /// The time of the service minus the clock.
    pub offset_micros: i64,
    /// Since when the clock has been ahead by more than an outage, in the time of the service.
    pub ahead_since: Option<Timestamp>,
    /// Time that is not slowed down yet, because it is too short for a whole microsecond.
    pub unslowed_micros: i64,
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub clock_micros: i64,
    /// How far it was set since the last reading: how much more it moved than time passed.
    pub step_micros: i64,
    /// The time since the last reading.
    pub passed_micros: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrectedTime {
    pub correction: Correction,
    pub now: Timestamp,
    /// True if this reading found the clock ahead: it was set, or the machine slept.
    pub found_ahead: bool,
}

impl Correction {
    pub fn apply(self, reading: Reading) -> CorrectedTime {
        let mut correction = self;
        correction.offset_micros = correction.offset_micros.saturating_sub(reading.step_micros);
        correction.slow_down(reading.passed_micros.max(0));
        let now = reading.clock_micros.saturating_add(correction.offset_micros);
        let lag_micros = correction.offset_micros.saturating_neg();
        let now = Timestamp::from_micros(now);
        let mut found_ahead = false;
        if lag_micros <= OUTAGE_SECONDS * 1_000_000 {
            correction.ahead_since = None;
        } else if let Some(since) = correction.ahead_since {
            if since.plus_seconds(FOLLOW_AFTER_SECONDS) <= now {
                let correction = Self::default();
                return CorrectedTime { correction, now: Timestamp::from_micros(reading.clock_micros), found_ahead };
            }
        } else {
            (correction.ahead_since, found_ahead) = (Some(now), true);
        }
        CorrectedTime { correction, now, found_ahead }
    }

    fn slow_down(&mut self, passed_micros: i64) {
        if self.offset_micros <= 0 {
            self.unslowed_micros = 0;
            return;
        }
        let passed = self.unslowed_micros.saturating_add(passed_micros);
        self.offset_micros -= (passed / SLOWDOWN_DIVISOR).min(self.offset_micros);
        self.unslowed_micros = passed % SLOWDOWN_DIVISOR;
    }
}

/// The time to begin with: the later one of the clock and the latest time in storage; but the clock if it may be right and
/// is so far behind that the stored time must have come from a wrong clock.
pub fn start(clock: Timestamp, latest: Timestamp) -> Timestamp {
    let stored_is_wrong = clock >= EARLIEST && clock.plus_seconds(MAX_STORED_AHEAD_SECONDS) < latest;
    if stored_is_wrong { clock } else { clock.max(latest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const YEAR: i64 = 365 * 86_400;

    /// A simulated clock with one reading per second.
    struct Simulation {
        correction: Correction,
        clock: i64,
        passed: i64,
        now: i64,
        /// Seconds after the start at which the clock was found ahead, and at which time jumped.
        found: Vec<i64>,
        jumped: Vec<(i64, i64)>,
    }

    fn simulation(offset_seconds: i64) -> Simulation {
        let correction = Correction { offset_micros: offset_seconds * SECOND, ..Correction::default() };
        let (found, jumped) = (Vec::new(), Vec::new());
        Simulation { correction, clock: YEAR * SECOND, passed: 0, now: (YEAR + offset_seconds) * SECOND, found, jumped }
    }

    impl Simulation {
        fn set_and_pass(mut self, step_seconds: i64, seconds: i64) -> Self {
            for second in 0..seconds {
                let step_micros = if second == 0 { step_seconds * SECOND } else { 0 };
                self.clock += step_micros + SECOND;
                self.passed += 1;
                let reading = Reading { clock_micros: self.clock, step_micros, passed_micros: SECOND };
                let CorrectedTime { correction, now, found_ahead } = self.correction.apply(reading);
                let moved = now.as_micros() - self.now;
                assert!(moved >= SECOND - SECOND / 100, "time was slowed down by {moved}");
                if moved > SECOND {
                    self.jumped.push((self.passed, (moved - SECOND) / SECOND));
                }
                if found_ahead {
                    self.found.push(self.passed);
                }
                (self.correction, self.now) = (correction, now.as_micros());
            }
            self
        }

        /// By how many seconds the time is ahead of the clock.
        fn ahead(&self) -> i64 {
            (self.now - self.clock) / SECOND
        }
    }

    #[test]
    fn every_step_of_the_clock_does_what_the_table_says() {
        type Steps = &'static [(i64, i64)];
        type Jumps = &'static [(i64, i64)];
        // The clock is set by the first, then the second passes: ... The offset at the end, when it was found ahead, jumps.
        let cases: [(&str, Steps, i64, &[i64], Jumps); 10] = [
            ("nothing happens", &[(0, 100)], 0, &[], &[]),
            ("ahead for a second, by years", &[(0, 10), (9 * YEAR, 1), (-9 * YEAR, 100)], 0, &[11], &[]),
            ("ahead for almost a minute", &[(3_600, 60), (-3_600, 100)], 0, &[1], &[]),
            ("ahead for good", &[(3_600, 100)], 0, &[1], &[(61, 3_600)]),
            ("a nap of the machine", &[(16, 100)], 0, &[1], &[(61, 16)]),
            ("ahead by less than an outage", &[(15, 1_000)], -15, &[], &[]),
            ("two steps that are an outage together", &[(10, 20), (10, 100)], 0, &[21], &[(81, 20)]),
            ("set back", &[(-50, 1_000)], 40, &[], &[]),
            ("set back and caught up with", &[(-5, 1_000)], 0, &[], &[]),
            ("ahead, followed, and put right", &[(100, 61), (-100, 1_000)], 90, &[1], &[(61, 100)]),
        ];
        for (what, steps, ahead, found, jumped) in cases {
            let end =
                steps.iter().fold(simulation(0), |simulation, (step, pass)| simulation.set_and_pass(*step, *pass));
            assert_eq!((end.ahead(), &end.found[..], &end.jumped[..]), (ahead, found, jumped), "{what}");
        }
    }

    #[test]
    fn time_that_is_ahead_is_slowed_down_however_often_it_is_asked_for() {
        let mut correction = Correction { offset_micros: 1_000, ..Correction::default() };
        let mut last = Timestamp::default();
        for passed in 0..90_000 {
            let reading = Reading { clock_micros: passed, step_micros: 0, passed_micros: i64::from(passed > 0) };
            let paced = correction.apply(reading);
            assert!(paced.now >= last);
            (correction, last) = (paced.correction, paced.now);
        }
        assert_eq!(correction.offset_micros, 1_000 - 899);
    }

    #[test]
    fn a_lease_lasts_neither_less_than_300_seconds_nor_a_hundredth_more_while_time_is_slowed_down() {
        let mut end = simulation(1_000);
        let lease = end.now + 300 * SECOND;
        let begun = end.passed;
        while end.now < lease {
            end = end.set_and_pass(0, 1);
        }
        assert!((300..=304).contains(&(end.passed - begun)), "{}", end.passed - begun);
    }

    #[test]
    fn the_time_to_begin_with() {
        let at = |seconds| EARLIEST.plus_seconds(seconds);
        let day = 86_400;
        let cases = [
            ("an empty database", at(0), Timestamp::default(), at(0)),
            ("the clock went on", at(100), at(50), at(100)),
            ("the clock was set back a little", at(50), at(100), at(100)),
            ("by a day", at(0), at(day), at(day)),
            ("the stored time is wrong", at(0), at(day + 1), at(0)),
            ("by years", at(0), at(30 * YEAR), at(0)),
            ("a machine that begins at 1970", Timestamp::default().plus_seconds(60), at(9), at(9)),
        ];
        for (what, clock, latest, expected) in cases {
            assert_eq!(start(clock, latest), expected, "{what}");
        }
    }
}
