//! A batch: the commands that one transaction executes, the same on every backend. All of them are concurrent, because none
//! has been answered yet, so they run in the order that serves the backend best.

use crate::claimable::AfterCommit;
use crate::execute::{Execution, OutageCredit, credit_after_outage};
use crate::transaction::BatchTransaction;
use crate::write_queue::QueuedWrite;
use crate::{StoreError, StoreResult, WriteRequest};

/// Bytes of tasks in the answers of one transaction, the last command aside: eight of the largest tasks. The rest of the batch gets
/// the next transaction, so that a batch of claims does not hold hundreds of megabytes until its commit.
const MAX_ANSWER_BYTES: usize = 16 * 1_048_576;

/// Which place claims have in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOrder {
    First,
    Last,
}

/// Sorts a batch. What was left by a full transaction comes before all others: first what is light for certain, then what may
/// fill the next one, the oldest first, so that nothing is left again and again.
pub fn sort<S>(batch: &mut Vec<QueuedWrite<S>>, claims: ClaimOrder) {
    if !batch.iter().any(|write| write.was_left) {
        // Nearly always. Sorting would move each of them several times.
        let behind: Vec<_> =
            batch.extract_if(.., |write| write.request.is_claim() == (claims == ClaimOrder::Last)).collect();
        return batch.extend(behind);
    }
    batch.sort_by_key(|write| match (write.was_left, write.request.is_claim()) {
        (true, is_claim) if is_claim || !write.is_light() => (0, Some(write.queued_at)),
        (true, _) => (-1, None),
        (false, is_claim) => (1 + i8::from(is_claim == (claims == ClaimOrder::Last)), None),
    });
}

/// Executes a batch, or as much of its beginning as the bytes of the answers and the weight of what was done allow; gives how many
/// commands that were. A refusal is an answer. Every other error means that the transaction must be undone.
pub fn execute_batch<T: BatchTransaction>(
    tx: &mut T,
    batch: &mut [QueuedWrite<T::Snapshot>],
    credit: OutageCredit,
    after_commit: &mut AfterCommit,
) -> StoreResult<usize> {
    let credited_runs = credit_after_outage(tx, credit)?;
    after_commit.now = tx.now();
    let mut execution = Execution { tx, credited_runs, after_commit };
    let mut bytes = 0;
    for (executed, write) in batch.iter_mut().enumerate() {
        if bytes > MAX_ANSWER_BYTES || execution.after_commit.done.is_full() {
            return Ok(executed);
        }
        let answer_bytes = match (&mut write.request, &write.plan) {
            (WriteRequest::UpdateTasks(submission), Some(plan)) => {
                submission.execute(|command| execution.write_plan(&command.bulk, plan))
            }
            (request, _) => request.execute(&mut execution),
        };
        match answer_bytes {
            Ok(answer_bytes) => bytes += answer_bytes,
            Err(StoreError::Refused(_)) => {}
            Err(StoreError::Busy) if write.is_outdated() => {}
            // A bulk update that ran out of time has saved a part of its plan.
            Err(StoreError::Busy) if execution.tx.goes_on_when_busy() && !write.is_bulk_update() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(batch.len())
}

/// Executes each command of a batch that failed in a transaction of its own, so that only a command that causes a failure
/// suffers from it. `attempt` executes and answers one; it gives the error for the others if the storage failed. A second
/// failure of the storage shows that no command is to blame: the rest is not tried.
pub fn one_by_one<S>(batch: Vec<QueuedWrite<S>>, mut attempt: impl FnMut(QueuedWrite<S>) -> Option<StoreError>) {
    let mut failures = Vec::new();
    for write in batch {
        match &failures[..] {
            [first, _, ..] => write.fail(StoreError::clone(first)),
            _ => failures.extend(attempt(write)),
        }
    }
}

pub fn fail_all<S>(batch: Vec<QueuedWrite<S>>, error: &StoreError) {
    batch.into_iter().for_each(|write| write.fail(error.clone()));
}
