//! Load, decide, save: how each command runs inside a transaction, the same on every backend. The order of checks is the
//! contract's (decisions.md section 5): queue, task, state, size. The decisions themselves are functions of `core`.

use taskqueue_core::definition::check_stored_size;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::lease;
use taskqueue_core::lifecycle::{Action, Change, Decision, ErrorChange, decide};
use taskqueue_core::observation::{Report, observe};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::{ActiveRun, Lifecycle, Outcome, Task};
use taskqueue_core::update::Update;

use crate::StoreError;
use crate::bulk;
use crate::claimable::Claimable;
use crate::command::{Answer, Claimed, Command, NewTask, Scanned};
use crate::transaction::{Queue, QueueKey, RunUse, TaskKey, Transaction};

/// Run ids of deleted tasks that one scan forgets at most: some ten milliseconds. At a scan every 5 seconds that is more
/// than can be deleted for a day without running out of disk first.
const FORGOTTEN_AT_ONCE: u32 = 10_000;

type Executed = Result<Answer, StoreError>;

/// Runs one command. A refusal has written nothing, except the expiry of a lease that had ended before.
/// `credit_seconds` is the outage credit. What the command makes claimable is added to `claimable`.
pub fn execute<T: Transaction>(
    tx: &mut T,
    command: &Command,
    credit_seconds: i64,
    claimable: &mut Claimable,
) -> Executed {
    match command {
        Command::CreateQueue(queue) => create_queue(tx, queue),
        Command::DeleteQueue { queue, cascade } => delete_queue(tx, queue, *cascade, claimable),
        Command::CreateTask { queue, id, new } => create_task(tx, queue, *id, new, claimable),
        Command::UpdateTask { queue, id, update } => update_task(tx, queue, *id, update, claimable),
        Command::UpdateTasks(bulk) => bulk::in_one_step(tx, bulk, claimable),
        Command::Act { queue, id, action } => act(tx, queue, *id, action, claimable),
        Command::Claim { queue, route, run_id } => claim(tx, queue, route, *run_id),
        Command::ReportRun { queue, id, action } => report_run(tx, queue, *id, action, claimable),
        Command::ReportWorker { queue, id, report } => report_worker(tx, queue, *id, report),
        Command::WithdrawWorker { queue, id } => withdraw_worker(tx, queue, *id),
        Command::Scan => scan(tx, credit_seconds, claimable),
    }
}

fn create_queue<T: Transaction>(tx: &mut T, queue: &QueueName) -> Executed {
    if tx.find_queue(queue)?.is_some() {
        return Ok(Answer::Created(false));
    }
    tx.insert_queue(queue)?;
    Ok(Answer::Created(true))
}

fn delete_queue<T: Transaction>(tx: &mut T, name: &QueueName, cascade: bool, claimable: &mut Claimable) -> Executed {
    let queue = existing_queue(tx, name)?;
    let tally = tx.tally_queue(queue.key)?;
    if tally.running > 0 {
        return Err(Refusal::QueueHasRunningTasks { queue: name.clone(), running: tally.running }.into());
    }
    if tally.tasks > 0 && !cascade {
        return Err(Refusal::QueueNotEmpty { queue: name.clone(), tasks: tally.tasks }.into());
    }
    tx.delete_queue(queue, lease::run_ids_kept_until(tx.now()))?;
    claimable.queue_deleted(name);
    Ok(Answer::Done)
}

fn create_task<T: Transaction>(
    tx: &mut T,
    name: &QueueName,
    id: TaskId,
    new: &NewTask,
    claimable: &mut Claimable,
) -> Executed {
    let queue = existing_queue(tx, name)?;
    if let Some(key) = tx.find_task(queue.key, id)? {
        if tx.load_identity(key)? != new.identity {
            return Err(Refusal::TaskIdConflict { queue: name.clone(), task_id: id }.into());
        }
        return Ok(Answer::Task { created: false, task: Box::new(tx.load_task(queue, key)?) });
    }
    let outcome = Outcome::empty();
    check_stored_size(new.definition.stored_bytes(), &outcome.result)?;
    let lifecycle = Lifecycle::created(tx.now(), tx.next_pending_seq());
    let task = Task { queue: name.clone(), id, definition: new.definition.clone(), lifecycle, outcome };
    tx.insert_task(queue.key, &task, &new.identity)?;
    claimable.created(name, id, &task.definition.routes);
    Ok(Answer::Task { created: true, task: Box::new(task) })
}

