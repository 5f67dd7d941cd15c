//! `task cancel`, `task requeue`, `task delete`, `task archive` and `task unarchive`: one action on tasks that are named by id or
//! selected. What the server does to all selected ones is in `change.rs`.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_client::{Client, Error, ErrorCode, QueueName, Status, Task, TaskId, TaskSelection, Update};
use taskqueue_core::bulk_action::BulkAction;

use super::change::{Change, ChangeOutcome, act_in_bulk, bulk_filter, is_other_number};
use super::concurrent_calls::{ConcurrentCalls, TaskError};
use super::named_tasks;
use crate::args::{ConfirmArgs, SelectionArgs, TargetArgs};
use crate::config::ClientContext;
use crate::failure::{CommandError, Failure, to_failure};
use crate::output::{self, Progress, Summary};

/// An action on tasks.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) change: Change,
    /// The update that a requeue begins with, or that archives.
    pub(super) update: Option<Box<Update>>,
    /// Whether a named task that does not exist is no failure.
    pub(super) ignore_missing: bool,
}

impl Action {
    pub(super) fn new(change: Change, update: Option<Update>) -> Self {
        Self { change, update: update.map(Box::new), ignore_missing: false }
    }

    /// Returns the action on all tasks that match, if one request can do that.
    fn bulk(&self) -> Option<BulkAction> {
        self.change.bulk().filter(|_| self.update.is_none())
    }

    /// Returns the numbers that the command prints.
    fn summary(&self, done: u64, skipped: u64, refused: u64) -> Summary {
        Summary::of([(self.change.words().done, done), ("skipped", skipped), ("refused", refused)])
    }

    fn ignores(&self, code: ErrorCode) -> bool {
        code == ErrorCode::TaskNotFound && self.ignore_missing
    }

    /// Acts on one task. `is_named` tells that nobody has seen the task yet.
    async fn perform(self, client: &Client, queue: &QueueName, id: TaskId, is_named: bool) -> ActionResult {
        match (self.change, self.update) {
            (Change::Cancel, _) => drop(client.cancel_task(queue, id).await?),
            (Change::Requeue, None) => return Ok(ActionOutcome::of_requeued(&client.requeue_task(queue, id).await?)),
            (Change::Requeue, Some(update)) => return change_and_requeue(client, queue, id, &update).await,
            (Change::Delete, _) => {
                // The API answers the deletion of a missing task like any other.
                if is_named {
                    client.task(queue, id).await?;
                }
                client.delete_task(queue, id).await?;
            }
            (_, update) => drop(client.update_task(queue, id, &update.unwrap_or_default()).await?),
        }
        Ok(ActionOutcome::Done)
    }
}

/// The outcome of an action on one task, or why there is none.
type ActionResult = Result<ActionOutcome, Error>;

/// The outcome of an action on one task.
#[derive(Debug)]
enum ActionOutcome {
    Done,
    /// It was requeued and cancelled again at once, for this reason: what it waits for has not been requeued.
    CancelledAgain(String),
    /// It has the new values, and was not requeued.
    ChangedOnly(Error),
}

impl ActionOutcome {
    fn of_requeued(task: &Task) -> Self {
        match &task.last_error {
            Some(error) if task.status == Status::Cancelled => Self::CancelledAgain(error.failure.message.to_string()),
            _ => Self::Done,
        }
    }
}

/// Updates a task and then requeues it. In this order a task never runs again with its old values: if the second step
/// fails, it is still failed or cancelled, and both steps can be repeated.
async fn change_and_requeue(client: &Client, queue: &QueueName, id: TaskId, update: &Update) -> ActionResult {
    let task = client.task(queue, id).await?;
    if task.status != Status::Succeeded {
        client.update_task(queue, id, update).await?;
    }
    // A task that has succeeded is never requeued: it stays as it is, and the server says why.
    match client.requeue_task(queue, id).await {
        Ok(task) => Ok(ActionOutcome::of_requeued(&task)),
        Err(error) if task.status == Status::Succeeded => Err(error),
        Err(error) => Ok(ActionOutcome::ChangedOnly(error)),
    }
}

