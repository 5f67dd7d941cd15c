//! Whether the client of a read has gone, so that nobody goes on computing its answer (docs/decisions/0019). Nothing here
//! waits or touches a socket: what the socket knows is an argument. Writes are not looked after: what was begun is finished.

use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use crate::listener::Peer;

/// How often the client of a read is looked for. Together with one [`PROBE_TIME`] half of the 100 ms (invariants.md, C2)
/// within which a read must stop.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(40);

/// How long a machine that no longer knows the connection has to say so, before the next look.
const PROBE_TIME: Duration = Duration::from_millis(10);

/// What is to be done after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Go on.
    Continue,
    /// Send something that a client may ignore: if there is none any more, its machine answers with a reset.
    Probe,
    /// Drop the read.
    Drop,
}

/// A read under way and what is known of its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    begun: Instant,
    next_look: Instant,
    is_due: bool,
    /// Whether the client understands interim answers (1xx): those came with HTTP/1.1.
    takes_interim: bool,
    /// Whether the last look ended with a probe.
    probed: bool,
    gone: bool,
}

impl Read {
    pub(super) fn new(version: Version, now: Instant) -> Self {
        let takes_interim = version != Version::HTTP_10;
        Self { begun: now, next_look: now + LOOK_INTERVAL, is_due: false, takes_interim, probed: false, gone: false }
    }

    /// When to look next.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// The time of a look has come.
    pub(super) fn comes_due(&mut self, now: Instant) {
        self.is_due = true;
        self.next_look = now + LOOK_INTERVAL;
    }

    /// Whether to look now; once for each time that has come.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Looks: what the socket knows decides.
    ///
    /// A client that has ended its stream may have gone, or may only have nothing more to send and still want its answer. In
    /// HTTP/1.1 a probe tells; in HTTP/1.0 there is none, and it is taken for gone. The same holds for a client that sends on
    /// and on, whose end would not arrive. Neither shows when it goes later, so the probe is repeated.
    pub(super) fn look(&mut self, peer: Peer, now: Instant) -> Step {
        let step = match peer {
            Peer::Open => Step::Continue,
            Peer::Gone => Step::Drop,
            // A quick read is answered without ado.
            Peer::Ended | Peer::Crowding if now < self.begun + LOOK_INTERVAL => Step::Continue,
            // The last probe was not answered.
            Peer::Ended | Peer::Crowding if self.probed => Step::Continue,
            Peer::Ended | Peer::Crowding if self.takes_interim => Step::Probe,
            Peer::Ended | Peer::Crowding => Step::Drop,
        };
        self.probed = step == Step::Probe;
        if self.probed {
            self.next_look = now + PROBE_TIME;
        }
        self.gone |= step == Step::Drop;
        step
    }

    /// The client is gone.
    pub(super) fn client_goes(&mut self) {
        self.gone = true;
    }

    /// Whether the client is gone.
    pub(super) fn client_is_gone(&self) -> bool {
        self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_who_has_gone_from_who_has_only_nothing_more_to_send() {
        use Peer::{Crowding, Ended, Gone, Open};
        use Step::{Continue, Drop, Probe};
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        type Looks<'a> = &'a [(u64, Peer, Step)];
        let cases: [(&str, Version, Looks<'_>); 10] = [
            ("there", new, &[(40, Open, Continue), (80, Open, Continue)]),
            ("a reset", new, &[(40, Gone, Drop)]),
            ("half closed", new, &[(40, Ended, Probe), (50, Ended, Continue), (90, Ended, Probe), (100, Gone, Drop)]),
            ("half closed, then reset", new, &[(40, Ended, Probe), (50, Ended, Continue), (90, Gone, Drop)]),
            ("closed", new, &[(40, Open, Continue), (80, Ended, Probe), (90, Gone, Drop)]),
            ("closed, in HTTP/1.0", old, &[(40, Ended, Drop)]),
            ("sends on", new, &[(40, Crowding, Probe), (50, Crowding, Continue), (90, Crowding, Probe)]),
            ("sends on, then goes", new, &[(40, Crowding, Probe), (50, Gone, Drop)]),
            ("sends on and on, in HTTP/1.0", old, &[(39, Crowding, Continue), (40, Crowding, Drop)]),
            ("too early to tell", new, &[(39, Ended, Continue), (40, Ended, Probe)]),
        ];
        for (name, version, looks) in cases {
            let start = Instant::now();
            let mut read = Read::new(version, start);
            for (at, peer, expected) in looks {
                assert_eq!(read.look(*peer, start + Duration::from_millis(*at)), *expected, "{name} at {at}");
                assert_eq!(read.client_is_gone(), *expected == Drop, "{name} at {at}");
            }
        }
    }

    #[test]
    fn each_time_that_comes_is_one_look() {
        let start = Instant::now();
        let mut read = Read::new(Version::HTTP_11, start);
        assert!(!read.take_due());
        assert_eq!(read.next_look(), start + LOOK_INTERVAL);
        read.comes_due(start + LOOK_INTERVAL);
        assert_eq!((read.take_due(), read.take_due()), (true, false));
        assert_eq!(read.next_look(), start + 2 * LOOK_INTERVAL);
        read.look(Peer::Ended, start + LOOK_INTERVAL);
        assert_eq!(read.next_look(), start + LOOK_INTERVAL + PROBE_TIME, "a probe is answered soon");
    }
}
