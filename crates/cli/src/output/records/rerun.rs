//! A task that was submitted again: its id and that of the copy.

use taskqueue_client::TaskId;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};

#[derive(Debug)]
pub(crate) struct RerunRecord {
    pub(crate) old_id: TaskId,
    pub(crate) new_id: TaskId,
}

impl Record for RerunRecord {
    const COLUMNS: &'static [Column<'static>] = &[Column::text("ID"), Column::text("NEW ID")];

    const FIELDS: &'static [&'static str] = &["old_id", "new_id"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(self.old_id.as_str()), Cell::new(self.new_id.as_str())]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out).text("old_id", self.old_id.as_str()).text("new_id", self.new_id.as_str()).end();
    }

    /// The id of the copy: what a script waits for.
    fn key(&self) -> String {
        self.new_id.to_string()
    }
}
