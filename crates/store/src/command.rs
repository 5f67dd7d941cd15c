//! What can be written: one type for each writing verb of the contract, with the type of its answer and the function that executes
//! it.

use std::slice;
use std::sync::Arc;

use taskqueue_core::json::merge_patch;
use taskqueue_core::lifecycle::{RunReport, TaskAction};
use taskqueue_core::observation::Report;
pub use taskqueue_core::run_item::{RunAction, RunItem};
use taskqueue_core::{
    BulkAction, Definition, Identity, JsonObject, QueueName, QueueSettings, Refusal, Retention, Route, RunId,
    SettingsPatch, Task, TaskId, TaskSelection, Timestamp, Update, WorkerId,
};

use crate::activity::{ActivityRow, ProcessId};
use crate::bulk_action::{BlockedTask, ChangeRecord, FoundTask};
use crate::execute::Execution;
use crate::portions::Portion;
use crate::submission::{Reply, Submission};
use crate::transaction::BatchTransaction;
use crate::write_request::commands;
use crate::{QueueKey, Store, StoreResult};

/// One write. Writes behave as if they happened one after the other.
pub trait Command: Send + Sized {
    type Answer: Send;

    fn into_request(submission: Submission<Self>) -> WriteRequest;

    /// The answer, if the store knows it without its writer.
    fn known_answer(&self, _: &(impl Store + ?Sized)) -> Option<Self::Answer> {
        None
    }

    /// Returns what the texts of the task in an answer take in memory.
    fn answer_bytes(_: &Self::Answer) -> usize {
        0
    }
}

