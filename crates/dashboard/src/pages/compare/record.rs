//! What is kept of a task while a page of them is read: who it is, and its values with their paths, each within a bound. The store
//! lets each task be written as soon as it is read, so no task is held whole.

use std::fmt::Write as _;
use std::sync::Arc;

use taskqueue_core::ids::TaskId;
use taskqueue_core::status::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;
use taskqueue_store::page::WriteTask;

use super::path::Path;
use super::value::{Kind, kept};
use crate::columns::{Column, Value, leaves};
use crate::packed::{Reader, put, put_part};

/// Values of a document that are looked at without being asked for.
const DOCUMENT_VALUES: usize = 100;

/// Documents whose values are looked at.
const DOCUMENTS: [&str; 5] = ["args", "result", "progress", "metadata", "last_run.worker"];
/// What a task has besides its documents.
const FIELDS: [&str; 6] = ["status", "name", "attempt", "priority", "last_route", "created_at"];

/// Writes what is kept of each task; `wanted` are read however many other values there are.
pub(super) fn writer(wanted: &[Path]) -> WriteTask {
    let columns = columns(wanted);
    Arc::new(move |out, task| write(out, task, &columns))
}

/// What is read of each task in any case.
pub(super) fn columns(wanted: &[Path]) -> Vec<Column> {
    let fields = FIELDS.into_iter().filter_map(Column::parse);
    wanted.iter().filter_map(|path| path.column.clone()).chain(fields).collect()
}

/// One task as it was written.
pub(super) struct Record<'r> {
    pub(super) id: TaskId,
    pub(super) name: Option<&'r str>,
    pub(super) status: Status,
    /// Whether there are values that were not looked at.
    pub(super) is_partial: bool,
    cells: Reader<'r>,
}

/// One value with its path.
pub(super) struct Cell<'r> {
    pub(super) path: &'r str,
    pub(super) kind: Kind,
    pub(super) text: &'r str,
    pub(super) is_cut: bool,
}

pub(super) fn write(out: &mut Vec<u8>, task: &TaskView<'_>, columns: &[Column]) {
    put_part(out, |out| {
        put(out, task.id.as_str());
        out.push(u8::from(task.name.is_some()));
        put(out, task.name.unwrap_or_default());
        put(out, task.status.as_str());
        let flag = out.len();
        out.push(0);
        write_times(out, task);
        for column in columns {
            if let Some(value) = column.value(task) {
                write_cell(out, column.path(), &value);
            }
        }
        for document in DOCUMENTS {
            let found = leaves(task, &[document], DOCUMENT_VALUES);
            out[flag] |= u8::from(found.len() == DOCUMENT_VALUES);
            found.iter().for_each(|(path, value)| write_cell(out, path, value));
        }
    });
}

/// How long it took and waited, as if these were values.
fn write_times(out: &mut Vec<u8>, task: &TaskView<'_>) {
    if let (Some(from), Some(to)) = (task.started_at, task.finished_at) {
        put_cell(out, "duration", Kind::Number, &seconds(from, to), false);
    }
    if let Some(from) = task.started_at {
        put_cell(out, "wait", Kind::Number, &seconds(task.created_at, from), false);
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

fn write_cell(out: &mut Vec<u8>, path: &str, value: &Value<'_>) {
    let (kind, text, is_cut) = kept(value);
    put_cell(out, path, kind, &text, is_cut);
}

fn put_cell(out: &mut Vec<u8>, path: &str, kind: Kind, text: &str, is_cut: bool) {
    put(out, path);
    out.push(kind as u8 * 2 + u8::from(is_cut));
    put(out, text);
}

/// Takes the next record off what was written.
pub(super) fn next<'r>(reader: &mut Reader<'r>) -> Option<Record<'r>> {
    let mut record = reader.part()?;
    let id = TaskId::parse(record.text()?)?;
    let has_name = record.byte()? != 0;
    let name = Some(record.text()?).filter(|_| has_name);
    let status = Status::parse(record.text()?)?;
    let is_partial = record.byte()? != 0;
    Some(Record { id, name, status, is_partial, cells: record })
}

impl<'r> Record<'r> {
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell<'r>> + use<'r> {
        let mut rest = self.cells;
        std::iter::from_fn(move || {
            let path = rest.text()?;
            let kind = rest.byte()?;
            let text = rest.text()?;
            Some(Cell { path, kind: *Kind::ALL.get(usize::from(kind / 2))?, text, is_cut: kind % 2 == 1 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_their_microseconds() {
        let at = Timestamp::from_micros;
        assert_eq!(seconds(at(1), at(2_500_001)), "2.5");
        assert_eq!(seconds(at(0), at(60_000_000)), "60");
        assert_eq!(seconds(at(0), at(1_000_010)), "1.00001");
        assert_eq!(seconds(at(5), at(1)), "0");
    }

    #[test]
    fn cells_read_back_as_they_were_written_and_broken_bytes_are_survived() {
        let mut out = Vec::new();
        put_cell(&mut out, "args.a", Kind::Text, "x\ny", false);
        put_cell(&mut out, "args.b", Kind::Number, "9007199254740993", false);
        let id = TaskId::parse("t_exampletask1").expect("an id");
        let record = Record { id, name: None, status: Status::Pending, is_partial: false, cells: Reader::new(&out) };
        let cells: Vec<_> = record.cells().map(|cell| (cell.path, cell.kind, cell.text)).collect();
        assert_eq!(cells, [("args.a", Kind::Text, "x\ny"), ("args.b", Kind::Number, "9007199254740993")]);
        for end in 0..out.len() {
            let record = Record { cells: Reader::new(&out[..end]), ..record };
            assert!(record.cells().count() < 2);
        }
    }
}
