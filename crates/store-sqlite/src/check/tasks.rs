//! Checks each task of an existing queue with everything that belongs to it: whether its rows can be read, the rules of `core`,
//! and its output.

use rusqlite::{OptionalExtension, Row};
use taskqueue_core::ids::{QueueName, RunId};
use taskqueue_core::output::{KeptOutput, Part};
use taskqueue_core::soundness::{self, Broken, Rule};
use taskqueue_core::task::Task;
use taskqueue_store::check::Step;
use taskqueue_store::transaction::TaskKey;

use super::Checked;
use crate::each_row::{CONTINUE, each_row};
use crate::{rows, statements as sql};

pub(super) fn check(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    let mut done = 0;
    each_row(checked.connection, &sql::TRANSFER_TASKS, [i64::MIN], |row| {
        check_task(checked, row)?;
        done += 1;
        Ok(checked.row(Step::Tasks, done, checked.tasks))
    })
}

fn check_task(checked: &mut Checked<'_, '_>, row: &Row<'_>) -> rusqlite::Result<()> {
    let key = rows::key(row)?;
    let Some(queue) = checked.queues.get(&rows::queue_key(row)?).cloned() else { return Ok(()) };
    let (Ok(task), Ok(head), Ok(_)) = (rows::task(row, &queue), rows::head(row), rows::identity(row)) else {
        let id = rows::id(row).map_or_else(|_| format!("in row {}", key.0), |id| id.to_string());
        checked.findings.add(Rule::Readable, format!("task {id} of queue {queue} cannot be read"));
        return Ok(());
    };
    checked.findings.add_of_task(&queue, task.id, &soundness::task(&task, &head));
    let broken = check_output(checked, key, &task)?;
    add(checked, &queue, &task, &broken);
    Ok(())
}

fn add(checked: &mut Checked<'_, '_>, queue: &QueueName, task: &Task, broken: &[Broken]) {
    checked.findings.add_of_task(queue, task.id, broken);
}

fn check_output(checked: &Checked<'_, '_>, key: TaskKey, task: &Task) -> rusqlite::Result<Vec<Broken>> {
    let connection = checked.connection;
    let mut statement = connection.prepare_cached(sql::LOAD_OUTPUT)?;
    // Of a row, or of none: what it says may be unreadable.
    let kept: Option<rusqlite::Result<Option<KeptOutput>>> =
        statement.query_row([key.0], |row| Ok(rows::kept_output(row, 0))).optional()?;
    let kept = match kept {
        None | Some(Ok(None)) => return Ok(Vec::new()),
        Some(Ok(Some(kept))) => kept,
        Some(Err(_)) => return Ok(vec![(Rule::Readable, "has output of which nobody can read what is kept")]),
    };
    let mut runs: Vec<RunId> = connection
        .prepare_cached(sql::LIST_PAST_RUNS)?
        .query_map([key.0], |row| Ok(rows::run_id(row).ok()))?
        .filter_map(Result::transpose)
        .collect::<rusqlite::Result<_>>()?;
    runs.extend(task.lifecycle.run.map(|run| run.run_id));
    runs.extend(task.lifecycle.finished_run.map(|run| run.run_id));
    let mut pieces = Vec::new();
    each_row(connection, sql::CHECK_OUTPUT_PIECES, [key.0], |row| {
        let (start, length): (i64, i64) = (row.get(0)?, row.get(1)?);
        let start = start.cast_unsigned();
        pieces.push(Part { start, end: start.saturating_add(length.cast_unsigned()) });
        Ok(CONTINUE)
    })?;
    Ok(soundness::output(&kept, &runs, &pieces))
}
