//! Creates many tasks with concurrent calls. The tasks come from a file (`jsonl.rs`) or a sweep. Ctrl-C ends it with a message
//! that says how far it came.

use std::collections::BTreeSet;

use taskqueue_client::{Client, Definition, Error, ErrorCode, QueueName, Task, TaskId};
use tokio::signal::unix::{SignalKind, signal};

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
    /// Derived from the definition, not given by the user.
    pub(super) is_derived: bool,
    pub(super) definition: Definition,
    /// Where the task comes from, for messages: `line 7`.
    pub(super) origin: String,
}

/// What became of one task.
#[derive(Debug)]
enum Creation {
    Created,
    Existing,
    /// There is a task with the derived id, and these fields of it are different.
    Different(Vec<&'static str>),
}

/// The origin of a task, and what became of it.
type CreateResult = (String, Result<Creation, Error>);

#[derive(Debug)]
pub(super) struct TaskCreator<'s> {
    context: &'s ClientContext,
    calls: ConcurrentCalls<CreateResult>,
    progress: Progress,
    created: u64,
    existing: u64,
    different: u64,
    different_fields: BTreeSet<&'static str>,
    refused: u64,
}

/// Creates what `feed` adds, waits for the last results and prints the summary. On Ctrl-C it ends at once.
pub(super) async fn create<F>(context: &ClientContext, progress: Progress, feed: F) -> Result<(), CommandError>
where
    F: AsyncFnOnce(&mut TaskCreator<'_>) -> Result<(), CommandError>,
{
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::Refused(format!("signals cannot be received: {error}")))?;
    let mut creator = TaskCreator::new(context, progress);
    let is_interrupted = tokio::select! {
        outcome = async {
            feed(&mut creator).await?;
            creator.wait_for_results().await
        } => {
            outcome?;
            false
        }
        _ = interrupt.recv() => true,
    };
    if is_interrupted { Err(creator.interrupted().into()) } else { creator.finish() }
}

impl<'s> TaskCreator<'s> {
    fn new(context: &'s ClientContext, progress: Progress) -> Self {
        Self {
            context,
            calls: ConcurrentCalls::new(),
            progress,
            created: 0,
            existing: 0,
            different: 0,
            different_fields: BTreeSet::new(),
            refused: 0,
        }
    }

    /// Waits first while too many calls are running.
    pub(super) async fn add(&mut self, planned: PlannedTask) -> Result<(), CommandError> {
        let (client, queue) = (self.context.client.clone(), self.context.queue.clone());
        match self.calls.start(create_one(client, queue, planned)).await? {
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
            Ok(Creation::Created) => self.created += 1,
            Ok(Creation::Existing) => self.existing += 1,
            Ok(Creation::Different(fields)) => {
                self.different += 1;
                self.different_fields.extend(fields);
            }
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

    async fn wait_for_results(&mut self) -> Result<(), CommandError> {
        while let Some(result) = self.calls.next().await? {
            self.record(result)?;
        }
        Ok(())
    }

    /// Calls that go on are given up: their tasks may have been created or not, and the next try finds out.
    fn interrupted(mut self) -> Failure {
        while let Some(result) = self.calls.next_ended() {
            // A failure of the whole shows itself again at the next try.
            drop(self.record(result));
        }
        let done = self.summary().sentence();
        let open = match self.calls.count() {
            0 => String::new(),
            count => format!(" ({} not answered yet)", output::counted(count as u64, "request")),
        };
        Failure::Interrupted(format!("interrupted: {done} so far{open}; run the same command again to go on"))
    }

    /// Prints the summary.
    fn finish(self) -> Result<(), CommandError> {
        let (summary, refused) = (self.summary(), self.refused);
        let printer = &self.context.printer;
        drop(self.progress);
        if refused > REFUSALS_SHOWN {
            output::warning(&format!("{} more were refused", refused - REFUSALS_SHOWN));
        }
        printer.done(&summary, &summary.sentence())?;
        if self.different > 0 {
            return Err(Failure::Refused(explain_different(self.different, &self.different_fields)).into());
        }
        if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }

    fn summary(&self) -> Summary {
        Summary {
            counts: vec![
                ("created", self.created),
                ("already_there", self.existing),
                ("different", self.different),
                ("refused", self.refused),
            ],
        }
    }
}

async fn create_one(client: Client, queue: QueueName, planned: PlannedTask) -> CreateResult {
    let PlannedTask { id, is_derived, definition, origin } = planned;
    let outcome = match client.create_task(&queue, id, &definition).await {
        Ok(answer) if answer.created => Ok(Creation::Created),
        Ok(_) => Ok(Creation::Existing),
        Err(error) if is_derived && error.code() == Some(ErrorCode::TaskIdConflict) => {
            compare(&client, &queue, id, &definition).await
        }
        Err(error) => Err(error),
    };
    (origin, outcome)
}

/// Compares with the task as it is now: what another definition created may have been updated to this one since.
async fn compare(client: &Client, queue: &QueueName, id: TaskId, definition: &Definition) -> Result<Creation, Error> {
    let fields = different_fields(&client.task(queue, id).await?, definition);
    Ok(if fields.is_empty() { Creation::Existing } else { Creation::Different(fields) })
}

fn different_fields(task: &Task, definition: &Definition) -> Vec<&'static str> {
    let fields = [
        ("name", task.name == definition.name),
        ("args", task.args == definition.args),
        ("metadata", task.metadata == definition.metadata),
        ("priority", task.priority == definition.priority),
        ("max_attempts", task.max_attempts == definition.max_attempts),
        ("routes", task.routes == definition.routes),
    ];
    fields.into_iter().filter(|(_, is_equal)| !is_equal).map(|(field, _)| field).collect()
}

fn explain_different(count: u64, fields: &BTreeSet<&'static str>) -> String {
    let fields: Vec<&str> = fields.iter().copied().collect();
    let is = if count == 1 { "is" } else { "are" };
    format!(
        "{count} {is} already there with another definition ({}); `taskqueue task update ...` changes them, \
         --batch LABEL makes new ones",
        fields.join(", ")
    )
}
