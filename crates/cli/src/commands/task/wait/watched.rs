//! The tasks that are waited for, and asking the server about them.
//!
//! Where running a task cannot take it out of the selection, the server counts: one request, however many tasks there are.
//! Otherwise (ids; a filter on the status, the result, ...) every task that matched once is followed by its id.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_client::{Error, ErrorCode, Routes, Status, Task, TaskId, TaskQuery, TaskSelection};
use taskqueue_core::filter::{Document, TaskFilter, TaskPredicate};
use taskqueue_core::status::Statuses;
use tokio::time::Instant;

use super::Tally;
use crate::args::{ConditionArgs, PAGE_LIMIT};
use crate::client_context::ClientContext;
use crate::commands::status_counts::StatusCounts;
use crate::commands::task::concurrent_calls::ConcurrentCalls;
use crate::commands::task::named_tasks;
use crate::commands::task::outage::Outage;
use crate::failure::CommandError;
use crate::output::{self, ProgressView};

/// The progress of no more running tasks is asked for with each poll.
const PROGRESS_TASKS: u16 = 100;
/// Further missing tasks are only counted.
const MISSING_SHOWN: u64 = 20;
/// The states of tasks with a run, and of those that wait for one.
pub(super) const RUNNING: Statuses = Statuses::NONE.with(Status::Running);
pub(super) const PENDING: Statuses = Statuses::NONE.with(Status::Pending);

/// The tasks that are waited for.
pub(super) enum WatchedTasks {
    Counted(TaskSelection),
    Followed(FollowedTasks),
}

impl WatchedTasks {
    /// `ids` are the tasks that are named.
    pub(super) fn new(conditions: &ConditionArgs, ids: &[TaskId]) -> Self {
        let selection = conditions.selection();
        let selection = match &conditions.filter {
            _ if !ids.is_empty() => None,
            Some(filter) if !outlasts_a_run(filter) => Some(selection),
            _ => return Self::Counted(selection),
        };
        let tasks = ids.iter().map(|id| (*id, FollowedTask::NotAsked)).collect();
        Self::Followed(FollowedTasks { selection, tasks, warnings: Vec::new() })
    }

    /// Asks once. Each answer of many is recorded.
    pub(super) async fn poll(&mut self, context: &ClientContext, outage: &mut Outage) -> Result<Tally, CommandError> {
        match self {
            Self::Counted(selection) => {
                let counts = StatusCounts::of(&context.client, &context.queue, selection.clone()).await?;
                Ok(Tally { counts, missing: 0 })
            }
            Self::Followed(followed) => followed.poll(context, outage).await,
        }
    }

    /// Returns how far the running tasks are that say so.
    pub(super) async fn progress(&self, context: &ClientContext, tally: &Tally) -> Result<Vec<ProgressView>, Error> {
        match self {
            Self::Followed(followed) => {
                Ok(followed.among(RUNNING).filter_map(|task| task.progress.as_deref().cloned()).collect())
            }
            // Of many running tasks only the number is known.
            Self::Counted(_) if !(1..=PROGRESS_TASKS.into()).contains(&tally.counts.get(Status::Running)) => {
                Ok(Vec::new())
            }
            Self::Counted(selection) => {
                let query = TaskQuery::of(selection.clone().status(Status::Running)).limit(PROGRESS_TASKS);
                let running = context.client.page(&context.queue, &query).await?.items;
                Ok(running.iter().filter_map(|task| ProgressView::of(task, output::now())).collect())
            }
        }
    }

    /// Takes the warnings that were not shown yet.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        match self {
            Self::Counted(_) => Vec::new(),
            Self::Followed(followed) => std::mem::take(&mut followed.warnings),
        }
    }

    /// Returns some of the tasks that failed or were cancelled.
    pub(super) async fn unsuccessful(&self, context: &ClientContext, limit: u16) -> Result<Vec<SeenTask>, Error> {
        let mut found = Vec::new();
        match self {
            Self::Followed(followed) => {
                found.extend(followed.among(Statuses::UNSUCCESSFUL).take(limit.into()).cloned())
            }
            Self::Counted(selection) => {
                for status in [Status::Failed, Status::Cancelled] {
                    let query = TaskQuery::of(selection.clone().status(status)).limit(limit);
                    let page = context.client.page(&context.queue, &query).await?;
                    found.extend(page.items.iter().map(SeenTask::of));
                }
            }
        }
        found.truncate(limit.into());
        Ok(found)
    }
}

/// Returns whether a filter selects a task before, during and after its run alike: it asks only about the definition. What cannot
/// be parsed here is left to the server.
fn outlasts_a_run(filter: &str) -> bool {
    let Ok(filter) = TaskFilter::parse(filter) else { return false };
    let mut outlasts = true;
    filter.expression().for_each(&mut |predicate| {
        outlasts &= matches!(
            predicate,
            TaskPredicate::Presence(_)
                | TaskPredicate::Id(_)
                | TaskPredicate::Name(_)
                | TaskPredicate::Priority(_)
                | TaskPredicate::MaxAttempts(_)
                | TaskPredicate::CreatedAt(_)
                | TaskPredicate::Routes(_)
                | TaskPredicate::Document(Document::Args | Document::Metadata, ..)
        );
    });
    outlasts
}

