//! What a connection is doing, how far hyper is with the body of its request, and how long it may go on. And what a client must do to keep
//! its connection: be there while its read is computed, and take its response fast enough once the buffer of its socket is full. A read
//! whose client has disconnected is dropped, so that no answer is computed in vain (docs/decisions/0019); writes are not checked: one that
//! has begun is finished. Nothing here waits, touches a socket or reads a clock: bytes, times and the state of the socket are arguments, so
//! that a table of cases covers every timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Version;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::Timeouts;
use crate::listener::PeerState;

/// How soon to check a connection again that waits only for the server.
const RECHECK: Duration = Duration::from_secs(1);

/// How soon to check a client again that takes its response slowly: room may become scarce in the meantime.
const RECHECK_SLOW: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No byte of a request has arrived.
    Idle,
    /// A part of a request head has arrived.
    Head,
    /// A request is being answered.
    Request,
    /// The response is complete, but its last bytes may not be sent yet.
    Flushing,
}

/// The step that follows when the timer of a connection fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerAction {
    /// Nothing before that instant.
    Wait(Instant),
    /// It is idle: free its buffers.
    Park,
    /// The client is too slow; the text says with what.
    Close(&'static str),
}

#[derive(Debug)]
pub(super) struct Activity {
    pub(super) phase: Phase,
    /// When the connection became idle, or the first byte of the head arrived.
    pub(super) since: Instant,
    /// Set while the socket's buffer is full, because the client does not take its response.
    blocked_send: Option<BlockedSend>,
    /// True if a response is complete whose last bytes may not be sent yet. The next request may begin before they are.
    unsent: bool,
    pub(super) request_body: BodyProgress,
    /// Of a read that is not answered yet.
    pub(super) client_check: Option<ClientCheck>,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        let request_body = BodyProgress::default();
        Self { phase: Phase::Idle, since: now, blocked_send: None, unsent: false, request_body, client_check: None }
    }

    /// Notes bytes that arrived. Between requests they are the beginning of a head; otherwise they belong to a body. Here and below
    /// `now` is asked only where it counts: a request passes several times.
    pub(super) fn bytes_arrived(&mut self, now: impl FnOnce() -> Instant) {
        if self.phase == Phase::Idle && self.request_body.is_consumed() {
            (self.phase, self.since) = (Phase::Head, now());
        }
    }

    /// Notes that a head is complete.
    pub(super) fn begin_request(&mut self) -> RequestNumber {
        self.phase = Phase::Request;
        self.request_body.next_request()
    }

    /// Begins to check whether the client is still connected. For reads only: they are dropped when it is not.
    pub(super) fn begin_client_check(&mut self, version: Version, now: Instant) {
        self.client_check = Some(ClientCheck::new(version, now));
    }

    /// Returns the client check, if it is to be made now.
    pub(super) fn due_client_check(&mut self) -> Option<&mut ClientCheck> {
        self.client_check.as_mut().and_then(|check| check.take_due().then_some(check))
    }

    /// Returns whether a read is under way whose client has disconnected.
    pub(super) fn client_has_disconnected(&self) -> bool {
        self.client_check.is_some_and(|check| check.has_disconnected)
    }

    /// Returns whether a request is under way: its head is complete and its response is not yet sent.
    pub(super) fn has_request(&self) -> bool {
        matches!(self.phase, Phase::Request | Phase::Flushing)
    }

    /// Returns whether the response is sent, but the body of its request has not completely arrived.
    pub(super) fn is_skipping_body(&self) -> bool {
        self.phase == Phase::Idle && !self.request_body.is_consumed()
    }

    /// Notes that hyper has taken the last byte of a response.
    pub(super) fn end_response(&mut self) {
        self.unsent = true;
        self.phase = Phase::Flushing;
    }

    /// Notes that everything written so far is sent.
    pub(super) fn flushed(&mut self, now: impl FnOnce() -> Instant) {
        self.unsent = false;
        self.blocked_send = None;
        if self.phase == Phase::Flushing {
            (self.phase, self.since) = (Phase::Idle, now());
        }
    }

    /// Notes that the socket took so many bytes; 0 when its buffer is full.
    pub(super) fn wrote(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        match &mut self.blocked_send {
            Some(blocked) if bytes > 0 => blocked.wrote(bytes, now()),
            None if bytes == 0 => self.blocked_send = Some(BlockedSend::new(now())),
            _ => {}
        }
    }

    pub(super) fn is_send_blocked(&self) -> bool {
        self.blocked_send.is_some()
    }

    /// Returns whether hyper holds nothing of earlier requests: neither bytes of a response nor the rest of a body.
    pub(super) fn is_settled(&self) -> bool {
        !self.unsent && self.request_body.is_consumed()
    }

    /// Returns when the connection is to be checked, if it waits for the client. `scarcity` is that of the room for answers.
    pub(super) fn deadline(&self, timeouts: &Timeouts, scarcity: u32) -> Option<Instant> {
        match (self.blocked_send, self.phase) {
            (Some(blocked), _) => Some(blocked.deadline(timeouts, scarcity)),
            (None, Phase::Idle) if self.request_body.is_consumed() => Some(self.since + timeouts.park),
            (None, Phase::Head) => Some(self.since + timeouts.head),
            (None, Phase::Request) => self.client_check.map(|check| check.next_check),
            (None, Phase::Idle | Phase::Flushing) => None,
        }
    }

    pub(super) fn timer_action(&mut self, now: Instant, timeouts: &Timeouts, scarcity: u32) -> TimerAction {
        let is_blocked = self.is_send_blocked();
        match self.deadline(timeouts, scarcity) {
            None => TimerAction::Wait(now + RECHECK),
            Some(deadline) if deadline > now && is_blocked => TimerAction::Wait(deadline.min(now + RECHECK_SLOW)),
            Some(deadline) if deadline > now => TimerAction::Wait(deadline),
            Some(_) if is_blocked => TimerAction::Close("taking the answer"),
            Some(_) if self.phase == Phase::Head => TimerAction::Close("sending the request head"),
            Some(_) if self.phase == Phase::Request => {
                self.client_check.iter_mut().for_each(|check| check.set_due(now));
                TimerAction::Wait(now + CHECK_INTERVAL)
            }
            Some(_) => TimerAction::Park,
        }
    }
}

