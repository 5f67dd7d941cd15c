//! Load, decide, save: how each command runs inside a transaction, the same on every backend. The order of checks is the
//! contract's (docs/reference/http-api.md §4): queue, task, state, size. The decisions themselves are functions of
//! `core`. Claims are in `claims.rs`, reports of runs in `runs.rs`, what tasks wait for in `dependents.rs`, commands that have
//! several items in `items.rs`, the portions of bulk actions in `found.rs`, output in `output.rs`, and what is due without a
//! request in `upkeep.rs`.

mod claims;
mod dependents;
mod found;
mod items;
mod output;
mod runs;
mod upkeep;

pub(crate) use dependents::look_again;

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

use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::bulk;
use crate::command::{
    ActOnTask, ChangeSettings, CreateQueue, CreateTask, CreatedTask, DeleteQueue, DeleteTask, NewTask, ReportTelemetry,
    ReportWorker, SaveActivity, Scanned, UpdateTask, WithdrawWorker,
};
use crate::transaction::{BatchTransaction, Over, Queue, QueueKey, TaskKey, Transaction};
use crate::weight::MAX_ITEMS;
use crate::write_request::WriteRequest;

use dependents::{look_up, save_looked_up, settle, settle_by_notes};

/// Run ids of deleted tasks that one scan forgets at most: some ten milliseconds. At a scan every 5 seconds that is more
/// than can be deleted for a day without running out of disk first.
const FORGOTTEN_AT_ONCE: u32 = 10_000;

/// Rows of old activity that are removed at most when new ones are saved, of each unit: a few milliseconds. At a save every 5
/// seconds that is more than 10,000 queues can have.
const FORGOTTEN_SPANS_AT_ONCE: u32 = 2_000;

type Executed<A> = Result<A, StoreError>;

/// Executes one command. A refusal has written nothing, except the expiry of a lease that had ended before. Gives the bytes
/// of the answer, which the request keeps. What is told after the commit is added to `after_commit`; `credited_runs` is what
/// the outage credit at the beginning of this transaction did, which a scan reports.
pub(crate) fn execute<T: BatchTransaction>(
    tx: &mut T,
    request: &mut WriteRequest,
    credited_runs: u64,
    after_commit: &mut AfterCommit,
) -> Result<usize, StoreError> {
    match request {
        WriteRequest::CreateQueue(submission) => submission.execute(|command| create_queue(tx, command)),
        WriteRequest::DeleteQueue(submission) => submission.execute(|command| delete_queue(tx, command, after_commit)),
        WriteRequest::CreateTask(submission) => submission.execute(|command| create_task(tx, command, after_commit)),
        WriteRequest::CreateTasks(submission) => {
            submission.execute(|command| items::create_tasks(tx, command, after_commit))
        }
        WriteRequest::UpdateTask(submission) => submission.execute(|command| update_task(tx, command, after_commit)),
        WriteRequest::UpdateTasks(submission) => {
            submission.execute(|command| bulk::in_one_step(tx, command.bulk(), after_commit))
        }
        WriteRequest::ActOnTask(submission) => submission.execute(|command| act_on_task(tx, command, after_commit)),
        WriteRequest::ActOnFound(submission) => {
            submission.execute(|command| found::act_on_found(tx, command, after_commit))
        }
        WriteRequest::DeleteTask(submission) => submission.execute(|command| delete_task(tx, command, after_commit)),
        WriteRequest::Claim(submission) => submission.execute(|command| claims::claim(tx, command, after_commit)),
        WriteRequest::ClaimTasks(submission) => {
            submission.execute(|command| items::claim_tasks(tx, command, after_commit))
        }
        WriteRequest::Heartbeat(submission) => submission.execute(|command| runs::heartbeat(tx, command, after_commit)),
        WriteRequest::ReportProgress(submission) => {
            submission.execute(|command| runs::report_progress(tx, command, after_commit))
        }
        WriteRequest::AddOutput(submission) => {
            submission.execute(|command| output::add_output(tx, command, after_commit))
        }
        WriteRequest::ReportRun(submission) => {
            submission.execute(|command| runs::report_run(tx, command, after_commit))
        }
        WriteRequest::ReportRuns(submission) => {
            submission.execute(|command| items::report_runs(tx, command, after_commit))
        }
        WriteRequest::ReportWorker(submission) => submission.execute(|command| report_worker(tx, command)),
        WriteRequest::ReportTelemetry(submission) => submission.execute(|command| report_telemetry(tx, command)),
        WriteRequest::WithdrawWorker(submission) => submission.execute(|command| withdraw_worker(tx, command)),
        WriteRequest::SaveActivity(submission) => submission.execute(|command| save_activity(tx, command)),
        WriteRequest::ChangeSettings(submission) => {
            submission.execute(|command| change_settings(tx, command, after_commit))
        }
        WriteRequest::Upkeep(submission) => submission.execute(|_| upkeep::upkeep(tx, after_commit)),
        WriteRequest::Scan(submission) => submission.execute(|_| scan(tx, credited_runs, after_commit)),
    }
}

