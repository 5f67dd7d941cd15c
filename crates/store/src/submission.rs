//! A command on its way from its caller to a writer, and the way of its answer back. A command waits until a writer begins it;
//! until then its caller can withdraw it. Once begun it is executed even if the caller has left, and the caller waits for
//! the answer. So `Busy` always means that nothing was done and nothing will be.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::command::Command;
use crate::{StoreError, StoreResult};

/// How long a command may wait until a writer begins it, and a read for its thread (docs/reference/http-api.md §12).
pub const BEGIN_LIMIT: Duration = Duration::from_secs(5);
/// How long a caller waits for the answer in all: the storage has 30 seconds (docs/reference/http-api.md §3.7), and the rest
/// is for what comes after.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(29);

/// Waits for a permit, as long as a command may wait until it begins.
pub(crate) async fn permit(permits: &Arc<Semaphore>) -> StoreResult<OwnedSemaphorePermit> {
    match timeout(BEGIN_LIMIT, Arc::clone(permits).acquire_owned()).await {
        Ok(permit) => permit.map_err(|_| StoreError::Unavailable),
        Err(_) => Err(StoreError::Busy),
    }
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// A reservation for the memory of a command. It is let go when the writer lets go of the command: one that was withdrawn
/// is still in its queue.
pub type Held = Box<dyn Any + Send + Sync>;

/// The writer's end: a command, and its answer until that is released.
#[derive(Debug)]
pub struct Submission<C: Command> {
    pub command: C,
    /// [`StoreError::Unavailable`] until the command was executed.
    answer: StoreResult<C::Answer>,
    state: Arc<AtomicU8>,
    sender: Option<oneshot::Sender<StoreResult<C::Answer>>>,
    held: Option<Held>,
}

/// The caller's end. Dropping it withdraws the command if it has not begun.
#[derive(Debug)]
pub struct PendingAnswer<A> {
    state: Arc<AtomicU8>,
    receiver: oneshot::Receiver<StoreResult<A>>,
}

impl<C: Command> Submission<C> {
    pub fn new(command: C) -> (Self, PendingAnswer<C::Answer>) {
        Self::holding(command, None)
    }

    /// Submits a command with what is reserved for it.
    pub fn holding(command: C, held: Option<Held>) -> (Self, PendingAnswer<C::Answer>) {
        let state = Arc::new(AtomicU8::new(WAITING));
        let (sender, receiver) = oneshot::channel();
        let answer = Err(StoreError::Unavailable);
        let submission = Self { command, answer, state: Arc::clone(&state), sender: Some(sender), held };
        (submission, PendingAnswer { state, receiver })
    }

    /// Executes the command and keeps its answer until it is released. Gives the bytes of the answer.
    pub fn execute(&mut self, execute: impl FnOnce(&C) -> StoreResult<C::Answer>) -> StoreResult<usize> {
        self.answer = execute(&self.command);
        self.answer.as_ref().map(C::answer_bytes).map_err(StoreError::clone)
    }
}

/// The writer's side of a submission, whatever its command answers.
pub trait Reply {
    /// Begins the command, unless its caller has withdrawn it: then it must not be executed. A writer that tries a command
    /// again calls this again.
    fn begin(&self) -> bool;
    /// Nothing was done, and the command waits again.
    fn postpone(&self);
    fn is_busy(&self) -> bool;
    /// Sends the answer of the execution. A caller that has left does not get it.
    fn release(&mut self);
    /// Sends an error instead, because nothing of the execution was kept or nobody knows.
    fn fail(&mut self, error: StoreError);
}

impl<C: Command> Reply for Submission<C> {
    fn begin(&self) -> bool {
        let begun = self.state.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire);
        matches!(begun, Ok(_) | Err(BEGUN))
    }

    fn postpone(&self) {
        let _ = self.state.compare_exchange(BEGUN, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    fn is_busy(&self) -> bool {
        matches!(self.answer, Err(StoreError::Busy))
    }

    fn release(&mut self) {
        let answer = std::mem::replace(&mut self.answer, Err(StoreError::Unavailable));
        // The command is dropped next. A caller that has its answer finds that room again.
        drop(self.held.take());
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(answer);
        }
    }

    fn fail(&mut self, error: StoreError) {
        if let StoreError::Broken(what) = error {
            tracing::error!(what, command = std::any::type_name::<C>(), "a bug: the command was undone");
        }
        self.answer = Err(error);
        self.release();
    }
}

impl<A> PendingAnswer<A> {
    pub async fn wait(self) -> StoreResult<A> {
        self.wait_until(None).await
    }

    /// Waits for the answer, until `answer_by`, or else [`ANSWER_LIMIT`] from now on, if the command has begun.
    pub async fn wait_until(mut self, answer_by: Option<Instant>) -> StoreResult<A> {
        let now = Instant::now();
        if let Ok(received) = timeout_at(now + BEGIN_LIMIT, &mut self.receiver).await {
            return self.answer(received);
        }
        if self.withdraw() {
            return Err(StoreError::Busy);
        }
        match timeout_at(answer_by.unwrap_or(now + ANSWER_LIMIT), &mut self.receiver).await {
            Ok(received) => self.answer(received),
            Err(_) if self.withdraw() => Err(StoreError::Busy),
            Err(_) => Err(StoreError::OutcomeUnknown),
        }
    }

    /// A writer that ended without an answer has done nothing, unless it had begun.
    fn answer(&self, received: Result<StoreResult<A>, oneshot::error::RecvError>) -> StoreResult<A> {
        match received {
            Ok(answer) => answer,
            Err(_) if self.withdraw() => Err(StoreError::Unavailable),
            Err(_) => Err(StoreError::OutcomeUnknown),
        }
    }

    /// Returns whether the command had not begun; then it never will.
    fn withdraw(&self) -> bool {
        self.state.compare_exchange(WAITING, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl<A> Drop for PendingAnswer<A> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
#[path = "submission_tests.rs"]
mod tests;
