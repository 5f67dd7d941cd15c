//! Calls of the commands for tasks: concurrent ones with an upper limit, so that the server stays responsive and memory bounded; what their
//! results mean for one task among many; and how long a command that waits goes on while the server does not answer, and what it says.

use std::future::Future;
use std::time::Duration;

use taskqueue_client::{Error, ErrorCode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::failure::{CommandError, Failure, proxy_without_server, root_cause};

/// Enough that the server can commit many with one sync of its disk.
const CALLS_MAX: usize = 64;

/// Running calls. `T` is the result of one.
#[derive(Debug)]
pub(super) struct ConcurrentCalls<T> {
    pub(super) running: JoinSet<T>,
    max: usize,
}

impl<T: Send + 'static> ConcurrentCalls<T> {
    pub(super) fn new() -> Self {
        Self::of_at_most(CALLS_MAX)
    }

    /// For calls that are larger than most.
    pub(super) fn of_at_most(max: usize) -> Self {
        Self { running: JoinSet::new(), max }
    }

    /// Starts a call. At the limit it first waits for another call to end and returns its result.
    pub(super) async fn start(&mut self, call: impl Future<Output = T> + Send + 'static) -> Result<Option<T>, Failure> {
        let ended = if self.running.len() >= self.max { self.next().await? } else { None };
        self.running.spawn(call);
        Ok(ended)
    }

    /// Waits until one call has ended; `None` if no call is running.
    pub(super) async fn next(&mut self) -> Result<Option<T>, Failure> {
        let ended = self.running.join_next().await.transpose();
        ended.map_err(|error| Failure::Refused(format!("a call was aborted: {error}; this is a bug")))
    }
}

/// Returns what receives Ctrl-C, for commands that say how far they came.
pub(super) fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(Failure::because("signals cannot be received"))
}

/// The error of a call for one task among many.
#[derive(Debug)]
pub(super) enum TaskError {
    /// The state of the task does not allow the change, which is normal among many tasks.
    Skipped(ErrorCode),
    /// Refused for another reason.
    Refused(Error),
    /// Every other call would fail, too: the server or the queue is not there, or the token is wrong.
    Fatal(Error),
}

impl TaskError {
    pub(super) fn of(error: Error) -> Self {
        use ErrorCode::{TaskNotFound, TaskRunning, TaskStateConflict};
        match (&error, error.code()) {
            (Error::Api { .. }, Some(code @ (TaskStateConflict | TaskRunning | TaskNotFound))) => Self::Skipped(code),
            (Error::Api { status: 409 | 413 | 422, .. }, _) => Self::Refused(error),
            _ => Self::Fatal(error),
        }
    }
}

/// Enough for a server to restart.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A request that is not answered for so long when the time is over counts as unanswered, unless others took as long. Shorter
/// ones are just on their way.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// How well the server answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outage {
    has_answered: bool,
    /// Since when an answer is awaited: the start of the requests, or the latest answer to one of them.
    asked: Option<Instant>,
    /// The longest time that an answer took.
    slowest: Duration,
    /// Since when there was no answer, once a request has failed.
    since: Option<Instant>,
    failures: u32,
    /// Whether the latest failure was an answer: the server is there, but does not work.
    was_reached: bool,
}

impl Outage {
    /// Begins one or more requests.
    pub(super) fn ask(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Counts the answer to one of the requests; others may follow.
    pub(super) fn answered(&mut self, now: Instant) {
        let time = self.asked.map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        *self = Self { has_answered: true, asked: Some(now), slowest: self.slowest.max(time), ..Self::default() };
    }

    /// Counts the last answer to the requests.
    pub(super) fn all_answered(&mut self, now: Instant) {
        self.answered(now);
        self.asked = None;
    }

    /// Counts a failed request. Returns the pause before the next, or `None` if it is time to give up.
    fn failed(&mut self, error: &Error, now: Instant) -> Option<Duration> {
        let since = *self.since.get_or_insert(self.asked.unwrap_or(now));
        self.asked = None;
        self.was_reached = matches!(error, Error::Api { .. });
        self.failures = self.failures.saturating_add(1);
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.saturating_sub(1).min(10)).min(PAUSE_MAX);
        (now.saturating_duration_since(since) < PATIENCE).then_some(pause)
    }

    /// Returns the pause before the next try and, at the first failure since the server answered, what to say; or the error, if it never
    /// helps to wait or it is time to give up.
    pub(super) fn after(
        &mut self,
        url: &str,
        error: CommandError,
        now: Instant,
    ) -> Result<(Duration, Option<String>), CommandError> {
        let CommandError::Call(error) = error else { return Err(error) };
        if !is_temporary(&error) {
            return Err(error.into());
        }
        match self.failed(&error, now) {
            Some(pause) => Ok((pause, (self.failures == 1).then(|| outage_note(url, &error)))),
            None => Err(error.into()),
        }
    }

