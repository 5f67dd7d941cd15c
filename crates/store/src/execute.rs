//! Load, decide, save: how each command runs inside a transaction, the same on every backend. The order of checks is the
//! contract's (docs/reference/http-api.md §4): queue, task, state, size. The decisions themselves are functions of
//! `core`. Commands that have several items are in `items.rs`, the portions of bulk actions in `found.rs`, output in
//! `output.rs`.

mod found;
mod items;
mod output;

use taskqueue_core::activity::Unit;
use taskqueue_core::definition::check_stored_size;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lease;
use taskqueue_core::lifecycle::{self, Change, Claimant, LeaseChange, NewProgress, RunRefusal, RunReport};
use taskqueue_core::observation::{measure, observe};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::{ActiveRun, Lifecycle, Outcome, Task, TaskHead};
use taskqueue_core::time::Timestamp;

use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::bulk;
use crate::command::{
    ActOnTask, Claim, Claimed, CreateQueue, CreateTask, CreatedTask, DeleteQueue, DeleteTask, Heartbeat, NewTask,
    ReportProgress, ReportRun, ReportTelemetry, ReportWorker, SaveActivity, Scanned, UpdateTask, WithdrawWorker,
};
use crate::transaction::{Queue, RunUse, TaskKey, Transaction};
use crate::write_request::WriteRequest;

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
pub(crate) fn execute<T: Transaction>(
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
        WriteRequest::DeleteTask(submission) => submission.execute(|command| delete_task(tx, command)),
        WriteRequest::Claim(submission) => submission.execute(|command| claim(tx, command, after_commit)),
        WriteRequest::ClaimTasks(submission) => {
            submission.execute(|command| items::claim_tasks(tx, command, after_commit))
        }
        WriteRequest::Heartbeat(submission) => submission.execute(|command| heartbeat(tx, command, after_commit)),
        WriteRequest::ReportProgress(submission) => {
            submission.execute(|command| report_progress(tx, command, after_commit))
        }
        WriteRequest::AddOutput(submission) => {
            submission.execute(|command| output::add_output(tx, command, after_commit))
        }
        WriteRequest::ReportRun(submission) => submission.execute(|command| report_run(tx, command, after_commit)),
        WriteRequest::ReportRuns(submission) => {
            submission.execute(|command| items::report_runs(tx, command, after_commit))
        }
        WriteRequest::ReportWorker(submission) => submission.execute(|command| report_worker(tx, command)),
        WriteRequest::ReportTelemetry(submission) => submission.execute(|command| report_telemetry(tx, command)),
        WriteRequest::WithdrawWorker(submission) => submission.execute(|command| withdraw_worker(tx, command)),
        WriteRequest::SaveActivity(submission) => submission.execute(|command| save_activity(tx, command)),
        WriteRequest::Scan(submission) => submission.execute(|_| scan(tx, credited_runs, after_commit)),
    }
}

