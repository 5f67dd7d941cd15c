//! `task cancel`, `task requeue` and `task delete`: one action on named or selected tasks.

use std::collections::BTreeMap;

use taskqueue_client::{Client, Error, OrderField, QueueName, TaskId, TaskQuery};

use super::concurrent_calls::{Fate, Flight};
use crate::args::ActionArgs;
use crate::confirm::confirm;
use crate::explain_error;
use crate::failure::{Failure, Stop};
use crate::output::{self, Summary};
use crate::progress::Progress;
use crate::session::Session;

/// Tasks asked for at once: the largest page.
const PAGE_LIMIT: u16 = 1000;

/// What to do with each task.
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

    fn question(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Requeue => "Requeue",
            Self::Delete => "Delete",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Requeue => "requeued",
            Self::Delete => "deleted",
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Cancel => "cancelling",
            Self::Requeue => "requeueing",
            Self::Delete => "deleting",
        }
    }
}

pub(super) async fn run(session: &Session, action: Action, args: &ActionArgs) -> Result<(), Stop> {
    match args.target.ids.as_slice() {
        [] => selected(session, action, args).await,
        // One task that was named: its refusal is the whole answer.
        [id] => {
            action.perform(&session.client, &session.queue, *id).await?;
            let summary = Tally { done: 1, ..Tally::new(action.done()) }.summary();
            Ok(session.printer.done(&summary, &format!("{id} {}", action.done()))?)
        }
        ids => named(session, action, ids).await,
    }
}

/// Whoever names tasks wants all of them done: what is skipped is told one by one and makes the command fail.
async fn named(session: &Session, action: Action, ids: &[TaskId]) -> Result<(), Stop> {
    let mut run = Run::new(session, action, ids.len() as u64);
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    for id in ids {
        run.add(id).await?;
    }
    let tally = run.finish().await?;
    tally.print(session)?;
    if tally.skipped.is_empty() && tally.refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// Whoever selects tasks means those whose state allows it: what is skipped is counted.
async fn selected(session: &Session, action: Action, args: &ActionArgs) -> Result<(), Stop> {
    let selection = args.target.selection.selection();
    let count = session.client.count_tasks(&session.queue, &selection).await?;
    if count > 0 {
        let plural = if count == 1 { "task" } else { "tasks" };
        confirm(&format!("{} {count} {plural} of queue {}?", action.question(), session.queue), args.consent)?;
    } else {
        output::note(&format!("no task of queue {} matches", session.queue));
    }
    let mut run = Run { tells_skipped: false, ..Run::new(session, action, count) };
    // Newest first by a time that no action changes: tasks neither come twice nor join while this is under way.
    let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
    let mut walk = session.client.walk_tasks(&session.queue, query);
    while let Some(task) = walk.next().await? {
        run.add(task.id).await?;
    }
    let tally = run.finish().await?;
    tally.print(session)?;
    if tally.refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// An action on many tasks.
struct Run<'s> {
    session: &'s Session,
    action: Action,
    flight: Flight<(TaskId, Fate)>,
    progress: Progress,
    tally: Tally,
    tells_skipped: bool,
}

impl<'s> Run<'s> {
    fn new(session: &'s Session, action: Action, count: u64) -> Self {
        let progress = Progress::of_tasks(action.doing(), count);
        let tally = Tally::new(action.done());
        Self { session, action, flight: Flight::new(), progress, tally, tells_skipped: true }
    }

    async fn add(&mut self, id: TaskId) -> Result<(), Stop> {
        let (client, queue, action) = (self.session.client.clone(), self.session.queue.clone(), self.action);
        let call = async move { (id, Fate::of(action.perform(&client, &queue, id).await)) };
        match self.flight.launch(call).await? {
            Some((id, fate)) => self.note(id, fate),
            None => Ok(()),
        }
    }

    fn note(&mut self, id: TaskId, fate: Fate) -> Result<(), Stop> {
        match fate {
            Fate::Done => self.tally.done += 1,
            Fate::Skipped(code) => {
                *self.tally.skipped.entry(code.as_str()).or_default() += 1;
                if self.tells_skipped {
                    self.progress.suspended(|| output::warning(&format!("{id} skipped ({code})")));
                }
            }
            Fate::Refused(error) => {
                self.tally.refused += 1;
                let failure = explain_error::plain(&self.session.url, &error);
                let message = failure.message().unwrap_or_default();
                self.progress.suspended(|| output::warning(&format!("{id}: {message}")));
            }
            Fate::Hopeless(error) => {
                let told = self.tally.summary().sentence();
                self.progress.suspended(|| output::note(&format!("{told} so far")));
                return Err(error.into());
            }
        }
        self.progress.set(self.tally.total());
        Ok(())
    }

    async fn finish(mut self) -> Result<Tally, Stop> {
        while let Some((id, fate)) = self.flight.land().await? {
            self.note(id, fate)?;
        }
        Ok(self.tally)
    }
}

/// What became of the tasks.
#[derive(Debug)]
struct Tally {
    /// What was done, as a participle.
    word: &'static str,
    done: u64,
    /// By the code of the refusal.
    skipped: BTreeMap<&'static str, u64>,
    refused: u64,
}

impl Tally {
    fn new(word: &'static str) -> Self {
        Self { word, done: 0, skipped: BTreeMap::new(), refused: 0 }
    }

    fn total(&self) -> u64 {
        self.done + self.skipped.values().sum::<u64>() + self.refused
    }

    fn summary(&self) -> Summary {
        let skipped = self.skipped.values().sum();
        Summary { counts: vec![(self.word, self.done), ("skipped", skipped), ("refused", self.refused)] }
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
