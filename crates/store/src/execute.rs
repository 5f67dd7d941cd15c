//! Load, decide, save: how each command runs inside a transaction, the same on every backend. The order of checks is the
//! contract's (docs/reference/http-api.md §4): queue, task, state, size. The decisions themselves are functions of
//! `core`. Which command is executed by which function is the table of `write_request.rs`. Claims, what runs say and
//! commands of several items are in `runs.rs`, what tasks wait for in `dependents.rs`, the portions of bulk actions in `found.rs`,
//! and what is due without a request in `upkeep.rs`.

mod dependents;
mod found;
mod runs;
mod upkeep;

pub use upkeep::{OutageCredit, credit_after_outage};

use taskqueue_core::activity::Unit;
use taskqueue_core::definition::{check_stored_size, not_before_bytes};
use taskqueue_core::dependency::{DependencyState, unmet};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::lease;
use taskqueue_core::lifecycle::{self, Change};
use taskqueue_core::observation::{measure, observe};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::scheduling::Dependencies;
use taskqueue_core::settings::{QueueSettings, Retention};
use taskqueue_core::task::{Lifecycle, Outcome, Status, Task, TaskHead};
use taskqueue_core::time::Timestamp;

use crate::after_commit::AfterCommit;
use crate::command::{
    ActOnTask, ChangeSettings, CreateQueue, CreateTask, CreatedTask, DeleteQueue, DeleteTask, NewTask, ReportTelemetry,
    ReportWorker, SaveActivity, UpdateTask, WithdrawWorker,
};
use crate::transaction::{BatchTransaction, Over, Queue, QueueRef, TaskKey};
use crate::{StoreError, StoreResult};

/// Rows of old activity that are removed at most when new ones are saved, of each unit: a few milliseconds. At a save every 5
/// seconds that is more than 10,000 queues can have.
const FORGOTTEN_SPANS_AT_ONCE: u32 = 2_000;

/// The execution of commands in one transaction. A refused command has written nothing, except the expiry of a lease that had ended
/// before.
pub(crate) struct Execution<'a, T> {
    pub(crate) tx: &'a mut T,
    /// Runs that got the outage credit at the beginning of this transaction, which a scan reports.
    pub(crate) credited_runs: u64,
    /// The facts that are told after the commit.
    pub(crate) after_commit: &'a mut AfterCommit,
}

