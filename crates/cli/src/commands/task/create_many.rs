//! Creates many tasks by batches, a few at a time. The tasks come from a file (`jsonl.rs`) or a sweep. Ctrl-C ends it with a message
//! that says how far it came.

use std::collections::BTreeSet;
use std::future::Future;

use taskqueue_client::Error;
use taskqueue_core::words;
use tokio::signal::unix::{SignalKind, signal};

use super::concurrent_calls::{ConcurrentCalls, TaskOutcome};
use super::creation_calls::{CreateResult, Creating, create_batch};
use super::planned_task::{Origin, TaskGroup};
use super::refusals::Refusals;
use crate::client_context::ClientContext;
use crate::explain_error;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};
use crate::progress::Progress;

/// Enough that the server always has one to work on.
const BATCHES_MAX: usize = 4;

/// The result of one batch.
#[derive(Debug)]
struct CallResult {
    /// The place of its first task.
    place: u64,
    /// How far the command has come with its last task.
    end: u64,
    tasks: Result<Vec<CreateResult>, Failure>,
}

#[derive(Debug)]
pub(super) struct TaskCreator<'s> {
    context: &'s ClientContext,
    calls: ConcurrentCalls<CallResult>,
    /// The places of the calls under way.
    open: BTreeSet<u64>,
    progress: Progress,
    position: u64,
    created: u64,
    existing: u64,
    different: u64,
    different_fields: BTreeSet<&'static str>,
    refusals: Refusals,
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
            context.client.require_extensions().await?;
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
            calls: ConcurrentCalls::of_at_most(BATCHES_MAX),
            open: BTreeSet::new(),
            progress,
            position: 0,
            created: 0,
            existing: 0,
            different: 0,
            different_fields: BTreeSet::new(),
            refusals: Refusals::default(),
        }
    }

    /// Waits first while too many calls are running.
    pub(super) async fn add(&mut self, group: TaskGroup) -> Result<(), CommandError> {
        let TaskGroup { tasks, end, .. } = group;
        let mut planned = Vec::with_capacity(tasks.len());
        for task in tasks {
            match task {
                Ok(task) => planned.push(task),
                Err(wrong) => self.refusals.add(wrong.origin, || wrong.reason),
            }
        }
        let Some(place) = planned.first().map(|first| first.origin.number()) else {
            self.print_known_refusals();
            return Ok(());
        };
        let tasks = create_batch(self.context.client.clone(), self.context.queue.clone(), planned);
        self.start(place, async move { CallResult { place, end, tasks: tasks.await } }).await
    }

    async fn start(
        &mut self,
        place: u64,
        call: impl Future<Output = CallResult> + Send + 'static,
    ) -> Result<(), CommandError> {
        // First, so that no refusal behind it is printed while it waits for another call to end.
        self.open.insert(place);
        match self.calls.start(call).await? {
            Some(result) => self.record(result),
            None => Ok(()),
        }
    }

    fn record(&mut self, CallResult { place, end, tasks }: CallResult) -> Result<(), CommandError> {
        let mut fatal = None;
        for (origin, outcome) in tasks? {
            let error = self.count(origin, outcome);
            fatal = fatal.or(error);
        }
        if let Some(error) = fatal {
            return Err(self.abort(error));
        }
        self.position = self.position.max(end);
        self.progress.set_position(self.position);
        self.progress.set_message(|| self.summary().sentence());
        self.open.remove(&place);
        self.print_known_refusals();
        Ok(())
    }

    /// Counts what became of a task; the error if every other call would fail, too.
    fn count(&mut self, origin: Origin, outcome: Result<Creating, Error>) -> Option<Error> {
        let error = match outcome {
            Ok(Creating::Created) => {
                self.created += 1;
                return None;
            }
            Ok(Creating::Existing) => {
                self.existing += 1;
                return None;
            }
            Ok(Creating::Different(fields)) => {
                self.different += 1;
                self.different_fields.extend(fields);
                return None;
            }
            Err(error) => error,
        };
        let context = self.context;
        match TaskOutcome::of::<()>(Err(error)) {
            TaskOutcome::Fatal(error) => return Some(error),
            TaskOutcome::Refused(error) => self
                .refusals
                .add(origin, || explain_error::to_failure(context, &error).message().unwrap_or_default().to_owned()),
            TaskOutcome::Skipped(code) => self.refusals.add(origin, || code.as_str().to_owned()),
            TaskOutcome::Done => {}
        }
        None
    }

    /// Prints those before which no answer is missing.
    fn print_known_refusals(&mut self) {
        let known = self.open.first().copied().unwrap_or(u64::MAX);
        self.print_refusals(known);
    }

    fn print_refusals(&mut self, before: u64) {
        let lines = self.refusals.take_before(before);
        if !lines.is_empty() {
            self.progress.suspend(|| lines.iter().for_each(|line| output::warning(line)));
        }
    }

    /// Prints what was done so far. The same command can continue from there.
    fn abort(&mut self, error: Error) -> CommandError {
        self.count_ended();
        if self.created + self.existing > 0 {
            let done = self.summary().sentence();
            self.progress.suspend(|| output::note(&format!("{done} so far; run the same command again to go on")));
        }
        error.into()
    }

    /// Counts what else was answered already, and prints all refusals that are known. What failed fails again at the next try.
    fn count_ended(&mut self) {
        while let Some(CallResult { tasks, .. }) = self.calls.next_ended() {
            for (origin, outcome) in tasks.unwrap_or_default() {
                drop(self.count(origin, outcome));
            }
        }
        self.print_refusals(u64::MAX);
    }

    async fn wait_for_results(&mut self) -> Result<(), CommandError> {
        while let Some(result) = self.calls.next().await? {
            self.record(result)?;
        }
        Ok(())
    }

    /// Calls that go on are given up: their tasks may have been created or not, and the next try finds out.
    fn interrupted(mut self) -> Failure {
        self.count_ended();
        let done = self.summary().sentence();
        let open = match self.calls.count() {
            0 => String::new(),
            count => format!(" ({} not answered yet)", words::count(count as u64, "request")),
        };
        Failure::Interrupted(format!("interrupted: {done} so far{open}; run the same command again to go on"))
    }

    /// Prints the summary.
    fn finish(mut self) -> Result<(), CommandError> {
        self.print_refusals(u64::MAX);
        let (summary, refusals) = (self.summary(), self.refusals);
        let printer = &self.context.printer;
        drop(self.progress);
        if refusals.not_shown() > 0 {
            output::warning(&format!("{} more were refused", refusals.not_shown()));
        }
        printer.done(&summary, &summary.sentence())?;
        if self.different > 0 {
            return Err(Failure::Refused(explain_different(self.different, &self.different_fields)).into());
        }
        if refusals.count() == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }

    fn summary(&self) -> Summary {
        Summary {
            counts: vec![
                ("created", self.created),
                ("already_there", self.existing),
                ("different", self.different),
                ("refused", self.refusals.count()),
            ],
        }
    }
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