fn create_queue<T: Transaction>(tx: &mut T, CreateQueue { queue, retention }: &CreateQueue) -> Executed<bool> {
    if !tx.insert_queue(queue)? {
        return Ok(false);
    }
    if *retention != Retention::default() {
        let queue = existing_queue(tx, queue)?;
        tx.save_settings(queue, &QueueSettings { retention: *retention, ..QueueSettings::default() })?;
    }
    Ok(true)
}

fn delete_queue<T: Transaction>(tx: &mut T, command: &DeleteQueue, after_commit: &mut AfterCommit) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    let tally = tx.tally_queue(queue.key)?;
    if tally.running > 0 {
        return Err(Refusal::QueueHasRunningTasks { queue: queue.name.clone(), running: tally.running }.into());
    }
    if tally.tasks > 0 && !command.cascade {
        return Err(Refusal::QueueNotEmpty { queue: queue.name.clone(), tasks: tally.tasks }.into());
    }
    tx.delete_queue(queue, lease::run_ids_kept_until(tx.now()))?;
    after_commit.claimable.queue_deleted(queue.name);
    Ok(())
}

fn create_task<T: Transaction>(
    tx: &mut T,
    command: &CreateTask,
    after_commit: &mut AfterCommit,
) -> Executed<CreatedTask> {
    let queue = existing_queue(tx, &command.queue)?;
    Ok(match create(tx, queue, command.id, &command.new, after_commit)? {
        Creation::New(task) => CreatedTask { created: true, task },
        Creation::Repeated(key) => CreatedTask { created: false, task: Box::new(tx.load_task(queue, key)?) },
    })
}

/// What became of a creation.
enum Creation {
    New(Box<Task>),
    /// The task exists, and was created like this.
    Repeated(TaskKey),
}

fn create<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    NewTask { definition, not_before, identity }: &NewTask,
    after_commit: &mut AfterCommit,
) -> Executed<Creation> {
    let outcome = Outcome::empty();
    let definition_bytes = definition.stored_bytes() + not_before_bytes(*not_before);
    let size = check_stored_size(definition_bytes, outcome.result.as_str().len(), 0);
    // What a task waits for is looked up only if it is new: who repeats a large request gets further each time.
    let is_known = !definition.scheduling.dependencies.is_empty() && tx.find_task(queue.key, id)?.is_some();
    if size.is_ok() && !is_known {
        let found = look_up(tx, queue.key, None, &definition.scheduling.dependencies, after_commit)?;
        let created = Lifecycle::created(tx.now(), tx.next_pending_seq());
        let lifecycle = Lifecycle { not_before: *not_before, unmet: unmet(&found), ..created };
        let task = Task { queue: queue.name.clone(), id, definition: definition.clone(), lifecycle, outcome };
        // Adding it shows whether there is one already: most are new, and are not looked for before.
        if let Some(key) = tx.insert_task(queue.key, &task, identity)? {
            after_commit.created(queue, &task);
            settle(tx, queue.into(), id, Some(Status::Pending), after_commit)?;
            if found.is_empty() {
                return Ok(Creation::New(Box::new(task)));
            }
            save_looked_up(tx, queue, key, &Dependencies::default(), &task.head(), &found, after_commit)?;
            return Ok(Creation::New(Box::new(tx.load_task(queue, key)?)));
        }
    }
    match tx.find_task(queue.key, id)? {
        Some(key) if tx.load_identity(key)? == *identity => Ok(Creation::Repeated(key)),
        Some(_) => Err(Refusal::TaskIdConflict { queue: queue.name.clone(), task_id: id }.into()),
        None => Err(size.err().map_or(StoreError::Broken("a task that was found is gone"), StoreError::from)),
    }
}