pub(super) async fn run(context: &ClientContext, action: Action, target: &TargetArgs) -> Result<(), CommandError> {
    match named_tasks::ids(context, &target.ids).await?.as_slice() {
        [] => act_on_selection(context, action, target).await,
        [id] => act_on_one(context, action, *id).await,
        ids => act_on_ids(context, action, ids).await,
    }
}

/// Acts on a single task, whose refusal is the error of the command.
async fn act_on_one(context: &ClientContext, action: Action, id: TaskId) -> Result<(), CommandError> {
    let done = action.change.words().done;
    match action.clone().perform(&context.client, &context.queue, id, true).await {
        Ok(ActionOutcome::Done) => Ok(context.printer.done(&action.summary(1, 0, 0), &format!("{id} {done}"))?),
        Ok(ActionOutcome::CancelledAgain(why)) => Err(Failure::Refused(cancelled_again(id, &why)).into()),
        Ok(ActionOutcome::ChangedOnly(error)) => {
            output::warning(&changed_only(id));
            Err(error.into())
        }
        Err(error) if error.code().is_some_and(|code| action.ignores(code)) => {
            Ok(context.printer.done(&action.summary(0, 1, 0), &format!("{id} does not exist"))?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Acts on named tasks, which all have to succeed: each skipped one is printed and makes the command fail.
async fn act_on_ids(context: &ClientContext, action: Action, ids: &[TaskId]) -> Result<(), CommandError> {
    let mut progress = ActionProgress::new(context, action, ids.len() as u64);
    for id in ids.iter().copied().collect::<BTreeSet<_>>() {
        progress.add(id).await?;
    }
    progress.wait_for_all().await?;
    let is_complete = progress.refused == 0 && !progress.has_missed;
    progress.print_summary()?;
    if is_complete { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// Acts on selected tasks. Those whose state does not allow the action are left out. The command fails if that leaves nothing to do.
async fn act_on_selection(context: &ClientContext, action: Action, target: &TargetArgs) -> Result<(), CommandError> {
    let TargetArgs { selection: args, confirm, .. } = target;
    if action.bulk().is_some() {
        context.client.require_extensions().await?;
    }
    let (change, mut done_before) = (action.change, 0);
    let (counts, progress) = loop {
        // Before the progress bar, which would be drawn over the question.
        let counts = change.count(context, args.selection(), *confirm).await?;
        let applicable = counts.among(change.applies_to());
        let mut progress = ActionProgress::new(context, action.clone(), applicable);
        (progress.left_out, progress.done) = (counts.total() - applicable, done_before);
        if applicable == 0 || progress.act(args, applicable, *confirm).await? {
            break (counts, progress);
        }
        done_before = progress.done;
    };
    let (refused, outcome) =
        (progress.refused, ChangeOutcome { changed: progress.done, missed: progress.missed, equal: 0 });
    progress.print_summary()?;
    if refused == 0 { change.conclude(&counts, outcome) } else { Err(Failure::Unfinished.into()) }
}

/// Returns the selection to walk through. All states to which the change applies are in one walk: with one walk for each of them, a task
/// that goes from one state to another meanwhile would be missed by all. What a deletion leaves out is little, so it asks for everything.
fn walked(change: Change, args: &SelectionArgs) -> TaskSelection {
    let is_whole = args.status.is_some() || change == Change::Delete;
    let narrowed = (!is_whole).then(|| args.narrowed(&change.applies_to().filter_text())).flatten();
    // In a filter that would be longer than a server accepts the states are told apart here alone.
    narrowed.as_ref().unwrap_or(args).selection()
}

fn why_skipped(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::TaskNotFound => "it does not exist",
        ErrorCode::TaskRunning => "it is running",
        _ => "its status does not allow it",
    }
}

fn changed_only(id: TaskId) -> String {
    format!("{id} has the new values, but was not requeued")
}

fn cancelled_again(id: TaskId, why: &str) -> String {
    format!("{id} was requeued, and cancelled again: {why}")
}

/// An action on many tasks that is being performed.
struct ActionProgress<'s> {
    context: &'s ClientContext,
    action: Action,
    calls: ConcurrentCalls<(TaskId, ActionResult)>,
    /// Requeued tasks that what they wait for has cancelled again, and why.
    cancelled_again: Vec<(TaskId, String)>,
    bar: Progress,
    /// Whether the tasks are named by id: then each that is skipped gets a warning.
    are_named: bool,
    done: u64,
    /// Selected tasks in a state to which the action does not apply.
    left_out: u64,
    /// Selected tasks that the server left as they are.
    missed: u64,
    /// By the code of the refusal.
    skipped: BTreeMap<&'static str, u64>,
    /// Whether a skipped task makes the command fail.
    has_missed: bool,
    refused: u64,
}

impl<'s> ActionProgress<'s> {
    fn new(context: &'s ClientContext, action: Action, count: u64) -> Self {
        Self {
            context,
            calls: ConcurrentCalls::new(),
            cancelled_again: Vec::new(),
            bar: Progress::of_tasks(action.change.words().doing, count),
            action,
            are_named: true,
            done: 0,
            left_out: 0,
            missed: 0,
            skipped: BTreeMap::new(),
            has_missed: false,
            refused: 0,
        }
    }

    async fn add(&mut self, id: TaskId) -> Result<(), CommandError> {
        let (client, queue, action) = (self.context.client.clone(), self.context.queue.clone(), self.action.clone());
        let is_named = self.are_named;
        let call = async move { (id, action.perform(&client, &queue, id, is_named).await) };
        if let Some((id, outcome)) = self.calls.start(call).await? { self.record(id, outcome) } else { Ok(()) }
    }

    /// Acts on the tasks of a selection, of which there were so many. Returns false if their number is another one by now, so that
    /// somebody has to be asked again.
    async fn act(&mut self, args: &SelectionArgs, applicable: u64, confirm: ConfirmArgs) -> Result<bool, CommandError> {
        let Some((bulk, filter)) = self.action.bulk().zip(bulk_filter(args)) else {
            self.add_selected(walked(self.action.change, args)).await?;
            self.wait_for_all().await?;
            return Ok(true);
        };
        // What nobody was asked about has no number to keep to.
        let expect = (!confirm.yes).then_some(applicable);
        let done = act_in_bulk(self.context, bulk, &filter, args.include_archived, expect, &self.bar).await;
        self.done += done.changed;
        self.missed += done.missed;
        match done.error {
            None => Ok(true),
            Some(error) if is_other_number(&error) => {
                self.bar.suspend(|| output::note("other tasks match by now, so they were counted again"));
                Ok(false)
            }
            Some(error) => {
                self.note_so_far();
                Err(error.into())
            }
        }
    }

    /// Acts on the tasks of a selection to which the action applies.
    async fn add_selected(&mut self, selection: TaskSelection) -> Result<(), CommandError> {
        self.are_named = false;
        let change = self.action.change;
        let mut walk = named_tasks::walk(self.context, selection);
        loop {
            match walk.next().await {
                Ok(Some(task)) if change.applies_to().contains(task.status) => self.add(task.id).await?,
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.wait_for_all().await?;
                    self.note_so_far();
                    return Err(error.into());
                }
            }
        }
    }

    /// Waits for all calls. Tasks that were cancelled again may only have been requeued before what they wait for, so they are tried
    /// again as long as that helps some of them.
    async fn wait_for_all(&mut self) -> Result<(), CommandError> {
        let mut before = usize::MAX;
        loop {
            while let Some((id, outcome)) = self.calls.next().await? {
                self.record(id, outcome)?;
            }
            let again = std::mem::take(&mut self.cancelled_again);
            if again.is_empty() || again.len() >= before {
                self.refused += again.len() as u64;
                again.iter().for_each(|(id, why)| self.warn(&cancelled_again(*id, why)));
                return Ok(());
            }
            before = again.len();
            for (id, _) in again {
                self.add(id).await?;
            }
        }
    }

    fn record(&mut self, id: TaskId, outcome: ActionResult) -> Result<(), CommandError> {
        let error = match outcome {
            Ok(ActionOutcome::Done) => None,
            Ok(ActionOutcome::CancelledAgain(why)) => {
                self.cancelled_again.push((id, why));
                return Ok(());
            }
            Ok(ActionOutcome::ChangedOnly(error)) => {
                self.warn(&changed_only(id));
                Some(error)
            }
            Err(error) => Some(error),
        };
        match error.map(TaskError::of) {
            None => self.done += 1,
            Some(TaskError::Skipped(code)) => {
                *self.skipped.entry(code.as_str()).or_default() += 1;
                self.has_missed |= !self.action.ignores(code);
                if self.are_named && !self.action.ignores(code) {
                    self.warn(&format!("{id} skipped: {} ({code})", why_skipped(code)));
                }
            }
            Some(TaskError::Refused(error)) => {
                self.refused += 1;
                self.warn(&format!("{id}: {}", to_failure(self.context, &error).message().unwrap_or_default()));
            }
            Some(TaskError::Fatal(error)) => {
                self.note_so_far();
                return Err(error.into());
            }
        }
        self.bar.set_position(self.done + self.skipped.values().sum::<u64>() + self.refused);
        Ok(())
    }

    fn warn(&self, message: &str) {
        self.bar.suspend(|| output::warning(message));
    }

    /// Says what was done before an error ended the command, and what an interruption between two steps may leave behind.
    fn note_so_far(&self) {
        let unsure = match self.action {
            Action { change: Change::Requeue, update: Some(_), .. } => {
                "; a few others may have the new values without being requeued"
            }
            _ => "",
        };
        self.bar.suspend(|| output::note(&format!("{} so far{unsure}", self.summary().sentence())));
    }

    fn print_summary(self) -> Result<(), Failure> {
        let (context, summary) = (self.context, self.summary());
        let reasons: Vec<String> = self.skipped.iter().map(|(code, count)| format!("{count} {code}")).collect();
        drop(self.bar);
        // Of tasks that are named by id, each was said already.
        if !reasons.is_empty() && !self.are_named {
            output::note(&format!("skipped: {}", reasons.join(", ")));
        }
        context.printer.done(&summary, &summary.sentence())
    }

    fn summary(&self) -> Summary {
        let skipped = self.left_out + self.missed + self.skipped.values().sum::<u64>();
        self.action.summary(self.done, skipped, self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_to_which_a_change_applies_is_in_one_walk() {
        let args = |filter: Option<String>| {
            let mut args = SelectionArgs::default();
            args.conditions.filter = filter;
            args
        };
        let expected =
            TaskSelection::all().filter(r#"(args.a == 1 or args.b == 2) and status in ["pending", "running"]"#);
        assert_eq!(walked(Change::Cancel, &args(Some("args.a == 1 or args.b == 2".to_owned()))), expected);
        let expected = TaskSelection::all().filter(r#"status in ["failed", "cancelled"]"#);
        assert_eq!(walked(Change::Requeue, &args(None)), expected);
        let longest = args(Some(format!("{}args.a == 1", " ".repeat(taskqueue_core::limits::FILTER_BYTES - 11))));
        for unchanged in [longest, SelectionArgs { status: Some(Status::Running), ..args(None) }] {
            assert_eq!(walked(Change::Cancel, &unchanged), unchanged.selection());
        }
    }
}
