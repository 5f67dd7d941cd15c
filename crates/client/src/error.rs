//! What can go wrong with a call, in the ways that callers want to tell apart. Nothing here holds the token.

use std::time::Duration;

use taskqueue_api::ErrorCode;
use taskqueue_api::error::Code;
use taskqueue_core::json::JsonObject;

/// Why a call did not give what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server said no, or not now. For a call that changes something this means that nothing was changed.
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
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The server was not reached, or the connection broke, or the time was over.
    #[error("{message}")]
    Transport {
        /// What went wrong.
        message: String,
        /// Whether the server may have got the request; `false` means that it certainly did not.
        may_have_arrived: bool,
    },
    /// An answer came that makes no sense: this is no server of this API, or a broken one.
    #[error("the answer makes no sense: {message}")]
    Protocol {
        /// The HTTP status.
        status: u16,
        /// What is wrong with the answer.
        message: String,
    },
    /// The call may have been done or not: it was sent, and no answer tells. It was not repeated.
    #[error("it is unknown whether the call to {call} was done: {cause}; {advice}")]
    OutcomeUnknown {
        /// What was to be done, such as `cancel the task`.
        call: &'static str,
        /// How to find out.
        advice: &'static str,
        /// What became of the answer.
        #[source]
        cause: Box<Self>,
    },
}

impl Error {
    /// The code of the server's answer, if there was one and this client knows it; also of an unknown outcome's cause.
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
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Transport { .. } => true,
            Self::Api { status, .. } | Self::Protocol { status, .. } => *status == 503,
            Self::OutcomeUnknown { .. } => false,
        }
    }

    /// Whether the server may have done what it was asked to do. A 4xx answer is a refusal, a 3xx answer comes from somebody
    /// else, and `database_busy` says that nothing was done; every other failure of a server leaves it open.
    pub(crate) fn leaves_outcome_open(&self) -> bool {
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
