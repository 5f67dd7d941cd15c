//! A task that is not created yet: what `task sweep --dry-run` shows, in the form that `task submit --from` reads.

use taskqueue_client::{Definition, TaskId};
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, JsonFields, Record};

/// A task to be created.
#[derive(Debug)]
pub(crate) struct PlannedRecord<'a> {
    /// Its id.
    pub(crate) id: TaskId,
    /// What it is to be.
    pub(crate) definition: &'a Definition,
}

impl Record for PlannedRecord<'_> {
    const COLUMNS: &'static [Column] = &[Column::text("ID"), Column::shrinking("NAME"), Column::shrinking("ARGS")];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let definition = self.definition;
        vec![
            Cell::new(self.id.as_str()),
            Cell::optional(definition.name.as_deref()),
            Cell::new(definition.args.as_str()),
        ]
    }

    fn json(&self) -> String {
        let definition = self.definition;
        JsonFields::new()
            .text("id", self.id.as_str())
            .text_or_null("name", definition.name.as_deref())
            .json("args", definition.args.as_str())
            .json("metadata", definition.metadata.as_str())
            .integer("priority", definition.priority)
            .integer("max_attempts", definition.max_attempts)
            .json("routes", definition.routes.as_json())
            .end()
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}
