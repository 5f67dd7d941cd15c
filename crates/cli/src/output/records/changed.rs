//! A task that would be changed: what `task update --dry-run` shows.

use taskqueue_client::{Status, TaskId};
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};

/// A value before and after a change, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldChange {
    pub(crate) path: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// What would become of a task.
#[derive(Debug)]
pub(crate) struct ChangedRecord {
    pub(crate) id: TaskId,
    pub(crate) status: Status,
    pub(crate) changes: Vec<FieldChange>,
}

impl Record for ChangedRecord {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("ID"), Column::text("STATUS"), Column::shrinking("CHANGES")];

    const FIELDS: &'static [&'static str] = &["id", "status", "changes"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let words = |value: &Option<String>| value.as_deref().unwrap_or("none").to_owned();
        let changes = self.changes.iter().map(|change| {
            let FieldChange { path, from, to } = change;
            format!("{path}: {} -> {}", words(from), words(to))
        });
        let changes = changes.collect::<Vec<_>>().join(", ");
        vec![Cell::new(self.id.as_str()), Cell::status(self.status), Cell::new(changes)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
        let record = ObjectWriter::append_to(out).text("id", self.id.as_str()).text("status", self.status.as_str());
        let changes = record.object("changes", |changes| {
            self.changes.iter().fold(changes, |changes, FieldChange { path, from, to }| {
                changes.object(path, |change| change.json("from", &value(from)).json("to", &value(to)))
            })
        });
        changes.end();
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}