fn create_queue<T: Transaction>(tx: &mut T, CreateQueue { queue }: &CreateQueue) -> Executed<bool> {
    if tx.find_queue(queue)?.is_some() {
        return Ok(false);
    }
    tx.insert_queue(queue)?;
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
    NewTask { definition, identity }: &NewTask,
    after_commit: &mut AfterCommit,
) -> Executed<Creation> {
    let outcome = Outcome::empty();
    let size = check_stored_size(definition.stored_bytes(), outcome.result.as_str().len(), 0);
    if size.is_ok() {
        let lifecycle = Lifecycle::created(tx.now(), tx.next_pending_seq());
        let task = Task { queue: queue.name.clone(), id, definition: definition.clone(), lifecycle, outcome };
        // Adding it shows whether there is one already: most are new, and are not looked for before.
        if tx.insert_task(queue.key, &task, identity)? {
            after_commit.created(queue, id, &task.definition.routes);
            return Ok(Creation::New(Box::new(task)));
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
    tx.save_update(queue.key, key, &before, &after)?;
    after_commit.claimable.updated(queue.name, &before.head(), &after.definition.routes);
    Ok(Box::new(after))
}

fn act_on_task<T: Transaction>(tx: &mut T, command: &ActOnTask, after_commit: &mut AfterCommit) -> Executed<Box<Task>> {
    let queue = existing_queue(tx, &command.queue)?;
    let key = existing_task(tx, queue, command.id)?;
    let before = tx.load_head(key)?;
    if let Some(change) = lifecycle::act(&before, command.action, tx.now(), tx.next_pending_seq())? {
        save_change(tx, queue, key, &before, &change, after_commit)?;
    }
    Ok(Box::new(tx.load_task(queue, key)?))
}

/// Deleting a task that does not exist is done already.
fn delete_task<T: Transaction>(tx: &mut T, DeleteTask { queue, id }: &DeleteTask) -> Executed<()> {
    let queue = existing_queue(tx, queue)?;
    let Some(key) = tx.find_task(queue.key, *id)? else { return Ok(()) };
    let before = tx.load_head(key)?;
    lifecycle::check_deletion(&before)?;
    tx.delete_task(queue.key, key, &before, lease::run_ids_kept_until(tx.now()))
}

/// What the claims of a command have in common.
#[derive(Clone, Copy)]
struct Claims<'a> {
    queue: Queue<'a>,
    route: &'a Route,
    worker: Option<&'a JsonObject>,
}

fn claim<T: Transaction>(
    tx: &mut T,
    command: &Claim,
    after_commit: &mut AfterCommit,
) -> Executed<Option<Box<Claimed>>> {
    let queue = existing_queue(tx, &command.queue)?;
    let claims = Claims { queue, route: &command.route, worker: command.worker.as_ref() };
    match tx.find_run(command.run_id)? {
        RunUse::New => claim_first(tx, claims, command.run_id, |_| true, after_commit),
        used => active_claim(tx, claims, command.run_id, used)?.load(tx, claims, command.run_id).map(Some),
    }
}

/// Claims the first pending task for a new run, unless it does not fit into the answer.
fn claim_first<T: Transaction>(
    tx: &mut T,
    Claims { queue, route, worker }: Claims<'_>,
    run_id: RunId,
    fits: impl FnOnce(&Claimed) -> bool,
    after_commit: &mut AfterCommit,
) -> Executed<Option<Box<Claimed>>> {
    let Some(key) = tx.first_pending(queue.key, route)? else { return Ok(None) };
    let mut task = tx.load_task(queue, key)?;
    let (before, claimant) = (task.head(), Claimant { route, run_id, worker });
    let claimed = lifecycle::claim(&before, &task.outcome, claimant, tx.now());
    let Ok(LeaseChange { change, lease_expires_at }) = claimed else {
        return Err(StoreError::Broken("a task that is not pending was offered to a claim"));
    };
    change.apply_to_outcome(&mut task.outcome);
    task.lifecycle = change.lifecycle.clone();
    let claimed = Box::new(Claimed { task, run_id, lease_expires_at });
    if !fits(&claimed) {
        return Ok(None);
    }
    tx.save_change(queue.key, key, &before, &change)?;
    after_commit.record(queue.key, &before.lifecycle, &change.lifecycle);
    Ok(Some(claimed))
}

/// A claim with a run id that was used before: the same task for the same queue and route, as long as its lease holds. What it
/// says of its worker does not matter any more.
fn active_claim<T: Transaction>(
    tx: &mut T,
    Claims { queue, route, .. }: Claims<'_>,
    run_id: RunId,
    used: RunUse,
) -> Executed<ActiveClaim> {
    let RunUse::Active(owner, key) = used else { return Err(Refusal::StaleRun { run_id }.into()) };
    let Lifecycle { run, last_route, .. } = tx.load_head(key)?.lifecycle;
    // Another server may have ended the run after the run id was found.
    let active = run.filter(|run| run.run_id == run_id && !lease::is_over(run.lease_expires_at, tx.now()));
    let Some(ActiveRun { lease_expires_at, .. }) = active else { return Err(Refusal::StaleRun { run_id }.into()) };
    if owner != queue.key || last_route.as_ref() != Some(route) {
        return Err(Refusal::RunIdConflict { run_id }.into());
    }
    Ok(ActiveClaim { key, lease_expires_at })
}

/// A task that a run has.
struct ActiveClaim {
    key: TaskKey,
    lease_expires_at: Timestamp,
}

impl ActiveClaim {
    fn load<T: Transaction>(self, tx: &mut T, claims: Claims<'_>, run_id: RunId) -> Executed<Box<Claimed>> {
        let Self { key, lease_expires_at } = self;
        Ok(Box::new(Claimed { task: tx.load_task(claims.queue, key)?, run_id, lease_expires_at }))
    }
}

fn heartbeat<T: Transaction>(tx: &mut T, command: &Heartbeat, after_commit: &mut AfterCommit) -> Executed<Timestamp> {
    let queue = existing_queue(tx, &command.queue)?;
    renew(tx, queue, command.id, command.run_id, command.progress.as_ref(), after_commit)
}

fn renew<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    run_id: RunId,
    progress: Option<&JsonObject>,
    after_commit: &mut AfterCommit,
) -> Executed<Timestamp> {
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    let progress = progress.map(|value| new_progress(tx, key, value)).transpose()?;
    match lifecycle::heartbeat(&before, run_id, progress, tx.now(), tx.next_pending_seq()) {
        Ok(LeaseChange { change, lease_expires_at }) => {
            tx.save_change(queue.key, key, &before, &change)?;
            Ok(lease_expires_at)
        }
        Err(refused) => Err(refuse_run(tx, queue, key, &before, refused, after_commit)?),
    }
}

fn new_progress<'a, T: Transaction>(tx: &mut T, key: TaskKey, value: &'a JsonObject) -> Executed<NewProgress<'a>> {
    Ok(NewProgress { value, result_bytes: tx.load_result_bytes(key)? })
}

fn report_progress<T: Transaction>(
    tx: &mut T,
    command: &ReportProgress,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    record_progress(tx, queue, command.id, command.run_id, &command.progress, after_commit)
}

