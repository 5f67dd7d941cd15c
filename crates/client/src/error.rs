//! One answer: its status, and reading its body; the outcome of each item of a batch, also if a request failed as a whole; and the errors of a
//! call, as far as callers distinguish them, and those of a configuration. None of them holds the token. The reader of each type is in
//! `taskqueue_api`.

use std::time::Duration;

use taskqueue_api::ErrorCode;
use taskqueue_api::error::{Code, Error as ErrorAnswer};
use taskqueue_api::object_reader::Unreadable;
use taskqueue_core::json::{self, JsonObject, Value};
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

/// Characters of an answer that a message shows.
const LINE_SHOWN: usize = 60;

/// The answer to a call that the server was asked to hold until there is something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited<T> {
    pub value: T,
    /// The wait in seconds that the server agreed to; `None` if it did not, or was cut short. Then pause before the next such call, if
    /// this one brought nothing.
    pub wait_applied: Option<u32>,
}

/// The result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created<T> {
    /// The resource as it is now.
    pub value: T,
    /// The answered request created it. If `false`, it existed: an earlier try of the same call, whose answer was
    /// lost, may have created it.
    pub created: bool,
}

/// What a reader makes of the body of an answer.
pub(crate) type ReadResult<T> = Result<T, Unreadable>;

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) server_version: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    /// The program that answered, as it calls itself.
    pub(crate) server: Option<String>,
    /// The seconds of a wait that the server agreed to.
    pub(crate) wait_applied: Option<u32>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body, if the status is one of those `expected`.
    pub(crate) fn read<T>(&self, expected: &[u16], read: impl FnOnce(&Value<'_>) -> ReadResult<T>) -> Result<T, Error> {
        if !expected.contains(&self.status) {
            return Err(self.to_error());
        }
        let not_json = || format!("status {} with {}, which is not JSON", self.status, self.body_words());
        let value = json::parse(&self.body).map_err(|_| self.protocol_error(not_json()))?;
        read(&value).map_err(|Unreadable(message)| self.protocol_error(message))
    }

    /// The resource in the body, and whether the request created it.
    pub(crate) fn created<T>(&self, read: impl FnOnce(&Value<'_>) -> ReadResult<T>) -> Result<Created<T>, Error> {
        Ok(Created { value: self.read(&[200, 201], read)?, created: self.status == 201 })
    }

    /// Expects 204.
    pub(crate) fn no_content(&self) -> Result<(), Error> {
        if self.status == 204 { Ok(()) } else { Err(self.to_error()) }
    }

    pub(crate) fn protocol_error(&self, message: String) -> Error {
        Error::Protocol { status: self.status, message, from_taskqueue: self.server_version.is_some() }
    }

    /// The error of an answer with an unexpected status.
    fn to_error(&self) -> Error {
        match self.status {
            400.. => self
                .envelope()
                .unwrap_or_else(|| self.protocol_error(format!("status {} with {}", self.status, self.body_words()))),
            300..400 => {
                let message = "it is a redirect, which would carry the token elsewhere; check the base URL";
                self.protocol_error(message.to_owned())
            }
            status => self.protocol_error(format!("status {status} was not expected")),
        }
    }

    /// The body in a few words: a web page, or its first line.
    fn body_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let first = text.trim().lines().next().unwrap_or_default();
        let words = match first.chars().next() {
            None => "an empty body".to_owned(),
            Some('<') => "a web page".to_owned(),
            Some(_) if first.chars().count() > LINE_SHOWN => {
                format!("the text {:?}", first.chars().take(LINE_SHOWN).chain(['…']).collect::<String>())
            }
            Some(_) => format!("the text {first:?}"),
        };
        match &self.server {
            Some(server) => format!("{words} from {server}"),
            None => words,
        }
    }

    fn envelope(&self) -> Option<Error> {
        let ErrorAnswer { code, message, details } = ErrorAnswer::read(&json::parse(&self.body).ok()?).ok()?;
        Some(Error::Api { status: self.status, code, message, details, retry_after: self.retry_after })
    }
}

