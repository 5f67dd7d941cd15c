//! A task that is not created yet: what `--dry-run` shows, in the form that `task submit --from` reads.

use taskqueue_api::body::Body;
use taskqueue_client::{Creation, OnDependencyFailure, TaskId};
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::field_path::FieldPath;
use crate::output::{Cell, Column, Record};
use crate::scheduling_view;

/// A task to be created.
#[derive(Debug)]
pub(crate) struct PlannedRecord<'a> {
    pub(crate) id: TaskId,
    /// What it is to be.
    pub(crate) creation: &'a Creation,
}

impl Record for PlannedRecord<'_> {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("ID"), Column::shrinking("NAME"), Column::shrinking("ARGS"), Column::with_values("WAITS", 10)];

    const FIELDS: &'static [&'static str] = &["id", "name", "args", "metadata", "priority", "max_attempts", "routes"];

    /// The columns of what is used beyond the contract stand behind the others.
    fn fields(&self) -> Vec<FieldPath> {
        let own = Self::FIELDS.iter().map(|path| FieldPath::new(path));
        let scheduling = &self.creation.definition.scheduling;
        let used = [
            ("not_before", self.creation.not_before.is_some()),
            ("retry_delay", scheduling.retry_delay.is_some()),
            ("timeout_seconds", scheduling.timeout_seconds.is_some()),
            ("dependencies", !scheduling.dependencies.is_empty()),
            ("on_dependency_failure", scheduling.on_dependency_failure != OnDependencyFailure::Wait),
        ];
        let used = used.into_iter().filter(|(_, is_used)| *is_used).map(|(name, _)| FieldPath::new(name));
        own.chain(used).collect()
    }

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let Creation { definition, not_before } = self.creation;
        let waits = scheduling_view::details(*not_before, &definition.scheduling, now);
        let waits: Vec<String> = waits.into_iter().map(|(name, words)| format!("{name} {words}")).collect();
        vec![
            Cell::new(self.id.as_str()),
            Cell::optional(definition.name.as_deref()),
            Cell::new(definition.args.as_str()),
            Cell::optional((!waits.is_empty()).then(|| waits.join("; "))),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.creation.write_fields(ObjectWriter::append_to(out).text("id", self.id.as_str())).end();
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}
