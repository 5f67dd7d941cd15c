//! The tasks that are waited for, and asking the server about them.
//!
//! Where running a task cannot take it out of the selection, the server counts: one request, however many tasks there are.
//! Otherwise (ids; a filter on the status, the result, ...) every task that matched once is followed by its id.

use taskqueue_client::{Error, Status, TaskId, TaskQuery, TaskSelection};
use taskqueue_core::filter::{Document, TaskFilter, TaskPredicate};

use super::followed::Followed;
use super::overall::overall;
use super::tally::Tally;
use crate::args::WaitArgs;
use crate::client_context::ClientContext;
use crate::commands::status_counts::StatusCounts;
use crate::commands::task::outage::Outage;
use crate::failure::CommandError;
use crate::output;
use crate::progress_view::ProgressView;

/// The progress of no more running tasks is asked for with each poll.
const PROGRESS_TASKS: u64 = 100;

pub(super) enum Watched {
    Counted(TaskSelection),
    Followed(Followed),
}

/// A task that did not succeed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsuccessful {
    pub(super) id: TaskId,
    pub(super) status: Status,
    pub(super) reason: Option<String>,
}

impl Watched {
    /// `ids` are the tasks that are named.
    pub(super) fn new(args: &WaitArgs, ids: &[TaskId]) -> Self {
        if !ids.is_empty() {
            return Self::Followed(Followed::ids(ids));
        }
        match &args.conditions.filter {
            Some(filter) if !outlasts_a_run(filter) => Self::Followed(Followed::matching(args.conditions.selection())),
            _ => Self::Counted(args.conditions.selection()),
        }
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

    /// How far the tasks are by what their runs say: the whole of it, or of one task all that is known.
    pub(super) async fn progress(
        &self,
        context: &ClientContext,
        tally: &Tally,
    ) -> Result<Option<String>, CommandError> {
        let selection = match self {
            Self::Followed(followed) => return Ok(overall(tally, &followed.progress())),
            // Of many running tasks only the number is known.
            Self::Counted(_) if !(1..=PROGRESS_TASKS).contains(&tally.counts.running) => return Ok(None),
            Self::Counted(selection) => selection,
        };
        let limit = u16::try_from(PROGRESS_TASKS).unwrap_or(u16::MAX);
        let query = TaskQuery::of(selection.clone().status(Status::Running)).limit(limit);
        let running = context.client.tasks(&context.queue, &query).await?.items;
        let views: Vec<_> = running.iter().filter_map(|task| ProgressView::of(task, output::now())).collect();
        Ok(overall(tally, &views.iter().collect::<Vec<_>>()))
    }

    /// Warnings that were not shown yet.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        match self {
            Self::Counted(_) => Vec::new(),
            Self::Followed(followed) => std::mem::take(&mut followed.warnings),
        }
    }

    /// Some of the tasks that failed or were cancelled.
    pub(super) async fn unsuccessful(&self, context: &ClientContext, limit: u16) -> Result<Vec<Unsuccessful>, Error> {
        let selection = match self {
            Self::Followed(followed) => return Ok(followed.unsuccessful().take(limit.into()).collect()),
            Self::Counted(selection) => selection,
        };
        let mut found = Vec::new();
        for status in [Status::Failed, Status::Cancelled] {
            let query = TaskQuery::of(selection.clone().status(status)).limit(limit);
            let page = context.client.tasks(&context.queue, &query).await?;
            found.extend(page.items.iter().map(Unsuccessful::of));
        }
        found.truncate(limit.into());
        Ok(found)
    }
}

/// Whether a filter selects a task before, during and after its run alike: it asks only about the definition. What cannot
/// be parsed here is left to the server.
fn outlasts_a_run(filter: &str) -> bool {
    let Ok(filter) = TaskFilter::parse(filter) else { return false };
    let mut outlasts = true;
    filter.expression().for_each(&mut |predicate| {
        outlasts &= matches!(
            predicate,
            TaskPredicate::Always(_)
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
