//! What a backend offers inside one write transaction: loading and saving. The decisions are in `core`, the steps of each
//! command in `execute.rs`.

use std::ops::ControlFlow;
use std::sync::Arc;

use taskqueue_core::activity::Unit;
use taskqueue_core::output::OutputChange;
use taskqueue_core::update::Effect;
use taskqueue_core::{
    Change, Dependencies, DependencyState, Documents, Identity, KeptOutput, Observation, QueueName, QueueSettings,
    Route, RunId, RunningTasks, Status, Task, TaskHead, TaskId, Timestamp, Update, WorkerId,
};

use crate::activity::{ActivityRow, ProcessId};
use crate::bulk::{Limit, Planned};
use crate::bulk_action::{ChangeRecord, FoundState, FoundTask};
use crate::{BulkUpdate, StoreResult};

/// Delayed tasks that one upkeep makes claimable at most: some ten milliseconds, for which claims may have to wait. Each is a row
/// for each of its routes.
pub const RELEASED_AT_ONCE: usize = 2_000;

/// The storage's own number of a queue. A queue that is deleted and created again gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(pub i64);

/// A queue that exists.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    pub key: QueueKey,
    pub name: &'a QueueName,
}

/// A queue whose name may not be known here.
#[derive(Clone, Copy)]
pub(crate) struct QueueRef<'a> {
    pub(crate) key: QueueKey,
    pub(crate) name: Option<&'a QueueName>,
}

impl<'a> From<Queue<'a>> for QueueRef<'a> {
    fn from(Queue { key, name }: Queue<'a>) -> Self {
        Self { key, name: Some(name) }
    }
}

/// The storage's own number of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey(pub i64);

/// The use of a run id, over all queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunUse {
    /// No existing task ever had it, and no task that was deleted recently.
    New,
    /// It owns this task now.
    Active(QueueKey, TaskKey),
    /// A task had it earlier: one that exists, or a deleted one whose run ids are still recorded.
    Past,
}

/// How many tasks a queue has in all, and how many of them are running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTally {
    pub tasks: u64,
    pub running: u64,
}

/// Tasks that wait for another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependents {
    pub tasks: Vec<(TaskKey, DependencyState)>,
    /// True if some were left out because another transaction holds them.
    pub held_elsewhere: bool,
}

/// A task whose dependents are to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    pub queue: QueueKey,
    pub dependency: TaskId,
    /// Its status; nothing if it does not exist.
    pub status: Option<Status>,
    /// Behind which of its dependents to go on.
    pub after: Option<TaskKey>,
}

/// Ended tasks that may be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outdated {
    pub tasks: Vec<(QueueKey, TaskKey)>,
    /// True if there may be more.
    pub more: bool,
}

