//! What a connection is doing and how long it may go on doing so. Nothing here waits or looks at a clock:
//! `now` is an argument, so every timeout can be told from a table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use super::client_check::{LOOK_INTERVAL, Read};
use super::send_pace::BlockedSend;
use crate::config::Timeouts;

/// How soon to look again at a connection that waits for nothing but us.
const RECHECK: Duration = Duration::from_secs(1);

/// How soon to look again at a client that takes its answer slowly: room may become scarce in the meantime.
const RECHECK_SLOW: Duration = Duration::from_millis(100);

/// Where a connection stands between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing of a request is here.
    Idle,
    /// Some bytes of a request head are here.
    Head,
    /// A request is being answered.
    Request,
    /// The answer is complete, but its last bytes may not have left yet.
    Flushing,
}

/// Which request of a connection.
pub(super) type RequestNumber = u64;

/// How far hyper is with the body of the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestBody {
    /// There was none, or hyper is behind it: what comes next is a request.
    Over,
    /// Somebody may still read it, perhaps when the answer is out already.
    Open,
    /// Nobody wants it any more. At its next turn hyper reads over what is left, or gives the connection up.
    Dropped,
}

/// What is to be done about a connection when its timer rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing before that instant.
    Wait(Instant),
    /// It is idle: let go of its buffers.
    Park,
    /// It has been too slow; the text says with what.
    Close(&'static str),
}

/// What a connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    phase: Phase,
    /// When the phase began.
    since: Instant,
    /// An answer that the client has not taken at once.
    waiting: Option<BlockedSend>,
    /// Whether an answer has ended whose last bytes may not have left yet.
    unsent: bool,
    /// The last request. Whoever reads the body of an earlier one may be late to say so.
    request: RequestNumber,
    body: RequestBody,
    /// The request under way, if it is a read that is not answered yet.
    read: Option<Read>,
    /// The status of an answer that hyper wrote on its own account.
    refused_status: Option<u16>,
}

