//! Concurrent calls with an upper limit, so that the server stays responsive and memory bounded; and what their results mean
//! for one task among many.

use std::future::Future;

use taskqueue_client::{Error, ErrorCode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// Enough that the server can commit many with one sync of its disk.
const CALLS_MAX: usize = 64;

/// Running calls. `T` is the result of one.
#[derive(Debug)]
pub(super) struct ConcurrentCalls<T> {
    running: JoinSet<T>,
    max: usize,
}

impl<T: Send + 'static> ConcurrentCalls<T> {
    pub(super) fn new() -> Self {
        Self::of_at_most(CALLS_MAX)
    }

    /// For calls that are larger than most.
    pub(super) fn of_at_most(max: usize) -> Self {
        Self { running: JoinSet::new(), max }
    }

    /// Starts a call. At the limit it first waits for another call to end and returns its result.
    pub(super) async fn start(&mut self, call: impl Future<Output = T> + Send + 'static) -> Result<Option<T>, Failure> {
        let ended = if self.running.len() >= self.max { self.next().await? } else { None };
        self.running.spawn(call);
        Ok(ended)
    }

    /// Waits until one call has ended; `None` if no call is running.
    pub(super) async fn next(&mut self) -> Result<Option<T>, Failure> {
        let ended = self.running.join_next().await.transpose();
        ended.map_err(|error| Failure::Refused(format!("a call was aborted: {error}; this is a bug")))
    }

    /// Returns the result of a call that has ended already, if there is one.
    pub(super) fn next_ended(&mut self) -> Option<T> {
        self.running.try_join_next()?.ok()
    }

    /// Returns how many calls are running.
    pub(super) fn count(&self) -> usize {
        self.running.len()
    }
}

/// Returns what receives Ctrl-C, for commands that say how far they came.
pub(super) fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(Failure::because("signals cannot be received"))
}

/// The error of a call for one task among many.
#[derive(Debug)]
pub(super) enum TaskError {
    /// The state of the task does not allow the change, which is normal among many tasks.
    Skipped(ErrorCode),
    /// Refused for another reason.
    Refused(Error),
    /// Every other call would fail, too: the server or the queue is not there, or the token is wrong.
    Fatal(Error),
}

impl TaskError {
    pub(super) fn of(error: Error) -> Self {
        use ErrorCode::{TaskNotFound, TaskRunning, TaskStateConflict};
        match (&error, error.code()) {
            (Error::Api { .. }, Some(code @ (TaskStateConflict | TaskRunning | TaskNotFound))) => Self::Skipped(code),
            (Error::Api { status: 409 | 413 | 422, .. }, _) => Self::Refused(error),
            _ => Self::Fatal(error),
        }
    }
}