/// The outcome of a creation.
enum Creation {
    New(Box<Task>),
    /// The task exists, and was created like this.
    Repeated(TaskKey),
}

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn create_queue(&mut self, CreateQueue { queue, retention }: &CreateQueue) -> StoreResult<bool> {
        if !self.tx.insert_queue(queue)? {
            return Ok(false);
        }
        if *retention != Retention::default() {
            let queue = self.existing_queue(queue)?;
            self.tx.save_settings(queue, &QueueSettings { retention: *retention, ..QueueSettings::default() })?;
        }
        Ok(true)
    }

    pub(crate) fn delete_queue(&mut self, command: &DeleteQueue) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        let tally = self.tx.tally_queue(queue.key)?;
        if tally.running > 0 {
            return Err(Refusal::QueueHasRunningTasks { queue: queue.name.clone(), running: tally.running }.into());
        }
        if tally.tasks > 0 && !command.cascade {
            return Err(Refusal::QueueNotEmpty { queue: queue.name.clone(), tasks: tally.tasks }.into());
        }
        self.tx.delete_queue(queue, lease::run_ids_kept_until(self.tx.now()))?;
        self.after_commit.claimable.queue_deleted(queue.name);
        Ok(())
    }

    pub(crate) fn create_task(&mut self, command: &CreateTask) -> StoreResult<CreatedTask> {
        let queue = self.existing_queue(&command.queue)?;
        Ok(match self.create(queue, command.id, &command.new)? {
            Creation::New(task) => CreatedTask { created: true, task },
            Creation::Repeated(key) => CreatedTask { created: false, task: Box::new(self.tx.load_task(queue, key)?) },
        })
    }

    fn create(
        &mut self,
        queue: Queue<'_>,
        id: TaskId,
        NewTask { definition, not_before, identity }: &NewTask,
    ) -> StoreResult<Creation> {
        let outcome = Outcome::empty();
        let definition_bytes = definition.stored_bytes() + not_before_bytes(*not_before);
        let size = check_stored_size(definition_bytes, outcome.result.as_str().len(), 0);
        // What a task waits for is looked up only if it is new: who repeats a large request gets further each time.
        let is_known = !definition.scheduling.dependencies.is_empty() && self.tx.find_task(queue.key, id)?.is_some();
        if size.is_ok() && !is_known {
            let found = self.look_up(queue.key, None, &definition.scheduling.dependencies)?;
            let created = Lifecycle::created(self.tx.now(), self.tx.next_pending_seq());
            let lifecycle = Lifecycle { not_before: *not_before, unmet: unmet(&found), ..created };
            let task = Task { queue: queue.name.clone(), id, definition: definition.clone(), lifecycle, outcome };
            // Adding it shows whether there is one already: most are new, and are not looked for before.
            if let Some(key) = self.tx.insert_task(queue.key, &task, identity)? {
                self.after_commit.created(queue, &task);
                self.settle(queue.into(), id, Some(Status::Pending))?;
                if found.is_empty() {
                    return Ok(Creation::New(Box::new(task)));
                }
                self.save_looked_up(queue, key, &Dependencies::default(), &task.head(), &found)?;
                return Ok(Creation::New(Box::new(self.tx.load_task(queue, key)?)));
            }
        }
        match self.tx.find_task(queue.key, id)? {
            Some(key) if self.tx.load_identity(key)? == *identity => Ok(Creation::Repeated(key)),
            Some(_) => Err(Refusal::TaskIdConflict { queue: queue.name.clone(), task_id: id }.into()),
            None => Err(size.err().map_or(StoreError::Broken("a task that was found is gone"), StoreError::from)),
        }
    }

    pub(crate) fn update_task(&mut self, command: &UpdateTask) -> StoreResult<Box<Task>> {
        let queue = self.existing_queue(&command.queue)?;
        let key = self.existing_task(queue, command.id)?;
        let before = self.tx.load_task(queue, key)?;
        let Some(after) = command.update.apply(&before, self.tx.now())? else { return Ok(Box::new(before)) };
        // Before anything is saved: what it waits for may be held by another transaction.
        let found = match command.update.changes_waiting() {
            true => Some(self.look_up(queue.key, Some(key), &after.definition.scheduling.dependencies)?),
            false => None,
        };
        self.tx.save_update(queue.key, key, &before, &after)?;
        self.after_commit.updated(queue.name, &before.head(), &after.head());
        let Some(found) = found else { return Ok(Box::new(after)) };
        self.save_looked_up(queue, key, &before.definition.scheduling.dependencies, &after.head(), &found)?;
        Ok(Box::new(self.tx.load_task(queue, key)?))
    }

    pub(crate) fn act_on_task(&mut self, command: &ActOnTask) -> StoreResult<Box<Task>> {
        let queue = self.existing_queue(&command.queue)?;
        let key = self.existing_task(queue, command.id)?;
        let before = self.tx.load_head(key)?;
        if let Some(change) = lifecycle::act(&before, command.action, self.tx.now(), self.tx.next_pending_seq())? {
            self.save_action(queue, key, &before, &change)?;
        }
        Ok(Box::new(self.tx.load_task(queue, key)?))
    }

    /// Saves what an action changes. A task that is requeued may find that what it waits for cannot succeed any more.
    fn save_action(&mut self, queue: Queue<'_>, key: TaskKey, before: &TaskHead, change: &Change) -> StoreResult<()> {
        let dependencies = &before.scheduling.dependencies;
        if change.lifecycle.status != Status::Pending || dependencies.is_empty() {
            return self.save_change(queue.into(), key, before, change);
        }
        let mut found = self.look_up(queue.key, Some(key), dependencies)?;
        // It may wait for itself, and is not what it was.
        let itself = found.iter_mut().filter(|(id, _)| *id == before.id);
        itself.for_each(|(_, state)| *state = DependencyState::of(change.lifecycle.status));
        self.save_change(queue.into(), key, before, change)?;
        self.save_looked_up(queue, key, dependencies, &change.head_after(before), &found)
    }

    /// Deleting a task that does not exist is done already.
    pub(crate) fn delete_task(&mut self, DeleteTask { queue, id }: &DeleteTask) -> StoreResult<()> {
        let queue = self.existing_queue(queue)?;
        let Some(key) = self.tx.find_task(queue.key, *id)? else { return Ok(()) };
        let before = self.tx.load_head(key)?;
        lifecycle::check_deletion(&before)?;
        self.delete_existing(queue.into(), key, &before)
    }

    fn delete_existing(&mut self, queue: QueueRef<'_>, key: TaskKey, before: &TaskHead) -> StoreResult<()> {
        self.after_commit.done.dependencies(before.scheduling.dependencies.len());
        self.after_commit.done.routes(&before.routes);
        self.tx.delete_task(queue.key, key, before, lease::run_ids_kept_until(self.tx.now()))?;
        self.settle(queue, before.id, None)
    }

    /// Saves a change and what it means for those that wait for the task, if it has become something else to them. A task that
    /// comes back from its run may find that what it waits for has failed meanwhile.
    fn save_change(
        &mut self,
        queue: QueueRef<'_>,
        key: TaskKey,
        before: &TaskHead,
        change: &Change,
    ) -> StoreResult<()> {
        self.save_alone(queue, key, before, change)?;
        let (was, is) = (before.lifecycle.status, change.lifecycle.status);
        if DependencyState::of(was) != DependencyState::of(is) {
            self.settle(queue, before.id, Some(is))?;
        }
        if was == Status::Running && lifecycle::may_have_failed_dependency(&before.scheduling, &change.lifecycle) {
            self.settle_by_notes(queue, key, &change.head_after(before))?;
        }
        Ok(())
    }

    /// Saves a change without what it means for those that wait for the task. A run that ends may leave room for a claim.
    fn save_alone(&mut self, queue: QueueRef<'_>, key: TaskKey, before: &TaskHead, change: &Change) -> StoreResult<()> {
        self.tx.save_change(queue.key, key, before, change)?;
        self.after_commit.changed(queue, before, &change.lifecycle);
        let ended = before.lifecycle.run.is_some() && change.lifecycle.run.is_none();
        if ended && self.tx.load_settings(queue.key)?.is_some_and(|settings| settings.limits_claims()) {
            self.after_commit.claimable.poll_all = true;
        }
        Ok(())
    }

    pub(crate) fn change_settings(&mut self, command: &ChangeSettings) -> StoreResult<QueueSettings> {
        let queue = self.existing_queue(&command.queue)?;
        let before = self.tx.load_settings(queue.key)?.unwrap_or_default();
        let after = command.patch.apply(&before)?;
        if after != *before {
            self.tx.save_settings(queue, &after)?;
        }
        if before.may_open(&after) {
            self.after_commit.claimable.poll_all = true;
        }
        Ok(after)
    }

    pub(crate) fn report_worker(&mut self, ReportWorker { queue, id, report }: &ReportWorker) -> StoreResult<()> {
        let queue = self.existing_queue(queue)?;
        let known = self.tx.load_observation(queue, *id)?;
        let observation = observe(known.as_ref(), queue.name, *id, report.clone(), self.tx.now())?;
        self.tx.save_observation(queue.key, *id, Some(&observation))
    }

    pub(crate) fn report_telemetry(&mut self, command: &ReportTelemetry) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        let known = self.tx.load_observation(queue, command.id)?;
        let observation = measure(known, queue.name, command.id, command.telemetry.clone(), self.tx.now())?;
        self.tx.save_observation(queue.key, command.id, Some(&observation))
    }

    pub(crate) fn withdraw_worker(&mut self, WithdrawWorker { queue, id }: &WithdrawWorker) -> StoreResult<()> {
        let queue = self.existing_queue(queue)?;
        self.tx.save_observation(queue.key, *id, None)
    }

    /// Also forgets what is too old. Answers the time, by which spans are over.
    pub(crate) fn save_activity(&mut self, command: &SaveActivity) -> StoreResult<Timestamp> {
        let now = self.tx.now();
        self.tx.save_activity(command.process, &command.rows)?;
        for unit in Unit::ALL {
            self.tx.forget(Over::Activity { unit, before: unit.kept_from(now), most: FORGOTTEN_SPANS_AT_ONCE })?;
        }
        Ok(now)
    }

    pub(crate) fn existing_queue<'a>(&mut self, name: &'a QueueName) -> StoreResult<Queue<'a>> {
        match self.tx.find_queue(name)? {
            Some(key) => Ok(Queue { key, name }),
            None => Err(Refusal::QueueNotFound { queue: name.clone() }.into()),
        }
    }

    fn existing_task(&mut self, queue: Queue<'_>, id: TaskId) -> StoreResult<TaskKey> {
        let task = self.tx.find_task(queue.key, id)?;
        task.ok_or_else(|| Refusal::TaskNotFound { queue: queue.name.clone(), task_id: id }.into())
    }
}
