//! Tasks that are followed by their ids until they have ended.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_client::{Error, ErrorCode, Routes, Status, Task, TaskId, TaskQuery, TaskSelection};
use tokio::time::Instant;

use super::tally::Tally;
use super::watched::Unsuccessful;
use crate::client_context::ClientContext;
use crate::commands::task::concurrent_calls::ConcurrentCalls;
use crate::commands::task::outage::Outage;
use crate::failure::CommandError;
use crate::output;
use crate::progress_view::ProgressView;

const PAGE_LIMIT: u16 = 1000;
/// Further missing tasks are only counted.
const MISSING_SHOWN: usize = 20;

/// What is known about one task.
#[derive(Clone, Debug)]
enum Known {
    /// Not asked yet.
    Nothing,
    Open {
        is_pending: bool,
        routes: Routes,
        /// As it was at that moment.
        progress: Option<Box<ProgressView>>,
    },
    Succeeded,
    Unsuccessful(Unsuccessful),
    Missing,
}

#[derive(Debug)]
pub(super) struct Followed {
    /// Tasks that match later are followed, too.
    selection: Option<TaskSelection>,
    known: BTreeMap<TaskId, Known>,
    /// Warnings that were not shown yet.
    pub(super) warnings: Vec<String>,
}

impl Followed {
    pub(super) fn ids(ids: &[TaskId]) -> Self {
        Self { selection: None, known: ids.iter().map(|id| (*id, Known::Nothing)).collect(), warnings: Vec::new() }
    }

    pub(super) fn matching(selection: TaskSelection) -> Self {
        Self { selection: Some(selection), known: BTreeMap::new(), warnings: Vec::new() }
    }

    pub(super) async fn poll(&mut self, context: &ClientContext, outage: &mut Outage) -> Result<Tally, CommandError> {
        let mut fresh = BTreeSet::new();
        if let Some(selection) = self.selection.clone() {
            let mut walk = context.client.walk_tasks(&context.queue, TaskQuery::of(selection).limit(PAGE_LIMIT));
            while let Some(task) = walk.next().await? {
                outage.answered(Instant::now());
                fresh.insert(task.id);
                self.known.insert(task.id, Known::of(&task));
            }
        }
        self.ask(context, outage, &mut fresh, |known| matches!(known, Known::Nothing | Known::Open { .. })).await?;
        if self.tally().unfinished() == 0 {
            // Somebody may have requeued a task since it ended.
            self.ask(context, outage, &mut fresh, |known| matches!(known, Known::Unsuccessful(_))).await?;
        }
        Ok(self.tally())
    }

    /// Requests the tasks that `is_due` and that are not fresh yet.
    async fn ask(
        &mut self,
        context: &ClientContext,
        outage: &mut Outage,
        fresh: &mut BTreeSet<TaskId>,
        is_due: impl Fn(&Known) -> bool,
    ) -> Result<(), CommandError> {
        let due = self.known.iter().filter(|(id, known)| is_due(known) && !fresh.contains(id));
        let due: Vec<TaskId> = due.map(|(id, _)| *id).collect();
        let mut calls = ConcurrentCalls::new();
        for id in due {
            fresh.insert(id);
            let (client, queue) = (context.client.clone(), context.queue.clone());
            let call = async move { (id, client.task(&queue, id).await) };
            if let Some((id, answer)) = calls.start(call).await? {
                self.record(id, answer)?;
                outage.answered(Instant::now());
            }
        }
        while let Some((id, answer)) = calls.next().await? {
            self.record(id, answer)?;
            outage.answered(Instant::now());
        }
        Ok(())
    }

    fn record(&mut self, id: TaskId, answer: Result<Task, Error>) -> Result<(), CommandError> {
        let known = match answer {
            Ok(task) => Known::of(&task),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                if self.known.values().filter(|known| matches!(known, Known::Missing)).count() < MISSING_SHOWN {
                    self.warnings.push(format!("{id} does not exist ({})", ErrorCode::TaskNotFound));
                }
                Known::Missing
            }
            Err(error) => return Err(error.into()),
        };
        self.known.insert(id, known);
        Ok(())
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for known in self.known.values() {
            match known {
                Known::Nothing | Known::Open { is_pending: true, .. } => tally.counts.add(Status::Pending),
                Known::Open { is_pending: false, .. } => tally.counts.add(Status::Running),
                Known::Succeeded => tally.counts.add(Status::Succeeded),
                Known::Unsuccessful(task) => tally.counts.add(task.status),
                Known::Missing => tally.missing += 1,
            }
        }
        tally
    }

    pub(super) fn unsuccessful(&self) -> impl Iterator<Item = Unsuccessful> {
        self.known.values().filter_map(|known| match known {
            Known::Unsuccessful(task) => Some(task.clone()),
            _ => None,
        })
    }

    /// The routes of each task that waits to be claimed.
    pub(super) fn pending_routes(&self) -> impl Iterator<Item = &Routes> {
        self.known.values().filter_map(|known| match known {
            Known::Open { is_pending: true, routes, .. } => Some(routes),
            _ => None,
        })
    }

    /// The tasks that were running when they were asked for last.
    pub(super) fn running(&self) -> impl Iterator<Item = TaskId> {
        self.known.iter().filter_map(|(id, known)| match known {
            Known::Open { is_pending: false, .. } => Some(*id),
            _ => None,
        })
    }

    /// How far the running tasks are that say so.
    pub(super) fn progress(&self) -> Vec<&ProgressView> {
        let of = |known| match known {
            &Known::Open { is_pending: false, ref progress, .. } => progress.as_deref(),
            _ => None,
        };
        self.known.values().filter_map(of).collect()
    }
}

impl Known {
    fn of(task: &Task) -> Self {
        match task.status {
            Status::Pending | Status::Running => Self::Open {
                is_pending: task.status == Status::Pending,
                routes: task.routes.clone(),
                progress: ProgressView::of(task, output::now()).map(Box::new),
            },
            Status::Succeeded => Self::Succeeded,
            Status::Failed | Status::Cancelled => Self::Unsuccessful(Unsuccessful::of(task)),
        }
    }
}

impl Unsuccessful {
    pub(super) fn of(task: &Task) -> Self {
        let failure = task.last_error.as_ref().filter(|_| task.status == Status::Failed).map(|error| &error.failure);
        let reason = failure.map(|failure| format!("{}: {}", failure.kind, failure.message));
        Self { id: task.id, status: task.status, reason }
    }
}
