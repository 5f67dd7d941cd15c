//! Creates many tasks with concurrent calls. The tasks come from a file (`jsonl.rs`) or a sweep.

use taskqueue_client::{Definition, Error, TaskId};

use super::concurrent_calls::{ConcurrentCalls, TaskOutcome};
use crate::client_context::ClientContext;
use crate::explain_error;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};
use crate::progress::Progress;

/// Further refusals are only counted.
const REFUSALS_SHOWN: u64 = 20;

#[derive(Debug)]
pub(super) struct PlannedTask {
    pub(super) id: TaskId,
    pub(super) definition: Definition,
    /// Where the task comes from, for messages: `line 7`.
    pub(super) origin: String,
}

/// The origin of a task, and whether it was created or existed already.
type CreateResult = (String, Result<bool, Error>);

#[derive(Debug)]
pub(super) struct TaskCreator<'s> {
    context: &'s ClientContext,
    calls: ConcurrentCalls<CreateResult>,
    progress: Progress,
    created: u64,
    existing: u64,
    refused: u64,
}

impl<'s> TaskCreator<'s> {
    pub(super) fn new(context: &'s ClientContext, progress: Progress) -> Self {
        Self { context, calls: ConcurrentCalls::new(), progress, created: 0, existing: 0, refused: 0 }
    }

    /// Waits first while too many calls are running.
    pub(super) async fn add(&mut self, planned: PlannedTask) -> Result<(), CommandError> {
        let (client, queue) = (self.context.client.clone(), self.context.queue.clone());
        let PlannedTask { id, definition, origin } = planned;
        let call = async move {
            let outcome = client.create_task(&queue, id, &definition).await;
            (origin, outcome.map(|answer| answer.created))
        };
        match self.calls.start(call).await? {
            Some(result) => self.record(result),
            None => Ok(()),
        }
    }

    /// Counts a refused task; also one for which no request was sent.
    pub(super) fn refuse(&mut self, origin: &str, reason: &str) {
        self.refused += 1;
        if self.refused <= REFUSALS_SHOWN {
            self.progress.suspend(|| output::warning(&format!("{origin}: {reason}")));
        }
    }

    pub(super) fn advance(&self, position: u64) {
        self.progress.set_position(position);
    }

    fn record(&mut self, (origin, outcome): CreateResult) -> Result<(), CommandError> {
        match outcome {
            Ok(true) => self.created += 1,
            Ok(false) => self.existing += 1,
            Err(error) => match TaskOutcome::of::<()>(Err(error)) {
                TaskOutcome::Fatal(error) => return Err(self.abort(error)),
                TaskOutcome::Refused(error) => {
                    let failure = explain_error::to_failure(&self.context.url, &error);
                    self.refuse(&origin, failure.message().unwrap_or_default());
                }
                TaskOutcome::Skipped(code) => self.refuse(&origin, code.as_str()),
                TaskOutcome::Done => {}
            },
        }
        self.progress.set_message(|| self.summary().sentence());
        Ok(())
    }

    /// Prints what was done so far. The same command can continue from there.
    fn abort(&self, error: Error) -> CommandError {
        if self.created + self.existing > 0 {
            let done = self.summary().sentence();
            self.progress.suspend(|| output::note(&format!("{done} so far; run the same command again to go on")));
        }
        error.into()
    }

    /// Waits for the last results and prints the summary.
    pub(super) async fn finish(mut self) -> Result<(), CommandError> {
        while let Some(result) = self.calls.next().await? {
            self.record(result)?;
        }
        let (summary, refused) = (self.summary(), self.refused);
        let printer = &self.context.printer;
        drop(self.progress);
        if refused > REFUSALS_SHOWN {
            output::warning(&format!("{} more were refused", refused - REFUSALS_SHOWN));
        }
        printer.done(&summary, &summary.sentence())?;
        if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }

    fn summary(&self) -> Summary {
        Summary { counts: vec![("created", self.created), ("already_there", self.existing), ("refused", self.refused)] }
    }
}
