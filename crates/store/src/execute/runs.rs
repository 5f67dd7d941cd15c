//! What the owner of a task says: that it is alive, how far it is, how its run ended.

use taskqueue_core::ids::{RunId, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::{self, LeaseChange, NewProgress, RunRefusal, RunReport};
use taskqueue_core::task::TaskHead;
use taskqueue_core::time::Timestamp;

use super::{Executed, existing_queue, existing_task, save_change};
use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::command::{Heartbeat, ReportProgress, ReportRun};
use crate::transaction::{Queue, TaskKey, Transaction};

pub(super) fn heartbeat<T: Transaction>(
    tx: &mut T,
    command: &Heartbeat,
    after_commit: &mut AfterCommit,
) -> Executed<Timestamp> {
    let queue = existing_queue(tx, &command.queue)?;
    renew(tx, queue, command.id, command.run_id, command.progress.as_ref(), after_commit)
}

pub(super) fn renew<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    run_id: RunId,
    progress: Option<&JsonObject>,
    after_commit: &mut AfterCommit,
) -> Executed<Timestamp> {
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    let progress = progress.map(|value| new_progress(tx, key, value)).transpose()?;
    match lifecycle::heartbeat(&before, run_id, progress, tx.now(), tx.next_pending_seq()) {
        Ok(LeaseChange { change, lease_expires_at }) => {
            tx.save_change(queue.key, key, &before, &change)?;
            Ok(lease_expires_at)
        }
        Err(refused) => Err(refuse_run(tx, queue, key, &before, refused, after_commit)?),
    }
}

pub(super) fn new_progress<'a, T: Transaction>(
    tx: &mut T,
    key: TaskKey,
    value: &'a JsonObject,
) -> Executed<NewProgress<'a>> {
    Ok(NewProgress { value, result_bytes: tx.load_result_bytes(key)? })
}

pub(super) fn report_progress<T: Transaction>(
    tx: &mut T,
    command: &ReportProgress,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    record_progress(tx, queue, command.id, command.run_id, &command.progress, after_commit)
}

pub(super) fn record_progress<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    run_id: RunId,
    progress: &JsonObject,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    let progress = new_progress(tx, key, progress)?;
    match lifecycle::report_progress(&before, run_id, progress, tx.now(), tx.next_pending_seq()) {
        Ok(change) => tx.save_change(queue.key, key, &before, &change),
        Err(refused) => Err(refuse_run(tx, queue, key, &before, refused, after_commit)?),
    }
}

pub(super) fn report_run<T: Transaction>(
    tx: &mut T,
    command: &ReportRun,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    end_run(tx, queue, command.id, command.run_id, &command.report, after_commit)
}

pub(super) fn end_run<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    run_id: RunId,
    report: &RunReport,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    match lifecycle::report_run(&before, run_id, report, tx.now(), tx.next_pending_seq()) {
        Ok(None) => Ok(()),
        Ok(Some(change)) => save_change(tx, queue.into(), key, &before, &change, after_commit),
        Err(refused) => Err(refuse_run(tx, queue, key, &before, refused, after_commit)?),
    }
}

/// The refusal, after the expiry was saved that goes with it.
pub(super) fn refuse_run<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    key: TaskKey,
    before: &TaskHead,
    RunRefusal { refusal, expiry }: RunRefusal,
    after_commit: &mut AfterCommit,
) -> Result<StoreError, StoreError> {
    if let Some(expiry) = expiry {
        save_change(tx, queue.into(), key, before, &expiry, after_commit)?;
    }
    Ok(refusal.into())
}
