//! Whether the client of a read is still connected. A read whose client has disconnected is dropped, so that no
//! answer is computed in vain (docs/decisions/0019). Nothing here waits or touches a socket: the state of the socket is an
//! argument. Writes are not checked: one that has begun is finished.

use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use crate::listener::PeerState;

/// How often the client of a read is checked. With one [`PROBE_TIME`] it is half of the 100 ms (C2 of
/// docs/reference/invariants.md §6) within which a read must stop.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(40);

/// How long a machine that has closed the connection has to answer a probe with a reset.
const PROBE_TIME: Duration = Duration::from_millis(10);

/// What to do after a check.
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
    next_check: Instant,
    is_due: bool,
    /// Whether the client understands interim responses (1xx), which came with HTTP/1.1.
    takes_interim: bool,
    /// Whether the last check ended with a probe.
    probed: bool,
    has_disconnected: bool,
}

impl ClientCheck {
    pub(super) fn new(version: Version, now: Instant) -> Self {
        let (next_check, takes_interim) = (now + CHECK_INTERVAL, version != Version::HTTP_10);
        Self { begun: now, next_check, is_due: false, takes_interim, probed: false, has_disconnected: false }
    }

    pub(super) fn next_check(&self) -> Instant {
        self.next_check
    }

    pub(super) fn set_due(&mut self, now: Instant) {
        self.is_due = true;
        self.next_check = now + CHECK_INTERVAL;
    }

    /// Whether to check now; true once for each [`Self::set_due`].
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

    pub(super) fn set_disconnected(&mut self) {
        self.has_disconnected = true;
    }

    pub(super) fn has_disconnected(&self) -> bool {
        self.has_disconnected
    }
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
                assert_eq!(check.has_disconnected(), *expected == DropRead, "{name} at {at}");
            }
        }
    }

    #[test]
    fn each_due_time_is_one_check() {
        let start = Instant::now();
        let mut check = ClientCheck::new(Version::HTTP_11, start);
        assert!(!check.take_due());
        assert_eq!(check.next_check(), start + CHECK_INTERVAL);
        check.set_due(start + CHECK_INTERVAL);
        assert_eq!((check.take_due(), check.take_due()), (true, false));
        assert_eq!(check.next_check(), start + 2 * CHECK_INTERVAL);
        check.check(PeerState::HalfClosed, start + CHECK_INTERVAL);
        assert_eq!(check.next_check(), start + CHECK_INTERVAL + PROBE_TIME, "a probe is answered soon");
    }
}