fn record_progress<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    run_id: RunId,
    progress: &JsonObject,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    let progress = new_progress(tx, key, progress)?;
    match lifecycle::report_progress(&before, run_id, progress, tx.now(), tx.next_pending_seq()) {
        Ok(change) => tx.save_change(queue.key, key, &before, &change),
        Err(refused) => Err(refuse_run(tx, queue, key, &before, refused, after_commit)?),
    }
}

fn report_run<T: Transaction>(tx: &mut T, command: &ReportRun, after_commit: &mut AfterCommit) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    end_run(tx, queue, command.id, command.run_id, &command.report, after_commit)
}

fn end_run<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    id: TaskId,
    run_id: RunId,
    report: &RunReport,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    match lifecycle::report_run(&before, run_id, report, tx.now(), tx.next_pending_seq()) {
        Ok(None) => Ok(()),
        Ok(Some(change)) => save_change(tx, queue, key, &before, &change, after_commit),
        Err(refused) => Err(refuse_run(tx, queue, key, &before, refused, after_commit)?),
    }
}

/// The refusal, after the expiry was saved that goes with it.
fn refuse_run<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    key: TaskKey,
    before: &TaskHead,
    RunRefusal { refusal, expiry }: RunRefusal,
    after_commit: &mut AfterCommit,
) -> Result<StoreError, StoreError> {
    if let Some(expiry) = expiry {
        save_change(tx, queue, key, before, &expiry, after_commit)?;
    }
    Ok(refusal.into())
}

fn save_change<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    key: TaskKey,
    before: &TaskHead,
    change: &Change,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    tx.save_change(queue.key, key, before, change)?;
    after_commit.changed(queue, before, &change.lifecycle);
    Ok(())
}

fn report_worker<T: Transaction>(tx: &mut T, ReportWorker { queue, id, report }: &ReportWorker) -> Executed<()> {
    let queue = existing_queue(tx, queue)?;
    let known = tx.load_observation(queue, *id)?;
    let observation = observe(known.as_ref(), queue.name, *id, report.clone(), tx.now())?;
    tx.save_observation(queue.key, &observation)
}

fn report_telemetry<T: Transaction>(tx: &mut T, command: &ReportTelemetry) -> Executed<()> {
    let queue = existing_queue(tx, &command.queue)?;
    let known = tx.load_observation(queue, command.id)?;
    let observation = measure(known, queue.name, command.id, command.telemetry.clone(), tx.now())?;
    tx.save_observation(queue.key, &observation)
}

fn withdraw_worker<T: Transaction>(tx: &mut T, WithdrawWorker { queue, id }: &WithdrawWorker) -> Executed<()> {
    let queue = existing_queue(tx, queue)?;
    tx.delete_observation(queue.key, *id)
}

/// Also forgets what is too old. Answers the time, by which spans are over.
fn save_activity<T: Transaction>(tx: &mut T, command: &SaveActivity) -> Executed<Timestamp> {
    let now = tx.now();
    tx.save_activity(command.process, &command.rows)?;
    for unit in Unit::ALL {
        tx.forget_activity(unit, unit.kept_from(now), FORGOTTEN_SPANS_AT_ONCE)?;
    }
    Ok(now)
}

/// The lease scan. The outage credit has been granted before, so that nothing expires because of an outage.
fn scan<T: Transaction>(tx: &mut T, credited_runs: u64, after_commit: &mut AfterCommit) -> Executed<Scanned> {
    let mut scanned = Scanned { credited_runs, ..Scanned::default() };
    for (queue, key) in tx.running_until(tx.now())? {
        let before = tx.load_head(key)?;
        if let Some(change) = lifecycle::expire(&before, tx.now(), tx.next_pending_seq()) {
            tx.save_change(queue, key, &before, &change)?;
            after_commit.record(queue, &before.lifecycle, &change.lifecycle);
            scanned.expired_runs += 1;
        }
    }
    if scanned.expired_runs > 0 {
        // The scan knows the storage's numbers of queues and not their names.
        after_commit.claimable.poll_all();
    }
    tx.forget_deleted_runs(FORGOTTEN_AT_ONCE)?;
    scanned.expired_observations = tx.delete_expired_observations()?;
    tx.save_scan()?;
    Ok(scanned)
}

/// Lengthens the running leases if no scan took place for too long. Every transaction begins with this, because a
/// heartbeat may come before the next scan.
pub fn credit_after_outage<T: Transaction>(tx: &mut T, credit_seconds: i64) -> Result<u64, StoreError> {
    let now = tx.now();
    let out = tx.last_scan_at()?.is_some_and(|last| lease::is_longer_than_outage(last, now));
    if !out || credit_seconds == 0 {
        return Ok(0);
    }
    let mut credited = 0;
    for (queue, key) in tx.running_until(now.plus_seconds(credit_seconds))? {
        let before = tx.load_head(key)?;
        let Some(run) = before.lifecycle.run else { continue };
        let lease_expires_at = lease::credited(run.lease_expires_at, now, credit_seconds);
        if lease_expires_at > run.lease_expires_at {
            let run = Some(ActiveRun { lease_expires_at, ..run });
            let lifecycle = Lifecycle { run, ..before.lifecycle.clone() };
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
