//! `task cancel`, `task requeue` and `task delete`: one action on tasks that are named by id or selected.

use std::collections::BTreeMap;

use taskqueue_client::{Client, Error, OrderField, QueueName, TaskId, TaskQuery};

use super::concurrent_calls::{ConcurrentCalls, TaskOutcome};
use crate::args::ActionArgs;
use crate::confirm::confirm;
use crate::explain_error;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};
use crate::progress::Progress;
use crate::session::Session;

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

    fn imperative(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Requeue => "Requeue",
            Self::Delete => "Delete",
        }
    }

    fn participle(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Requeue => "requeued",
            Self::Delete => "deleted",
        }
    }

    fn gerund(self) -> &'static str {
        match self {
            Self::Cancel => "cancelling",
            Self::Requeue => "requeueing",
            Self::Delete => "deleting",
        }
    }
}

pub(super) async fn run(session: &Session, action: Action, args: &ActionArgs) -> Result<(), CommandError> {
    match args.target.ids.as_slice() {
        [] => act_on_selection(session, action, args).await,
        // A refusal of a single task is the error of the command.
        [id] => {
            action.perform(&session.client, &session.queue, *id).await?;
            let summary = Tally { done: 1, ..Tally::new(action.participle()) }.summary();
            Ok(session.printer.done(&summary, &format!("{id} {}", action.participle()))?)
        }
        ids => act_on_ids(session, action, ids).await,
    }
}

/// Every named task has to succeed: each skipped one is printed and makes the command fail.
async fn act_on_ids(session: &Session, action: Action, ids: &[TaskId]) -> Result<(), CommandError> {
    let mut progress = ActionProgress::new(session, action, ids.len() as u64);
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    for id in ids {
        progress.add(id).await?;
    }
    let tally = progress.finish().await?;
    tally.print(session)?;
    if tally.skipped.is_empty() && tally.refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// Tasks whose state does not allow the action are only counted.
async fn act_on_selection(session: &Session, action: Action, args: &ActionArgs) -> Result<(), CommandError> {
    let selection = args.target.selection.selection();
    let count = session.client.count_tasks(&session.queue, &selection).await?;
    if count > 0 {
        let tasks = output::counted(count, "task");
        confirm(&format!("{} {tasks} of queue {}?", action.imperative(), session.queue), args.confirm)?;
    } else {
        output::note(&format!("no task of queue {} matches", session.queue));
    }
    let mut progress = ActionProgress { warns_skipped: false, ..ActionProgress::new(session, action, count) };
    // Ordered by a time that no action changes, newest first: no task comes twice, and new tasks are not included.
    let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
    let mut walk = session.client.walk_tasks(&session.queue, query);
    while let Some(task) = walk.next().await? {
        progress.add(task.id).await?;
    }
    let tally = progress.finish().await?;
    tally.print(session)?;
    if tally.refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// An action on many tasks that is being performed.
struct ActionProgress<'s> {
    session: &'s Session,
    action: Action,
    calls: ConcurrentCalls<(TaskId, TaskOutcome)>,
    bar: Progress,
    tally: Tally,
    warns_skipped: bool,
}

impl<'s> ActionProgress<'s> {
    fn new(session: &'s Session, action: Action, count: u64) -> Self {
        let bar = Progress::of_tasks(action.gerund(), count);
        let tally = Tally::new(action.participle());
        Self { session, action, calls: ConcurrentCalls::new(), bar, tally, warns_skipped: true }
    }

    async fn add(&mut self, id: TaskId) -> Result<(), CommandError> {
        let (client, queue, action) = (self.session.client.clone(), self.session.queue.clone(), self.action);
        let call = async move { (id, TaskOutcome::of(action.perform(&client, &queue, id).await)) };
        match self.calls.start(call).await? {
            Some((id, outcome)) => self.record(id, outcome),
            None => Ok(()),
        }
    }

    fn record(&mut self, id: TaskId, outcome: TaskOutcome) -> Result<(), CommandError> {
        match outcome {
            TaskOutcome::Done => self.tally.done += 1,
            TaskOutcome::Skipped(code) => {
                *self.tally.skipped.entry(code.as_str()).or_default() += 1;
                if self.warns_skipped {
                    self.bar.suspend(|| output::warning(&format!("{id} skipped ({code})")));
                }
            }
            TaskOutcome::Refused(error) => {
                self.tally.refused += 1;
                let failure = explain_error::to_failure(&self.session.url, &error);
                let message = failure.message().unwrap_or_default();
                self.bar.suspend(|| output::warning(&format!("{id}: {message}")));
            }
            TaskOutcome::Fatal(error) => {
                let done = self.tally.summary().sentence();
                self.bar.suspend(|| output::note(&format!("{done} so far")));
                return Err(error.into());
            }
        }
        self.bar.set_position(self.tally.total());
        Ok(())
    }

    async fn finish(mut self) -> Result<Tally, CommandError> {
        while let Some((id, outcome)) = self.calls.next().await? {
            self.record(id, outcome)?;
        }
        Ok(self.tally)
    }
}

#[derive(Debug)]
struct Tally {
    /// The action as a participle: `cancelled`.
    participle: &'static str,
    done: u64,
    /// By the code of the refusal.
    skipped: BTreeMap<&'static str, u64>,
    refused: u64,
}

impl Tally {
    fn new(participle: &'static str) -> Self {
        Self { participle, done: 0, skipped: BTreeMap::new(), refused: 0 }
    }

    fn total(&self) -> u64 {
        self.done + self.skipped.values().sum::<u64>() + self.refused
    }

    fn summary(&self) -> Summary {
        let skipped = self.skipped.values().sum();
        Summary { counts: vec![(self.participle, self.done), ("skipped", skipped), ("refused", self.refused)] }
    }

    fn print(&self, session: &Session) -> Result<(), Failure> {
        let summary = self.summary();
        let reasons: Vec<String> = self.skipped.iter().map(|(code, count)| format!("{count} {code}")).collect();
        if !reasons.is_empty() {
            output::note(&format!("skipped because of their state: {}", reasons.join(", ")));
        }
        session.printer.done(&summary, &summary.sentence())
    }
}