commands! {
    /// Makes sure that a queue exists. Answers whether it is new.
    CreateQueue(queue) -> bool: create_queue {
        pub queue: QueueName,
        /// How long ended tasks are kept if it is new. A queue that is there keeps its settings.
        pub retention: Retention,
    }

    DeleteQueue(queue) -> (): delete_queue {
        pub queue: QueueName,
        /// True if its tasks are deleted with it.
        pub cascade: bool,
    }

    /// Creates a task or recognises that its creation is repeated.
    CreateTask(queue) -> CreatedTask: create_task {
        pub queue: QueueName,
        pub id: TaskId,
        pub new: Box<NewTask>,
    } => bytes |created| created.task.bytes();

    /// Creates several tasks, each judged like a [`CreateTask`] of its own, one after the other. Answers for each whether it was
    /// created by this command.
    CreateTasks(queue) -> Items<bool>: create_tasks {
        pub queue: QueueName,
        pub tasks: Portion<(TaskId, Box<NewTask>)>,
    }

    /// Updates a task. Answers the task.
    UpdateTask(queue) -> Box<Task>: update_task {
        pub queue: QueueName,
        pub id: TaskId,
        pub update: Box<Update>,
    } => bytes |task| task.bytes();

    /// Updates every task that matches and is not running, or none. Callers use [`Store::update_tasks`].
    UpdateTasks(bulk.queue) -> Updated: update_tasks {
        pub bulk: Arc<BulkUpdate>,
    }

    /// Cancels or requeues a task. Answers the task.
    ActOnTask(queue) -> Box<Task>: act_on_task {
        pub queue: QueueName,
        pub id: TaskId,
        pub action: TaskAction,
    } => bytes |task| task.bytes();

    /// One portion of a bulk action: tasks that were selected when they were found. Each is decided again.
    ActOnFound(act.queue) -> PortionOutcome: act_on_found {
        pub act: Arc<ActOnTasks>,
        /// The queue that they were found in. One of the same name may have taken its place.
        pub(crate) queue: QueueKey,
        pub tasks: Vec<FoundTask>,
        /// The changes since they were found, if the storage records that.
        pub(crate) changes: Option<Arc<dyn ChangeRecord>>,
    }

    /// Deletes a task, if it exists.
    DeleteTask(queue) -> (): delete_task {
        pub queue: QueueName,
        pub id: TaskId,
    }

    /// Claims the first pending task of a route.
    Claim(queue) -> Option<Box<Claimed>>: claim {
        pub queue: QueueName,
        pub route: Route,
        pub run_id: RunId,
        /// The claimant's words about itself, if any.
        pub worker: Option<JsonObject>,
    } => known |claim| Lookup::Task(claim.into()) => None;
      => bytes |claimed| claimed.as_ref().map_or(0, |claimed| claimed.task.bytes());

    /// Claims a task for each of these runs, each judged like a [`Claim`] of its own, one after the other.
    ClaimTasks(queue) -> ClaimedItems: claim_tasks {
        pub queue: QueueName,
        pub route: Route,
        pub run_ids: Vec<RunId>,
        /// The claimant's words about itself, if any.
        pub worker: Option<JsonObject>,
        /// The words that it adds for each run, as a merge patch; empty if it adds nothing.
        pub workers: Vec<JsonObject>,
        /// The bytes of a claimed task in the answer.
        pub measure: fn(&Claimed) -> usize,
        /// The bytes that all of them may have, the first one aside. What no longer fits is not claimed; a task that one of the
        /// runs has already is not shown, and its item is [`Busy`](crate::StoreError::Busy).
        pub most_bytes: usize,
    } => known |claims| Lookup::Task(claims.into()) => claims.nothing();
      => bytes |items| items.iter().flatten().flatten().map(|claimed| claimed.task.bytes()).sum();

    /// Renews the lease of a run, and may record its progress. Answers the new end of the lease.
    Heartbeat(queue) -> Timestamp: heartbeat {
        pub queue: QueueName,
        pub id: TaskId,
        pub run_id: RunId,
        pub progress: Option<JsonObject>,
    }

    /// Records how far a run is.
    ReportProgress(queue) -> (): report_progress {
        pub queue: QueueName,
        pub id: TaskId,
        pub run_id: RunId,
        pub progress: JsonObject,
    }

    /// Keeps what a run prints.
    AddOutput(queue) -> (): add_output {
        pub queue: QueueName,
        pub id: TaskId,
        pub run_id: RunId,
        /// The number of bytes of output before it.
        pub offset: u64,
        pub text: Arc<str>,
        /// The bytes of output that are kept of a task.
        pub most_bytes: usize,
    }

    /// Ends a run.
    ReportRun(queue) -> (): report_run {
        pub queue: QueueName,
        pub id: TaskId,
        pub run_id: RunId,
        pub report: RunReport,
    }

    /// Renews the leases of some runs, records their progress and ends others, each judged like a [`Heartbeat`], [`ReportProgress`]
    /// or [`ReportRun`] of its own, one after the other. Answers for each the new end of its lease, if it has one.
    ReportRuns(queue) -> Items<Option<Timestamp>>: report_runs {
        pub queue: QueueName,
        pub reports: Portion<RunItem>,
    }

    /// Records an observation.
    ReportWorker(queue) -> (): report_worker {
        pub queue: QueueName,
        pub id: WorkerId,
        pub report: Report,
    }

    /// Records what a worker measured, if it is observed.
    ReportTelemetry(queue) -> (): report_telemetry {
        pub queue: QueueName,
        pub id: WorkerId,
        pub telemetry: JsonObject,
    }

    /// Deletes an observation, if it exists.
    WithdrawWorker(queue) -> (): withdraw_worker {
        pub queue: QueueName,
        pub id: WorkerId,
    }

    /// Saves what a process has counted, and forgets what is too old. Answers the time. Callers use
    /// [`crate::activity::save_activity`].
    SaveActivity() -> Timestamp: save_activity {
        pub process: ProcessId,
        pub rows: Vec<ActivityRow>,
    }

    /// Changes the settings of a queue. Answers all of them.
    ChangeSettings(queue) -> QueueSettings: change_settings {
        pub queue: QueueName,
        pub patch: Box<SettingsPatch>,
    }

    /// Does what is due and nobody asks for: tasks whose time has come become claimable, dependents are settled, ended tasks are
    /// deleted that are kept no longer. A part of it at a time.
    Upkeep() -> UpkeepReport: upkeep; => known |_upkeep| Lookup::Upkeep => UpkeepReport::default();

    /// Ends leases that are over, grants the outage credit, deletes expired observations, and forgets run ids of tasks that
    /// were deleted long ago.
    Scan() -> Scanned: scan;
}

/// A task to be created: the definition with what is computed from it once, off the writer.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub definition: Definition,
    /// A claim may take it from then on.
    pub not_before: Option<Timestamp>,
    pub identity: Identity,
}

impl NewTask {
    pub fn new(definition: Definition, not_before: Option<Timestamp>) -> Self {
        let identity = definition.identity(not_before);
        Self { definition, not_before, identity }
    }
}

impl From<Definition> for NewTask {
    fn from(definition: Definition) -> Self {
        Self::new(definition, None)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTask {
    /// True if it was created by this command.
    pub created: bool,
    pub task: Box<Task>,
}

#[derive(Clone, Debug)]
pub struct BulkUpdate {
    pub queue: QueueName,
    /// Which tasks are updated: see [`Update::selection`].
    pub selection: TaskSelection,
    pub update: Update,
}

/// How many tasks a bulk update matched and changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated {
    /// Matching tasks that are not running.
    pub matched: u64,
    /// Those of them whose values changed.
    pub updated: u64,
}

/// Cancels, requeues or deletes every task that matches and that the action applies to, some at a time. Callers use
/// [`Store::act_on_tasks`].
#[derive(Clone, Debug)]
pub struct ActOnTasks {
    pub queue: QueueName,
    pub action: BulkAction,
    /// Which tasks it is done to: see [`BulkAction::selection`].
    pub selection: TaskSelection,
    /// How many tasks the client expects to be selected; with any other number nothing is done.
    pub expect: Option<u64>,
    /// True if to count only.
    pub dry_run: bool,
}

/// The result of a bulk action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acted {
    /// The tasks that were selected at its beginning.
    pub matched: u64,
    /// Those that were changed. Fewer if some were no longer selected when their turn came, or if the time was over.
    pub changed: u64,
}

