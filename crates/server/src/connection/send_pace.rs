//! How fast a client must take a response once the buffer of its socket is full. Pure functions of bytes and time:
//! `activity.rs` decides what happens to a client that is too slow.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Timeouts;

/// How much a client must take in each [`Timeouts::read_pace`], on average.
const PACE_BYTES: u64 = 64 * 1024;

/// A response that is blocked by its client: the buffer of the socket was full.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockedSend {
    since: Instant,
    /// What the client has taken since then.
    taken_bytes: u64,
    /// When it last took something.
    taken_at: Instant,
}

impl BlockedSend {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, taken_bytes: 0, taken_at: now }
    }

    pub(super) fn wrote(&mut self, bytes: usize, now: Instant) {
        self.taken_bytes += bytes as u64;
        self.taken_at = now;
    }

    /// When the client counts as too slow unless it takes more: by its average, or because it took nothing for too long.
    pub(super) fn deadline(&self, timeouts: &Timeouts, scarcity: u32) -> Instant {
        let by_average = self.since + allowed(self.taken_bytes, timeouts.read_pace, scarcity);
        let by_pause = self.taken_at + (timeouts.write / 2_u32.saturating_pow(scarcity));
        by_average.min(by_pause)
    }
}

/// How long a client may take for so many bytes: one pace to begin with, and one for each [`PACE_BYTES`]. The last bytes
/// of a response, however few, have the same time. Each degree of scarcity halves it.
fn allowed(taken_bytes: u64, pace: Duration, scarcity: u32) -> Duration {
    let earned = pace.as_nanos() * u128::from(taken_bytes) / u128::from(PACE_BYTES);
    let earned = Duration::from_nanos(u64::try_from(earned).unwrap_or(u64::MAX));
    pace.saturating_add(earned) / 2_u32.saturating_pow(scarcity)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;

    #[test]
    fn sixty_four_kib_are_to_be_taken_in_five_seconds_on_average() {
        let cases = [
            // Bytes taken, scarcity, and for how long that is enough.
            (0, 0, 5_000),
            (KIB, 0, 5_078),
            (32 * KIB, 0, 7_500),
            (64 * KIB, 0, 10_000),
            (MIB, 0, 85_000),
            (0, 1, 2_500),
            (64 * KIB, 1, 5_000),
            (0, 7, 39),
            (MIB, 7, 664),
            (u64::MAX, 0, u64::MAX),
        ];
        for (taken, scarcity, millis) in cases {
            let allowed = u64::try_from(allowed(taken, 5 * SECOND, scarcity).as_millis()).unwrap();
            assert!(allowed == millis || millis == u64::MAX && allowed > 1 << 34, "{taken} {scarcity}: {allowed}");
        }
    }

    /// Whether a reader that takes `bytes` in each of `every` seconds is cut within an hour, and after how many seconds.
    fn cut_after(bytes: usize, every: u64, scarcity: u32) -> Option<u64> {
        let timeouts = Timeouts { read_pace: 5 * SECOND, write: 30 * SECOND, ..Timeouts::default() };
        let start = Instant::now();
        let mut blocked = BlockedSend::new(start);
        (1..3_600).find(|second| {
            let now = start + *second as u32 * SECOND;
            if blocked.deadline(&timeouts, scarcity) <= now {
                return true;
            }
            if second % every == 0 && bytes > 0 {
                blocked.wrote(bytes, now);
            }
            false
        })
    }

    #[test]
    fn readers_are_cut_when_they_are_too_slow_and_only_then() {
        let kib = 1024;
        let cases = [
            ("takes nothing", 0, 1, 0, Some(5)),
            ("one byte a second", 1, 1, 0, Some(6)),
            ("12 KiB a second", 12 * kib, 1, 0, Some(65)),
            ("13 KiB a second", 13 * kib, 1, 0, None),
            ("95 kB a second", 95_000, 1, 0, None),
            ("64 KiB every 5 seconds", 64 * kib, 5, 0, Some(5)),
            ("64 KiB every 4 seconds", 64 * kib, 4, 0, None),
            ("a megabyte, then nothing", 1024 * kib, 4_000, 0, Some(5)),
            ("16 MiB once in a minute", 16_384 * kib, 3, 0, None),
            ("95 kB a second when room is scarce", 95_000, 1, 2, None),
            ("95 kB a second when room is very scarce", 95_000, 1, 4, Some(1)),
            ("takes nothing for a second when room is scarcest", 2_000_000, 1, 7, Some(1)),
        ];
        for (name, bytes, every, scarcity, expected) in cases {
            assert_eq!(cut_after(bytes, every, scarcity), expected, "{name}");
        }
    }

    #[test]
    fn a_burst_does_not_pay_for_a_long_pause() {
        let timeouts = Timeouts { read_pace: 5 * SECOND, write: 30 * SECOND, ..Timeouts::default() };
        let start = Instant::now();
        let mut blocked = BlockedSend::new(start);
        blocked.wrote(16 * 1024 * 1024, start + SECOND);
        assert_eq!(blocked.deadline(&timeouts, 0), start + 31 * SECOND);
        assert_eq!(blocked.deadline(&timeouts, 2), start + SECOND + 30 * SECOND / 4);
    }
}
