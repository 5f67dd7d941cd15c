//! A task that is not created yet: what `--dry-run` shows, in the form that `task submit --from` reads.

use taskqueue_api::body::Body;
use taskqueue_client::{Creation, TaskId};
use taskqueue_core::fields::optional_defined_fields;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::task_view::TaskView;
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

impl PlannedRecord<'_> {
    fn view(&self) -> TaskView<'_> {
        TaskView::planned(self.id, &self.creation.definition, self.creation.not_before)
    }
}

impl Record for PlannedRecord<'_> {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("ID"), Column::shrinking("NAME"), Column::shrinking("ARGS"), Column::with_values("WAITS", 10)];

    const FIELDS: &'static [&'static str] = &["id", "name", "args", "metadata", "priority", "max_attempts", "routes"];

    /// The columns of what is used beyond the contract stand behind the others.
    fn fields(&self) -> Vec<FieldPath> {
        let own = Self::FIELDS.iter().map(|path| FieldPath::new(path));
        let task = self.view();
        let used = optional_defined_fields().filter(|field| field.value(&task).is_some());
        let used = used.map(|field| FieldPath::new(field.path));
        own.chain(used).collect()
    }

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let definition = &self.creation.definition;
        let waits = scheduling_view::details(&self.view(), now);
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
