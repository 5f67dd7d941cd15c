//! Many calls at once, but never more than so many: the server stays answerable and memory bounded.

use std::future::Future;

use taskqueue_client::{Error, ErrorCode};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// Calls under way at once: enough that the server can write many with one sync of its disk.
pub(super) const IN_FLIGHT: usize = 64;

/// Calls under way. `T` is what becomes of one.
#[derive(Debug)]
pub(super) struct Flight<T>(JoinSet<T>);

impl<T: Send + 'static> Flight<T> {
    pub(super) fn new() -> Self {
        Self(JoinSet::new())
    }

    /// Starts a call. If the sky is full, one that ended makes room and is given back.
    pub(super) async fn launch(
        &mut self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let ended = if self.0.len() >= IN_FLIGHT { self.land().await? } else { None };
        self.0.spawn(call);
        Ok(ended)
    }

    /// Waits for one call; nothing when none is under way.
    pub(super) async fn land(&mut self) -> Result<Option<T>, Failure> {
        let landed = self.0.join_next().await.transpose();
        landed.map_err(|error| Failure::Refused(format!("a call was given up: {error}; this is a bug")))
    }
}

/// What becomes of one task among many.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was changed.
    Done,
    /// Its state does not allow the change, which is ordinary among many.
    Skipped(ErrorCode),
    /// It was refused for another reason.
    Refused(Error),
    /// Nothing else will go better: the server is gone, or the queue, or the token is wrong.
    Hopeless(Error),
}

impl Fate {
    pub(super) fn of<T>(outcome: Result<T, Error>) -> Self {
        let error = match outcome {
            Ok(_) => return Self::Done,
            Err(error) => error,
        };
        match (&error, error.code()) {
            (
                Error::Api { .. },
                Some(code @ (ErrorCode::TaskStateConflict | ErrorCode::TaskRunning | ErrorCode::TaskNotFound)),
            ) => Self::Skipped(code),
            (Error::Api { status: 409 | 413 | 422, .. }, _) => Self::Refused(error),
            _ => Self::Hopeless(error),
        }
    }
}
