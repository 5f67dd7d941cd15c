//! `task rerun`: submits ended tasks again under new ids. The originals stay as they are.

use std::collections::BTreeSet;
use std::time::Duration;

use taskqueue_client::{Definition, Dependencies, Error, OnDependencyFailure, SchedulingFields, Task, TaskId};
use taskqueue_core::words;
use tokio::time::timeout;

use super::change::{Change, ChangeOutcome};
use super::concurrent_calls::{ConcurrentCalls, interrupts};
use super::named_tasks::{self, random_id};
use crate::args::TargetArgs;
use crate::config::{ClientContext, command_line};
use crate::failure::{CommandError, Failure};
use crate::output::{self, Progress, RerunRecord};

/// How long Ctrl-C waits for the answers to what was already sent.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

pub(super) async fn run(context: &ClientContext, args: &TargetArgs) -> Result<(), CommandError> {
    match named_tasks::ids(context, &args.ids).await?.as_slice() {
        [] => rerun_selection(context, args).await,
        ids => rerun_ids(context, ids).await,
    }
}

/// Submits named tasks again. One that cannot be makes the command fail.
async fn rerun_ids(context: &ClientContext, ids: &[TaskId]) -> Result<(), CommandError> {
    let feed = async |copies: &mut Copies<'_>| {
        let (mut is_complete, mut seen) = (true, BTreeSet::new());
        for id in ids.iter().filter(|id| seen.insert(**id)) {
            let refusal = match named_tasks::existing(&context.client, &context.queue, *id).await? {
                Some(task) if Change::Rerun.applies_to().contains(task.status) => {
                    copies.add(task).await?;
                    continue;
                }
                Some(task) => format!("{id} is {}: {}", task.status.as_str(), Change::Rerun.reason(task.status)),
                None => named_tasks::missing(*id),
            };
            is_complete = false;
            copies.bar.suspend(|| output::warning(&refusal));
        }
        if is_complete { Ok(()) } else { Err(Failure::Unfinished.into()) }
    };
    submit(context, ids.len() as u64, feed).await
}

async fn rerun_selection(context: &ClientContext, args: &TargetArgs) -> Result<(), CommandError> {
    let (change, selection) = (Change::Rerun, args.selection.selection());
    let counts = change.count(context, selection.clone(), args.confirm).await?;
    let changed = counts.among(change.applies_to());
    let outcome = ChangeOutcome { changed, ..ChangeOutcome::default() };
    if changed == 0 {
        return Copies::new(context, 0).finish(change.conclude(&counts, outcome));
    }
    let feed = async |copies: &mut Copies<'_>| {
        // One walk, newest first: the copies, which are newer, are not walked through, also if they end soon.
        let mut walk = named_tasks::walk(context, selection);
        while let Some(task) = walk.next().await?.filter(|_| copies.error.is_none()) {
            if change.applies_to().contains(task.status) {
                copies.add(task).await?;
            }
        }
        copies.bar.suspend(|| change.conclude(&counts, outcome))
    };
    submit(context, changed, feed).await
}

