//! One call before it is sent: method, path, parameters, body, and how often and when it is repeated. The calls of the endpoints
//! are built in `endpoints.rs`.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use reqwest::Method;
use taskqueue_api::body::{Body, encode};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::trace::TraceParent;

use crate::error::Error;

/// A call of the API.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    /// A second request has no second effect and overwrites nothing that others did in between.
    pub(crate) is_repeatable: bool,
    /// What a call that changes something does, as a verb phrase, and the way to find out whether it was done when its answer is lost.
    pub(crate) change: Option<(&'static str, &'static str)>,
    /// The time that the server is asked to wait for a task, or to hold a heartbeat.
    pub(crate) wait_seconds: Option<u32>,
    /// The trace that it belongs to, if not to that of the client.
    pub(crate) trace: Option<TraceParent>,
    /// The largest answer that is read.
    pub(crate) answer_bytes: usize,
}

/// Twice the largest page of a server (docs/reference/http-api.md §7.4).
const ANSWER_BYTES: usize = 2 * PAGE_BYTES;

impl Call {
    /// A call that only reads.
    pub(crate) fn read(path: String) -> Self {
        let (method, query, body, answer_bytes) = (Method::GET, Vec::new(), None, ANSWER_BYTES);
        let (change, wait_seconds, trace) = (None, None, None);
        Self { method, path, query, body, is_repeatable: true, change, wait_seconds, trace, answer_bytes }
    }

    /// A call that creates something under an identity that the caller chose: a repetition returns what exists.
    pub(crate) fn creation(path: String) -> Self {
        Self { method: Method::PUT, ..Self::read(path) }
    }

    /// A call that changes something and is sent once; `advice` says what to do when its outcome is unknown.
    pub(crate) fn change(name: &'static str, method: Method, path: String, advice: &'static str) -> Self {
        Self { method, is_repeatable: false, change: Some((name, advice)), ..Self::read(path) }
    }

    /// A change that is asked for with a POST request.
    pub(crate) fn post(name: &'static str, path: String, advice: &'static str) -> Self {
        Self::change(name, Method::POST, path, advice)
    }

    pub(crate) fn body(self, body: &impl Body) -> Self {
        Self { body: Some(encode(body)), ..self }
    }

    pub(crate) fn query(self, query: Vec<(&'static str, String)>) -> Self {
        Self { query, ..self }
    }

    /// The error of the call when its last try ended with `error`. An earlier try may have been done (`earlier_may_be_done`)
    /// although the last one never arrived.
    pub(crate) fn final_error(&self, mut error: Error, earlier_may_be_done: bool) -> Error {
        if let Error::Transport { may_have_arrived, .. } = &mut error {
            *may_have_arrived |= earlier_may_be_done;
        }
        match self.change {
            Some((call, advice)) if error.may_have_been_done() => {
                Error::OutcomeUnknown { call, advice, cause: Box::new(error) }
            }
            _ => error,
        }
    }
}

/// The limits within which calls are repeated. Pauses double from one try to the next; each is random within the upper half of its range,
/// so that many clients that failed together do not return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The largest number of times that a call is sent, the first time included.
    pub tries: u32,
    /// The pause after the first failure.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for a longer one (`Retry-After`) is not asked again: the call ends with its
    /// error.
    pub longest_pause: Duration,
}

impl Retries {
    /// Every call is sent once.
    pub const NONE: Self = Self { tries: 1, first_pause: Duration::ZERO, longest_pause: Duration::ZERO };

    /// The pause before the next try after `failed` failures; `None` if there is no next try. `asked` is the pause that the
    /// server asked for.
    pub(crate) fn pause(&self, failed: u32, asked: Option<Duration>, random: u16) -> Option<Duration> {
        let asked = asked.unwrap_or_default();
        if failed >= self.tries || asked > self.longest_pause {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(16);
        let upper = self.first_pause.saturating_mul(1 << doublings).min(self.longest_pause);
        let half = upper / 2;
        let drawn = half + half.saturating_mul(random.into()) / u16::MAX.into();
        // What the server asked for is a lower bound.
        Some(asked.max(drawn))
    }
}

impl Default for Retries {
    /// Up to 4 tries within about a second and a half of pauses, or up to half a minute if the server asks for that.
    fn default() -> Self {
        Self { tries: 4, first_pause: Duration::from_millis(200), longest_pause: Duration::from_secs(10) }
    }
}

/// A random number; not good enough for secrets.
pub(crate) fn random_u16() -> u16 {
    RandomState::new().hash_one(()) as u16
}

/// Returns the path of a queue. Names hold nothing that a URL would have to encode (docs/reference/http-api.md §1.2).
pub(crate) fn queue_path(template: &str, queue: &QueueName) -> String {
    template.replace("{queue}", queue.as_str())
}

/// Returns the path of a task.
pub(crate) fn task_path(template: &str, queue: &QueueName, id: TaskId) -> String {
    queue_path(template, queue).replace("{task_id}", id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_try_that_never_arrived_does_not_hide_an_earlier_one_that_may_have() {
        let lost = |may_have_arrived| Error::Transport { message: "gone".to_owned(), may_have_arrived };
        let creation = Call::creation(String::new());
        assert_eq!(creation.final_error(lost(false), true), lost(true));
        assert_eq!(creation.final_error(lost(false), false), lost(false));

        let claim = Call::post("claim it", String::new(), "look");
        assert_eq!(claim.final_error(lost(false), false), lost(false));
        let Error::OutcomeUnknown { cause, advice: "look", .. } = claim.final_error(lost(false), true) else {
            panic!("an earlier try may have been done");
        };
        assert_eq!(*cause, lost(true));
    }

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    const RETRIES: Retries = Retries { tries: 5, first_pause: millis(100), longest_pause: millis(1000) };

    #[test]
    fn pauses_double_within_their_bounds_and_end_with_the_last_try() {
        let bounds = |failed| (RETRIES.pause(failed, None, 0), RETRIES.pause(failed, None, u16::MAX));
        assert_eq!(bounds(1), (Some(millis(50)), Some(millis(100))));
        assert_eq!(bounds(2), (Some(millis(100)), Some(millis(200))));
        assert_eq!(bounds(4), (Some(millis(400)), Some(millis(800))));
        assert_eq!(bounds(5), (None, None));
        let many = Retries { tries: u32::MAX, ..RETRIES };
        assert_eq!(many.pause(u32::MAX - 1, None, u16::MAX), Some(millis(1000)));
        assert_eq!(Retries::NONE.pause(1, None, 0), None);
    }

    #[test]
    fn what_the_server_asks_for_is_honoured_or_not_waited_for_at_all() {
        assert_eq!(RETRIES.pause(1, Some(millis(700)), 0), Some(millis(700)));
        assert_eq!(RETRIES.pause(1, Some(millis(10)), 0), Some(millis(50)));
        assert_eq!(RETRIES.pause(1, Some(millis(1000)), 0), Some(millis(1000)));
        assert_eq!(RETRIES.pause(1, Some(millis(1001)), 0), None);
    }
}
