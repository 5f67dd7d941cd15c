//! What a client must do to keep its connection: be there while its read is computed, and take its response fast enough once the buffer of
//! its socket is full. A read whose client has disconnected is dropped, so that no answer is computed in vain (docs/decisions/0019);
//! writes are not checked: one that has begun is finished. Nothing here waits or touches a socket: bytes, times and the state of the
//! socket are arguments. `activity.rs` decides what happens to the client.

use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use crate::config::Timeouts;
use crate::listener::PeerState;

/// How often the client of a read is checked. With one [`PROBE_TIME`] it is half of the 100 ms (C2 of
/// docs/reference/invariants.md §6) within which a read must stop.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(40);

/// How long a machine that has closed the connection has to answer a probe with a reset.
const PROBE_TIME: Duration = Duration::from_millis(10);

/// The step that follows a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Continue,
    /// Send something that a client may ignore: a machine that has closed the connection answers with a reset.
    Probe,
    DropRead,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientCheck {
    begun: Instant,
    pub(super) next_check: Instant,
    is_due: bool,
    /// True if the client understands interim responses (1xx), which came with HTTP/1.1.
    takes_interim: bool,
    /// True if the last check ended with a probe.
    probed: bool,
    pub(super) has_disconnected: bool,
}

impl ClientCheck {
    pub(super) fn new(version: Version, now: Instant) -> Self {
        let (next_check, takes_interim) = (now + CHECK_INTERVAL, version != Version::HTTP_10);
        Self { begun: now, next_check, is_due: false, takes_interim, probed: false, has_disconnected: false }
    }

    pub(super) fn set_due(&mut self, now: Instant) {
        self.is_due = true;
        self.next_check = now + CHECK_INTERVAL;
    }

    /// Returns whether to check now; true once for each [`Self::set_due`].
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Decides by the state of the socket.
    ///
    /// A client that has closed its sending side may have disconnected, or may still want its response. In HTTP/1.1 a probe
    /// shows it; in HTTP/1.0 there is none, and the client counts as disconnected. The same holds for a client that sends more
    /// and more, because its close could not arrive. Neither state shows a later disconnect, so the probe is repeated.
    pub(super) fn check(&mut self, peer: PeerState, now: Instant) -> NextStep {
        use PeerState::{Closed, HalfClosed, ManyUnread, Open};
        let step = match peer {
            Open => NextStep::Continue,
            Closed => NextStep::DropRead,
            // A quick read is answered in any case.
            HalfClosed | ManyUnread if now < self.begun + CHECK_INTERVAL => NextStep::Continue,
            // No reset came in answer to the last probe.
            HalfClosed | ManyUnread if self.probed => NextStep::Continue,
            HalfClosed | ManyUnread if self.takes_interim => NextStep::Probe,
            HalfClosed | ManyUnread => NextStep::DropRead,
        };
        self.probed = step == NextStep::Probe;
        if self.probed {
            self.next_check = now + PROBE_TIME;
        }
        self.has_disconnected |= step == NextStep::DropRead;
        step
    }
}

/// How much a client must take in each [`Timeouts::read_pace`], on average.
const PACE_BYTES: u64 = 64 * 1024;

/// A response that is blocked by its client: the buffer of the socket was full.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockedSend {
    since: Instant,
    /// The bytes that the client has taken since then.
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

    /// Returns when the client counts as too slow unless it takes more: by its average, or because it took nothing for too long.
    pub(super) fn deadline(&self, timeouts: &Timeouts, scarcity: u32) -> Instant {
        let by_average = self.since + allowed(self.taken_bytes, timeouts.read_pace, scarcity);
        let by_pause = self.taken_at + (timeouts.write / 2_u32.saturating_pow(scarcity));
        by_average.min(by_pause)
    }
}

/// Returns how long a client may take for so many bytes: one pace to begin with, and one for each [`PACE_BYTES`]. The last bytes
/// of a response, however few, have the same time. Each degree of scarcity halves it.
fn allowed(taken_bytes: u64, pace: Duration, scarcity: u32) -> Duration {
    let earned = pace.as_nanos() * u128::from(taken_bytes) / u128::from(PACE_BYTES);
    let earned = Duration::from_nanos(u64::try_from(earned).unwrap_or(u64::MAX));
    pace.saturating_add(earned) / 2_u32.saturating_pow(scarcity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_tells_a_disconnect_from_a_half_closed_connection() {
        use NextStep::{Continue, DropRead, Probe};
        use PeerState::{Closed, HalfClosed, ManyUnread, Open};
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        type Checks<'a> = &'a [(u64, PeerState, NextStep)];
        let cases: [(&str, Version, Checks<'_>); 10] = [
            ("there", new, &[(40, Open, Continue), (80, Open, Continue)]),
            ("a reset", new, &[(40, Closed, DropRead)]),
            (
                "half closed",
                new,
                &[
                    (40, HalfClosed, Probe),
                    (50, HalfClosed, Continue),
                    (90, HalfClosed, Probe),
                    (100, Closed, DropRead),
                ],
            ),
            (
                "half closed, then reset",
                new,
                &[(40, HalfClosed, Probe), (50, HalfClosed, Continue), (90, Closed, DropRead)],
            ),
            ("closed", new, &[(40, Open, Continue), (80, HalfClosed, Probe), (90, Closed, DropRead)]),
            ("closed, in HTTP/1.0", old, &[(40, HalfClosed, DropRead)]),
            ("sends on", new, &[(40, ManyUnread, Probe), (50, ManyUnread, Continue), (90, ManyUnread, Probe)]),
            ("sends on, then goes", new, &[(40, ManyUnread, Probe), (50, Closed, DropRead)]),
            ("sends on and on, in HTTP/1.0", old, &[(39, ManyUnread, Continue), (40, ManyUnread, DropRead)]),
            ("too early to tell", new, &[(39, HalfClosed, Continue), (40, HalfClosed, Probe)]),
        ];
        for (name, version, checks) in cases {
            let start = Instant::now();
            let mut check = ClientCheck::new(version, start);
            for (at, peer, expected) in checks {
                assert_eq!(check.check(*peer, start + Duration::from_millis(*at)), *expected, "{name} at {at}");
                assert_eq!(check.has_disconnected, *expected == DropRead, "{name} at {at}");
            }
        }
    }

    #[test]
    fn each_due_time_is_one_check() {
        let start = Instant::now();
        let mut check = ClientCheck::new(Version::HTTP_11, start);
        assert!(!check.take_due());
        assert_eq!(check.next_check, start + CHECK_INTERVAL);
        check.set_due(start + CHECK_INTERVAL);
        assert_eq!((check.take_due(), check.take_due()), (true, false));
        assert_eq!(check.next_check, start + 2 * CHECK_INTERVAL);
        check.check(PeerState::HalfClosed, start + CHECK_INTERVAL);
        assert_eq!(check.next_check, start + CHECK_INTERVAL + PROBE_TIME, "a probe is answered soon");
    }

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

    /// Returns whether a reader that takes `bytes` in each of `every` seconds is cut within an hour, and after how many seconds.
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