/// The outcome of a portion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortionOutcome {
    pub changed: u64,
    /// Those whose turn has not come yet: the time of the portion was over, or others hold them.
    pub left: Vec<FoundTask>,
    /// Those that would be requeued in vain, unless what they wait for is requeued first.
    pub blocked: Vec<BlockedTask>,
    /// Those that were requeued.
    pub requeued: Vec<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub task: Task,
    pub run_id: RunId,
    pub lease_expires_at: Timestamp,
}

/// Returns what runs to claim take in memory, and what is said for each of them.
pub fn runs_bytes(run_ids: &[RunId], workers: &[JsonObject]) -> usize {
    let said = workers.iter().map(|own| size_of::<JsonObject>() + own.as_str().len());
    size_of_val(run_ids) + said.sum::<usize>()
}

impl ClaimTasks {
    /// Returns what the claimant says of itself for the run at this place.
    pub fn worker_of(&self, place: usize) -> Option<JsonObject> {
        match (&self.worker, self.workers.get(place)) {
            (worker, None) => worker.clone(),
            (Some(worker), Some(own)) => Some(merge_patch(worker, own)),
            // Who says nothing is not known.
            (None, Some(own)) => Some(merge_patch(&JsonObject::empty(), own)).filter(|own| !own.is_empty_object()),
        }
    }

    /// The answer if there is no task, and all runs are new.
    pub fn nothing(&self) -> ClaimedItems {
        self.run_ids.iter().map(|_| Ok(None)).collect()
    }
}

/// The target of a claim, or of several.
#[derive(Clone, Copy, Debug)]
pub struct ClaimTarget<'a> {
    pub queue: &'a QueueName,
    pub route: &'a Route,
    pub run_ids: &'a [RunId],
}

/// A need of a command that the store may know to be unfulfilled.
#[derive(Clone, Copy, Debug)]
pub enum Lookup<'a> {
    /// A task for claims.
    Task(ClaimTarget<'a>),
    /// Something to do for an [`Upkeep`].
    Upkeep,
}

impl<'a> From<&'a Claim> for ClaimTarget<'a> {
    fn from(Claim { queue, route, run_id, .. }: &'a Claim) -> Self {
        Self { queue, route, run_ids: slice::from_ref(run_id) }
    }
}

impl<'a> From<&'a ClaimTasks> for ClaimTarget<'a> {
    fn from(ClaimTasks { queue, route, run_ids, .. }: &'a ClaimTasks) -> Self {
        Self { queue, route, run_ids }
    }
}

/// The kept output of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The run that printed it.
    pub run_id: RunId,
    pub attempt: i64,
    /// The offset of the first byte of the text.
    pub start: u64,
    pub text: String,
    /// True if that run is over.
    pub ended: bool,
}

impl Output {
    /// The offset behind the last byte of the text.
    pub fn end(&self) -> u64 {
        self.start + self.text.len() as u64
    }
}

/// The outcome of each item, in the order of the command.
pub type Items<A> = Vec<Result<A, Refusal>>;

/// The outcome of each run of [`ClaimTasks`]: [`Refused`](crate::StoreError::Refused) as a [`Claim`] is, and
/// [`Busy`](crate::StoreError::Busy) if it has a task that does not fit into the answer. Then it can be asked for again.
pub type ClaimedItems = Vec<ClaimedItem>;

/// The task that a run got, if there was one.
pub type ClaimedItem = StoreResult<Option<Box<Claimed>>>;

/// Returns whether no run got a task or was refused.
pub fn has_found_nothing(items: &ClaimedItems) -> bool {
    items.iter().all(|item| matches!(item, Ok(None)))
}

/// The work that an upkeep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepReport {
    /// Tasks whose time has come.
    pub released: u64,
    /// Dependents that were looked at.
    pub settled: u64,
    /// Tasks that were deleted.
    pub deleted: u64,
    /// True if there is more to do.
    pub more: bool,
    /// True if somebody waits for it: tasks that are to become claimable. Deletions can wait.
    pub is_urgent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Runs whose lease was over.
    pub expired_runs: u64,
    /// Runs whose lease was lengthened after an outage of the service.
    pub credited_runs: u64,
    pub expired_observations: u64,
    /// True if runs are left whose lease is over: the transaction had no room for more.
    pub more: bool,
}
