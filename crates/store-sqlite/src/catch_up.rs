//! Writes the history of a file that has none or is far behind: one from before there was any, or one that a transfer filled.
//! A part at a time, each in a transaction of its own, so that it continues after a crash; then a start reads few rows.

use std::ops::ControlFlow;

use rusqlite::Connection;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::TaskKey;

use crate::each_row::{CONTINUE, each_row};
use crate::history::Marks;
use crate::used_runs::{Entry, Use, UsedRuns, entry};
use crate::{living_tasks, rows, statements as sql};

/// Keys behind the last one that was written, with which a start reads their rows instead.
const KEYS_MAX: i64 = 65_536;
/// Run ids of one part: 10 MB of memory.
const PART_RUNS: usize = 1_000_000;
/// Tasks of one part.
const PART_TASKS: usize = 4_000_000;

/// What a part found.
#[derive(Default)]
struct Part {
    tasks: usize,
    last_key: Option<i64>,
    latest_at: Timestamp,
    living: Vec<(TaskKey, bool)>,
    runs: Vec<Entry>,
}

pub(crate) fn catch_up(connection: &mut Connection) -> rusqlite::Result<()> {
    let last_key: i64 = connection.query_row(sql::FIND_LAST_KEY, [], |row| row.get(0))?;
    loop {
        let marks = Marks::load(connection)?;
        if last_key - marks.last_key <= KEYS_MAX {
            return Ok(());
        }
        if marks.last_key == 0 {
            tracing::info!(tasks = last_key, "reading all tasks once, so that later starts need not");
        }
        let transaction = connection.transaction()?;
        let part = read_part(&transaction, marks.last_key)?;
        let marks = Marks {
            last_key: part.last_key.unwrap_or(last_key),
            // Not changed: the run ids of deleted tasks are not written here.
            flushed_at: marks.flushed_at,
            latest_at: part.latest_at,
        };
        living_tasks::save(&transaction, part.living)?;
        let mut used_runs = UsedRuns::default();
        used_runs.reload(&transaction)?;
        used_runs.add_segment(&transaction, &part.runs)?;
        marks.save(&transaction)?;
        transaction.commit()?;
        // Nobody else does it yet.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        tracing::info!(read = marks.last_key, of = last_key, "tasks were read");
    }
}

/// Reads rows behind a key. Nothing is said of the active runs: a start reads their tasks.
fn read_part(connection: &Connection, after: i64) -> rusqlite::Result<Part> {
    let mut part = Part::default();
    each_row(connection, &sql::LOAD_CLAIM_INDEX, [after + 1, i64::MAX], |row| {
        let task = rows::claim_index(row)?;
        part.tasks += 1;
        part.latest_at = part.latest_at.max(task.updated_at);
        part.runs.extend(task.finished_run_id.map(|run_id| entry(run_id, Use::Used)));
        if matches!(task.status, Status::Pending | Status::Running) {
            part.living.push((task.key, true));
        }
        let full = part.tasks >= PART_TASKS || part.runs.len() >= PART_RUNS;
        part.last_key = full.then_some(task.key.0);
        Ok(if full { ControlFlow::Break(()) } else { CONTINUE })
    })?;
    each_row(connection, sql::LOAD_PAST_RUNS, [after + 1, part.last_key.unwrap_or(i64::MAX)], |row| {
        part.runs.push(entry(rows::run_id(row)?, Use::Used));
        Ok(CONTINUE)
    })?;
    part.runs.sort_unstable();
    part.runs.dedup();
    Ok(part)
}
