//! One call before it is sent: method, path, parameters, body, and what a repetition of it would do. How each endpoint's
//! call looks is said in `endpoints/`.

use reqwest::Method;
use taskqueue_api::body::{Body, encode};

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
    /// Whether sending it a second time does nothing twice and undoes nothing that others did meanwhile.
    pub(crate) is_repeatable: bool,
    /// How to find out what happened when no answer tells; only calls that change something have this.
    pub(crate) advice: Option<&'static str>,
    /// How long the server is asked to wait for something to happen.
    pub(crate) wait_seconds: Option<u32>,
}

impl Call {
    /// A call that only reads.
    pub(crate) fn read(name: &'static str, path: String) -> Self {
        let (query, body) = (Vec::new(), None);
        Self { name, method: Method::GET, path, query, body, is_repeatable: true, advice: None, wait_seconds: None }
    }

    /// A call that creates something under an identity that the caller chose: asking again gives what is there.
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

    /// What the caller is told when the last try ended with `error`; `earlier_open` is whether an earlier try may have been
    /// done, which a last one that never arrived does not change.
    pub(crate) fn final_error(&self, mut error: Error, earlier_open: bool) -> Error {
        if let Error::Transport { may_have_arrived, .. } = &mut error {
            *may_have_arrived |= earlier_open;
        }
        match self.advice {
            Some(advice) if error.leaves_outcome_open() => {
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
