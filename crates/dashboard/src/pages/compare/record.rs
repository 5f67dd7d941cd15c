//! What is kept of a task while a page of them is read: who it is, and its values with their paths, each within a bound. No task is
//! held whole.

use std::fmt::Write as _;

use taskqueue_core::ids::TaskId;
use taskqueue_core::status::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;

use super::path::Path;
use super::value::{Kind, kept};
use crate::columns::{Column, Value, leaves};

/// Values of a document that are looked at without being asked for.
const DOCUMENT_VALUES: usize = 100;

/// Documents whose values are looked at.
const DOCUMENTS: [&str; 5] = ["args", "result", "progress", "metadata", "last_run.worker"];
/// What a task has besides its documents.
const FIELDS: [&str; 6] = ["status", "name", "attempt", "priority", "last_route", "created_at"];

/// What is read of each task in any case.
pub(super) fn columns(wanted: &[Path]) -> Vec<Column> {
    let fields = FIELDS.into_iter().filter_map(Column::parse);
    wanted.iter().filter_map(|path| path.column.clone()).chain(fields).collect()
}

/// What is kept of one task.
pub(super) struct Record {
    pub(super) id: TaskId,
    pub(super) name: Option<String>,
    pub(super) status: Status,
    /// Whether there are values that were not looked at.
    pub(super) is_partial: bool,
    /// The path and the text of each cell, one behind the other: a task may have hundreds.
    texts: String,
    cells: Vec<CellEnd>,
}

/// Where the texts of a cell end.
struct CellEnd {
    path_end: usize,
    text_end: usize,
    kind: Kind,
    is_cut: bool,
}

/// One value with its path.
pub(super) struct Cell<'r> {
    pub(super) path: &'r str,
    pub(super) kind: Kind,
    pub(super) text: &'r str,
    pub(super) is_cut: bool,
}

impl Record {
    pub(super) fn of(task: &TaskView<'_>, columns: &[Column]) -> Self {
        let (id, name, status) = (task.id, task.name.map(str::to_owned), task.status);
        let mut record = Self { id, name, status, is_partial: false, texts: String::new(), cells: Vec::new() };
        record.add_times(task);
        for column in columns {
            if let Some(value) = column.value(task) {
                record.add_value(column.path(), &value);
            }
        }
        for document in DOCUMENTS {
            let found = leaves(task, &[document], DOCUMENT_VALUES);
            record.is_partial |= found.len() == DOCUMENT_VALUES;
            found.iter().for_each(|(path, value)| record.add_value(path, value));
        }
        record.texts.shrink_to_fit();
        record.cells.shrink_to_fit();
        record
    }

    /// Returns the bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let name = self.name.as_deref().map_or(0, str::len);
        size_of::<Self>() + name + self.texts.len() + self.cells.len() * size_of::<CellEnd>()
    }

    /// How long it took and waited, as if these were values.
    fn add_times(&mut self, task: &TaskView<'_>) {
        if let (Some(from), Some(to)) = (task.started_at, task.finished_at) {
            self.add("duration", Kind::Number, &seconds(from, to), false);
        }
        if let Some(from) = task.started_at {
            self.add("wait", Kind::Number, &seconds(task.created_at, from), false);
        }
    }

    fn add_value(&mut self, path: &str, value: &Value<'_>) {
        let (kind, text, is_cut) = kept(value);
        self.add(path, kind, &text, is_cut);
    }

    fn add(&mut self, path: &str, kind: Kind, text: &str, is_cut: bool) {
        self.texts.push_str(path);
        let path_end = self.texts.len();
        self.texts.push_str(text);
        self.cells.push(CellEnd { path_end, text_end: self.texts.len(), kind, is_cut });
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let mut start = 0;
        self.cells.iter().map(move |&CellEnd { path_end, text_end, kind, is_cut }| {
            let path = &self.texts[start..path_end];
            start = text_end;
            Cell { path, kind, text: &self.texts[path_end..text_end], is_cut }
        })
    }
}

/// Seconds with all the microseconds that there are.
fn seconds(from: Timestamp, to: Timestamp) -> String {
    let micros = to.as_micros().saturating_sub(from.as_micros()).max(0);
    let mut text = (micros / 1_000_000).to_string();
    if micros % 1_000_000 != 0 {
        let _ = write!(text, ".{:06}", micros % 1_000_000);
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::tests::task;

    #[test]
    fn durations_keep_their_microseconds() {
        let at = Timestamp::from_micros;
        assert_eq!(seconds(at(1), at(2_500_001)), "2.5");
        assert_eq!(seconds(at(0), at(60_000_000)), "60");
        assert_eq!(seconds(at(0), at(1_000_010)), "1.00001");
        assert_eq!(seconds(at(5), at(1)), "0");
    }

    #[test]
    fn cells_read_back_as_they_were_added() {
        let mut record = Record::of(&task("{}", "{}"), &[]);
        let known = record.cells.len();
        record.add("args.a", Kind::Text, "x\ny", false);
        record.add("args.b", Kind::Number, "9007199254740993", true);
        let cells: Vec<_> =
            record.cells().skip(known).map(|cell| (cell.path, cell.kind, cell.text, cell.is_cut)).collect();
        assert_eq!(cells, [("args.a", Kind::Text, "x\ny", false), ("args.b", Kind::Number, "9007199254740993", true)]);
    }
}
