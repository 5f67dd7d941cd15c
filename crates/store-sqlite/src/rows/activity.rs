//! Rows of counts: activity, and what workers do.

use rusqlite::{Result, Row};
use taskqueue_core::activity::Activity;
use taskqueue_core::ids::Route;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::time::Timestamp;
use taskqueue_store::activity::ProcessId;

use super::{Unreadable, parsed, time};

const MICROS: i64 = 1_000_000;

/// The beginning of a span, as it is stored.
pub(crate) fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MICROS)
}

/// The first second that is not before a moment.
pub(crate) fn seconds_up(at: Timestamp) -> i64 {
    seconds(at) + i64::from(at.as_micros().rem_euclid(MICROS) > 0)
}

/// What a process has saved of a span that began then.
pub(crate) fn saved_span(row: &Row<'_>) -> Result<(Timestamp, ProcessId, Activity)> {
    let start = Timestamp::from_micros(row.get::<_, i64>("start")?.saturating_mul(MICROS));
    let activity = Activity::from_bytes(row.get_ref("activity")?.as_blob()?).map_err(|_| Unreadable)?;
    Ok((start, ProcessId(row.get("process")?), activity))
}

/// From when on activity is known.
pub(crate) fn since(row: &Row<'_>) -> Result<Timestamp> {
    time(row, "since")
}

/// The route and the status of a worker.
pub(crate) fn worker_state(row: &Row<'_>) -> Result<(Route, WorkerStatus)> {
    Ok((parsed(row, "route")?, parsed(row, "status")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_between_seconds_are_rounded_down_and_up() {
        let cases =
            [(0, 0, 0), (1, 0, 1), (MICROS, 1, 1), (-1, -1, 0), (i64::MAX, 9_223_372_036_854, 9_223_372_036_855)];
        for (micros, down, up) in cases {
            let at = Timestamp::from_micros(micros);
            assert_eq!((seconds(at), seconds_up(at)), (down, up), "{micros}");
        }
    }
}
