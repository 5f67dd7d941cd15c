//! The counts of tasks by routes and status. A batch changes few of them many times, so that the differences are written once, at
//! its end.

use std::collections::HashMap;

use rusqlite::params;
use taskqueue_core::definition::Routes;
use taskqueue_core::delta::{Delta, TallyLine};
use taskqueue_core::task::Status;
use taskqueue_store::transaction::{Loaded, QueueKey, QueueTally};

use super::SqliteTransaction;
use crate::each_row::CONTINUE;
use crate::rows;
use crate::statements as sql;

/// How many tasks more or fewer there are.
#[derive(Default)]
pub(super) struct TallyDifferences(HashMap<(QueueKey, Routes, Status), Difference>);

/// How many tasks more or fewer there are, and how many archived ones of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Difference {
    tasks: i64,
    archived: i64,
}

impl TallyDifferences {
    pub(super) fn add(&mut self, queue: QueueKey, delta: &Delta<'_>) {
        for (line, difference) in [(delta.tally.removed, -1), (delta.tally.added, 1)] {
            if let Some(TallyLine { routes, status, archived }) = line {
                let counted = self.0.entry((queue, routes.clone(), status)).or_default();
                counted.tasks += difference;
                counted.archived += if archived { difference } else { 0 };
            }
        }
    }
}

impl SqliteTransaction<'_> {
    pub(super) fn flush_tally(&mut self) -> Loaded<()> {
        for ((queue, routes, status), difference) in std::mem::take(&mut self.tally.0) {
            if difference == Difference::default() {
                continue;
            }
            let (queue, routes, status) = (queue.0, routes.as_json(), status.as_str());
            let Difference { tasks, archived } = difference;
            self.run(sql::ADD_TALLY, params![queue, routes, status, tasks, archived], "counting tasks")?;
            if tasks < 0 {
                self.run(sql::DELETE_EMPTY_TALLY, params![queue, routes, status], "counting tasks")?;
            }
        }
        Ok(())
    }

    /// All tasks of a queue count here, archived ones, too.
    pub(super) fn tally_of(&mut self, queue: QueueKey) -> Loaded<QueueTally> {
        self.flush_tally()?;
        let mut tally = QueueTally::default();
        self.each(sql::LIST_TALLY, [queue.0], "counting tasks", |row| {
            let line = rows::tally(row)?;
            tally.tasks += line.tasks;
            tally.running += if line.status == Status::Running { line.tasks } else { 0 };
            Ok(CONTINUE)
        })?;
        Ok(tally)
    }
}