    /// Returns whether the server was out of reach when the time was over. A server that always takes long to answer is not.
    pub(super) fn is_away(&self, now: Instant) -> bool {
        let answer_time = ANSWER_TIME.max(self.slowest * 2);
        let is_unanswered = |asked: Instant| now.saturating_duration_since(asked) >= answer_time;
        match self.since {
            Some(_) => !self.was_reached,
            None => self.asked.is_some_and(|asked| !self.has_answered || is_unanswered(asked)),
        }
    }
}

/// Returns what is said when the server stops answering.
fn outage_note(url: &str, error: &Error) -> String {
    let text = error.to_string();
    let state = match error {
        Error::Protocol { message, .. } if error.is_proxy_without_server() => {
            return format!("{}; waiting for it", proxy_without_server(url, message));
        }
        Error::Api { .. } => "cannot answer now",
        _ => "does not answer",
    };
    format!("the server at {url} {state} ({}); waiting for it", root_cause(&text))
}

/// Returns whether the same request may succeed later.
fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Transport { .. } => true,
        Error::Api { status, .. } | Error::Protocol { status, .. } => matches!(status, 408 | 429 | 500..=599),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Error {
        Error::Transport { message: "gone".to_owned(), may_have_arrived: false }
    }

    #[test]
    fn pauses_grow_until_patience_ends_and_an_answer_restores_it() {
        let (start, mut outage) = (Instant::now(), Outage::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        outage.ask(start);
        assert_eq!(outage.failed(&lost(), start), Some(PAUSE_MIN));
        assert_eq!(outage.failures, 1);
        outage.ask(at(1));
        assert_eq!(outage.failed(&lost(), at(1)), Some(PAUSE_MIN * 2));
        assert_eq!(outage.failures, 2);
        for _ in 0..20 {
            outage.ask(at(2));
            assert!(outage.failed(&lost(), at(29)).is_some_and(|pause| pause <= PAUSE_MAX));
        }
        assert_eq!(outage.failed(&lost(), at(30)), None);
        outage.answered(at(60));
        assert_eq!(outage.failed(&lost(), at(60)), Some(PAUSE_MIN));
        let mut hanging = Outage::default();
        hanging.ask(start);
        assert_eq!(hanging.failed(&lost(), at(30)), None, "one request took all the time");
    }

    #[test]
    fn many_requests_are_measured_from_the_latest_answer() {
        let (start, mut outage) = (Instant::now(), Outage::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        outage.ask(start);
        for seconds in 0..40 {
            outage.answered(at(seconds));
        }
        assert!(!outage.is_away(at(40)), "the latest answer came a moment ago");
        assert_eq!(outage.failed(&lost(), at(40)), Some(PAUSE_MIN), "one of many requests failed");
        assert!(outage.is_away(at(40)));
    }

    #[test]
    fn a_server_is_away_if_it_was_never_reached_or_does_not_answer_any_more() {
        let start = Instant::now();
        let later = start + ANSWER_TIME;
        let mut outage = Outage::default();
        outage.ask(start);
        assert!(outage.is_away(start), "never answered");
        outage.all_answered(start);
        assert!(!outage.is_away(later), "between two requests");
        outage.ask(start);
        assert!(!outage.is_away(start), "on its way");
        assert!(outage.is_away(later), "unanswered");
        let mut slow = outage;
        slow.all_answered(start + ANSWER_TIME * 2);
        slow.ask(later);
        assert!(!slow.is_away(later + ANSWER_TIME * 3), "it always takes long");
        assert!(slow.is_away(later + ANSWER_TIME * 4), "it never took so long");
        outage.failed(&lost(), start);
        assert!(outage.is_away(start));
    }

    #[test]
    fn an_overloaded_or_broken_server_may_recover_and_a_refusal_stays() {
        let answer = |status| Error::Protocol { status, message: String::new(), from_taskqueue: false };
        assert!(is_temporary(&lost()));
        for status in [408, 429, 500, 502, 503, 504, 599] {
            assert!(is_temporary(&answer(status)), "{status}");
        }
        for status in [200, 400, 401, 404, 422] {
            assert!(!is_temporary(&answer(status)), "{status}");
        }
    }

    #[test]
    fn the_note_of_an_outage_says_who_answers() {
        let page = |status| Error::Protocol { status, message: "status".to_owned(), from_taskqueue: false };
        let note = |error| outage_note("http://x", &error);
        assert_eq!(note(page(502)), "a proxy at http://x does not reach the server (status); waiting for it");
        assert_eq!(note(page(500)), "the server at http://x does not answer (status); waiting for it");
        assert_eq!(note(lost()), "the server at http://x does not answer (gone); waiting for it");
    }
}
