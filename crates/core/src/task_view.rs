//! A task as the API shows it, borrowed from wherever it lies: a row of a database or a [`Task`]. A page is written from
//! these, so that no task of it is built first. Nothing private (run, lease, place in the pending order) is in it.

use crate::definition::{Definition, routes_of};
use crate::filter::{LastErrorFields, LastRunFields, TaskFields};
use crate::ids::{Route, RunId, TaskId};
use crate::task::{LastError, Status, Task};
use crate::time::Timestamp;

/// The task resource; JSON as canonical text.
#[derive(Clone, Copy, Debug)]
pub struct TaskView<'a> {
    /// The identity within the queue.
    pub id: TaskId,
    /// The name of the queue.
    pub queue: &'a str,
    pub status: Status,
    /// A label for people.
    pub name: Option<&'a str>,
    /// The input of the worker.
    pub args: &'a str,
    /// Notes of the client.
    pub metadata: &'a str,
    /// Higher is claimed first.
    pub priority: i64,
    /// Claims minus unclaims since creation or requeue.
    pub attempt: i64,
    /// The attempt budget.
    pub max_attempts: i64,
    /// Who may claim it, as a JSON list.
    pub routes: &'a str,
    /// The outcome.
    pub result: &'a str,
    /// The last recorded failure.
    pub last_error: Option<LastErrorFields<'a>>,
    /// Route of the latest claim.
    pub last_route: Option<&'a str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was last claimed.
    pub started_at: Option<Timestamp>,
    /// When its latest run ended.
    pub finished_at: Option<Timestamp>,
    /// Who ran it last, if the claimant said so.
    pub last_run: Option<LastRunFields<'a>>,
    /// How far its latest run is, if it said so; as JSON. The next two fields are there with it.
    pub progress: Option<&'a str>,
    pub progress_updated_at: Option<Timestamp>,
    pub progress_attempt: Option<i64>,
    /// A claim may take it from then on, if it is pending.
    pub not_before: Option<Timestamp>,
    /// The text that [`Scheduling::as_json`](crate::scheduling::Scheduling::as_json) gives.
    pub scheduling: Option<&'a str>,
    pub archived: bool,
    /// How many of the tasks that it waits for have not succeeded. Only stores know it; the API does not show it.
    pub unmet: u32,
}

impl Task {
    /// This task as the API shows it.
    pub fn view(&self) -> TaskView<'_> {
        let lifecycle = &self.lifecycle;
        let finished_run_id = lifecycle.finished_run.as_ref().map(|run| run.run_id.as_str());
        let (last_run, progress) = (self.outcome.last_run.as_ref(), self.outcome.progress.as_ref());
        TaskView {
            queue: self.queue.as_str(),
            status: lifecycle.status,
            attempt: lifecycle.attempt,
            result: self.outcome.result.as_str(),
            last_error: self.outcome.last_error.as_ref().map(LastError::fields),
            last_route: lifecycle.last_route.as_ref().map(Route::as_str),
            created_at: lifecycle.created_at,
            updated_at: lifecycle.updated_at,
            started_at: lifecycle.started_at,
            finished_at: lifecycle.finished_at,
            last_run: last_run
                .map(|run| LastRunFields::new(run.attempt, run.worker.as_str(), lifecycle.status, finished_run_id)),
            progress: progress.map(|progress| progress.value.as_str()),
            progress_updated_at: progress.map(|progress| progress.updated_at),
            progress_attempt: progress.map(|progress| progress.attempt),
            archived: lifecycle.archived,
            unmet: lifecycle.unmet,
            ..TaskView::planned(self.id, &self.definition, lifecycle.not_before)
        }
    }
}

impl<'a> LastRunFields<'a> {
    /// The last run of a task with this status and this latest finished run. The id of a run is its owner's token, so it is
    /// shown only when the run is over; then it is the latest finished one, because every claim replaces the last run.
    pub fn new(attempt: i64, worker: &'a str, status: Status, finished_run_id: Option<&'a str>) -> Self {
        Self { attempt, worker, run_id: finished_run_id.filter(|_| status != Status::Running) }
    }
}

impl LastError {
    /// This error as the API shows it.
    pub fn fields(&self) -> LastErrorFields<'_> {
        LastErrorFields {
            kind: &self.failure.kind,
            message: &self.failure.message,
            traceback: self.failure.traceback.as_deref(),
            occurred_at: self.occurred_at,
            attempt: self.attempt,
            run_id: self.run_id.as_ref().map(RunId::as_str),
        }
    }
}

impl<'a> TaskView<'a> {
    /// The task that creating it makes. Its queue and its times, which the server sets, are empty here.
    pub fn planned(id: TaskId, definition: &'a Definition, not_before: Option<Timestamp>) -> Self {
        let unset = Timestamp::from_micros(0);
        Self {
            id,
            queue: "",
            status: Status::Pending,
            name: definition.name.as_deref(),
            args: definition.args.as_str(),
            metadata: definition.metadata.as_str(),
            priority: definition.priority,
            attempt: 0,
            max_attempts: definition.max_attempts,
            routes: definition.routes.as_json(),
            result: "{}",
            last_error: None,
            last_route: None,
            created_at: unset,
            updated_at: unset,
            started_at: None,
            finished_at: None,
            last_run: None,
            progress: None,
            progress_updated_at: None,
            progress_attempt: None,
            not_before,
            scheduling: definition.scheduling.as_json(),
            archived: false,
            unmet: 0,
        }
    }

    /// Returns what its texts take. Written, they take no less.
    pub fn bytes(&self) -> usize {
        let error = self
            .last_error
            .map_or(0, |error| error.kind.len() + error.message.len() + error.traceback.map_or(0, str::len));
        let worker = self.last_run.map_or("", |run| run.worker);
        let (progress, scheduling) = (self.progress.unwrap_or_default(), self.scheduling.unwrap_or_default());
        let texts = [self.args, self.metadata, self.routes, self.result, worker, progress, scheduling];
        error + self.name.map_or(0, str::len) + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}

/// Implements [`TaskFields`] by the fields of the view.
macro_rules! fields_of_view {
    ($($field:ident: $type:ty,)+) => {
        impl TaskFields for TaskView<'_> {
            $(fn $field(&self) -> $type {
                self.$field
            })+
            fn id(&self) -> &str {
                self.id.as_str()
            }
            fn routes(&self) -> impl Iterator<Item = &str> {
                routes_of(self.routes)
            }
        }
    };
}

#[rustfmt::skip]
fields_of_view! {
    status: Status, name: Option<&str>, last_route: Option<&str>, priority: i64, attempt: i64, max_attempts: i64,
    created_at: Timestamp, updated_at: Timestamp, started_at: Option<Timestamp>, finished_at: Option<Timestamp>,
    args: &str, metadata: &str, result: &str, last_error: Option<LastErrorFields<'_>>,
    last_run: Option<LastRunFields<'_>>, progress: Option<&str>, archived: bool,
}
