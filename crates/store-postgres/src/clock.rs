//! The time of the service on PostgreSQL: the database's clock, plus an offset that is kept there and changed by lease scans
//! only, one at a time. The same rules as for a machine's clock (`store/src/clock/correction.rs`), as far as a server can see
//! steps of another machine's clock: by comparing it with the time that passes here.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use taskqueue_core::limits::OUTAGE_SECONDS;
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::correction::{CorrectedTime, Correction, Reading};

/// A smaller step cannot be told from a slow network, and is followed.
const STEP_MICROS: i64 = OUTAGE_SECONDS * 1_000_000;

/// What the database tells of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockRow {
    /// The database's clock.
    pub(crate) micros: i64,
    pub(crate) offset_micros: i64,
    pub(crate) last_scan_at: Option<Timestamp>,
    pub(crate) ahead_since: Option<Timestamp>,
}

/// The time of a transaction, and what a scan keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) offset_micros: i64,
    pub(crate) last_scan_at: Option<Timestamp>,
    pub(crate) ahead_since: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

impl Clock {
    /// The time of a transaction. A clock that was set back stands still until a scan has raised the offset.
    pub(crate) fn new(told: ClockRow) -> Self {
        let ClockRow { micros, offset_micros, last_scan_at, ahead_since } = told;
        let read = Timestamp::from_micros(micros.saturating_add(offset_micros));
        let now = last_scan_at.map_or(read, |last| read.max(last));
        // By how much time would go back otherwise.
        let behind = now.as_micros().saturating_sub(read.as_micros());
        Self { offset_micros: offset_micros.saturating_add(behind), last_scan_at, ahead_since, now }
    }

    /// The time of a scan, which sets the correction: the database's clock was set by so much since this server's last scan. If
    /// that is a sleep of the machine or a mistake, nobody was heard or nobody knows: the last scan counts as one of
    /// long ago.
    pub(crate) fn of_scan(told: ClockRow, step_micros: i64) -> Self {
        let step_micros = if step_micros.saturating_abs() > STEP_MICROS { step_micros } else { 0 };
        let read = told.micros.saturating_add(told.offset_micros).saturating_sub(step_micros);
        let passed_micros = told.last_scan_at.map_or(0, |last| read.saturating_sub(last.as_micros()));
        let correction =
            Correction { offset_micros: told.offset_micros, ahead_since: told.ahead_since, ..Correction::default() };
        let CorrectedTime { correction, found_ahead, .. } =
            correction.apply(Reading { clock_micros: told.micros, step_micros, passed_micros });
        let clock = Self::new(ClockRow {
            offset_micros: correction.offset_micros,
            ahead_since: correction.ahead_since,
            ..told
        });
        let long_ago = |last_scan_at: Option<Timestamp>| last_scan_at.map(|_| Timestamp::default());
        match found_ahead {
            true => Self { last_scan_at: long_ago(clock.last_scan_at), ..clock },
            false => clock,
        }
    }
}

/// The last scan of this server: what the database's clock showed, and when that was by our own.
#[derive(Default)]
pub(crate) struct LastScan(Mutex<Option<(Instant, i64)>>);

impl LastScan {
    /// By how much the database's clock moved more than time has passed since the last scan; nothing at the first one.
    pub(crate) fn step_micros(&self, at: Instant, micros: i64) -> i64 {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace((at, micros));
        last.map_or(0, |(last_at, last_micros)| {
            let passed = i64::try_from(at.saturating_duration_since(last_at).as_micros()).unwrap_or(i64::MAX);
            micros.saturating_sub(last_micros).saturating_sub(passed)
        })
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
