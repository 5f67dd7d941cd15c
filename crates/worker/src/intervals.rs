//! Every interval of the worker, in one place, so that tests can shorten them; and the pauses between tries.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// From one heartbeat to the next: a fifth of the lease, so that four may get lost.
    pub heartbeat: Duration,
    /// From a heartbeat that failed to the next.
    pub heartbeat_retry: Duration,
    /// How long the server is asked to wait for a task; cut to what it offers.
    pub wait: Duration,
    /// Between claims of an idle worker whose server does not wait, and between tries of anything that failed.
    pub pauses: Pauses,
    /// From one observation to the next while nothing changes.
    pub observation: Duration,
    /// The least time between two observations, however often something changes.
    pub observation_gap: Duration,
    /// How long the end of the worker is held up by its observations.
    pub farewell: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            heartbeat: seconds(60),
            heartbeat_retry: seconds(5),
            // Below the 60 seconds after which proxies like to cut a silent connection.
            wait: seconds(50),
            pauses: Pauses { first: seconds(1), longest: seconds(10) },
            observation: seconds(60),
            observation_gap: seconds(1),
            farewell: seconds(1),
        }
    }
}

/// Pauses that double from one try to the next: 1, 2, 4, 8, 10, 10 seconds unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The first pause.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Pauses {
    /// The pause after `tries` tries without success, the first one being 1; not jittered.
    fn after(&self, tries: u32) -> Duration {
        let doublings = tries.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

/// A row of tries, and how long to wait before each.
#[derive(Debug)]
pub(crate) struct Backoff {
    pauses: Pauses,
    tries: u32,
}

impl Backoff {
    pub(crate) fn new(pauses: Pauses) -> Self {
        Self { pauses, tries: 0 }
    }

    /// The pause after another try without success.
    pub(crate) fn next(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        jittered(self.pauses.after(self.tries))
    }

    /// Begins again.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// A tenth more or less, so that workers that were started together do not keep asking together.
pub(crate) fn jittered(interval: Duration) -> Duration {
    let chance = RandomState::new().hash_one(()) as u16;
    interval.mul_f64(0.9 + 0.2 * f64::from(chance) / f64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_1_2_4_8_and_then_10_seconds() {
        let pauses = Intervals::default().pauses;
        let waited: Vec<u64> = (1..=6).map(|tries| pauses.after(tries).as_secs()).collect();
        assert_eq!(waited, [1, 2, 4, 8, 10, 10]);
        assert_eq!(pauses.after(u32::MAX), seconds(10));
    }

    #[test]
    fn a_success_begins_the_row_again() {
        let mut backoff = Backoff::new(Intervals::default().pauses);
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
