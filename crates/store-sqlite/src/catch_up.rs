//! Writes the history of a file that has none or is far behind: one that a transfer filled, or whose history was damaged.
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
/// Run ids of one part: 10 MB of memory, and the past ones among them, at most half, 12 MB more while they are read.
const PART_RUNS: usize = 1_000_000;
/// Tasks of one part.
const PART_TASKS: usize = 4_000_000;

/// A past run, and the key of its task.
type PastRun = (i64, Entry);

/// What a part found.
#[derive(Default)]
struct Part {
    tasks: usize,
    last_key: Option<i64>,
    latest_at: Timestamp,
    living: Vec<(TaskKey, bool)>,
    runs: Vec<Entry>,
}

/// Before the threads are started.
pub(crate) fn catch_up(connection: &Connection) -> rusqlite::Result<()> {
    while write_part(connection)? {
        // Nobody else does it yet.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    }
    Ok(())
}

/// Writes the next part, if the history is far behind; false if it is not.
pub(crate) fn write_part(connection: &Connection) -> rusqlite::Result<bool> {
    let last_key: i64 = connection.query_row(sql::FIND_LAST_KEY, [], |row| row.get(0))?;
    let marks = Marks::load(connection)?;
    if last_key - marks.last_key <= KEYS_MAX {
        return Ok(false);
    }
    if marks.last_key == 0 {
        tracing::info!(tasks = last_key, "reading all tasks once, so that later starts need not");
    }
    let transaction = connection.unchecked_transaction()?;
    let part = read_part(&transaction, marks.last_key, PART_RUNS)?;
    let marks = Marks {
        last_key: part.last_key.unwrap_or(last_key),
        // Not changed: the run ids of deleted tasks are not written here.
        flushed_at: marks.flushed_at,
        latest_at: part.latest_at,
    };
    living_tasks::save(&transaction, part.living)?;
    UsedRuns::behind_all(&transaction)?.add_segment(&transaction, &part.runs)?;
    marks.save(&transaction)?;
    transaction.commit()?;
    tracing::info!(read = marks.last_key, of = last_key, "tasks were read");
    Ok(true)
}

/// Reads rows behind a key, up to about so many run ids. Nothing is said of the active runs: a start reads their tasks.
fn read_part(connection: &Connection, after: i64, most_runs: usize) -> rusqlite::Result<Part> {
    let (past_runs, until) = read_past_runs(connection, after, most_runs / 2)?;
    let mut part = Part { last_key: until, ..Part::default() };
    let most_finished = most_runs - past_runs.len().min(most_runs / 2);
    each_row(connection, &sql::LOAD_CLAIM_INDEX, [after + 1, until.unwrap_or(i64::MAX)], |row| {
        let task = rows::claim_index(row)?;
        part.tasks += 1;
        part.latest_at = part.latest_at.max(task.updated_at);
        part.runs.extend(task.finished_run_id.map(|run_id| entry(run_id, Use::Used)));
        if matches!(task.status, Status::Pending | Status::Running) {
            part.living.push((task.key, true));
        }
        let full = part.tasks >= PART_TASKS || part.runs.len() >= most_finished;
        if full {
            part.last_key = Some(task.key.0);
        }
        Ok(if full { ControlFlow::Break(()) } else { CONTINUE })
    })?;
    // Of tasks that are left to the next part, that one reads them again.
    let last_key = part.last_key.unwrap_or(i64::MAX);
    part.runs.extend(past_runs.into_iter().filter(|(key, _)| *key <= last_key).map(|(_, entry)| entry));
    part.runs.sort_unstable();
    part.runs.dedup();
    Ok(part)
}

/// The past runs of tasks behind a key, and the key of the task with which there are as many as may be; nothing if these are
/// all. A task has all its runs in one part.
fn read_past_runs(connection: &Connection, after: i64, most: usize) -> rusqlite::Result<(Vec<PastRun>, Option<i64>)> {
    let (mut runs, mut until): (Vec<PastRun>, _) = (Vec::new(), None);
    each_row(connection, sql::LOAD_PAST_RUNS, [after + 1, i64::MAX], |row| {
        let key: i64 = row.get("task_key")?;
        if let Some((last, _)) = runs.last()
            && *last != key
            && runs.len() >= most
        {
            until = Some(*last);
            return Ok(ControlFlow::Break(()));
        }
        runs.push((key, entry(rows::run_id(row)?, Use::Used)));
        Ok(CONTINUE)
    })?;
    Ok((runs, until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate;

    #[test]
    fn a_part_ends_where_its_past_runs_are_as_many_as_may_be() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
        for key in 1..=50 {
            for run in 0..3 {
                let values = rusqlite::params![key, format!("r_{key:06}{run:06}")];
                connection.execute("INSERT INTO past_runs (task_key, run_id) VALUES (?1, ?2)", values).unwrap();
            }
        }
        let (mut after, mut runs) = (0, Vec::new());
        loop {
            let part = read_part(&connection, after, 20).unwrap();
            assert!(part.runs.len() <= 20, "{} run ids in a part", part.runs.len());
            runs.extend(part.runs);
            let Some(last_key) = part.last_key else { break };
            assert!(last_key > after, "no progress behind {after}");
            after = last_key;
        }
        assert_eq!(runs.len(), 150);
        runs.dedup();
        assert_eq!(runs.len(), 150, "a run id in two parts");
    }
}
