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

/// Tables whose rows of a queue are all deleted with it: they are few.
static DELETED_WITH_QUEUE: [&Sql; 5] = [
    &sql::DELETE_OBSERVATIONS,
    &sql::DELETE_TALLY,
    &sql::DELETE_SETTINGS,
    &sql::DELETE_UNSETTLED_OF_QUEUE,
    &sql::DELETE_ENDED_READ,
];

/// Tables whose rows are deleted later. A queue has about 10,000 rows of activity.
static DELETED_LATER: [&Sql; 2] = [&sql::DELETE_DEPENDENCIES, &sql::DELETE_ACTIVITY];
/// So many of them at a time: a millisecond or two.
const DELETED_AT_ONCE: u32 = 500;

/// Deletes the rows that go with a queue.
pub(crate) fn delete_rows_of_queue(file: &Prepared<'_>, queue: QueueKey) -> Loaded<()> {
    let mut deletions = DELETED_WITH_QUEUE.iter();
    deletions.try_for_each(|statement| file.run(statement, [queue.0], "deleting a queue").map(drop))
}

/// Deletes some rows of a queue that was deleted. Returns whether there were any.
pub(crate) fn purge_rows_of_queue(file: &Prepared<'_>, queue: QueueKey) -> Loaded<bool> {
    for statement in DELETED_LATER {
        if file.run(statement, params![queue.0, DELETED_AT_ONCE], "purging a queue")? > 0 {
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
            let values = params![queue, routes, status, tasks, archived];
            // Most counts are there and stay above zero.
            let other = if tasks < 0 { &sql::DELETE_EMPTIED_TALLY } else { &sql::ADD_TALLY };
            if file.run(&sql::CHANGE_TALLY, values, "counting tasks")? == 0
                && file.run(other, values, "counting tasks")? == 0
            {
                file.run(&sql::ADD_TALLY, values, "counting tasks")?;
            }
        }
        Ok(())
    }
}