impl Activity {
    fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Idle,
            since: now,
            waiting: None,
            unsent: false,
            request: 0,
            body: RequestBody::Over,
            read: None,
            refused_status: None,
        }
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    /// Bytes arrived. Between requests they are the beginning of a head; otherwise they belong to a body.
    pub(super) fn bytes_arrived(&mut self, now: Instant) {
        if self.phase == Phase::Idle && self.body == RequestBody::Over {
            self.enter(Phase::Head, now);
        }
    }

    /// A head is complete.
    pub(super) fn request_begins(&mut self, now: Instant) -> RequestNumber {
        self.request += 1;
        self.body = RequestBody::Over;
        self.enter(Phase::Request, now);
        self.request
    }

    /// The request is a read: it is dropped when its client has gone.
    pub(super) fn read_begins(&mut self, version: Version, now: Instant) {
        self.read = Some(Read::new(version, now));
    }

    /// The answer is there.
    pub(super) fn answer_begins(&mut self) {
        self.read = None;
    }

    /// The read whose client is to be looked for now.
    pub(super) fn read_to_look_at(&mut self) -> Option<&mut Read> {
        self.read.as_mut().and_then(|read| read.take_due().then_some(read))
    }

    /// Whether a read is under way whose client has gone.
    pub(super) fn client_is_gone(&self) -> bool {
        self.read.is_some_and(|read| read.client_is_gone())
    }

    /// Whether no request is under way: there is none, or only a part of its head, or its answer has left.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Head)
    }

    /// Whether the answer has left, but not the whole body has come.
    pub(super) fn is_skipping_body(&self) -> bool {
        self.phase == Phase::Idle && self.body != RequestBody::Over
    }

    /// A body follows the head.
    pub(super) fn body_begins(&mut self, request: RequestNumber) {
        self.body_becomes(RequestBody::Open, request);
    }

    /// Hyper is behind the body.
    pub(super) fn body_ends(&mut self, request: RequestNumber) {
        self.body_becomes(RequestBody::Over, request);
    }

    /// Nobody wants what is left of the body, if anything is.
    pub(super) fn body_is_dropped(&mut self, request: RequestNumber) {
        if self.body == RequestBody::Open {
            self.body_becomes(RequestBody::Dropped, request);
        }
    }

    /// The request whose body nobody wants any more, if there is one. When hyper has had another turn since and goes on
    /// with the connection, that body has ended.
    pub(super) fn with_dropped_body(&self) -> Option<RequestNumber> {
        (self.body == RequestBody::Dropped).then_some(self.request)
    }

    fn body_becomes(&mut self, body: RequestBody, request: RequestNumber) {
        if request == self.request {
            self.body = body;
        }
    }

    /// The last byte of an answer is on its way.
    pub(super) fn response_ends(&mut self, now: Instant) {
        self.unsent = true;
        self.enter(Phase::Flushing, now);
    }

    /// Everything written so far has left.
    pub(super) fn flushed(&mut self, now: Instant) {
        self.unsent = false;
        self.waiting = None;
        if self.phase == Phase::Flushing {
            self.enter(Phase::Idle, now);
        }
    }

    /// The client took so many bytes, or none.
    pub(super) fn wrote(&mut self, bytes: usize, now: Instant) {
        match &mut self.waiting {
            Some(waiting) if bytes > 0 => waiting.took(bytes, now),
            None if bytes == 0 => self.waiting = Some(BlockedSend::begin(now)),
            _ => {}
        }
    }

    /// Whether an answer waits for its client.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether nothing of a request is here.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether bytes that arrive now are a request head.
    pub(super) fn is_in_head(&self) -> bool {
        self.phase == Phase::Head
    }

    /// Whether hyper holds nothing of an earlier exchange: every answer has left (one request may begin before the answer to
    /// the last one has), and no body is under way.
    pub(super) fn is_settled(&self) -> bool {
        !self.unsent && self.body == RequestBody::Over
    }

    /// When the phase began.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Whether an answer is being written. If not, bytes to be written are an answer of hyper's own.
    pub(super) fn is_answering(&self) -> bool {
        matches!(self.phase, Phase::Request | Phase::Flushing)
    }

    /// Hyper refuses what it read, in these words.
    pub(super) fn refused(&mut self, answer: &[u8]) {
        let status = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "));
        let status = status.and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok());
        self.refused_status = self.refused_status.or(status);
    }

    /// The status with which hyper refused what it read, if it did.
    pub(super) fn refused_status(&self) -> Option<u16> {
        self.refused_status
    }

    /// There is no room for this request.
    pub(super) fn refuse_for_room(&mut self) {
        self.refused_status = Some(503);
    }

    /// When somebody should look at this connection, if it is the client's turn. `scarcity` is that of the room for answers.
    pub(super) fn deadline(&self, timeouts: &Timeouts, scarcity: u32) -> Option<Instant> {
        match (self.waiting, self.phase) {
            (Some(waiting), _) => Some(waiting.deadline(timeouts, scarcity)),
            (None, Phase::Idle) if self.body == RequestBody::Over => Some(self.since + timeouts.park),
            (None, Phase::Head) => Some(self.since + timeouts.head),
            (None, Phase::Request) if self.read.is_some() => self.read.map(|read| read.next_look()),
            (None, Phase::Idle | Phase::Request | Phase::Flushing) => None,
        }
    }

    /// What is to be done about this connection now.
    pub(super) fn verdict(&mut self, now: Instant, timeouts: &Timeouts, scarcity: u32) -> Verdict {
        match self.deadline(timeouts, scarcity) {
            None => Verdict::Wait(now + RECHECK),
            Some(deadline) if deadline > now && self.waiting.is_some() => {
                Verdict::Wait(deadline.min(now + RECHECK_SLOW))
            }
            Some(deadline) if deadline > now => Verdict::Wait(deadline),
            Some(_) if self.waiting.is_some() => Verdict::Close("taking the answer"),
            Some(_) if self.phase == Phase::Head => Verdict::Close("sending the request head"),
            Some(_) if self.phase == Phase::Request => {
                self.read.iter_mut().for_each(|read| read.comes_due(now));
                Verdict::Wait(now + LOOK_INTERVAL)
            }
            Some(_) => Verdict::Park,
        }
    }

    /// When a connection that stays idle is closed.
    pub(super) fn idle_deadline(&self, timeouts: &Timeouts) -> Instant {
        self.since + timeouts.idle
    }
}