fn update_task<T: Transaction>(
    tx: &mut T,
    command: &UpdateTask,
    after_commit: &mut AfterCommit,
) -> Executed<Box<Task>> {
    let queue = existing_queue(tx, &command.queue)?;
    let key = existing_task(tx, queue, command.id)?;
    let before = tx.load_task(queue, key)?;
    let Some(after) = command.update.apply(&before, tx.now())? else { return Ok(Box::new(before)) };
    if !command.update.changes_waiting() {
        tx.save_update(queue.key, key, &before, &after)?;
        after_commit.updated(queue.name, &before.head(), &after.head());
        return Ok(Box::new(after));
    }
    // Before anything is saved: what it waits for may be held by another transaction.
    let found = look_up(tx, queue.key, Some(key), &after.definition.scheduling.dependencies, after_commit)?;
    tx.save_update(queue.key, key, &before, &after)?;
    after_commit.updated(queue.name, &before.head(), &after.head());
    let waited_for = &before.definition.scheduling.dependencies;
    save_looked_up(tx, queue, key, waited_for, &after.head(), &found, after_commit)?;
    Ok(Box::new(tx.load_task(queue, key)?))
}

fn act_on_task<T: Transaction>(tx: &mut T, command: &ActOnTask, after_commit: &mut AfterCommit) -> Executed<Box<Task>> {
    let queue = existing_queue(tx, &command.queue)?;
    let key = existing_task(tx, queue, command.id)?;
    let before = tx.load_head(key)?;
    if let Some(change) = lifecycle::act(&before, command.action, tx.now(), tx.next_pending_seq())? {
        save_action(tx, queue, key, &before, &change, after_commit)?;
    }
    Ok(Box::new(tx.load_task(queue, key)?))
}

/// Saves what an action changes. A task that is requeued may find that what it waits for cannot succeed any more.
fn save_action<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    key: TaskKey,
    before: &TaskHead,
    change: &Change,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let dependencies = &before.scheduling.dependencies;
    if change.lifecycle.status != Status::Pending || dependencies.is_empty() {
        return save_change(tx, queue.into(), key, before, change, after_commit);
    }
    let mut found = look_up(tx, queue.key, Some(key), dependencies, after_commit)?;
    // It may wait for itself, and is not what it was.
    let itself = found.iter_mut().filter(|(id, _)| *id == before.id);
    itself.for_each(|(_, state)| *state = DependencyState::of(change.lifecycle.status));
    save_change(tx, queue.into(), key, before, change, after_commit)?;
    save_looked_up(tx, queue, key, dependencies, &change.head_after(before), &found, after_commit)
}

/// Deleting a task that does not exist is done already.
fn delete_task<T: Transaction>(
    tx: &mut T,
    DeleteTask { queue, id }: &DeleteTask,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let queue = existing_queue(tx, queue)?;
    let Some(key) = tx.find_task(queue.key, *id)? else { return Ok(()) };
    let before = tx.load_head(key)?;
    lifecycle::check_deletion(&before)?;
    delete_existing(tx, queue.into(), key, &before, after_commit)
}

fn delete_existing<T: Transaction>(
    tx: &mut T,
    queue: QueueRef<'_>,
    key: TaskKey,
    before: &TaskHead,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    after_commit.done.dependencies(before.scheduling.dependencies.len());
    after_commit.done.routes(&before.routes);
    tx.delete_task(queue.key, key, before, lease::run_ids_kept_until(tx.now()))?;
    settle(tx, queue, before.id, None, after_commit)
}

/// Saves a change and what it means for those that wait for the task, if it has become something else to them. A task that comes
/// back from its run may find that what it waits for has failed meanwhile.
fn save_change<T: Transaction>(
    tx: &mut T,
    queue: QueueRef<'_>,
    key: TaskKey,
    before: &TaskHead,
    change: &Change,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    save_alone(tx, queue, key, before, change, after_commit)?;
    let (was, is) = (before.lifecycle.status, change.lifecycle.status);
    if DependencyState::of(was) != DependencyState::of(is) {
        settle(tx, queue, before.id, Some(is), after_commit)?;
    }
    if was == Status::Running && lifecycle::may_have_failed_dependency(&before.scheduling, &change.lifecycle) {
        settle_by_notes(tx, queue, key, &change.head_after(before), after_commit)?;
    }
    Ok(())
}

/// Saves a change without what it means for those that wait for the task. A run that ends may leave room for a claim.
fn save_alone<T: Transaction>(
    tx: &mut T,
    queue: QueueRef<'_>,
    key: TaskKey,
    before: &TaskHead,
    change: &Change,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    tx.save_change(queue.key, key, before, change)?;
    after_commit.changed((queue.key, queue.name), before, &change.lifecycle);
    let ended = before.lifecycle.run.is_some() && change.lifecycle.run.is_none();
    if ended && tx.load_settings(queue.key)?.is_some_and(|settings| settings.limits_claims()) {
        after_commit.claimable.poll_all();
    }
    Ok(())
}