/// The next need of a command.
pub enum Needed<'a> {
    /// All tasks that a command of several items names, before it changes anything. [`Busy`](crate::StoreError::Busy) if another
    /// transaction holds one of them; afterwards [`Transaction::find_task`] is not busy for any of them.
    Tasks(Vec<TaskId>),
    /// All dependencies of the tasks that a command of several items creates, before it changes anything. Afterwards
    /// [`Transaction::load_statuses`] is not busy for any of them.
    Dependencies(Vec<TaskId>),
    /// So many tasks of a route, before the command that claims them changes anything. [`Busy`](crate::StoreError::Busy) if other
    /// transactions hold some that would be needed; afterwards [`Transaction::first_pending`] is not busy for as many.
    Pending(&'a Route, usize),
    /// The tasks of these runs, one after the other.
    Runs(&'a [RunUse]),
    /// The tasks that wait for this one, which was cancelled because of another: some of them may be cancelled because of it, and
    /// so on.
    Dependents(TaskId),
    /// These tasks, which are requeued if they have no failed dependency: what each waits for, and those that wait for it.
    Requeues(&'a mut dyn Iterator<Item = &'a TaskHead>),
}

/// Rows that nobody needs any more.
#[derive(Clone, Copy, Debug)]
pub enum Over {
    /// Run ids of deleted tasks whose time is over, earliest first, at most so many.
    DeletedRuns { most: u32 },
    /// Rows of activity whose spans began before, of all processes, at most so many.
    Activity { unit: Unit, before: Timestamp, most: u32 },
    /// Expired observations.
    Observations,
}

/// The result of a step of a transaction. After an error either everything of the transaction is kept or nothing.
pub type Loaded<T> = StoreResult<T>;

/// One write transaction. Every method sees the effects of the earlier ones.
pub trait Transaction {
    /// The time of this transaction, the same for every command in it.
    fn now(&self) -> Timestamp;
    /// The next number in the pending order. Gaps are allowed.
    fn next_pending_seq(&mut self) -> i64;

    fn find_queue(&mut self, name: &QueueName) -> Loaded<Option<QueueKey>>;
    /// Adds a queue, and returns whether it did: not if it exists, whoever holds it.
    fn insert_queue(&mut self, name: &QueueName) -> Loaded<bool>;
    fn tally_queue(&mut self, queue: QueueKey) -> Loaded<QueueTally>;
    /// Removes a queue with all its tasks, their output, observations, and activity. The run ids of its tasks stay used until
    /// `runs_kept_until`.
    fn delete_queue(&mut self, queue: Queue<'_>, runs_kept_until: Timestamp) -> Loaded<()>;

    fn find_task(&mut self, queue: QueueKey, id: TaskId) -> Loaded<Option<TaskKey>>;
    /// Called before what a command needs next is loaded one by one: a backend may load or hold it together. Returns how many tasks
    /// there are at most of [`Needed::Pending`], for which it is called; for others the number means nothing.
    fn prepare(&mut self, _queue: QueueKey, needed: Needed<'_>) -> Loaded<usize> {
        Ok(if let Needed::Pending(_, most) = needed { most } else { 0 })
    }
    /// A task that exists.
    fn load_task(&mut self, queue: Queue<'_>, key: TaskKey) -> Loaded<Task>;
    /// A task that exists, without its heavy JSON.
    fn load_head(&mut self, key: TaskKey) -> Loaded<TaskHead>;
    /// The size of the result of a task.
    fn load_result_bytes(&mut self, key: TaskKey) -> Loaded<usize>;
    /// Returns what is kept of the output of a task, without its bytes.
    fn load_output(&mut self, key: TaskKey) -> Loaded<Option<KeptOutput>>;
    /// Saves output. The bytes before the first kept one may be removed.
    fn save_output(&mut self, queue: QueueKey, key: TaskKey, change: &OutputChange<'_>) -> Loaded<()>;
    /// The identity that a task was created with.
    fn load_identity(&mut self, key: TaskKey) -> Loaded<Identity>;
    /// Adds a task, unless the queue has one of this id. Returns its key if it was added.
    fn insert_task(&mut self, queue: QueueKey, task: &Task, identity: &Identity) -> Loaded<Option<TaskKey>>;
    /// Saves what an action changes.
    fn save_change(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, change: &Change) -> Loaded<()>;
    /// Saves what an update changes.
    fn save_update(&mut self, queue: QueueKey, key: TaskKey, before: &Task, after: &Task) -> Loaded<()>;
    /// Removes a task that is not running, with its output and what is noted of its dependencies. Its run ids stay used until
    /// `kept_until`.
    fn delete_task(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, kept_until: Timestamp) -> Loaded<()>;

    /// Returns whether a task may wait for this one, existing or not. False only if none does: then nothing below is asked.
    fn may_have_dependents(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<bool>;
    /// The tasks that wait for this one, existing or not, in the order of their keys, behind `after`, at most `most`; with what is
    /// noted of it for each. Those that another transaction holds are left out, and [`Dependents::held_elsewhere`] says so.
    fn dependents(&mut self, queue: QueueKey, id: TaskId, after: Option<TaskKey>, most: usize) -> Loaded<Dependents>;
    /// Notes what a dependency is to a task that waits for it.
    fn save_dependency(&mut self, queue: QueueKey, id: TaskId, task: TaskKey, state: DependencyState) -> Loaded<()>;
    /// The status of each of these tasks, in their order, nothing for those that do not exist; and they do not change before this
    /// transaction ends. [`Busy`](crate::StoreError::Busy) if another transaction holds one.
    fn load_statuses(&mut self, queue: QueueKey, ids: &[TaskId]) -> Loaded<Vec<Option<Status>>>;
    /// Returns what is noted of each of these dependencies of a task, in their order, nothing for those that it did not wait for.
    fn load_noted(&mut self, queue: QueueKey, task: TaskKey, ids: &[TaskId]) -> Loaded<Vec<Option<DependencyState>>>;
    /// Replaces what a task waits for: `before` is noted, `after` is to be. A task that was not created yet has none before. The
    /// task itself is saved elsewhere.
    fn replace_dependencies(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        before: &Dependencies,
        after: &[(TaskId, DependencyState)],
    ) -> Loaded<()>;
    /// Notes that the tasks which wait for this one are to be looked at again, from the first of them.
    fn leave_unsettled(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<()>;
    /// One that is noted so, and behind which of its dependents to go on. Nothing if there is none, or if others are at all of
    /// them. One whose dependents others hold is not found twice in a transaction. Those of one queue are asked for by claims that
    /// find nothing: a store that would have to ask a database for that leaves them to the upkeep, and says that there is none.
    fn find_unsettled(&mut self, of: Option<QueueKey>) -> Loaded<Option<Unsettled>>;
    /// Notes how far that one was settled; nothing if all of it is. Leaves alone what was left unsettled again since it was found.
    fn save_settled(&mut self, unsettled: &Unsettled, after: Option<TaskKey>) -> Loaded<()>;

    /// Moves delayed tasks whose time has come to the pending order, at most [`RELEASED_AT_ONCE`], and gives how many they were.
    fn release_delayed(&mut self) -> Loaded<usize>;

    /// The settings of a queue; nothing if they are the default.
    fn load_settings(&mut self, queue: QueueKey) -> Loaded<Option<Arc<QueueSettings>>>;
    /// How many tasks of a queue are running, and how many of them were claimed for a route. Called for queues whose settings limit
    /// claims; no other transaction claims there before this one ends, else [`Busy`](crate::StoreError::Busy).
    fn count_running(&mut self, queue: QueueKey, route: &Route) -> Loaded<RunningTasks>;
    fn save_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> Loaded<()>;
    /// Ended tasks that may be older than the retention of their queue says, at most `most`, of any queues. They exist and are
    /// held; the caller decides again, and deletes them.
    fn find_outdated(&mut self, most: usize) -> Loaded<Outdated>;

    fn find_run(&mut self, run_id: RunId) -> Loaded<RunUse>;
    /// The first task of a route in the pending order: highest priority first. Delayed tasks whose time has come are in it, tasks
    /// with unmet dependencies are not.
    fn first_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<Option<TaskKey>>;
    /// The running tasks whose lease ends, or whose time is over, at or before `until`; `most` of them where there are more.
    fn running_until(&mut self, until: Timestamp, most: usize) -> Loaded<Vec<(QueueKey, TaskKey)>>;
    /// Records that the leases were scanned now.
    fn save_scan(&mut self) -> Loaded<()>;

    /// Saves what a process has counted, in place of what it saved before for the same spans. Rows of queues that do not exist
    /// are left out.
    fn save_activity(&mut self, process: ProcessId, rows: &[ActivityRow]) -> Loaded<()>;
    /// Removes what is over, of all queues, and returns how much it was.
    fn forget(&mut self, over: Over) -> Loaded<u64>;

    /// An observation, expired or not.
    fn load_observation(&mut self, queue: Queue<'_>, id: WorkerId) -> Loaded<Option<Observation>>;
    /// Adds or replaces an observation; without one, removes it if it exists.
    fn save_observation(&mut self, queue: QueueKey, id: WorkerId, observation: Option<&Observation>) -> Loaded<()>;
}

/// Takes tasks one after the other, until it breaks.
pub type VisitTask<'a> = &'a mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send);

/// A transaction that executes batches, and in them the commands that change many tasks at once.
pub trait BatchTransaction: Transaction {
    /// From which the backend finds out what changed since.
    type Snapshot;

    /// The tasks of a plan's queue that were created, changed or deleted since its snapshot; nothing if there are too many
    /// for the write to decide them again. Deleted tasks that the plan changes may be left out, other tasks may be among them.
    fn changed_since(&mut self, planned: &Planned<Self::Snapshot>) -> Loaded<Option<Vec<TaskKey>>>;

    /// The tasks of a queue that a bulk update selects, one after the other, until `each` breaks. Ends with
    /// [`Busy`](crate::StoreError::Busy) when the limit is over.
    fn visit_matching(&mut self, queue: Queue<'_>, bulk: &BulkUpdate, limit: &Limit, each: VisitTask<'_>)
    -> Loaded<()>;

    /// Those of these tasks that exist in the queue, each once. For tasks that are decided again.
    fn load_existing(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>>;

    /// The heads of those of these tasks that exist, each once. For a bulk update, which loads some at a time.
    fn load_heads(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, TaskHead)>> {
        keys.iter().map(|key| Ok((*key, self.load_head(*key)?))).collect()
    }

    /// Returns what has become of these tasks since they were found, without those that no longer exist. For a bulk action. Nothing
    /// else may be loaded of a task that this says others hold.
    fn load_found(
        &mut self,
        queue: QueueKey,
        found: &[FoundTask],
        changes: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, FoundState)>>;

    /// Args and metadata of these tasks, which exist, each once. For a bulk update that merges, which loads some at a time.
    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>>;

    /// Saves what a bulk update changes, without the task's JSON. The task is as it was when the effect was decided; `heads`
    /// are before and after. `merged` are args and metadata after an update that has patches.
    fn save_effect(
        &mut self,
        queue: QueueKey,
        key: TaskKey,
        heads: (&TaskHead, &TaskHead),
        update: &Update,
        effect: Effect,
        merged: Option<&Documents>,
    ) -> Loaded<()>;

    /// Returns whether it can go on after a command that was [`Busy`](crate::StoreError::Busy) and has changed nothing. The
    /// command is tried again.
    fn goes_on_when_busy(&self) -> bool {
        false
    }
}
