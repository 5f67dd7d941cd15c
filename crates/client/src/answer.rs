//! One answer: its status, and reading its body; and the outcome of each item of a batch, also if a request failed as a whole. The
//! reader of each type is in `taskqueue_api`.

use std::time::Duration;

use taskqueue_api::error::{Code, Error as ErrorAnswer};
use taskqueue_api::object_reader::Unreadable;
use taskqueue_core::json::{self, Value};

use crate::error::Error;

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
    pub(crate) fn read<T>(
        &self,
        expected: &[u16],
        read: impl FnOnce(&Value<'_>) -> Result<T, Unreadable>,
    ) -> Result<T, Error> {
        if !expected.contains(&self.status) {
            return Err(self.to_error());
        }
        let not_json = || format!("status {} with {}, which is not JSON", self.status, self.body_words());
        let value = json::parse(&self.body).map_err(|_| self.protocol_error(not_json()))?;
        read(&value).map_err(|Unreadable(message)| self.protocol_error(message))
    }

    /// The resource in the body, and whether the request created it.
    pub(crate) fn created<T>(
        &self,
        read: impl FnOnce(&Value<'_>) -> Result<T, Unreadable>,
    ) -> Result<Created<T>, Error> {
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
        let value = json::parse(&self.body).ok()?;
        let ErrorAnswer { code, message, details } = ErrorAnswer::read(&value).ok()?;
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
                if let Some(unsent) = unsent_after(&error) {
                    self.items.resize_with(all, || Err(unsent.clone()));
                }
                self.request_error.get_or_insert(error);
            }
        }
    }
}

/// The error of what is not sent after this error of a request; `None` if the server was reached.
fn unsent_after(error: &Error) -> Option<Error> {
    let Error::Transport { message, .. } = error.origin() else { return None };
    Some(Error::Transport { message: message.clone(), may_have_arrived: false })
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

    #[test]
    fn an_error_envelope_keeps_code_message_and_details() {
        let answer = |status, body: &str| Answer {
            status,
            server_version: None,
            retry_after: None,
            server: None,
            wait_applied: None,
            body: body.into(),
        };
        let known = answer(409, r#"{"error":{"code":"stale_run","message":"m","details":{"b":1,"a":2.0}}}"#);
        let Err(Error::Api { status: 409, code, message, details, .. }) = known.no_content() else {
            panic!("{known:?}")
        };
        assert_eq!(code, Code::Known(taskqueue_api::ErrorCode::StaleRun));
        assert_eq!((message.as_str(), details.as_str()), ("m", r#"{"a":2.0,"b":1}"#));

        let newer = answer(418, r#"{"error":{"code":"teapot","message":"m"}}"#).no_content().unwrap_err();
        assert_eq!(newer.code(), None);
        assert!(matches!(newer, Error::Api { code: Code::Other(text), .. } if text == "teapot"));

        for (status, body) in
            [(500, "<html>"), (404, "{}"), (409, r#"{"error":"x"}"#), (302, ""), (200, "{}"), (202, "")]
        {
            let error = answer(status, body).no_content().unwrap_err();
            assert!(matches!(error, Error::Protocol { status: found, .. } if found == status), "{error:?}");
        }
    }

    #[test]
    fn an_answer_of_another_program_is_described() {
        let answer = |server: Option<&str>, body: &str| Answer {
            status: 404,
            server_version: None,
            retry_after: None,
            server: server.map(str::to_owned),
            wait_applied: None,
            body: body.into(),
        };
        let long = "x".repeat(100);
        let cases = [
            (None, "", "status 404 with an empty body".to_owned()),
            (Some("nginx/1.25"), " \n<!DOCTYPE html>\n<p>", "status 404 with a web page from nginx/1.25".to_owned()),
            (None, "404 page not found\n", "status 404 with the text \"404 page not found\"".to_owned()),
            (None, &long, format!("status 404 with the text \"{}…\"", "x".repeat(60))),
        ];
        for (server, body, expected) in cases {
            let Err(Error::Protocol { message, .. }) = answer(server, body).no_content() else { panic!("{body}") };
            assert_eq!(message, expected);
        }
    }
}