/// A queue whose name may not be known here.
#[derive(Clone, Copy)]
struct QueueRef<'a> {
    key: QueueKey,
    name: Option<&'a QueueName>,
}

impl<'a> From<Queue<'a>> for QueueRef<'a> {
    fn from(Queue { key, name }: Queue<'a>) -> Self {
        Self { key, name: Some(name) }
    }
}

fn change_settings<T: Transaction>(
    tx: &mut T,
    command: &ChangeSettings,
    after_commit: &mut AfterCommit,
) -> Executed<QueueSettings> {
    let queue = existing_queue(tx, &command.queue)?;
    let before = tx.load_settings(queue.key)?.unwrap_or_default();
    let after = command.patch.apply(&before)?;
    if after != *before {
        tx.save_settings(queue, &after)?;
    }
    if before.may_open(&after) {
        after_commit.claimable.poll_all();
    }
    Ok(after)
}

fn report_worker<T: Transaction>(tx: &mut T, ReportWorker { queue, id, report }: &ReportWorker) -> Executed<()> {
    let queue = existing_queue(tx, queue)?;
    let known = tx.load_observation(queue, *id)?;
    let observation = observe(known.as_ref(), queue.name, *id, report.clone(), tx.now())?;
    tx.save_observation(queue.key, *id, Some(&observation))
}

fn report_telemetry<T: Transaction>(tx: &mut T, command: &ReportTelemetry) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    let known = tx.load_observation(queue, command.id)?;
    let observation = measure(known, queue.name, command.id, command.telemetry.clone(), tx.now())?;
    tx.save_observation(queue.key, command.id, Some(&observation))
}

fn withdraw_worker<T: Transaction>(tx: &mut T, WithdrawWorker { queue, id }: &WithdrawWorker) -> Executed<()> {
    let queue = existing_queue(tx, queue)?;
    tx.save_observation(queue.key, *id, None)
}

/// Also forgets what is too old. Answers the time, by which spans are over.
fn save_activity<T: Transaction>(tx: &mut T, command: &SaveActivity) -> Executed<Timestamp> {
    let now = tx.now();
    tx.save_activity(command.process, &command.rows)?;
    for unit in Unit::ALL {
        tx.forget(Over::Activity { unit, before: unit.kept_from(now), most: FORGOTTEN_SPANS_AT_ONCE })?;
    }
    Ok(now)
}

/// The lease scan. The outage credit has been granted before, so that nothing expires because of an outage.
fn scan<T: Transaction>(tx: &mut T, credited_runs: u64, after_commit: &mut AfterCommit) -> Executed<Scanned> {
    let mut scanned = Scanned { credited_runs, ..Scanned::default() };
    // One more than fits shows that there is a next scan.
    for (n, (queue, key)) in tx.running_until(tx.now(), MAX_ITEMS + 1)?.into_iter().enumerate() {
        scanned.more = n == MAX_ITEMS || after_commit.done.is_full();
        if scanned.more {
            break;
        }
        let before = tx.load_head(key)?;
        if let Some(change) = lifecycle::expire(&before, tx.now(), tx.next_pending_seq()) {
            // The scan knows the storage's numbers of queues and not their names, so that all waiters look again.
            let queue = QueueRef { key: queue, name: None };
            save_change(tx, queue, key, &before, &change, after_commit)?;
            scanned.expired_runs += 1;
        }
    }
    tx.forget(Over::DeletedRuns { most: FORGOTTEN_AT_ONCE })?;
    scanned.expired_observations = tx.forget(Over::Observations)?;
    tx.save_scan()?;
    Ok(scanned)
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
pub fn credit_after_outage<T: Transaction>(
    tx: &mut T,
    OutageCredit { seconds, last_scan_at }: OutageCredit,
) -> Result<u64, StoreError> {
    let now = tx.now();
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

pub(crate) fn existing_queue<'a, T: Transaction>(tx: &mut T, name: &'a QueueName) -> Result<Queue<'a>, StoreError> {
    match tx.find_queue(name)? {
        Some(key) => Ok(Queue { key, name }),
        None => Err(Refusal::QueueNotFound { queue: name.clone() }.into()),
    }
}

fn existing_task<T: Transaction>(tx: &mut T, queue: Queue<'_>, id: TaskId) -> Result<TaskKey, StoreError> {
    let task = tx.find_task(queue.key, id)?;
    task.ok_or_else(|| Refusal::TaskNotFound { queue: queue.name.clone(), task_id: id }.into())
}