/// The activity of one connection, seen by all parts of it. They run in one task, except for who reads the rest of a body when
/// the answer is out; nobody holds it for longer than a look.
#[derive(Clone, Debug)]
pub(super) struct SharedActivity(Arc<Mutex<Activity>>);

impl SharedActivity {
    pub(super) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Activity::new(now))))
    }

    /// A look at it, or a change.
    pub(super) fn get(&self) -> MutexGuard<'_, Activity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
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

    /// What happens to a connection that did `steps` (each at its second) when its timer rings at `second`.
    fn verdict_at(second: u64, steps: &[Step]) -> Verdict {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        for (at, step) in steps {
            step(&mut activity, start + Duration::from_secs(*at));
        }
        match activity.verdict(start + Duration::from_secs(second), &TIMEOUTS, 0) {
            // Seconds after the start are easier to read in a table than instants.
            Verdict::Wait(until) => Verdict::Wait(Instant::from_std(epoch() + (until - start))),
            other => other,
        }
    }

    fn epoch() -> std::time::Instant {
        static EPOCH: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        *EPOCH.get_or_init(std::time::Instant::now)
    }

    fn wait_until(second: u64) -> Verdict {
        Verdict::Wait(Instant::from_std(epoch() + Duration::from_secs(second)))
    }

    fn request(activity: &mut Activity, now: Instant) {
        activity.request_begins(now);
    }

    fn read_request(activity: &mut Activity, now: Instant) {
        activity.request_begins(now);
        activity.read_begins(Version::HTTP_11, now);
    }

    fn answer(activity: &mut Activity, _: Instant) {
        activity.answer_begins();
    }

    fn upload(activity: &mut Activity, now: Instant) {
        let request = activity.request_begins(now);
        activity.body_begins(request);
    }

    fn read(activity: &mut Activity, _: Instant) {
        activity.body_ends(activity.request);
    }

    fn earlier_read(activity: &mut Activity, _: Instant) {
        activity.body_ends(activity.request - 1);
    }

    fn dropped(activity: &mut Activity, _: Instant) {
        activity.body_is_dropped(activity.request);
    }

    fn blocked(activity: &mut Activity, now: Instant) {
        activity.wrote(0, now);
    }

    fn took_64_kib(activity: &mut Activity, now: Instant) {
        activity.wrote(64 * 1024, now);
    }

    fn took_little(activity: &mut Activity, now: Instant) {
        activity.wrote(1000, now);
    }

    #[test]
    fn each_phase_has_its_own_timeout() {
        let (bytes, ends, flushed) = (Activity::bytes_arrived, Activity::response_ends, Activity::flushed);
        type Case<'a> = (&'a str, u64, &'a [Step], Verdict);
        let cases: &[Case<'_>] = &[
            ("fresh", 0, &[], wait_until(1)),
            ("still idle", 1, &[], Verdict::Park),
            ("a head that trickles counts from its first byte", 9, &[(0, bytes), (5, bytes)], wait_until(10)),
            ("a slow head", 10, &[(0, bytes), (9, bytes)], Verdict::Close("sending the request head")),
            ("a request under way may take its time", 100, &[(0, bytes), (1, request)], wait_until(101)),
            ("nobody looks for the client of an answered read", 5, &[(1, read_request), (2, answer)], wait_until(6)),
            ("body bytes are no head", 100, &[(1, request), (2, bytes)], wait_until(101)),
            ("an answer not yet flushed", 50, &[(1, request), (2, ends)], wait_until(51)),
            ("idle again", 50, &[(1, request), (2, ends), (50, flushed)], wait_until(51)),
            ("a second head", 59, &[(1, request), (2, ends), (2, flushed), (50, bytes)], wait_until(60)),
            ("flushing inside an answer is not its end", 50, &[(1, request), (2, flushed)], wait_until(51)),
            ("a body that may still be read", 50, &[(1, upload), (2, ends), (2, flushed)], wait_until(51)),
            ("late bytes of it are no head", 50, &[(1, upload), (2, ends), (2, flushed), (9, bytes)], wait_until(51)),
            ("a body that nobody wants", 50, &[(1, upload), (2, ends), (2, flushed), (9, dropped)], wait_until(51)),
            ("a body that was read late", 50, &[(1, upload), (2, ends), (2, flushed), (9, read)], Verdict::Park),
            ("read, then dropped", 50, &[(1, upload), (2, read), (3, dropped), (4, ends), (5, flushed)], Verdict::Park),
            (
                "what is told late of an earlier body is not told of this one",
                50,
                &[(1, upload), (2, upload), (3, earlier_read), (4, ends), (5, flushed)],
                wait_until(51),
            ),
            (
                "a client that takes nothing",
                6,
                &[(0, request), (1, blocked), (3, blocked)],
                Verdict::Close("taking the answer"),
            ),
            (
                "a client that takes little",
                9,
                &[(0, request), (1, blocked), (3, took_little), (3, blocked), (5, took_little), (5, blocked)],
                Verdict::Close("taking the answer"),
            ),
            ("an answer that does not wait has all the time", 99, &[(0, request), (1, took_little)], wait_until(100)),
            (
                "the end of an answer has no more time than the rest",
                11,
                &[(0, request), (1, blocked), (2, took_64_kib), (2, blocked), (3, ends)],
                Verdict::Close("taking the answer"),
            ),
            (
                "a client that took its answer",
                11,
                &[(0, request), (1, blocked), (2, took_64_kib), (3, ends), (11, flushed)],
                wait_until(12),
            ),
        ];
        for (name, second, steps, expected) in cases {
            assert_eq!(verdict_at(*second, steps), *expected, "{name}");
        }
    }

    #[test]
    fn the_client_of_a_read_is_looked_for_again_and_again() {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        read_request(&mut activity, start);
        assert_eq!(activity.verdict(start, &TIMEOUTS, 0), Verdict::Wait(start + LOOK_INTERVAL));
        assert!(activity.read_to_look_at().is_none());
        for round in 1..4 {
            let now = start + round * LOOK_INTERVAL;
            assert_eq!(activity.verdict(now, &TIMEOUTS, 0), Verdict::Wait(now + LOOK_INTERVAL));
            assert!(activity.read_to_look_at().is_some());
            assert!(activity.read_to_look_at().is_none());
        }
    }

    #[test]
    fn a_client_that_is_fast_enough_is_looked_at_again_soon() {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        activity.request_begins(start);
        activity.wrote(0, start);
        assert_eq!(activity.verdict(start, &TIMEOUTS, 0), Verdict::Wait(start + RECHECK_SLOW));
        assert_eq!(activity.verdict(start + RECHECK_SLOW, &TIMEOUTS, 7), Verdict::Close("taking the answer"));
        assert_eq!(activity.deadline(&TIMEOUTS, 0), Some(start + Duration::from_secs(5)));
    }

    #[test]
    fn the_status_of_a_refusal_of_the_http_layer_is_remembered() {
        let cases: [(&[u8], Option<u16>); 4] = [
            (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n", Some(400)),
            (b"HTTP/1.0 431 Request Header Fields Too Large\r\n", Some(431)),
            (b"HTTP/1.1 4", None),
            (b"", None),
        ];
        for (answer, status) in cases {
            let mut activity = Activity::new(Instant::now());
            activity.refused(answer);
            assert_eq!(activity.refused_status(), status);
        }
    }
}