/// Submits what `feed` adds and prints every copy, also if the command failed or Ctrl-C ended it: they exist.
async fn submit<F>(context: &ClientContext, count: u64, feed: F) -> Result<(), CommandError>
where
    F: AsyncFnOnce(&mut Copies<'_>) -> Result<(), CommandError>,
{
    let mut interrupt = interrupts()?;
    let mut copies = Copies::new(context, count);
    let outcome = tokio::select! {
        outcome = async {
            let outcome = feed(&mut copies).await;
            copies.wait_for_results().await?;
            outcome
        } => Some(outcome),
        _ = interrupt.recv() => None,
    };
    if let Some(outcome) = outcome {
        return copies.finish(outcome);
    }
    // The last answers tell which copies exist. A second Ctrl-C ends this, too.
    tokio::select! {
        _ = timeout(LAST_ANSWERS, copies.wait_for_results()) => {}
        _ = interrupt.recv() => {}
    }
    let failure = copies.interrupted();
    copies.finish(Err(failure.into()))
}

/// Returns what a copy is made of. It can be claimed at once: the time before which the original could not be claimed is over or was for
/// that one, and what it waited for had succeeded when it ran. To wait for tasks that failed or were deleted since, nobody would ask,
/// and a task that was cancelled because of them would be cancelled again.
fn definition_of(task: &Task) -> Definition {
    let scheduling = SchedulingFields {
        dependencies: Dependencies::default(),
        on_dependency_failure: OnDependencyFailure::default(),
        ..SchedulingFields::clone(&task.scheduling)
    };
    Definition { scheduling: scheduling.into(), ..task.definition() }
}

/// Copies that are being created.
struct Copies<'s> {
    context: &'s ClientContext,
    calls: ConcurrentCalls<(usize, Option<Error>)>,
    bar: Progress,
    /// In the order in which they came.
    started: Vec<RerunRecord>,
    created: u64,
    /// Why copies were not created, or not for sure.
    error: Option<Error>,
}

impl<'s> Copies<'s> {
    fn new(context: &'s ClientContext, count: u64) -> Self {
        let (calls, bar) = (ConcurrentCalls::new(), Progress::of_tasks("submitting", count));
        Self { context, calls, bar, started: Vec::new(), created: 0, error: None }
    }

    /// Begins to create a copy. The new id is chosen before the call, which the client may repeat: a lost answer does not make a second copy.
    async fn add(&mut self, task: Task) -> Result<(), CommandError> {
        let (client, queue, new_id) = (self.context.client.clone(), self.context.queue.clone(), random_id()?);
        let (index, old_id) = (self.started.len(), task.id);
        let call = async move { (index, client.create_task(&queue, new_id, &definition_of(&task)).await.err()) };
        let ended = self.calls.start(call).await?;
        // Only now: an interruption ends the wait above, and then there is no call.
        self.started.push(RerunRecord { old_id, new_id, is_created: None });
        ended.into_iter().for_each(|ended| self.record(ended));
        Ok(())
    }

    fn record(&mut self, (index, error): (usize, Option<Error>)) {
        self.started[index].is_created = Some(error.is_none());
        if error.is_some() {
            self.warn_unsure(&self.started[index]);
            self.error = error;
        }
        self.created += u64::from(self.started[index].is_created == Some(true));
        self.bar.set_position(self.created);
    }

    async fn wait_for_results(&mut self) -> Result<(), CommandError> {
        while let Some(result) = self.calls.next().await? {
            self.record(result);
        }
        Ok(())
    }

    /// Warns that a copy may exist or not.
    fn warn_unsure(&self, RerunRecord { old_id, new_id, .. }: &RerunRecord) {
        let get = command_line(self.context, "task get").argument(new_id.as_str());
        let words = format!("{old_id} may not have been submitted again; {get} tells");
        self.bar.suspend(|| output::warning(&words));
    }

    /// Returns the error after Ctrl-C. Calls that go on are given up.
    fn interrupted(&mut self) -> Failure {
        self.error = None;
        self.started.iter().filter(|rerun| rerun.is_created.is_none()).for_each(|rerun| self.warn_unsure(rerun));
        let tasks = words::count(self.created, "task");
        Failure::Interrupted(format!(
            "interrupted: {tasks} submitted again so far; running the command again makes further copies"
        ))
    }

    /// Prints every copy. Its own error says more than the outcome.
    fn finish(self, outcome: Result<(), CommandError>) -> Result<(), CommandError> {
        drop(self.bar);
        let mut listing = self.context.printer.listing::<RerunRecord>();
        let mut created = self.started.iter().filter(|rerun| rerun.is_created == Some(true));
        created.try_for_each(|rerun| listing.push(rerun))?;
        listing.finish()?;
        self.error.map_or(outcome, |error| Err(error.into()))
    }
}
