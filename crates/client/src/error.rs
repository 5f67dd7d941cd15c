//! The errors of a call, as far as callers distinguish them, and those of a configuration. None of them holds the token.

use std::time::Duration;

use taskqueue_api::ErrorCode;
use taskqueue_api::error::Code;
use taskqueue_core::json::JsonObject;
use taskqueue_core::status::RunEnd;

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the call, now or for good. Nothing was changed.
    #[error("{message} ({code})")]
    Api {
        /// The HTTP status.
        status: u16,
        /// The code to branch on.
        code: Code,
        /// The advice, for people.
        message: String,
        /// Informative.
        details: JsonObject,
        /// After how long the server asks for the next try.
        retry_after: Option<Duration>,
    },
    /// The server was not reached, the connection broke, or the request timed out.
    #[error("{message}")]
    Transport {
        /// The reason.
        message: String,
        /// The server may have received the request.
        may_have_arrived: bool,
    },
    /// The answer is invalid: this is no server of this API, a proxy that does not reach it, or a broken one.
    #[error("the answer is not valid: {message}")]
    Protocol {
        /// The HTTP status.
        status: u16,
        /// The mistake in the answer.
        message: String,
        /// The answer has the version that a server of this API sends with each. Without it, another program has answered.
        from_taskqueue: bool,
    },
    /// The server lacks an extension of this version. Nothing was asked of it but that.
    #[error("the server has no {missing}; taskqueue {} or newer is needed there: upgrade the server", env!("CARGO_PKG_VERSION"))]
    ServerTooOld {
        /// The name of the extension.
        missing: &'static str,
    },
    /// The call was sent and its answer was lost, so it may have been done or not. It was not repeated.
    #[error("it is unknown whether the call to {call} was done: {cause}; {advice}")]
    OutcomeUnknown {
        /// The action of the call, such as `cancel the task`.
        call: &'static str,
        /// The way to find out.
        advice: &'static str,
        /// The reason for which there is no answer.
        #[source]
        cause: Box<Self>,
    },
}

impl Error {
    /// The error of the call itself, also where it leaves open whether the call was done.
    pub fn origin(&self) -> &Self {
        if let Self::OutcomeUnknown { cause, .. } = self { cause.origin() } else { self }
    }

    /// The code of the server's answer, if it has one that this client knows; for an unknown outcome, that of its cause.
    pub fn code(&self) -> Option<ErrorCode> {
        if let Self::Api { code: Code::Known(code), .. } = self.origin() { Some(*code) } else { None }
    }

    /// The details of the server's answer, if it is a refusal; for an unknown outcome, those of its cause.
    pub fn details(&self) -> Option<&JsonObject> {
        if let Self::Api { details, .. } = self.origin() { Some(details) } else { None }
    }

    /// Returns what has ended the run, if the server refuses a call because the run has ended.
    pub fn run_end(&self) -> Option<RunEnd> {
        self.code().filter(|code| *code == ErrorCode::RunFinalized)?;
        RunEnd::parse(&self.details()?.text("action")?)
    }

    /// Returns whether the call may have been done although it failed.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    /// Returns whether the request was too large, for the server or for a proxy before it. Nothing was done. What a batch has in it can be
    /// sent alone.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Api { status: 413, .. } | Self::Protocol { status: 413, .. })
    }

    /// Returns whether a proxy has answered in place of the server, because it does not reach it. For an unknown outcome, whether its cause
    /// is that.
    pub fn is_proxy_without_server(&self) -> bool {
        matches!(self.origin(), Self::Protocol { status: 502..=504, from_taskqueue: false, .. })
    }

    /// Returns whether the same call may succeed a little later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Transport { .. } => true,
            Self::Api { status, .. } | Self::Protocol { status, .. } => *status == 503,
            Self::ServerTooOld { .. } | Self::OutcomeUnknown { .. } => false,
        }
    }

    /// Returns whether the server may have done the call. A 4xx answer is a refusal, a 3xx answer does not come from this API, and
    /// `database_busy` means that nothing was done; after every other failure it is unknown.
    pub(crate) fn may_have_been_done(&self) -> bool {
        match self {
            Self::Transport { may_have_arrived, .. } => *may_have_arrived,
            Self::Api { code: Code::Known(ErrorCode::DatabaseBusy), .. } => false,
            Self::Api { status, .. } | Self::Protocol { status, .. } => !(300..500).contains(status),
            Self::ServerTooOld { .. } => false,
            Self::OutcomeUnknown { .. } => true,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Api { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// The error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The base URL cannot be used.
    #[error("the base URL cannot be used: {reason}")]
    BaseUrl {
        /// The advice, or the mistake.
        reason: String,
    },
    /// The token cannot be sent.
    #[error("use a token of visible ASCII characters without blanks")]
    Token,
    /// The token would be readable on the network.
    #[error("use https:// or allow the insecure token: over plain HTTP anyone on the network path can read it")]
    InsecureToken,
    /// The trust was configured for a connection without encryption.
    #[error("whom to trust can be said for https:// only: over plain HTTP nobody proves who they are")]
    TrustWithoutTls,
    /// There is no certificate authority in what was given as some.
    #[error("the certificate authorities cannot be used: {reason}")]
    Authorities {
        /// The mistake.
        reason: String,
    },
    /// Encryption cannot be set up.
    #[error("encryption cannot be set up: {reason}")]
    Tls {
        /// The mistake.
        reason: String,
    },
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
    fn only_what_is_too_large_can_be_sent_in_parts() {
        let page = |status| Error::Protocol { status, message: String::new(), from_taskqueue: false };
        let lost = Error::Transport { message: String::new(), may_have_arrived: true };
        for (error, expected) in [
            (api(413, "request_too_large"), true),
            (page(413), true),
            (api(404, "not_found"), false),
            (api(422, "invalid_request"), false),
            (page(502), false),
            (lost, false),
        ] {
            assert_eq!(error.is_too_large(), expected, "{error:?}");
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
