//! What became of the items of a batch, and how a request that failed as a whole becomes the outcome of each of its items.

use taskqueue_api::error::{Code, Error as ErrorAnswer};

use crate::error::Error;

/// What became of the items of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAnswer<T> {
    /// One outcome for each item, in the order of the call. An error is that of the item, as the single call would have had
    /// it, or that of the request that was to carry it. After a request that was lost no other is sent, and the items of the
    /// others have a [`Transport`](Error::Transport) error that says that they did not arrive.
    pub items: Vec<Result<T, Error>>,
    /// The error of the first request that failed as a whole; each item of that request has it as its outcome.
    pub request_error: Option<Error>,
    /// The wait in seconds that the server agreed to; nothing if the answer does not name one.
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

    /// Adds an item that is not sent.
    pub(crate) fn add_unsent(&mut self, error: ErrorAnswer) {
        self.items.push(Err(refused(error)));
    }
}

/// The error of what is not sent after this error of a request; nothing if the server was reached.
fn unsent_after(error: &Error) -> Option<Error> {
    match error {
        Error::Transport { message, .. } => {
            Some(Error::Transport { message: message.clone(), may_have_arrived: false })
        }
        Error::OutcomeUnknown { cause, .. } => unsent_after(cause),
        _ => None,
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
