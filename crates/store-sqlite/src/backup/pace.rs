//! How fast a backup goes: at a given rate, so that the disk stays free for the commits of the server. Its snapshot keeps the
//! log from being reused, so that the log grows by everything that is written meanwhile; when it has grown much, the rest is
//! copied as fast as possible.

use std::time::Duration;

/// Growth of the log beyond which there are no more pauses.
const LOG_GROWTH_BYTES: u64 = 1 << 30;

pub(crate) struct Pace {
    pub(crate) bytes_per_second: u64,
}

impl Pace {
    /// How long to wait after so many bytes in so much time.
    pub(crate) fn pause(&self, done: u64, log_growth: u64, elapsed: Duration) -> Duration {
        if log_growth > LOG_GROWTH_BYTES {
            return Duration::ZERO;
        }
        let micros = u128::from(done) * 1_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).saturating_sub(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_makes_up_for_what_was_too_fast_unless_the_log_has_grown_much() {
        let pace = Pace { bytes_per_second: 1_000 };
        let millis = Duration::from_millis;
        let cases = [
            (500, 0, millis(100), millis(400)),
            (500, 0, millis(500), millis(0)),
            (500, 0, millis(900), millis(0)),
            (500, 1 << 30, millis(100), millis(400)),
            (500, (1 << 30) + 1, millis(100), millis(0)),
        ];
        for (done, growth, elapsed, pause) in cases {
            assert_eq!(pace.pause(done, growth, elapsed), pause, "{done} {growth} {elapsed:?}");
        }
        assert_eq!(Pace { bytes_per_second: 0 }.pause(u64::MAX, 0, Duration::ZERO), Duration::from_micros(u64::MAX));
    }
}
