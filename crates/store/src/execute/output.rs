//! What a run prints. Nothing of the task changes by it.

use taskqueue_core::output::{self, NewOutput};

use super::{Executed, existing_queue, existing_task};
use crate::after_commit::AfterCommit;
use crate::command::AddOutput;
use crate::transaction::Transaction;

pub(super) fn add_output<T: Transaction>(
    tx: &mut T,
    command: &AddOutput,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    let key = existing_task(tx, queue, command.id)?;
    let head = tx.load_head(key)?;
    let kept = tx.load_output(key)?;
    let new = NewOutput { run_id: command.run_id, offset: command.offset, text: &command.text };
    if let Some(change) = output::add(&head, kept.as_ref(), new, command.most_bytes)? {
        tx.save_output(queue.key, key, &change)?;
        after_commit.claimable.printed(command.run_id);
    }
    Ok(())
}