/// Which request of a connection.
pub(super) type RequestNumber = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyState {
    /// There was no body, or hyper has read all of it: the next bytes are a request.
    #[default]
    Consumed,
    /// The handler may still read it, perhaps after the response is sent.
    Open,
    /// The handler has dropped it. When hyper is polled next, it skips the rest or closes the connection.
    Dropped,
}

/// How far hyper is with the body of the last request. A report about the body of an earlier one is ignored.
#[derive(Debug, Default)]
pub(super) struct BodyProgress {
    pub(super) request: RequestNumber,
    state: BodyState,
}

impl BodyProgress {
    pub(super) fn next_request(&mut self) -> RequestNumber {
        self.request += 1;
        self.state = BodyState::Consumed;
        self.request
    }

    /// Notes that the rest of the body, if there is one, is not wanted.
    pub(super) fn abandon(&mut self, request: RequestNumber) {
        if self.state == BodyState::Open {
            self.set(BodyState::Dropped, request);
        }
    }

    /// Returns the last request, if its body was dropped. If hyper was polled since then and goes on with the connection, it has
    /// skipped the rest of that body.
    pub(super) fn dropped(&self) -> Option<RequestNumber> {
        (self.state == BodyState::Dropped).then_some(self.request)
    }

    pub(super) fn is_consumed(&self) -> bool {
        self.state == BodyState::Consumed
    }

    pub(super) fn set(&mut self, state: BodyState, request: RequestNumber) {
        if request == self.request {
            self.state = state;
        }
    }
}

