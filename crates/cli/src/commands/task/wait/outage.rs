//! How long a wait goes on while the server does not answer. Pure: time is an argument.

use std::time::Duration;

use taskqueue_client::Error;
use tokio::time::Instant;

/// Enough for a server to restart.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A request that is not answered for so long when the time is over counts as unanswered. Shorter ones are just on their
/// way.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What is known about the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outage {
    has_answered: bool,
    /// When the first of the requests began that failed since the last answer.
    since: Option<Instant>,
    failures: u32,
    /// Whether the latest failure was an answer: the server is there, but does not work.
    was_reached: bool,
}

impl Outage {
    pub(super) fn answered(&mut self) {
        *self = Self { has_answered: true, ..Self::default() };
    }

    /// A request that began then has failed. Gives the pause before the next, or nothing if it is time to give up.
    pub(super) fn failed(&mut self, error: &Error, began: Instant, now: Instant) -> Option<Duration> {
        let since = *self.since.get_or_insert(began);
        self.was_reached = matches!(error, Error::Api { .. });
        self.failures = self.failures.saturating_add(1);
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.saturating_sub(1).min(10)).min(PAUSE_MAX);
        (now.saturating_duration_since(since) < PATIENCE).then_some(pause)
    }

    /// Whether this is the first failure since the server answered.
    pub(super) fn is_new(&self) -> bool {
        self.failures == 1
    }

    /// Whether the server was out of reach when the time was over, during a request that began then or between two.
    pub(super) fn is_away(&self, request_began: Option<Instant>, now: Instant) -> bool {
        let is_unanswered = |began: Instant| now.saturating_duration_since(began) >= ANSWER_TIME;
        match self.since {
            Some(_) => !self.was_reached,
            None => request_began.is_some_and(|began| !self.has_answered || is_unanswered(began)),
        }
    }
}

/// Whether the same request may succeed later.
pub(super) fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Transport { .. } => true,
        Error::Api { status, .. } | Error::Protocol { status, .. } => matches!(status, 502..=504),
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
        assert_eq!(outage.failed(&lost(), start, start), Some(PAUSE_MIN));
        assert!(outage.is_new());
        assert_eq!(outage.failed(&lost(), at(1), at(1)), Some(PAUSE_MIN * 2));
        assert!(!outage.is_new());
        for _ in 0..20 {
            assert!(outage.failed(&lost(), at(2), at(29)).is_some_and(|pause| pause <= PAUSE_MAX));
        }
        assert_eq!(outage.failed(&lost(), at(29), at(30)), None);
        outage.answered();
        assert_eq!(outage.failed(&lost(), at(60), at(60)), Some(PAUSE_MIN));
        let mut hanging = Outage::default();
        assert_eq!(hanging.failed(&lost(), start, at(30)), None, "one request took all the time");
    }

    #[test]
    fn a_server_is_away_if_it_was_never_reached_or_does_not_answer_any_more() {
        let start = Instant::now();
        let later = start + ANSWER_TIME;
        let mut outage = Outage::default();
        assert!(outage.is_away(Some(start), start), "never answered");
        outage.answered();
        assert!(!outage.is_away(None, later), "between two requests");
        assert!(!outage.is_away(Some(start), start), "on its way");
        assert!(outage.is_away(Some(start), later), "unanswered");
        outage.failed(&lost(), start, start);
        assert!(outage.is_away(None, start));
        let busy = Error::Protocol { status: 503, message: String::new() };
        assert!(is_temporary(&busy) && is_temporary(&lost()));
    }
}
