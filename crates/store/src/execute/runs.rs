//! What the owner of a task says: that it is alive, how far it is, what it prints, how its run ended.

use taskqueue_core::ids::{RunId, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::{self, LeaseChange, NewProgress, RunRefusal, RunReport};
use taskqueue_core::output::{self, NewOutput};
use taskqueue_core::task::TaskHead;
use taskqueue_core::time::Timestamp;

use super::Execution;
use crate::command::{AddOutput, Heartbeat, ReportProgress, ReportRun};
use crate::transaction::{BatchTransaction, Queue, TaskKey};
use crate::{StoreError, StoreResult};

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn heartbeat(&mut self, command: &Heartbeat) -> StoreResult<Timestamp> {
        let queue = self.existing_queue(&command.queue)?;
        self.renew(queue, command.id, command.run_id, command.progress.as_ref())
    }

    pub(super) fn renew(
        &mut self,
        queue: Queue<'_>,
        id: TaskId,
        run_id: RunId,
        progress: Option<&JsonObject>,
    ) -> StoreResult<Timestamp> {
        let key = self.existing_task(queue, id)?;
        let before = self.tx.load_head(key)?;
        let progress = progress.map(|value| self.new_progress(key, value)).transpose()?;
        match lifecycle::heartbeat(&before, run_id, progress, self.tx.now(), self.tx.next_pending_seq()) {
            Ok(LeaseChange { change, lease_expires_at }) => {
                self.tx.save_change(queue.key, key, &before, &change)?;
                Ok(lease_expires_at)
            }
            Err(refused) => Err(self.refuse_run(queue, key, &before, refused)?),
        }
    }

    pub(super) fn new_progress<'a>(&mut self, key: TaskKey, value: &'a JsonObject) -> StoreResult<NewProgress<'a>> {
        Ok(NewProgress { value, result_bytes: self.tx.load_result_bytes(key)? })
    }

    pub(crate) fn report_progress(&mut self, command: &ReportProgress) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        self.record_progress(queue, command.id, command.run_id, &command.progress)
    }

    pub(super) fn record_progress(
        &mut self,
        queue: Queue<'_>,
        id: TaskId,
        run_id: RunId,
        progress: &JsonObject,
    ) -> StoreResult<()> {
        let key = self.existing_task(queue, id)?;
        let before = self.tx.load_head(key)?;
        let progress = self.new_progress(key, progress)?;
        match lifecycle::report_progress(&before, run_id, progress, self.tx.now(), self.tx.next_pending_seq()) {
            Ok(change) => self.tx.save_change(queue.key, key, &before, &change),
            Err(refused) => Err(self.refuse_run(queue, key, &before, refused)?),
        }
    }

    pub(crate) fn report_run(&mut self, command: &ReportRun) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        self.end_run(queue, command.id, command.run_id, &command.report)
    }

    pub(super) fn end_run(
        &mut self,
        queue: Queue<'_>,
        id: TaskId,
        run_id: RunId,
        report: &RunReport,
    ) -> StoreResult<()> {
        let key = self.existing_task(queue, id)?;
        let before = self.tx.load_head(key)?;
        match lifecycle::report_run(&before, run_id, report, self.tx.now(), self.tx.next_pending_seq()) {
            Ok(None) => Ok(()),
            Ok(Some(change)) => self.save_change(queue.into(), key, &before, &change),
            Err(refused) => Err(self.refuse_run(queue, key, &before, refused)?),
        }
    }

    /// The refusal, after the expiry was saved that goes with it.
    pub(super) fn refuse_run(
        &mut self,
        queue: Queue<'_>,
        key: TaskKey,
        before: &TaskHead,
        RunRefusal { refusal, expiry }: RunRefusal,
    ) -> StoreResult<StoreError> {
        if let Some(expiry) = expiry {
            self.save_change(queue.into(), key, before, &expiry)?;
        }
        Ok(refusal.into())
    }

    /// Keeps what a run prints. Nothing of the task changes by it.
    pub(crate) fn add_output(&mut self, command: &AddOutput) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        let key = self.existing_task(queue, command.id)?;
        let head = self.tx.load_head(key)?;
        let kept = self.tx.load_output(key)?;
        let new = NewOutput { run_id: command.run_id, offset: command.offset, text: &command.text };
        if let Some(change) = output::add(&head, kept.as_ref(), new, command.most_bytes)? {
            self.tx.save_output(queue.key, key, &change)?;
            self.after_commit.claimable.printed(command.run_id);
        }
        Ok(())
    }
}