/// The activity of one connection. All its users run in one task, except for a reader of a body that outlives the
/// response. The lock is held for single calls only.
pub(super) type SharedActivity = Arc<Mutex<Activity>>;

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

    const TIMEOUTS: Timeouts = Timeouts {
        handshake: Duration::from_secs(10),
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
        read_pace: Duration::from_secs(5),
        park: Duration::from_secs(1),
        linger: Duration::from_secs(2),
        stop: Duration::from_secs(8),
    };

    /// A second, and what happens at it.
    type Step = (u64, fn(&mut Activity, Instant));

    /// Returns what happens to a connection that did `steps` (each at its second) when its timer fires at `second`.
    fn action_at(second: u64, steps: &[Step]) -> TimerAction {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        for (at, step) in steps {
            step(&mut activity, start + Duration::from_secs(*at));
        }
        match activity.timer_action(start + Duration::from_secs(second), &TIMEOUTS, 0) {
            // Seconds after the start are easier to read in a table than instants.
            TimerAction::Wait(until) => TimerAction::Wait(Instant::from_std(epoch() + (until - start))),
            other => other,
        }
    }

    fn epoch() -> std::time::Instant {
        static EPOCH: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        *EPOCH.get_or_init(std::time::Instant::now)
    }

    fn wait_until(second: u64) -> TimerAction {
        TimerAction::Wait(Instant::from_std(epoch() + Duration::from_secs(second)))
    }

    fn bytes(activity: &mut Activity, now: Instant) {
        activity.bytes_arrived(|| now);
    }

    fn request(activity: &mut Activity, _: Instant) {
        activity.begin_request();
    }

    fn read_request(activity: &mut Activity, now: Instant) {
        activity.begin_request();
        activity.begin_client_check(Version::HTTP_11, now);
    }

    fn answer(activity: &mut Activity, _: Instant) {
        activity.client_check = None;
    }

    fn upload(activity: &mut Activity, _: Instant) {
        let request = activity.begin_request();
        activity.request_body.set(BodyState::Open, request);
    }

    fn read(activity: &mut Activity, _: Instant) {
        activity.request_body.set(BodyState::Consumed, activity.request_body.request);
    }

    fn earlier_read(activity: &mut Activity, _: Instant) {
        activity.request_body.set(BodyState::Consumed, activity.request_body.request - 1);
    }

    fn dropped(activity: &mut Activity, _: Instant) {
        activity.request_body.abandon(activity.request_body.request);
    }

    fn blocked(activity: &mut Activity, now: Instant) {
        activity.wrote(0, || now);
    }

    fn took_64_kib(activity: &mut Activity, now: Instant) {
        activity.wrote(64 * 1024, || now);
    }

    fn took_little(activity: &mut Activity, now: Instant) {
        activity.wrote(1000, || now);
    }

    fn ends(activity: &mut Activity, _: Instant) {
        activity.end_response();
    }

    fn flushed(activity: &mut Activity, now: Instant) {
        activity.flushed(|| now);
    }

    #[test]
    fn each_phase_has_its_own_timeout() {
        use TimerAction::{Close, Park};
        type Case<'a> = (&'a str, u64, &'a [Step], TimerAction);
        let cases: &[Case<'_>] = &[
            ("fresh", 0, &[], wait_until(1)),
            ("still idle", 1, &[], Park),
            ("a head that trickles counts from its first byte", 9, &[(0, bytes), (5, bytes)], wait_until(10)),
            ("a slow head", 10, &[(0, bytes), (9, bytes)], Close("sending the request head")),
            ("a request under way may take its time", 100, &[(0, bytes), (1, request)], wait_until(101)),
            ("the client of an answered read is not checked", 5, &[(1, read_request), (2, answer)], wait_until(6)),
            ("body bytes are no head", 100, &[(1, request), (2, bytes)], wait_until(101)),
            ("an answer not yet flushed", 50, &[(1, request), (2, ends)], wait_until(51)),
            ("idle again", 50, &[(1, request), (2, ends), (50, flushed)], wait_until(51)),
            ("a second head", 59, &[(1, request), (2, ends), (2, flushed), (50, bytes)], wait_until(60)),
            ("flushing inside an answer is not its end", 50, &[(1, request), (2, flushed)], wait_until(51)),
            ("a body that may still be read", 50, &[(1, upload), (2, ends), (2, flushed)], wait_until(51)),
            ("late bytes of it are no head", 50, &[(1, upload), (2, ends), (2, flushed), (9, bytes)], wait_until(51)),
            ("a body that was dropped", 50, &[(1, upload), (2, ends), (2, flushed), (9, dropped)], wait_until(51)),
            ("a body that was read late", 50, &[(1, upload), (2, ends), (2, flushed), (9, read)], Park),
            ("read, then dropped", 50, &[(1, upload), (2, read), (3, dropped), (4, ends), (5, flushed)], Park),
            (
                "a late report about an earlier body does not concern this one",
                50,
                &[(1, upload), (2, upload), (3, earlier_read), (4, ends), (5, flushed)],
                wait_until(51),
            ),
            ("a client that takes nothing", 6, &[(0, request), (1, blocked), (3, blocked)], Close("taking the answer")),
            (
                "a client that takes little",
                9,
                &[(0, request), (1, blocked), (3, took_little), (3, blocked), (5, took_little), (5, blocked)],
                Close("taking the answer"),
            ),
            ("an answer that does not wait has all the time", 99, &[(0, request), (1, took_little)], wait_until(100)),
            (
                "the end of an answer has no more time than the rest",
                11,
                &[(0, request), (1, blocked), (2, took_64_kib), (2, blocked), (3, ends)],
                Close("taking the answer"),
            ),
            (
                "a client that took its answer",
                11,
                &[(0, request), (1, blocked), (2, took_64_kib), (3, ends), (11, flushed)],
                wait_until(12),
            ),
        ];
        for (name, second, steps, expected) in cases {
            assert_eq!(action_at(*second, steps), *expected, "{name}");
        }
    }

    #[test]
    fn the_client_of_a_read_is_checked_again_and_again() {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        read_request(&mut activity, start);
        assert_eq!(activity.timer_action(start, &TIMEOUTS, 0), TimerAction::Wait(start + CHECK_INTERVAL));
        assert!(activity.due_client_check().is_none());
        for round in 1..4 {
            let now = start + round * CHECK_INTERVAL;
            assert_eq!(activity.timer_action(now, &TIMEOUTS, 0), TimerAction::Wait(now + CHECK_INTERVAL));
            assert!(activity.due_client_check().is_some());
            assert!(activity.due_client_check().is_none());
        }
    }

    #[test]
    fn a_client_that_is_fast_enough_is_checked_again_soon() {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        activity.begin_request();
        activity.wrote(0, || start);
        assert_eq!(activity.timer_action(start, &TIMEOUTS, 0), TimerAction::Wait(start + RECHECK_SLOW));
        assert_eq!(activity.timer_action(start + RECHECK_SLOW, &TIMEOUTS, 7), TimerAction::Close("taking the answer"));
        assert_eq!(activity.deadline(&TIMEOUTS, 0), Some(start + Duration::from_secs(5)));
    }
}

#[cfg(test)]
mod client_tests {
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
