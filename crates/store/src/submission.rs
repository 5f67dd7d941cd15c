//! The hand-over of a command from its caller to a writer. A command waits until a writer begins it; until then its caller
//! can take it back. Once begun it is done whatever becomes of the caller, who waits for the answer. So `Busy` always
//! means that nothing was done and nothing will be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::StoreError;
use crate::command::Answer;

/// How long a command may wait until a writer begins it (decisions.md section 4).
pub const TURN_LIMIT: Duration = Duration::from_secs(5);
/// How long the answer to a command is waited for in all. No request takes more than 30 seconds; the rest is for whatever
/// comes before and after.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(29);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const TAKEN_BACK: u8 = 2;

/// What a command is answered.
pub type Outcome = Result<Answer, StoreError>;

/// Both ends of a hand-over.
pub fn hand_over() -> (Handed, Awaited) {
    let state = Arc::new(AtomicU8::new(WAITING));
    let (answer, answered) = oneshot::channel();
    (Handed { state: Arc::clone(&state), answer }, Awaited { state, answered })
}

/// The writer's end.
#[derive(Debug)]
pub struct Handed {
    state: Arc<AtomicU8>,
    answer: oneshot::Sender<Outcome>,
}

impl Handed {
    /// Begins the command, unless its caller has taken it back: then it must not be done. May be said again by a writer
    /// that tries again.
    pub fn begin(&self) -> bool {
        let begun = self.state.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire);
        matches!(begun, Ok(_) | Err(BEGUN))
    }

    /// Nothing was done after all, and the command waits for another turn.
    pub fn wait_again(&self) {
        let _ = self.state.compare_exchange(BEGUN, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Answers. A caller that has gone away does not want it.
    pub fn answer(self, outcome: Outcome) {
        let _ = self.answer.send(outcome);
    }
}

/// The caller's end. Dropping it takes the command back if it has not begun.
#[derive(Debug)]
pub struct Awaited {
    state: Arc<AtomicU8>,
    answered: oneshot::Receiver<Outcome>,
}

impl Awaited {
    /// Waits for the answer.
    pub async fn outcome(self) -> Outcome {
        self.outcome_by(Instant::now() + ANSWER_LIMIT).await
    }

    /// Waits for the answer, until `answer_by` if it has begun.
    pub async fn outcome_by(mut self, answer_by: Instant) -> Outcome {
        if let Ok(answered) = timeout(TURN_LIMIT, &mut self.answered).await {
            return self.received(answered);
        }
        if self.take_back() {
            return Err(StoreError::Busy);
        }
        match timeout_at(answer_by, &mut self.answered).await {
            Ok(answered) => self.received(answered),
            Err(_) if self.take_back() => Err(StoreError::Busy),
            Err(_) => Err(StoreError::OutcomeUnknown),
        }
    }

    /// A writer that ended without an answer has done nothing, unless it had begun.
    fn received(&self, answered: Result<Outcome, oneshot::error::RecvError>) -> Outcome {
        match answered {
            Ok(outcome) => outcome,
            Err(_) if self.take_back() => Err(StoreError::Unavailable),
            Err(_) => Err(StoreError::OutcomeUnknown),
        }
    }

    /// Whether the command had not begun; then it never will.
    fn take_back(&self) -> bool {
        self.state.compare_exchange(WAITING, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.take_back();
    }
}

#[cfg(test)]
#[path = "submission_tests.rs"]
mod tests;
