//! The tables whose rows follow from the tasks of a queue or belong to it: how they go with the queue, and the counts of tasks. What
//! else follows from tasks is kept in memory (`claim_index.rs`), or noted where tasks end (`ended.rs`).

use std::collections::HashMap;

use rusqlite::params;
use taskqueue_core::definition::Routes;
use taskqueue_core::delta::{Delta, TallyLine};
use taskqueue_core::task::Status;
use taskqueue_store::transaction::{Loaded, QueueKey};

use crate::queries::Prepared;
use crate::statements::{self as sql, Sql};

/// The way in which the rows of a deleted queue leave a table.
enum Removal {
    /// All with the queue: they are few.
    WithQueue(&'static Sql),
    /// Later, so many at a time: a millisecond or two.
    Later(&'static Sql, u32),
}

static REMOVALS: [Removal; 7] = [
    Removal::WithQueue(&sql::DELETE_OBSERVATIONS),
    Removal::WithQueue(&sql::DELETE_TALLY),
    Removal::WithQueue(&sql::DELETE_SETTINGS),
    Removal::WithQueue(&sql::DELETE_UNSETTLED_OF_QUEUE),
    Removal::WithQueue(&sql::DELETE_ENDED_READ),
    Removal::Later(&sql::DELETE_DEPENDENCIES, 500),
    // A queue has about 10,000.
    Removal::Later(&sql::DELETE_ACTIVITY, 500),
];

/// Deletes the rows that go with a queue.
pub(crate) fn delete_rows_of_queue(file: &Prepared<'_>, queue: QueueKey) -> Loaded<()> {
    for removal in &REMOVALS {
        if let Removal::WithQueue(statement) = removal {
            file.run(statement, [queue.0], "deleting a queue")?;
        }
    }
    Ok(())
}

/// Deletes some rows of a queue that was deleted. Returns whether there were any.
pub(crate) fn purge_rows_of_queue(file: &Prepared<'_>, queue: QueueKey) -> Loaded<bool> {
    for removal in &REMOVALS {
        if let Removal::Later(statement, most) = removal
            && file.run(statement, params![queue.0, most], "purging a queue")? > 0
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The differences of the counts of tasks by queue, routes and status. A batch changes few counts many times, so that they are
/// written once, at its end.
#[derive(Default)]
pub(crate) struct TallyDifferences(HashMap<(QueueKey, Routes, Status), TallyDifference>);

/// The number of tasks that came or, if negative, went, and that of archived ones among them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct TallyDifference {
    tasks: i64,
    archived: i64,
}

impl TallyDifferences {
    pub(crate) fn add(&mut self, queue: QueueKey, delta: &Delta<'_>) {
        for (line, difference) in [(delta.tally.removed, -1), (delta.tally.added, 1)] {
            if let Some(TallyLine { routes, status, archived }) = line {
                let counted = self.0.entry((queue, routes.clone(), status)).or_default();
                counted.tasks += difference;
                counted.archived += if archived { difference } else { 0 };
            }
        }
    }

    /// Writes the differences. None are left.
    pub(crate) fn write(&mut self, file: &Prepared<'_>) -> Loaded<()> {
        for ((queue, routes, status), difference) in std::mem::take(&mut self.0) {
            if difference == TallyDifference::default() {
                continue;
            }
            let (queue, routes, status) = (queue.0, routes.as_json(), status.as_str());
            let TallyDifference { tasks, archived } = difference;
            file.run(&sql::ADD_TALLY, params![queue, routes, status, tasks, archived], "counting tasks")?;
            if tasks < 0 {
                file.run(&sql::DELETE_EMPTY_TALLY, params![queue, routes, status], "counting tasks")?;
            }
        }
        Ok(())
    }
}