/// The outcomes of the items of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAnswer<T> {
    /// One outcome for each item, in the order of the call. An error is that of the item, as the single call would have had
    /// it, or that of the request that was to carry it. After a request that was lost no other is sent, and the items of the
    /// others have a [`Transport`](Error::Transport) error that says that they did not arrive.
    pub items: Vec<Result<T, Error>>,
    /// The error of the first request that failed as a whole; each item of that request has it as its outcome.
    pub request_error: Option<Error>,
    /// The wait in seconds that the server agreed to; `None` if the answer does not name one.
    pub wait_applied: Option<u32>,
}

impl<T> BatchAnswer<T> {
    pub(crate) fn with_room_for(items: usize) -> Self {
        Self { items: Vec::with_capacity(items), request_error: None, wait_applied: None }
    }

    /// Adds the outcomes of one more request of so many items; if it was lost, also those of the rest of `all` items.
    pub(crate) fn add(&mut self, items: usize, all: usize, answer: Result<Vec<Result<T, ErrorAnswer>>, Error>) {
        match answer {
            Ok(outcomes) => self.items.extend(outcomes.into_iter().map(|outcome| outcome.map_err(refused))),
            Err(error) => {
                self.items.extend((0..items).map(|_| Err(error.clone())));
                // Each further request would be tried as often, and as long.
                if let Error::Transport { message, .. } = error.origin() {
                    let unsent = Error::Transport { message: message.clone(), may_have_arrived: false };
                    self.items.resize_with(all, || Err(unsent.clone()));
                }
                self.request_error.get_or_insert(error);
            }
        }
    }
}

/// The error of an item, as the single call would have had it.
fn refused(ErrorAnswer { code, message, details }: ErrorAnswer) -> Error {
    let status = match &code {
        Code::Known(code) => code.status(),
        // A newer server has refused the item for a reason that is not known here. This status claims least.
        Code::Other(_) => 409,
    };
    Error::Api { status, code, message, details, retry_after: None }
}

#[cfg(test)]
mod tests {
    use taskqueue_api::error::Code;

    use super::*;

    fn api(status: u16, code: &str) -> Error {
        let (message, details) = (String::new(), JsonObject::empty());
        Error::Api { status, code: code.into(), message, details, retry_after: None }
    }

    fn answer(status: u16, server: Option<&str>, body: &str) -> Answer {
        let (server, body) = (server.map(str::to_owned), body.into());
        Answer { status, server_version: None, retry_after: None, server, wait_applied: None, body }
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

    #[test]
    fn an_error_envelope_keeps_code_message_and_details() {
        let known = answer(409, None, r#"{"error":{"code":"stale_run","message":"m","details":{"b":1,"a":2.0}}}"#);
        let Err(Error::Api { status: 409, code, message, details, .. }) = known.no_content() else {
            panic!("{known:?}")
        };
        assert_eq!(code, Code::Known(taskqueue_api::ErrorCode::StaleRun));
        assert_eq!((message.as_str(), details.as_str()), ("m", r#"{"a":2.0,"b":1}"#));

        let newer = answer(418, None, r#"{"error":{"code":"teapot","message":"m"}}"#).no_content().unwrap_err();
        assert_eq!(newer.code(), None);
        assert!(matches!(newer, Error::Api { code: Code::Other(text), .. } if text == "teapot"));

        let cases = [(500, "<html>"), (404, "{}"), (409, r#"{"error":"x"}"#), (302, ""), (200, "{}"), (202, "")];
        for (status, body) in cases {
            let error = answer(status, None, body).no_content().unwrap_err();
            assert!(matches!(error, Error::Protocol { status: found, .. } if found == status), "{error:?}");
        }
    }

    #[test]
    fn an_answer_of_another_program_is_described() {
        let long = "x".repeat(100);
        let cases = [
            (None, "", "status 404 with an empty body".to_owned()),
            (Some("nginx/1.25"), " \n<!DOCTYPE html>\n<p>", "status 404 with a web page from nginx/1.25".to_owned()),
            (None, "404 page not found\n", "status 404 with the text \"404 page not found\"".to_owned()),
            (None, &long, format!("status 404 with the text \"{}…\"", "x".repeat(60))),
        ];
        for (server, body, expected) in cases {
            let Err(Error::Protocol { message, .. }) = answer(404, server, body).no_content() else { panic!("{body}") };
            assert_eq!(message, expected);
        }
    }
}
