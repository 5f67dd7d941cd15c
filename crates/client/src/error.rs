//! The errors of a call, as far as callers distinguish them. None of them holds the token.

use std::time::Duration;

use taskqueue_api::ErrorCode;
use taskqueue_api::error::Code;
use taskqueue_core::json::{Found, JsonObject, lookup};
use taskqueue_core::status::RunEnd;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the call, now or for good. Nothing was changed.
    #[error("{message} ({code})")]
    Api {
        /// The HTTP status.
        status: u16,
        /// What to branch on.
        code: Code,
        /// What to do, for people.
        message: String,
        /// Informative.
        details: JsonObject,
        /// After how long the server asks for the next try.
        retry_after: Option<Duration>,
    },
    /// The server was not reached, the connection broke, or the request timed out.
    #[error("{message}")]
    Transport {
        /// What went wrong.
        message: String,
        /// Whether the server may have received the request.
        may_have_arrived: bool,
    },
    /// The answer is invalid: this is no server of this API, a proxy that does not reach it, or a broken one.
    #[error("the answer is not valid: {message}")]
    Protocol {
        /// The HTTP status.
        status: u16,
        /// What is wrong with the answer.
        message: String,
        /// Whether the answer has the version that a server of this API sends with each. Without it, another program has answered.
        from_taskqueue: bool,
    },
    /// The call was sent and its answer was lost, so it may have been done or not. It was not repeated.
    #[error("it is unknown whether the call to {call} was done: {cause}; {advice}")]
    OutcomeUnknown {
        /// What the call does, such as `cancel the task`.
        call: &'static str,
        /// How to find out.
        advice: &'static str,
        /// Why there is no answer.
        #[source]
        cause: Box<Self>,
    },
}

impl Error {
    /// The code of the server's answer, if it has one that this client knows; for an unknown outcome, that of its cause.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api { code: Code::Known(code), .. } => Some(*code),
            Self::OutcomeUnknown { cause, .. } => cause.code(),
            _ => None,
        }
    }

    /// What has ended the run, if the server refuses a call because the run has ended.
    pub fn run_end(&self) -> Option<RunEnd> {
        match self {
            Self::Api { code: Code::Known(ErrorCode::RunFinalized), details, .. } => {
                match lookup(details.as_str(), &["action"])? {
                    Found::Str(word) => RunEnd::parse(&word.to_text()),
                    _ => None,
                }
            }
            Self::OutcomeUnknown { cause, .. } => cause.run_end(),
            _ => None,
        }
    }

    /// Whether the call may have been done although it failed.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    /// Whether a batch was refused as a whole for a reason that the single requests may not have: the server, or something before
    /// it, takes no batches, or not this one. Nothing was done.
    pub fn is_no_batch(&self) -> bool {
        let (status, is_about_queue) = match self {
            Self::Api { status, code, .. } => (*status, *code == Code::Known(ErrorCode::QueueNotFound)),
            Self::Protocol { status, .. } => (*status, false),
            _ => return false,
        };
        // Proxies answer 408 and 429 when the call should be repeated later.
        (400..500).contains(&status) && !matches!(status, 401 | 403 | 408 | 429) && !is_about_queue
    }

    /// Whether a proxy has answered in place of the server, because it does not reach it. For an unknown outcome, whether its cause
    /// is that.
    pub fn is_proxy_without_server(&self) -> bool {
        match self {
            Self::Protocol { status: 502..=504, from_taskqueue: false, .. } => true,
            Self::OutcomeUnknown { cause, .. } => cause.is_proxy_without_server(),
            _ => false,
        }
    }

    /// Whether the same call may succeed a little later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Transport { .. } => true,
            Self::Api { status, .. } | Self::Protocol { status, .. } => *status == 503,
            Self::OutcomeUnknown { .. } => false,
        }
    }

    /// Whether the server may have done the call. A 4xx answer is a refusal, a 3xx answer does not come from this API, and
    /// `database_busy` means that nothing was done; after every other failure it is unknown.
    pub(crate) fn may_have_been_done(&self) -> bool {
        match self {
            Self::Transport { may_have_arrived, .. } => *may_have_arrived,
            Self::Api { code: Code::Known(ErrorCode::DatabaseBusy), .. } => false,
            Self::Api { status, .. } | Self::Protocol { status, .. } => !(300..500).contains(status),
            Self::OutcomeUnknown { .. } => true,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Api { retry_after, .. } = self { *retry_after } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(status: u16, code: &str) -> Error {
        Error::Api {
            status,
            code: code.into(),
            message: String::new(),
            details: JsonObject::empty(),
            retry_after: None,
        }
    }

    #[test]
    fn a_batch_is_taken_apart_when_only_its_form_is_refused() {
        let page = |status| Error::Protocol { status, message: String::new(), from_taskqueue: false };
        for error in
            [api(404, "not_found"), api(405, "method_not_allowed"), api(422, "invalid_request"), page(404), page(413)]
        {
            assert!(error.is_no_batch(), "{error:?}");
        }
        let lost = Error::Transport { message: String::new(), may_have_arrived: true };
        let unknown = Error::OutcomeUnknown { call: "", advice: "", cause: Box::new(lost.clone()) };
        let others =
            [api(401, "unauthorized"), api(403, "forbidden"), api(404, "queue_not_found"), api(429, "slow_down")];
        for error in [api(503, "database_busy"), page(200), page(502), lost, unknown].into_iter().chain(others) {
            assert!(!error.is_no_batch(), "{error:?}");
        }
    }

    #[test]
    fn a_proxy_is_known_by_its_status_and_by_the_missing_version_of_a_server() {
        let answer = |status, from_taskqueue| Error::Protocol { status, message: String::new(), from_taskqueue };
        for status in [502, 503, 504] {
            assert!(answer(status, false).is_proxy_without_server(), "{status}");
            assert!(!answer(status, true).is_proxy_without_server(), "{status}");
            let unknown = Error::OutcomeUnknown { call: "", advice: "", cause: Box::new(answer(status, false)) };
            assert!(unknown.is_proxy_without_server(), "{status}");
        }
        for error in [answer(200, false), answer(404, false), answer(500, false), api(503, "database_busy")] {
            assert!(!error.is_proxy_without_server(), "{error:?}");
        }
    }
}
