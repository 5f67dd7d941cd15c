//! Leases: how long one lasts, when it is over, and what an outage of the service adds; and how long the ids of runs
//! outlive their task (docs/reference/task-life.md §5 to §7).

use crate::limits::{DELETED_RUN_SECONDS, LEASE_SECONDS, OUTAGE_SECONDS};
use crate::task::Failure;
use crate::time::Timestamp;

/// The end of a lease that begins or is renewed now.
pub fn from(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_SECONDS)
}

/// The time by which a lease of a task goes: never before the task's last change, so that a clock which stands still for a
/// moment neither ends nor shortens it. But a change that lies further ahead than an outage was made by a clock that was
/// wrong once, and must not make a lease that lasts for years.
pub fn time_of_leases(now: Timestamp, updated_at: Timestamp) -> Timestamp {
    if was_out(now, updated_at) { now } else { now.max(updated_at) }
}

/// Whether a lease is over.
pub fn is_over(lease_expires_at: Timestamp, now: Timestamp) -> bool {
    lease_expires_at <= now
}

/// Whether the service was out between its last lease scan and now: no heartbeat could reach it.
pub fn was_out(last_scan_at: Timestamp, now: Timestamp) -> bool {
    last_scan_at.plus_seconds(OUTAGE_SECONDS) < now
}

/// The lease of a run after an outage: good for at least the credit, never shorter than promised. No credit, no change.
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
        assert!(!was_out(at(0), at(15)));
        assert!(was_out(at(0), Timestamp::from_micros(at(15).as_micros() + 1)));
        assert!(!was_out(at(20), at(0)), "a clock that stands still is no outage");
    }

    #[test]
    fn a_credit_never_shortens_a_lease_and_zero_turns_it_off() {
        assert_eq!(credited(at(10), at(600), 90), at(690));
        assert_eq!(credited(at(800), at(600), 90), at(800));
        assert_eq!(credited(at(10), at(600), 0), at(10));
    }
}
