//! Leases: how long one lasts, when it is over, and what an outage of the service adds; and how long the ids of runs
//! outlive their task (docs/reference/task-life.md §5 to §7).

use crate::limits::{DELETED_RUN_SECONDS, LEASE_SECONDS, OUTAGE_SECONDS};
use crate::task::Failure;
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

/// Whether a lease is over.
pub fn is_over(lease_expires_at: Timestamp, now: Timestamp) -> bool {
    lease_expires_at <= now
}

/// Whether more time passed than is allowed between two lease scans. If so, the service was unavailable between them.
pub fn is_longer_than_outage(earlier: Timestamp, later: Timestamp) -> bool {
    earlier.plus_seconds(OUTAGE_SECONDS) < later
}

/// The end of a lease after an outage: at least the credit from now, and never earlier than before.
pub fn credited(lease_expires_at: Timestamp, now: Timestamp, credit_seconds: i64) -> Timestamp {
    if credit_seconds == 0 { lease_expires_at } else { lease_expires_at.max(now.plus_seconds(credit_seconds)) }
}

/// Until when the run ids of a task that is deleted now stay used up.
pub fn run_ids_kept_until(now: Timestamp) -> Timestamp {
    now.plus_seconds(DELETED_RUN_SECONDS)
}

/// What is recorded when a lease ends without a heartbeat.
pub fn expiry_failure() -> Failure {
    Failure {
        kind: "HeartbeatTimeout".into(),
        message: "the lease expired without a heartbeat".into(),
        traceback: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(0).plus_seconds(seconds)
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
    fn a_credit_never_shortens_a_lease_and_zero_turns_it_off() {
        assert_eq!(credited(at(10), at(600), 90), at(690));
        assert_eq!(credited(at(800), at(600), 90), at(800));
        assert_eq!(credited(at(10), at(600), 0), at(10));
    }
}
