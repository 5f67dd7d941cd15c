//! One answer: what its status means, and the way from its body to a type. How each type is read is said in
//! `taskqueue_api`.

use std::time::Duration;

use taskqueue_api::error::Error as ErrorAnswer;
use taskqueue_api::object_reader::Unreadable;
use taskqueue_core::json::{self, Value};

use crate::error::Error;

/// What a creation found or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created<T> {
    /// The resource as it is now.
    pub value: T,
    /// Whether the request that was answered created it. `false` if it was there already; it may be an earlier try of the
    /// same call that created it, whose answer was lost.
    pub created: bool,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) server_version: Option<String>,
    pub(crate) retry_after: Option<Duration>,
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
            return Err(self.refusal());
        }
        let value = json::parse(&self.body).map_err(|_| self.nonsense("it is not JSON".to_owned()))?;
        read(&value).map_err(|Unreadable(message)| self.nonsense(message))
    }

    /// A success that says nothing more.
    pub(crate) fn nothing(&self) -> Result<(), Error> {
        if self.status == 204 { Ok(()) } else { Err(self.refusal()) }
    }

    pub(crate) fn nonsense(&self, message: String) -> Error {
        Error::Protocol { status: self.status, message }
    }

    /// Why this is not the success that was expected.
    fn refusal(&self) -> Error {
        match self.status {
            400.. => self.envelope().unwrap_or_else(|| {
                let message = format!("status {} without the error envelope of this API", self.status);
                self.nonsense(message)
            }),
            300..400 => {
                let message = "it is a redirect, which would carry the token elsewhere; check the base URL";
                self.nonsense(message.to_owned())
            }
            status => self.nonsense(format!("status {status} was not expected")),
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
