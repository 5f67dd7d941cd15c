//! The time of the service on PostgreSQL: the database's clock plus an offset, which is stored in the database and changed
//! only by lease scans, one at a time. The rules are those of `store/src/clock/correction.rs`; a step of the database's clock
//! is detected by comparing it with the time that has passed on this machine.

use std::time::Instant;

use parking_lot::Mutex;
use taskqueue_core::limits::OUTAGE_SECONDS;
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::correction::{CorrectedTime, Correction, Reading};

/// A smaller step cannot be distinguished from a slow network, and is followed.
const STEP_MICROS: i64 = OUTAGE_SECONDS * 1_000_000;

/// The row of the database's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockRow {
    /// The database's clock.
    pub(crate) micros: i64,
    pub(crate) offset_micros: i64,
    pub(crate) last_scan_at: Option<Timestamp>,
    pub(crate) ahead_since: Option<Timestamp>,
}

/// The time of a transaction, and what a scan stores of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) offset_micros: i64,
    pub(crate) last_scan_at: Option<Timestamp>,
    pub(crate) ahead_since: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

impl Clock {
    /// The time of a transaction. If the clock was set back, time stands still until a scan has raised the offset.
    pub(crate) fn new(row: ClockRow) -> Self {
        let ClockRow { micros, offset_micros, last_scan_at, ahead_since } = row;
        let read = Timestamp::from_micros(micros.saturating_add(offset_micros));
        let now = last_scan_at.map_or(read, |last| read.max(last));
        // Without this much, time would go back.
        let behind = now.as_micros().saturating_sub(read.as_micros());
        Self { offset_micros: offset_micros.saturating_add(behind), last_scan_at, ahead_since, now }
    }

    /// The time of a scan, which corrects the offset. `step_micros`: how far the database's clock was set since this server's
    /// last scan. A clock that is found ahead may mean that the machine slept, without heartbeats: the last scan then
    /// counts as one of long ago.
    pub(crate) fn of_scan(row: ClockRow, step_micros: i64) -> Self {
        let step_micros = if step_micros.saturating_abs() > STEP_MICROS { step_micros } else { 0 };
        let read = row.micros.saturating_add(row.offset_micros).saturating_sub(step_micros);
        let passed_micros = row.last_scan_at.map_or(0, |last| read.saturating_sub(last.as_micros()));
        let correction =
            Correction { offset_micros: row.offset_micros, ahead_since: row.ahead_since, ..Correction::default() };
        let CorrectedTime { correction, found_ahead, .. } =
            correction.apply(Reading { clock_micros: row.micros, step_micros, passed_micros });
        let clock =
            Self::new(ClockRow { offset_micros: correction.offset_micros, ahead_since: correction.ahead_since, ..row });
        let long_ago = clock.last_scan_at.map(|_| Timestamp::default());
        if found_ahead { Self { last_scan_at: long_ago, ..clock } } else { clock }
    }
}

/// The last scan of this server: the time here, and what the database's clock showed.
#[derive(Default)]
pub(crate) struct LastScan(Mutex<Option<(Instant, i64)>>);

impl LastScan {
    /// How much more the database's clock has moved since the last scan than time has passed; 0 at the first scan.
    pub(crate) fn step_micros(&self, at: Instant, micros: i64) -> i64 {
        let last = self.0.lock().replace((at, micros));
        last.map_or(0, |(last_at, last_micros)| {
            let passed = i64::try_from(at.saturating_duration_since(last_at).as_micros()).unwrap_or(i64::MAX);
            micros.saturating_sub(last_micros).saturating_sub(passed)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_core::lease::is_longer_than_outage;

    use super::*;

    const SECOND: i64 = 1_000_000;
    const START: i64 = 1_800_000_000;

    /// Seconds since the start that a scan shows, and whether it counts as one after an outage.
    type Seen = (i64, bool);

    /// A database whose clock is set by so many seconds before each scan, which come every five seconds.
    fn scans(steps: &[i64]) -> Vec<Seen> {
        let at = Timestamp::from_micros(START * SECOND);
        let mut row = ClockRow { micros: at.as_micros(), offset_micros: 0, last_scan_at: Some(at), ahead_since: None };
        let mut seen = Vec::new();
        for step in steps {
            row.micros += (step + 5) * SECOND;
            let before = row.last_scan_at;
            let clock = Clock::of_scan(row, step * SECOND);
            assert!(Some(clock.now) >= before, "time went back");
            let is_outage = is_longer_than_outage(clock.last_scan_at.unwrap(), clock.now);
            seen.push(((clock.now.as_micros() - at.as_micros()) / SECOND, is_outage));
            let (offset_micros, ahead_since) = (clock.offset_micros, clock.ahead_since);
            row = ClockRow { offset_micros, ahead_since, last_scan_at: Some(clock.now), ..row };
        }
        seen
    }

    #[test]
    fn every_step_of_the_databases_clock_does_what_the_table_says() {
        const YEARS: i64 = 300_000_000;
        let until_followed = (10..=60).step_by(5).map(|seconds| (seconds, false));
        let followed: Vec<Seen> =
            [(5, true)].into_iter().chain(until_followed).chain([(1_065, true), (1_070, false)]).collect();
        let cases: [(&str, &[i64], &[Seen]); 6] = [
            ("nothing happens", &[0, 0], &[(5, false), (10, false)]),
            // Found, which counts as an outage; nobody's time has moved.
            ("ahead for a moment", &[YEARS, -YEARS, 0], &[(5, true), (10, false), (15, false)]),
            ("ahead by less than an outage", &[10, 0], &[(15, false), (20, false)]),
            // Slower by a hundredth.
            ("set back", &[-100, 0], &[(4, false), (9, false)]),
            ("set back a little: stands still", &[-10, 0, 0], &[(0, false), (4, false), (9, false)]),
            (
                "ahead for good: followed after a minute, which is an outage again",
                &[1_000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                &followed,
            ),
        ];
        for (what, steps, expected) in cases {
            assert_eq!(scans(steps), expected, "{what}");
        }
    }

    #[test]
    fn time_that_is_ahead_of_the_database_is_slowed_down_by_a_hundredth() {
        let last = Timestamp::from_micros(START * SECOND);
        let (micros, offset_micros) = (START * SECOND - 95 * SECOND, 100 * SECOND);
        let row = ClockRow { micros, offset_micros, last_scan_at: Some(last), ahead_since: None };
        let clock = Clock::of_scan(row, 0);
        assert_eq!(clock.offset_micros, 100 * SECOND - SECOND / 20);
        assert_eq!(clock.now.as_micros(), START * SECOND + 5 * SECOND - SECOND / 20);
    }

    #[test]
    fn a_step_is_what_the_databases_clock_moved_more_than_time_has_passed() {
        let (scan, start) = (LastScan::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(scan.step_micros(at(0), 1_000), 0, "nothing to compare with");
        assert_eq!(scan.step_micros(at(5), 1_000 + 5 * SECOND), 0);
        assert_eq!(scan.step_micros(at(3_605), 1_000 + 3_605 * SECOND), 0, "nobody was there for an hour");
        assert_eq!(scan.step_micros(at(3_610), 1_000 + 3_710 * SECOND), 100 * SECOND);
        assert_eq!(scan.step_micros(at(3_615), 1_000 + 3_615 * SECOND), -100 * SECOND);
    }
}
