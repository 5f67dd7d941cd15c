//! `task cancel`, `task requeue` and `task delete`: one action on tasks that are named by id or selected.

use std::collections::BTreeMap;

use taskqueue_client::{Client, Error, OrderField, QueueName, TaskId, TaskQuery};

use super::concurrent_calls::{ConcurrentCalls, TaskOutcome};
use crate::args::ActionArgs;
use crate::client_context::ClientContext;
use crate::confirm::confirm;
use crate::explain_error;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};
use crate::progress::Progress;

/// The largest page.
const PAGE_LIMIT: u16 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Cancel,
    Requeue,
    Delete,
}

impl Action {
    async fn perform(self, client: &Client, queue: &QueueName, id: TaskId) -> Result<(), Error> {
        match self {
            Self::Cancel => client.cancel_task(queue, id).await.map(drop),
            Self::Requeue => client.requeue_task(queue, id).await.map(drop),
            Self::Delete => client.delete_task(queue, id).await,
        }
    }

    /// `Cancel`, `cancelled`, `cancelling`.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Cancel => ["Cancel", "cancelled", "cancelling"],
            Self::Requeue => ["Requeue", "requeued", "requeueing"],
            Self::Delete => ["Delete", "deleted", "deleting"],
        }
    }
}

pub(super) async fn run(context: &ClientContext, action: Action, args: &ActionArgs) -> Result<(), CommandError> {
    match args.target.ids.as_slice() {
        [] => act_on_selection(context, action, args).await,
        // A refusal of a single task is the error of the command.
        [id] => {
            action.perform(&context.client, &context.queue, *id).await?;
            let [_, done, _] = action.words();
            Ok(context.printer.done(&summary(done, 1, 0, 0), &format!("{id} {done}"))?)
        }
        ids => act_on_ids(context, action, ids).await,
    }
}

/// Every named task has to succeed: each skipped one is printed and makes the command fail.
async fn act_on_ids(context: &ClientContext, action: Action, ids: &[TaskId]) -> Result<(), CommandError> {
    let mut progress = ActionProgress::new(context, action, ids.len() as u64);
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    for id in ids {
        progress.add(id).await?;
    }
    progress.finish().await
}

/// Tasks whose state does not allow the action are only counted.
async fn act_on_selection(context: &ClientContext, action: Action, args: &ActionArgs) -> Result<(), CommandError> {
    let selection = args.target.selection.selection();
    let count = context.client.count_tasks(&context.queue, &selection).await?;
    if count > 0 {
        let ([imperative, ..], tasks) = (action.words(), output::counted(count, "task"));
        confirm(&format!("{imperative} {tasks} of queue {}?", context.queue), args.confirm)?;
    } else {
        output::note(&format!("no task of queue {} matches", context.queue));
    }
    let mut progress = ActionProgress { may_skip: true, ..ActionProgress::new(context, action, count) };
    // Ordered by a time that no action changes, newest first: no task comes twice, and new tasks are not included.
    let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
    let mut walk = context.client.walk_tasks(&context.queue, query);
    while let Some(task) = walk.next().await? {
        progress.add(task.id).await?;
    }
    progress.finish().await
}

fn summary(participle: &'static str, done: u64, skipped: u64, refused: u64) -> Summary {
    Summary { counts: vec![(participle, done), ("skipped", skipped), ("refused", refused)] }
}

/// An action on many tasks that is being performed.
struct ActionProgress<'s> {
    context: &'s ClientContext,
    action: Action,
    calls: ConcurrentCalls<(TaskId, TaskOutcome)>,
    bar: Progress,
    /// Whether the command succeeds although tasks were skipped. Otherwise each of them gets a warning.
    may_skip: bool,
    done: u64,
    /// By the code of the refusal.
    skipped: BTreeMap<&'static str, u64>,
    refused: u64,
}

impl<'s> ActionProgress<'s> {
    fn new(context: &'s ClientContext, action: Action, count: u64) -> Self {
        let [_, _, gerund] = action.words();
        let (calls, bar) = (ConcurrentCalls::new(), Progress::of_tasks(gerund, count));
        Self { context, action, calls, bar, may_skip: false, done: 0, skipped: BTreeMap::new(), refused: 0 }
    }

    async fn add(&mut self, id: TaskId) -> Result<(), CommandError> {
        let (client, queue, action) = (self.context.client.clone(), self.context.queue.clone(), self.action);
        let call = async move { (id, TaskOutcome::of(action.perform(&client, &queue, id).await)) };
        match self.calls.start(call).await? {
            Some((id, outcome)) => self.record(id, outcome),
            None => Ok(()),
        }
    }

    fn record(&mut self, id: TaskId, outcome: TaskOutcome) -> Result<(), CommandError> {
        match outcome {
            TaskOutcome::Done => self.done += 1,
            TaskOutcome::Skipped(code) => {
                *self.skipped.entry(code.as_str()).or_default() += 1;
                if !self.may_skip {
                    self.bar.suspend(|| output::warning(&format!("{id} skipped ({code})")));
                }
            }
            TaskOutcome::Refused(error) => {
                self.refused += 1;
                let failure = explain_error::to_failure(&self.context.url, &error);
                let message = failure.message().unwrap_or_default();
                self.bar.suspend(|| output::warning(&format!("{id}: {message}")));
            }
            TaskOutcome::Fatal(error) => {
                let done = self.summary().sentence();
                self.bar.suspend(|| output::note(&format!("{done} so far")));
                return Err(error.into());
            }
        }
        self.bar.set_position(self.done + self.skipped.values().sum::<u64>() + self.refused);
        Ok(())
    }

    /// Waits for the last results and prints the summary.
    async fn finish(mut self) -> Result<(), CommandError> {
        while let Some((id, outcome)) = self.calls.next().await? {
            self.record(id, outcome)?;
        }
        let (context, summary) = (self.context, self.summary());
        let is_complete = self.refused == 0 && (self.may_skip || self.skipped.is_empty());
        let reasons: Vec<String> = self.skipped.iter().map(|(code, count)| format!("{count} {code}")).collect();
        drop(self.bar);
        if !reasons.is_empty() {
            output::note(&format!("skipped because of their state: {}", reasons.join(", ")));
        }
        context.printer.done(&summary, &summary.sentence())?;
        if is_complete { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }

    fn summary(&self) -> Summary {
        let [_, participle, _] = self.action.words();
        summary(participle, self.done, self.skipped.values().sum(), self.refused)
    }
}
