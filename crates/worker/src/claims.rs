//! Claims tasks for the slots. Slots that become free together claim with one request; when no task is pending, one request waits
//! for all of them. A claim whose answer was lost is repeated with its run id, and a task that it gives is confirmed before it runs.
//!
//! A slot hands in a [`Want`] and gets exactly one answer. `trying.rs` sends claims, reads their answers and settles
//! what is in doubt when the worker stops; `waiting.rs` decides when the next one is sent.

mod trying;
mod waiting;

use taskqueue_client::{Claim, RunId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::identity::SlotIdentity;

/// The number of times that the answer to a claim may be lost before it is repeated alone.
const LOST_TOGETHER: u32 = 2;

pub(crate) struct ClaimedTask {
    pub(crate) claim: Claim,
    /// The moment before the claim was sent. The lease cannot have started earlier.
    pub(crate) claim_sent: Instant,
    /// Since when the run counts for its time limit. The moment before the claim was sent, except if the claim may have waited for
    /// its task, or is repeated: then the run would lose time that it did not have.
    pub(crate) run_began: Instant,
}

/// A run id and the state of its claim.
struct ClaimAttempt {
    run_id: RunId,
    /// A claim with this run id failed, so a task that the next one gives has to be confirmed.
    is_repeated: bool,
    /// An answer was lost, so this worker may own a task without knowing it.
    in_doubt: bool,
    /// An answer was lost, and not because the server was busy, which would say that nothing was done.
    may_own_task: bool,
    /// A batch said that there is no task for a run that may own one.
    is_asked_alone: bool,
    /// The number of lost answers.
    lost_answers: u32,
}

impl ClaimAttempt {
    fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            is_repeated: false,
            in_doubt: false,
            may_own_task: false,
            is_asked_alone: false,
            lost_answers: 0,
        }
    }
}

/// A slot that wants a task.
pub(crate) struct Want {
    slot: SlotIdentity,
    attempt: ClaimAttempt,
    /// The slot counts as busy: it will know at once whether there is a task.
    is_busy: bool,
    answer: oneshot::Sender<Option<ClaimedTask>>,
}

impl Want {
    /// A claim whose answer was lost too often is repeated alone: the answer to all of them together may be too much for the network.
    fn may_be_sent_together(&self) -> bool {
        self.attempt.lost_answers < LOST_TOGETHER && !self.attempt.is_asked_alone
    }

    /// Returns whether the answer that there is no task counts. From a batch it may mean that the task did not fit into the answer, and a run
    /// id that owns a task must not be forgotten.
    fn believes_none(&self, is_together: bool) -> bool {
        !(is_together && self.attempt.may_own_task)
    }
}
