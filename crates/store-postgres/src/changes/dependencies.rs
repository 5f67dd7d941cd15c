//! What a transaction notes of tasks that wait for others.

use taskqueue_core::dependency::DependencyState;
use tokio_postgres::types::ToSql;

use super::Write;
use super::parts::write_keys;
use crate::dependency_rows::DependencyRows;
use crate::session::Sql;
use crate::statements as sql;

sets! {
    Saved of SavedRow { queue: i64, dependency: &'a str, key: i64, state: i16, }

    Removed of RemovedRow { queue: i64, dependency: &'a str, key: i64, }

    Unsettled of UnsettledRow { queue: i64, dependency: &'a str, was_missing: bool, }
}

#[derive(Default)]
pub(super) struct DependencyWrites<'a> {
    saved: Saved<'a>,
    removed: Removed<'a>,
    unsettled: Unsettled<'a>,
    worked_off: Vec<i64>,
}

/// The number that stands for a state in the table.
pub(crate) fn state_number(state: DependencyState) -> i16 {
    DependencyState::ALL.iter().position(|other| *other == state).and_then(|place| place.try_into().ok()).unwrap_or(0)
}

impl<'a> DependencyWrites<'a> {
    pub(super) fn of(rows: &'a DependencyRows) -> Self {
        let mut writes = Self { worked_off: rows.worked_off.clone(), ..Self::default() };
        for ((queue, dependency, task), noted) in rows.pairs.iter().filter(|(_, noted)| noted.changed) {
            let (queue, dependency, key) = (queue.0, dependency.as_str(), task.0);
            match noted.state {
                Some(state) => writes.saved.push(SavedRow { queue, dependency, key, state: state_number(state) }),
                None => writes.removed.push(RemovedRow { queue, dependency, key }),
            }
        }
        for (queue, dependency, was_missing) in &rows.unsettled {
            let row = UnsettledRow { queue: queue.0, dependency: dependency.as_str(), was_missing: *was_missing };
            writes.unsettled.push(row);
        }
        writes
    }

    pub(super) fn writes(&self) -> [Option<Write<'_>>; 4] {
        [
            self.removed.write(&sql::DELETE_DEPENDENCIES),
            self.saved.write(&sql::SAVE_DEPENDENCIES),
            write_keys(&sql::DELETE_UNSETTLED, &self.worked_off),
            self.unsettled.write(&sql::INSERT_UNSETTLED),
        ]
    }
}
