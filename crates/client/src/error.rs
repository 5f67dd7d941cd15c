//! The errors of a call, as far as callers distinguish them. None of them holds the token.

use std::time::Duration;

use taskqueue_api::ErrorCode;
use taskqueue_api::error::Code;
use taskqueue_core::json::JsonObject;

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
    /// The answer is invalid: this is no server of this API, or a broken one.
    #[error("the answer is not valid: {message}")]
    Protocol {
        /// The HTTP status.
        status: u16,
        /// What is wrong with the answer.
        message: String,
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

    /// Whether the call may have been done although it failed.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
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
