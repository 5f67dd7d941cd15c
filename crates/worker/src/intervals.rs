//! All intervals of the worker in one place, so that tests can shorten them; and the backoff between tries.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Between the start of a run and its first heartbeat: most short runs need none.
    pub first_heartbeat: Duration,
    /// How long the server is asked to hold a heartbeat, but no longer than `wait`: a fifth of the lease.
    pub heartbeat: Duration,
    /// Between two heartbeats where the server does not hold them.
    pub heartbeat_poll: Duration,
    /// Between a failed heartbeat and the next one.
    pub heartbeat_retry: Duration,
    /// How long the server is asked to wait for a task, or to hold a heartbeat. The server may shorten it.
    pub wait: Duration,
    /// Between claims of an idle worker whose server does not wait, and between tries of any call that failed.
    pub backoff: BackoffLimits,
    /// Between claims of a worker that slows down because of failures in a row.
    pub failure_pause: BackoffLimits,
    /// Between two observations while nothing changes.
    pub observation: Duration,
    /// The minimum time between two observations.
    pub observation_gap: Duration,
    /// The shortest time between two requests with output of one run, while it goes on.
    pub output: Duration,
    /// The same for a line that changes again and again, such as a progress bar.
    pub output_rewrite: Duration,
    /// How long output of a run is sent after the run was reported.
    pub late_output: Duration,
    /// How long sending output may delay the end of the worker.
    pub output_at_exit: Duration,
    /// For how long calls succeed again until an outage of the server is over.
    pub outage_settle: Duration,
    /// Between two looks at the progress of a run, and between two reports of it.
    pub progress: Duration,
    /// Between two reports of what is measured.
    pub telemetry: Duration,
    /// After so long without a task an idle worker asks why.
    pub idle_reason: Duration,
    /// How long it waits until it asks again.
    pub idle_reason_again: Duration,
    /// How long the worker's last calls (observations, reports of an earlier worker) may delay its end.
    pub shutdown_timeout: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            first_heartbeat: Duration::from_millis(500),
            heartbeat: seconds(60),
            heartbeat_poll: seconds(5),
            heartbeat_retry: seconds(5),
            // Many proxies cut a silent connection after 60 seconds.
            wait: seconds(50),
            backoff: BackoffLimits { first: seconds(1), longest: seconds(10) },
            // Long enough to spare a sweep, short enough that its good region is found within minutes.
            failure_pause: BackoffLimits { first: seconds(10), longest: seconds(300) },
            observation: seconds(60),
            observation_gap: seconds(1),
            output: seconds(1),
            output_rewrite: seconds(5),
            late_output: seconds(10),
            output_at_exit: seconds(3),
            outage_settle: seconds(5),
            progress: seconds(1),
            telemetry: seconds(15),
            idle_reason: seconds(10),
            idle_reason_again: seconds(60),
            shutdown_timeout: seconds(1),
        }
    }
}

/// Pauses that double from one try to the next; by default 1, 2, 4, 8, 10, 10 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffLimits {
    pub first: Duration,
    pub longest: Duration,
}

impl BackoffLimits {
    /// The pause after this many failed tries (at least 1), without jitter.
    pub(crate) fn after(&self, tries: u32) -> Duration {
        let doublings = tries.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

#[derive(Debug)]
pub(crate) struct Backoff {
    limits: BackoffLimits,
    tries: u32,
}

impl Backoff {
    pub(crate) fn new(limits: BackoffLimits) -> Self {
        Self { limits, tries: 0 }
    }

    /// Counts a failed try and returns the pause after it.
    pub(crate) fn next(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        jittered(self.limits.after(self.tries))
    }

    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// Up to a tenth more or less, so that workers that were started together do not send their calls together.
pub(crate) fn jittered(interval: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) as u16;
    interval.mul_f64(0.9 + 0.2 * f64::from(random) / f64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_1_2_4_8_and_then_10_seconds() {
        let limits = Intervals::default().backoff;
        let waited: Vec<u64> = (1..=6).map(|tries| limits.after(tries).as_secs()).collect();
        assert_eq!(waited, [1, 2, 4, 8, 10, 10]);
        assert_eq!(limits.after(u32::MAX), seconds(10));
    }

    #[test]
    fn a_success_resets_the_backoff() {
        let mut backoff = Backoff::new(Intervals::default().backoff);
        let first = [backoff.next(), backoff.next()];
        assert!(first[0] < seconds(2) && first[1] > seconds(1), "{first:?}");
        backoff.reset();
        assert!(backoff.next() < seconds(2));
    }

    #[test]
    fn jitter_stays_within_a_tenth() {
        for _ in 0..1000 {
            let drawn = jittered(seconds(10));
            assert!(drawn >= seconds(9) && drawn <= seconds(11), "{drawn:?}");
        }
    }
}
