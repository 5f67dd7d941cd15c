//! One answer: its status, and reading its body. The reader of each type is in `taskqueue_api`.

use std::time::Duration;

use taskqueue_api::error::Error as ErrorAnswer;
use taskqueue_api::object_reader::Unreadable;
use taskqueue_core::json::{self, Value};

use crate::error::Error;

/// Characters of an answer that a message shows.
const LINE_SHOWN: usize = 60;

/// The result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created<T> {
    /// The resource as it is now.
    pub value: T,
    /// Whether the answered request created it. If `false`, it existed: an earlier try of the same call, whose answer was
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
        let value = json::parse(&self.body).map_err(|_| self.protocol_error(self.not_json()))?;
        read(&value).map_err(|Unreadable(message)| self.protocol_error(message))
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

    /// What answered in place of a server of this API.
    fn not_json(&self) -> String {
        format!("status {} with {}, which is not JSON", self.status, self.body_words())
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

#[cfg(test)]
mod tests;