fn update_task<T: Transaction>(
    tx: &mut T,
    name: &QueueName,
    id: TaskId,
    update: &Update,
    claimable: &mut Claimable,
) -> Executed {
    let queue = existing_queue(tx, name)?;
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_task(queue, key)?;
    let task = match update.apply(&before, tx.now())? {
        Some(after) => {
            tx.save_update(queue.key, key, &before, &after)?;
            claimable.updated(name, &before.head(), &after.definition.routes);
            after
        }
        None => before,
    };
    Ok(Answer::Task { created: false, task: Box::new(task) })
}

/// Cancel, requeue and delete. Deleting a task that does not exist is done already.
fn act<T: Transaction>(
    tx: &mut T,
    name: &QueueName,
    id: TaskId,
    action: &Action,
    claimable: &mut Claimable,
) -> Executed {
    let queue = existing_queue(tx, name)?;
    let deletes = matches!(action, Action::Delete);
    let key = match tx.find_task(queue.key, id)? {
        Some(key) => key,
        None if deletes => return Ok(Answer::Done),
        None => return Err(Refusal::TaskNotFound { queue: name.clone(), task_id: id }.into()),
    };
    let before = tx.load_head(key)?;
    match decide(&before, action, tx.now(), tx.next_pending_seq()) {
        Decision::Delete => {
            tx.delete_task(queue.key, key, &before, lease::run_ids_kept_until(tx.now()))?;
            return Ok(Answer::Done);
        }
        Decision::Change(change) => {
            tx.save_change(queue.key, key, &before, &change)?;
            claimable.acted(name, &before, change.lifecycle.status);
        }
        Decision::Unchanged => {}
        Decision::Refuse(refusal) | Decision::Expire(_, refusal) => return Err(refusal.into()),
    }
    Ok(Answer::Task { created: false, task: Box::new(tx.load_task(queue, key)?) })
}

fn claim<T: Transaction>(tx: &mut T, name: &QueueName, route: &Route, run_id: RunId) -> Executed {
    let queue = existing_queue(tx, name)?;
    match tx.find_run(run_id)? {
        RunUse::New => {}
        RunUse::Past => return Err(Refusal::StaleRun { run_id }.into()),
        RunUse::Active(owner, key) => return replay_claim(tx, queue, owner, key, route, run_id),
    }
    let Some(key) = tx.first_pending(queue.key, route)? else { return Ok(Answer::Claimed(None)) };
    let task = tx.load_task(queue, key)?;
    let before = task.head();
    let action = Action::Claim { route: route.clone(), run_id };
    match decide(&before, &action, tx.now(), before.lifecycle.pending_seq) {
        Decision::Change(change) => {
            tx.save_change(queue.key, key, &before, &change)?;
            claimed(Task { lifecycle: change.lifecycle, ..task }, run_id)
        }
        other => broken(&format!("a task that is not pending was offered to a claim: {other:?}")),
    }
}

/// A claim that comes again: the same task for the same queue and route, as long as its lease holds.
fn replay_claim<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    owner: QueueKey,
    key: TaskKey,
    route: &Route,
    run_id: RunId,
) -> Executed {
    let Lifecycle { run, last_route, .. } = tx.load_head(key)?.lifecycle;
    // Between the look at the run id and the look at the task another server may have ended the run.
    if run.is_none_or(|run| run.run_id != run_id || lease::is_over(run.lease_expires_at, tx.now())) {
        return Err(Refusal::StaleRun { run_id }.into());
    }
    if owner != queue.key || last_route.as_ref() != Some(route) {
        return Err(Refusal::RunIdConflict { run_id }.into());
    }
    claimed(tx.load_task(queue, key)?, run_id)
}