/// Tasks that are followed by their ids until they have ended.
#[derive(Debug)]
pub(super) struct FollowedTasks {
    /// Tasks that match later are followed, too.
    selection: Option<TaskSelection>,
    tasks: BTreeMap<TaskId, FollowedTask>,
    warnings: Vec<String>,
}

/// A task that is followed.
#[derive(Debug)]
enum FollowedTask {
    NotAsked,
    Missing,
    Seen(SeenTask),
}

/// A task as it was when it was asked for last, as far as that is needed.
#[derive(Clone, Debug)]
pub(super) struct SeenTask {
    pub(super) id: TaskId,
    pub(super) status: Status,
    /// None of a task that has ended.
    pub(super) routes: Option<Routes>,
    progress: Option<Box<ProgressView>>,
    /// Why it failed.
    pub(super) reason: Option<String>,
}

impl SeenTask {
    fn of(task: &Task) -> Self {
        let failure = task.last_error.as_ref().filter(|_| task.status == Status::Failed).map(|error| &error.failure);
        // There may be a million of them, most of which have ended.
        let is_running = task.status == Status::Running;
        let progress = if is_running { ProgressView::of(task, output::now()) } else { None };
        Self {
            id: task.id,
            status: task.status,
            routes: (!task.status.is_ended()).then(|| task.routes.clone()),
            progress: progress.map(Box::new),
            reason: failure.map(|failure| format!("{}: {}", failure.kind, failure.message)),
        }
    }
}

impl FollowedTasks {
    async fn poll(&mut self, context: &ClientContext, outage: &mut Outage) -> Result<Tally, CommandError> {
        let mut fresh = BTreeSet::new();
        if let Some(selection) = self.selection.clone() {
            let mut walk = context.client.walk(&context.queue, TaskQuery::of(selection).limit(PAGE_LIMIT));
            while let Some(task) = walk.next().await? {
                outage.answered(Instant::now());
                fresh.insert(task.id);
                self.tasks.insert(task.id, FollowedTask::Seen(SeenTask::of(&task)));
            }
        }
        let is_open = |task: &FollowedTask| match task {
            FollowedTask::NotAsked => true,
            FollowedTask::Missing => false,
            FollowedTask::Seen(task) => !task.status.is_ended(),
        };
        self.ask(context, outage, &mut fresh, is_open).await?;
        if self.tally().unfinished() == 0 {
            // Somebody may have requeued a task since it ended.
            let is_unsuccessful = |task: &FollowedTask| matches!(task, FollowedTask::Seen(task) if Statuses::UNSUCCESSFUL.contains(task.status));
            self.ask(context, outage, &mut fresh, is_unsuccessful).await?;
        }
        Ok(self.tally())
    }

    /// Requests the tasks that `is_due` and that are not fresh yet.
    async fn ask(
        &mut self,
        context: &ClientContext,
        outage: &mut Outage,
        fresh: &mut BTreeSet<TaskId>,
        is_due: impl Fn(&FollowedTask) -> bool,
    ) -> Result<(), CommandError> {
        let due = self.tasks.iter().filter(|(id, task)| is_due(task) && fresh.insert(**id)).map(|(id, _)| *id);
        let mut calls = ConcurrentCalls::new();
        for id in due.collect::<Vec<_>>() {
            let (client, queue) = (context.client.clone(), context.queue.clone());
            if let Some(ended) = calls.start(async move { (id, client.task(&queue, id).await) }).await? {
                self.record(ended, outage)?;
            }
        }
        while let Some(ended) = calls.next().await? {
            self.record(ended, outage)?;
        }
        Ok(())
    }

    fn record(&mut self, (id, answer): (TaskId, Result<Task, Error>), outage: &mut Outage) -> Result<(), CommandError> {
        let task = match answer {
            Ok(task) => FollowedTask::Seen(SeenTask::of(&task)),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                if self.tally().missing < MISSING_SHOWN {
                    self.warnings.push(named_tasks::missing(id));
                }
                FollowedTask::Missing
            }
            Err(error) => return Err(error.into()),
        };
        self.tasks.insert(id, task);
        outage.answered(Instant::now());
        Ok(())
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for task in self.tasks.values() {
            match task {
                FollowedTask::NotAsked => tally.counts.add(Status::Pending),
                FollowedTask::Seen(task) => tally.counts.add(task.status),
                FollowedTask::Missing => tally.missing += 1,
            }
        }
        tally
    }

    /// Returns the tasks that were in one of these states when they were asked for last, sorted by their ids.
    pub(super) fn among(&self, statuses: Statuses) -> impl Iterator<Item = &SeenTask> {
        self.tasks.values().filter_map(move |task| match task {
            FollowedTask::Seen(task) if statuses.contains(task.status) => Some(task),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_on_the_definition_outlast_a_run_and_others_do_not() {
        for filter in
            ["args.lr < 0.1 and 'gpu' in routes", "name == 'x' or id == 't_aaaaaaaaaaaa'", "metadata.a.b == 1"]
        {
            assert!(outlasts_a_run(filter), "{filter}");
        }
        for filter in [
            "status == 'pending'",
            "args.lr == 1 and attempt > 0",
            "exists(result.loss)",
            "(",
            "last_error.type == 'x'",
        ] {
            assert!(!outlasts_a_run(filter), "{filter}");
        }
    }
}
