//! A task that is not created yet: what `--dry-run` shows, in the form that `task submit --from` reads.

use taskqueue_api::body::Body;
use taskqueue_client::{Definition, TaskId};
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};

/// A task to be created.
#[derive(Debug)]
pub(crate) struct PlannedRecord<'a> {
    pub(crate) id: TaskId,
    /// What it is to be.
    pub(crate) definition: &'a Definition,
}

impl Record for PlannedRecord<'_> {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("ID"), Column::shrinking("NAME"), Column::shrinking("ARGS")];

    const FIELDS: &'static [&'static str] = &["id", "name", "args", "metadata", "priority", "max_attempts", "routes"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let definition = self.definition;
        vec![
            Cell::new(self.id.as_str()),
            Cell::optional(definition.name.as_deref()),
            Cell::new(definition.args.as_str()),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.definition.write_fields(ObjectWriter::append_to(out).text("id", self.id.as_str())).end();
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}
