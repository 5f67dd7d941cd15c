//! Checks what lets a start and a claim do without all tasks (docs/decisions/0002): every pending or running task is among those
//! that a start reads, every used run id is found, and the segments of run ids are as they were written.

use rusqlite::{Connection, Row};
use taskqueue_core::ids::RunId;
use taskqueue_core::lease;
use taskqueue_core::soundness::Rule;
use taskqueue_core::task::Status;
use taskqueue_store::check::Step;
use taskqueue_store::transaction::QueueKey;

use super::Checked;
use crate::each_row::{CONTINUE, each_row};
use crate::history::{HistoryOptions, Marks};
use crate::living_tasks::LivingReader;
use crate::used_runs::{self, UsedRuns};
use crate::{rows, statements as sql};

/// What the rows are compared with.
struct Known {
    marks: Marks,
    living: LivingReader,
    /// Nothing if the segments cannot be read.
    runs: Option<UsedRuns>,
}

pub(super) fn check(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    let connection = checked.connection;
    let runs = match load(connection) {
        Ok(runs) => Some(runs),
        Err(error) if used_runs::is_damage(&error) => {
            checked.findings.add(Rule::RunIds, "the list of used run ids cannot be read");
            None
        }
        Err(error) => return Err(error),
    };
    if runs.is_some() {
        used_runs::check_segments(connection, |what| checked.findings.add(Rule::RunIds, what))?;
    }
    let mut known = Known { marks: Marks::load(connection)?, living: LivingReader::default(), runs };
    let mut done = 0;
    each_row(connection, &sql::LOAD_CLAIM_INDEX, [i64::MIN, i64::MAX], |row| {
        done += 1;
        check_task(checked, &mut known, row)?;
        Ok(checked.row(Step::Derived, done, checked.tasks))
    })?;
    check_deleted_runs(checked, &known)
}

fn load(connection: &Connection) -> rusqlite::Result<UsedRuns> {
    let mut runs = UsedRuns::new(HistoryOptions::default().filter_bytes, None);
    runs.reload(connection)?;
    Ok(runs)
}

fn check_task(checked: &mut Checked<'_, '_>, known: &mut Known, row: &Row<'_>) -> rusqlite::Result<()> {
    let connection = checked.connection;
    let Ok(task) = rows::claim_index(row) else { return Ok(()) };
    let is_new = task.key.0 > known.marks.last_key;
    // A start reads these.
    let is_read = is_new || known.living.contains(connection, task.key)?;
    let exists = checked.queues.contains_key(&QueueKey(task.queue_key));
    if exists && !is_read && matches!(task.status, Status::Pending | Status::Running) {
        let what =
            format!("the {} task in row {} is not among those that a start reads", task.status.as_str(), task.key.0);
        checked.findings.add(Rule::LivingTasks, what);
    }
    let Marks { flushed_at, latest_at, .. } = known.marks;
    if !is_read && task.updated_at > latest_at.max(flushed_at) {
        let what = format!("the task in row {} changed after the latest time that is noted", task.key.0);
        checked.findings.add(Rule::LivingTasks, what);
    }
    // A start adds the runs of what has changed since the last flush.
    let is_added = is_read && task.updated_at >= flushed_at;
    let (Some(runs), Some(finished), false) = (&known.runs, task.finished_run_id, is_added) else { return Ok(()) };
    let mut unknown = !is_used(runs, connection, finished)?;
    each_row(connection, sql::LOAD_PAST_RUNS, [task.key.0, task.key.0], |row| {
        if let Ok(run_id) = rows::run_id(row) {
            unknown |= !is_used(runs, connection, run_id)?;
        }
        Ok(CONTINUE)
    })?;
    if unknown {
        let what = format!("a run of the task in row {} is not known to be used", task.key.0);
        checked.findings.add(Rule::RunIds, what);
    }
    Ok(())
}

/// What cannot be read has been found with the segments.
fn is_used(runs: &UsedRuns, connection: &Connection, run_id: RunId) -> rusqlite::Result<bool> {
    match runs.is_used(connection, run_id) {
        Err(error) if used_runs::is_damage(&error) => Ok(true),
        asked => asked,
    }
}

/// A start adds those that are kept longest: of tasks that were deleted since the last flush.
fn check_deleted_runs(checked: &mut Checked<'_, '_>, known: &Known) -> rusqlite::Result<()> {
    let Some(runs) = &known.runs else { return Ok(()) };
    let (connection, added) = (checked.connection, lease::run_ids_kept_until(known.marks.flushed_at));
    each_row(connection, sql::CHECK_DELETED_RUNS, [], |row| {
        if let Ok((kept_until, run_id)) = rows::deleted_run(row)
            && kept_until < added
            && !is_used(runs, connection, run_id)?
        {
            checked.findings.add(Rule::RunIds, "a run of a deleted task is not known to be used");
        }
        Ok(CONTINUE)
    })
}
