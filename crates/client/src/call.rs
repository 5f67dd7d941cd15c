//! One call before it is sent: method, path, parameters, body, and whether it may be repeated. The calls of the endpoints are
//! built in `endpoints/`.

use reqwest::Method;
use taskqueue_api::body::{Body, encode};
use taskqueue_core::limits::PAGE_BYTES;

use crate::error::Error;

/// A call of the API.
#[derive(Debug)]
pub(crate) struct Call {
    /// What it does, as a verb phrase.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    /// Whether a second request has no second effect and overwrites nothing that others did in between.
    pub(crate) is_repeatable: bool,
    /// How to find out whether the call was done when its answer is lost; only for calls that change something.
    pub(crate) advice: Option<&'static str>,
    /// How long the server is asked to wait for a task, or to hold a heartbeat.
    pub(crate) wait_seconds: Option<u32>,
    /// The largest answer that is read.
    pub(crate) answer_bytes: usize,
}

/// Twice the largest page of a server (docs/reference/http-api.md §7.4).
const ANSWER_BYTES: usize = 2 * PAGE_BYTES;

impl Call {
    /// A call that only reads.
    pub(crate) fn read(name: &'static str, path: String) -> Self {
        let (query, body) = (Vec::new(), None);
        let (method, answer_bytes) = (Method::GET, ANSWER_BYTES);
        Self { name, method, path, query, body, is_repeatable: true, advice: None, wait_seconds: None, answer_bytes }
    }

    /// A call that creates something under an identity that the caller chose: a repetition returns what exists.
    pub(crate) fn creation(name: &'static str, path: String) -> Self {
        Self { method: Method::PUT, ..Self::read(name, path) }
    }

    /// A call that changes something and is sent once; `advice` says what to do when its outcome is unknown.
    pub(crate) fn change(name: &'static str, method: Method, path: String, advice: &'static str) -> Self {
        Self { method, is_repeatable: false, advice: Some(advice), ..Self::read(name, path) }
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
        match self.advice {
            Some(advice) if error.may_have_been_done() => {
                Error::OutcomeUnknown { call: self.name, advice, cause: Box::new(error) }
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_try_that_never_arrived_does_not_hide_an_earlier_one_that_may_have() {
        let lost = |may_have_arrived| Error::Transport { message: "gone".to_owned(), may_have_arrived };
        let creation = Call::creation("create it", String::new());
        assert_eq!(creation.final_error(lost(false), true), lost(true));
        assert_eq!(creation.final_error(lost(false), false), lost(false));

        let claim = Call::change("claim it", Method::POST, String::new(), "look");
        assert_eq!(claim.final_error(lost(false), false), lost(false));
        let Error::OutcomeUnknown { cause, advice: "look", .. } = claim.final_error(lost(false), true) else {
            panic!("an earlier try may have been done");
        };
        assert_eq!(*cause, lost(true));
    }
}