fn claimed(task: Task, run_id: RunId) -> Executed {
    match task.lifecycle.run {
        Some(ActiveRun { lease_expires_at, .. }) => {
            Ok(Answer::Claimed(Some(Box::new(Claimed { task, run_id, lease_expires_at }))))
        }
        None => broken("a claimed task has no run"),
    }
}

fn report_run<T: Transaction>(
    tx: &mut T,
    name: &QueueName,
    id: TaskId,
    action: &Action,
    claimable: &mut Claimable,
) -> Executed {
    let queue = existing_queue(tx, name)?;
    let key = existing_task(tx, queue, id)?;
    let before = tx.load_head(key)?;
    let lease = |lifecycle: &Lifecycle| match (action, lifecycle.run) {
        (Action::Heartbeat { .. }, Some(run)) => Answer::Lease(run.lease_expires_at),
        _ => Answer::Done,
    };
    match decide(&before, action, tx.now(), tx.next_pending_seq()) {
        Decision::Change(change) => {
            tx.save_change(queue.key, key, &before, &change)?;
            claimable.acted(name, &before, change.lifecycle.status);
            Ok(lease(&change.lifecycle))
        }
        Decision::Unchanged => Ok(lease(&before.lifecycle)),
        Decision::Refuse(refusal) => Err(refusal.into()),
        Decision::Expire(expiry, refusal) => {
            tx.save_change(queue.key, key, &before, &expiry)?;
            claimable.acted(name, &before, expiry.lifecycle.status);
            Err(refusal.into())
        }
        Decision::Delete => broken("a report of a run asked for a deletion"),
    }
}

fn report_worker<T: Transaction>(tx: &mut T, name: &QueueName, id: WorkerId, report: &Report) -> Executed {
    let queue = existing_queue(tx, name)?;
    let known = tx.load_observation(queue, id)?;
    let observation = observe(known.as_ref(), name, id, report.clone(), tx.now())?;
    tx.save_observation(queue.key, &observation)?;
    Ok(Answer::Done)
}

fn withdraw_worker<T: Transaction>(tx: &mut T, name: &QueueName, id: WorkerId) -> Executed {
    let queue = existing_queue(tx, name)?;
    tx.delete_observation(queue.key, id)?;
    Ok(Answer::Done)
}

/// The lease scan. After an outage the credit comes first, so that nothing expires because nobody could be heard.
fn scan<T: Transaction>(tx: &mut T, credit_seconds: i64, claimable: &mut Claimable) -> Executed {
    let mut scanned = Scanned { credited_runs: credit_after_outage(tx, credit_seconds)?, ..Scanned::default() };
    for (queue, key) in tx.running_until(tx.now())? {
        let before = tx.load_head(key)?;
        if let Decision::Change(change) = decide(&before, &Action::Expire, tx.now(), tx.next_pending_seq()) {
            tx.save_change(queue, key, &before, &change)?;
            scanned.expired_runs += 1;
        }
    }
    if scanned.expired_runs > 0 {
        // The scan goes by the storage's numbers of queues and not by their names.
        claimable.poll_all_routes();
    }
    tx.forget_deleted_runs(FORGOTTEN_AT_ONCE)?;
    scanned.expired_observations = tx.delete_expired_observations()?;
    tx.save_scan()?;
    Ok(Answer::Scanned(scanned))
}

/// Lengthens the running leases if no scan took place for too long. Every transaction begins with this, because a
/// heartbeat may be heard before the next scan.
pub fn credit_after_outage<T: Transaction>(tx: &mut T, credit_seconds: i64) -> Result<u64, StoreError> {
    let now = tx.now();
    let out = tx.last_scan_at()?.is_some_and(|last| lease::was_out(last, now));
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
            let change = Change { lifecycle, result: None, last_error: ErrorChange::Keep };
            tx.save_change(queue, key, &before, &change)?;
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

/// A backend broke a promise. Nothing is written: the transaction fails.
fn broken<A>(what: &str) -> Result<A, StoreError> {
    debug_assert!(false, "{what}");
    Err(StoreError::Unavailable)
}
