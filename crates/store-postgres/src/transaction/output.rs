//! The output of a task, loaded when a command needs it and the batch did not name it.

use taskqueue_store::transaction::{Loaded, TaskKey};

use super::{NO_TASK, PostgresTransaction};
use crate::output_rows::OutputEntry;
use crate::rows;
use crate::statements as sql;

impl PostgresTransaction<'_> {
    pub(super) fn output_entry(&mut self, key: TaskKey) -> Loaded<&mut OutputEntry> {
        if !self.rows.outputs.contains_key(&key) {
            let (session, wanted) = (self.session, vec![key.0]);
            let asked = async { session.first(&sql::LOAD_OUTPUTS_BY_KEY, &[&wanted]).await };
            let row = self.wait("loading output", asked)?;
            let stored = row.as_ref().map(rows::stored_output).transpose()?.flatten();
            self.rows.outputs.insert(key, OutputEntry::loaded(stored));
        }
        self.rows.outputs.get_mut(&key).ok_or(NO_TASK)
    }
}
