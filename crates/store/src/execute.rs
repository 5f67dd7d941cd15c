//! Load, decide, save: how each command runs inside a transaction, the same on every backend. The order of checks is the
//! contract's (docs/reference/http-api.md §4): queue, task, state, size. The decisions themselves are functions of
//! `core`. Which command is executed by which function is the table of `command.rs`. Claims, what runs say and
//! commands of several items are in `runs.rs`, what tasks wait for in `dependents.rs`, the portions of bulk actions in `found.rs`,
//! and what is due without a request at the end.

mod dependents;
mod found;
mod runs;

use taskqueue_core::activity::Unit;
use taskqueue_core::definition::{check_stored_size, not_before_bytes};
use taskqueue_core::dependency::unmet;
use taskqueue_core::lifecycle;
use taskqueue_core::observation::{measure, observe};
use taskqueue_core::{
    Change, Dependencies, DependencyState, Lifecycle, Outcome, QueueName, QueueSettings, Refusal, Retention, Status,
    Task, TaskHead, TaskId, Timestamp, lease,
};

use crate::claimable::AfterCommit;
use crate::command::{
    ActOnTask, ChangeSettings, CreateQueue, CreateTask, CreatedTask, DeleteQueue, DeleteTask, NewTask, ReportTelemetry,
    ReportWorker, SaveActivity, Scan, Scanned, UpdateTask, Upkeep, UpkeepReport, WithdrawWorker,
};
use crate::transaction::{
    BatchTransaction, Loaded, Outdated, Over, Queue, QueueRef, RELEASED_AT_ONCE, TaskKey, Transaction,
};
use crate::weight::MAX_ITEMS;
use crate::{StoreError, StoreResult};

/// Rows of old activity that are removed at most when new ones are saved, of each unit: a few milliseconds. At a save every 5
/// seconds that is more than 10,000 queues can have.
const FORGOTTEN_SPANS_AT_ONCE: u32 = 2_000;

/// Tasks that are deleted at most: some milliseconds, so that claims hardly notice.
const DELETED_AT_ONCE: usize = 250;

/// Run ids of deleted tasks that one scan forgets at most: some ten milliseconds. At a scan every 5 seconds that is more
/// than can be deleted for a day without running out of disk first.
const FORGOTTEN_AT_ONCE: u32 = 10_000;

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

    fn create(&mut self, queue: Queue<'_>, id: TaskId, new: &NewTask) -> StoreResult<Creation> {
        let NewTask { definition, not_before, identity } = new;
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
    fn save_change(&mut self, queue: QueueRef<'_>, key: TaskKey, before: &TaskHead, change: &Change) -> Loaded<()> {
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

    // What is due and nobody asks for: leases that are over, tasks whose time has come, dependents that were left, ended tasks that are
    // kept no longer. A part of it at a time, so that others are served in between.

    pub(crate) fn upkeep(&mut self, _: &Upkeep) -> StoreResult<UpkeepReport> {
        let released = self.tx.release_delayed()?;
        if released > 0 {
            self.after_commit.claimable.poll_all = true;
        }
        let (settled, unsettled) = self.settle_left(None)?;
        let Outdated { mut tasks, more } = self.tx.find_outdated(DELETED_AT_ONCE)?;
        // Of two that a task waits for, the older one is named as deleted, whatever the store finds first.
        tasks.sort_unstable();
        let (mut deleted, mut is_full) = (0, false);
        for (queue, key) in tasks {
            is_full = self.after_commit.done.is_full();
            if is_full {
                break;
            }
            let before = self.tx.load_head(key)?;
            let settings = self.tx.load_settings(queue)?.unwrap_or_default();
            if settings.retention.is_outdated(&before.lifecycle, self.tx.now()) {
                self.delete_existing(QueueRef { key: queue, name: None }, key, &before)?;
                deleted += 1;
            }
        }
        let is_urgent = unsettled || released == RELEASED_AT_ONCE;
        Ok(UpkeepReport { released: released as u64, settled, deleted, more: more || is_full || is_urgent, is_urgent })
    }

    /// The lease scan. The outage credit has been granted before, so that nothing expires because of an outage.
    pub(crate) fn scan(&mut self, _: &Scan) -> StoreResult<Scanned> {
        let mut scanned = Scanned { credited_runs: self.credited_runs, ..Scanned::default() };
        // One more than fits shows that there is a next scan.
        for (n, (queue, key)) in self.tx.running_until(self.tx.now(), MAX_ITEMS + 1)?.into_iter().enumerate() {
            scanned.more = n == MAX_ITEMS || self.after_commit.done.is_full();
            if scanned.more {
                break;
            }
            let before = self.tx.load_head(key)?;
            if let Some(change) = lifecycle::expire(&before, self.tx.now(), self.tx.next_pending_seq()) {
                // The scan knows the storage's numbers of queues and not their names, so that all waiters look again.
                let queue = QueueRef { key: queue, name: None };
                self.save_change(queue, key, &before, &change)?;
                scanned.expired_runs += 1;
            }
        }
        self.tx.forget(Over::DeletedRuns { most: FORGOTTEN_AT_ONCE })?;
        scanned.expired_observations = self.tx.forget(Over::Observations)?;
        self.tx.save_scan()?;
        Ok(scanned)
    }
}

/// By how much running leases are lengthened after an outage.
#[derive(Clone, Copy, Debug)]
pub struct OutageCredit {
    /// 0 for not at all.
    pub seconds: i64,
    /// When the leases were last scanned.
    pub last_scan_at: Option<Timestamp>,
}

/// Lengthens the running leases if no scan took place for too long. Every transaction begins with this, because a
/// heartbeat may come before the next scan.
pub fn credit_after_outage<T: Transaction>(tx: &mut T, credit: OutageCredit) -> StoreResult<u64> {
    let (OutageCredit { seconds, last_scan_at }, now) = (credit, tx.now());
    let out = last_scan_at.is_some_and(|last| lease::is_longer_than_outage(last, now));
    if !out || seconds == 0 {
        return Ok(0);
    }
    let mut credited = 0;
    for (queue, key) in tx.running_until(now.plus_seconds(seconds), usize::MAX)? {
        let before = tx.load_head(key)?;
        let Some(run) = before.lifecycle.run else { continue };
        let with_credit = lease::credited_run(run, now, seconds);
        if with_credit != run {
            let lifecycle = Lifecycle { run: Some(with_credit), ..before.lifecycle.clone() };
            tx.save_change(queue, key, &before, &Change::of_lifecycle(lifecycle))?;
            credited += 1;
        }
    }
    tx.save_scan()?;
    Ok(credited)
}
