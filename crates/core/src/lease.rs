//! Leases: how long one lasts, when it is over, and what an outage of the service adds; and how long the ids of runs
//! outlive their task (docs/reference/task-life.md §5 to §7).

use std::time::Duration;

use crate::limits::{DELETED_RUN_SECONDS, LEASE_SECONDS, OUTAGE_SECONDS};
use crate::task::{ActiveRun, Failure, RunEnd};
use crate::time::Timestamp;

/// The end of a lease that begins or is renewed now.
pub fn from(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_SECONDS)
}

/// The time that the leases of a task are compared with and computed from. It is `now`, but not before the task's last
/// change, so that a clock that stands still neither ends nor shortens a lease. If the last change is further ahead than
/// an outage lasts, the clock was wrong when it was made; then it is ignored, or leases would last for years.
pub fn lease_time(now: Timestamp, updated_at: Timestamp) -> Timestamp {
    if is_longer_than_outage(now, updated_at) { now } else { now.max(updated_at) }
}

/// Returns whether a lease is over.
pub fn is_over(lease_expires_at: Timestamp, now: Timestamp) -> bool {
    lease_expires_at <= now
}

/// Returns whether more time passed than is allowed between two lease scans. If so, the service was unavailable between them.
pub fn is_longer_than_outage(earlier: Timestamp, later: Timestamp) -> bool {
    earlier.plus_seconds(OUTAGE_SECONDS) < later
}

/// The end of a lease after an outage: at least the credit from now, and never earlier than before.
pub fn credited(lease_expires_at: Timestamp, now: Timestamp, credit_seconds: i64) -> Timestamp {
    if credit_seconds == 0 { lease_expires_at } else { lease_expires_at.max(now.plus_seconds(credit_seconds)) }
}

/// Returns what ended a run, if anything has: the end of its lease, or of the time that it may be active; whichever came first.
pub fn run_over(run: &ActiveRun, now: Timestamp) -> Option<RunEnd> {
    let timed_out = run.times_out_at.filter(|at| is_over(*at, now));
    match (timed_out, is_over(run.lease_expires_at, now)) {
        (Some(at), true) if run.lease_expires_at < at => Some(RunEnd::HeartbeatExpired),
        (Some(_), _) => Some(RunEnd::Timeout),
        (None, true) => Some(RunEnd::HeartbeatExpired),
        (None, false) => None,
    }
}

/// When a run is over unless a heartbeat comes.
pub fn run_ends_at(run: &ActiveRun) -> Timestamp {
    run.times_out_at.map_or(run.lease_expires_at, |at| at.min(run.lease_expires_at))
}

/// A run after an outage. The time that it may be active gets the same credit as its lease: a run that ended in time while the
/// service was away must be able to say so (docs/decisions/0063).
#[must_use]
pub fn credited_run(run: ActiveRun, now: Timestamp, credit_seconds: i64) -> ActiveRun {
    let credited = |at| credited(at, now, credit_seconds);
    ActiveRun { lease_expires_at: credited(run.lease_expires_at), times_out_at: run.times_out_at.map(credited), ..run }
}

/// A run whose times come from a clock that was far ahead: its lease ends as if it had begun now, and its time is over as much
/// earlier. Nothing if its lease ends no later than that.
pub fn brought_back(run: ActiveRun, now: Timestamp) -> Option<ActiveRun> {
    let lease_expires_at = from(now);
    let ahead = run.lease_expires_at.as_micros().saturating_sub(lease_expires_at.as_micros());
    let earlier = |at: Timestamp| Timestamp::from_micros(at.as_micros().saturating_sub(ahead));
    (ahead > 0).then(|| ActiveRun { lease_expires_at, times_out_at: run.times_out_at.map(earlier), ..run })
}

/// Until when the run ids of a task that is deleted now stay used up.
pub fn run_ids_kept_until(now: Timestamp) -> Timestamp {
    now.plus_seconds(DELETED_RUN_SECONDS)
}

/// The type of the error of a task whose lease ended without a heartbeat.
pub const HEARTBEAT_TIMEOUT: &str = "HeartbeatTimeout";

/// Returns what is recorded when a lease ends without a heartbeat.
pub fn expiry_failure() -> Failure {
    Failure { kind: HEARTBEAT_TIMEOUT.into(), message: "the lease expired without a heartbeat".into(), traceback: None }
}

/// Returns what is recorded when a run was active for longer than it may be.
pub fn timeout_failure(run_limit: Option<Duration>) -> Failure {
    let message = match run_limit {
        Some(limit) => format!("the run was active for longer than timeout_seconds allows ({})", limit.as_secs()),
        None => "the run was active for longer than timeout_seconds allowed".to_owned(),
    };
    Failure { kind: "ExecutionTimeout".into(), message: message.into(), traceback: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{at, run};

    fn active(lease: i64, timeout: Option<i64>) -> ActiveRun {
        ActiveRun { run_id: run("active"), lease_expires_at: at(lease), times_out_at: timeout.map(at) }
    }

    #[test]
    fn a_lease_lasts_exactly_300_seconds() {
        let end = from(at(0));
        assert!(!is_over(end, Timestamp::from_micros(end.as_micros() - 1)));
        assert!(is_over(end, at(300)));
    }

    #[test]
    fn a_pause_of_the_scan_beyond_15_seconds_is_an_outage() {
        assert!(!is_longer_than_outage(at(0), at(15)));
        assert!(is_longer_than_outage(at(0), Timestamp::from_micros(at(15).as_micros() + 1)));
        assert!(!is_longer_than_outage(at(20), at(0)), "a clock that stands still is no outage");
    }

    #[test]
    fn a_run_is_over_with_its_lease_or_with_its_time_whichever_ends_first() {
        let cases = [
            (active(10, None), 9, None, 10),
            (active(10, None), 10, Some(RunEnd::HeartbeatExpired), 10),
            (active(10, Some(5)), 4, None, 5),
            (active(10, Some(5)), 5, Some(RunEnd::Timeout), 5),
            (active(10, Some(5)), 20, Some(RunEnd::Timeout), 5),
            (active(10, Some(15)), 12, Some(RunEnd::HeartbeatExpired), 10),
            (active(10, Some(15)), 20, Some(RunEnd::HeartbeatExpired), 10),
            (active(10, Some(10)), 10, Some(RunEnd::Timeout), 10),
        ];
        for (run, now, end, ends_at) in cases {
            assert_eq!(run_over(&run, at(now)), end, "{run:?} {now}");
            assert_eq!(run_ends_at(&run), at(ends_at), "{run:?}");
        }
        let credited = credited_run(active(10, Some(5)), at(600), 90);
        assert_eq!((credited.lease_expires_at, credited.times_out_at), (at(690), Some(at(690))));
        assert_eq!(credited_run(active(10, None), at(600), 90).times_out_at, None);
    }

    #[test]
    fn a_run_of_a_clock_that_was_ahead_is_brought_back_with_its_time() {
        assert_eq!(brought_back(active(90_300, Some(90_900)), at(0)), Some(active(300, Some(900))));
        assert_eq!(brought_back(active(90_300, None), at(10)), Some(active(310, None)));
        assert_eq!(brought_back(active(300, Some(900)), at(0)), None);
        assert_eq!(brought_back(active(200, Some(900)), at(0)), None);
    }

    #[test]
    fn a_credit_never_shortens_a_lease_and_zero_turns_it_off() {
        assert_eq!(credited(at(10), at(600), 90), at(690));
        assert_eq!(credited(at(800), at(600), 90), at(800));
        assert_eq!(credited(at(10), at(600), 0), at(10));
    }
}
