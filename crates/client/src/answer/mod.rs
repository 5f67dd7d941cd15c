//! One answer: what its status means, and the way from its body to a type. What each type is read from is said in the
//! files beside this one. A field that is missing or wrong is an error; one that nobody knows is a newer server's.

mod counts;
mod fields;
mod lists;
mod task;

use std::time::Duration;

use taskqueue_core::json::{self, JsonObject, Value};

pub use counts::{Group, GroupPage, Updated};
pub use lists::{Created, Health, Page, Queue};
pub use task::{Claim, Task};

pub(crate) use counts::{count, group_page, updated};
pub(crate) use lists::{health, observation, page, queue, queues};
pub(crate) use task::{claim, lease, task};

use crate::error::{Code, Error};
use fields::{Object, Unreadable};

/// What came back, whatever it says.
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
        let error = Object::of(&value, "answer").ok()?.object("error").ok()?;
        Some(Error::Api {
            status: self.status,
            code: Code::from(error.text("code").ok()?),
            message: error.text("message").ok()?.to_owned(),
            // Informative only: what is strange in them is no reason to lose the code.
            details: error.json("details").unwrap_or(JsonObject::empty()),
            retry_after: self.retry_after,
        })
    }
}

#[cfg(test)]
mod tests;
