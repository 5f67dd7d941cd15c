//! The rows of the list: what is taken of each task as soon as it is read, so that a page of tasks with a megabyte of args each
//! stays small.

use taskqueue_core::json;
use taskqueue_core::progress;
use taskqueue_core::status::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;

use crate::columns::{Column, Seen, Value, leaves};
use crate::show::cut;

/// Characters of a value that a cell has at most. The page of the task has all of it.
const CELL_CHARS: usize = 160;
/// What the rows of a page take at most; with more it has fewer rows. Far beyond usual rows, and within the memory of a page.
pub(super) const MOST_BYTES: usize = 3 * 1_048_576;
/// What a text counts for besides its characters.
const TEXT_BYTES: usize = 5;
/// Values of each document of a task that are offered as columns.
const LEAVES: usize = 40;
const DOCUMENTS: [&str; 4] = ["args", "metadata", "result", "progress"];

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Text,
    Number,
    /// A moment, in microseconds since 1970.
    Time,
    Status,
    Json,
    /// How much is done, in thousandths.
    Progress,
    /// Why the task failed.
    Error,
    /// A moment that may lie ahead, in microseconds since 1970.
    When,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) text: String,
}

impl Cell {
    fn new(kind: Kind, text: &str) -> Self {
        Self { kind, text: cut(text, CELL_CHARS).into_owned() }
    }

    pub(super) fn empty() -> Self {
        Self { kind: Kind::Empty, text: String::new() }
    }

    pub(super) fn error(text: &str) -> Self {
        Self::new(Kind::Error, text)
    }

    fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Time(at) => Self::new(Kind::Time, &at.as_micros().to_string()),
            Value::Number(_) => Self::new(Kind::Number, &value.text()),
            Value::Status(_) => Self::new(Kind::Status, &value.text()),
            Value::Json(_) => Self::new(Kind::Json, &value.text()),
            Value::Text(_) => Self::new(Kind::Text, &value.text()),
        }
    }

    /// The cell of a task in a column. Some columns are shown as people read them.
    fn in_column(column: &Column, task: &TaskView<'_>) -> Self {
        let special = match column.path() {
            "attempt" => Some(Self::new(Kind::Number, &format!("{}/{}", task.attempt, task.max_attempts))),
            "not_before" => task.not_before.map(|at| Self::new(Kind::When, &at.as_micros().to_string())),
            "progress" => task.progress.and_then(progress::part_done).map(|done| {
                // Between 0 and 1, so it fits.
                Self::new(Kind::Progress, &((done * 1_000.0) as u16).to_string())
            }),
            "last_run.worker" => {
                task.last_run.and_then(|run| worker(run.worker)).map(|text| Self::new(Kind::Text, &text))
            }
            _ => None,
        };
        special.or_else(|| column.value(task).map(|value| Self::of(&value))).unwrap_or_else(Self::empty)
    }
}

/// Where a run was: `gpu-1 · slot 0`.
fn worker(worker: &str) -> Option<String> {
    let text = |key: &str| Value::found(json::lookup(worker, &[key])?).map(|value| value.text().into_owned());
    let host = text("host")?;
    Some(text("slot").map_or_else(|| host.clone(), |slot| format!("{host} · slot {slot}")))
}

/// A value of a task that can be a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) cell: Cell,
}

/// What is taken of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) name: Option<String>,
    /// Why it failed, if it did.
    pub(super) error: Option<String>,
    /// Before when it is not claimed, if it is pending.
    pub(super) not_before: Option<Timestamp>,
    /// How many of the tasks that it waits for have not succeeded, if it is pending.
    pub(super) unmet: u32,
    pub(super) is_archived: bool,
    /// One for each of the columns that were asked for.
    pub(super) cells: Vec<Cell>,
    pub(super) leaves: Vec<Leaf>,
}

impl Row {
    fn of(task: &TaskView<'_>, columns: &[Column]) -> Self {
        let is_pending = task.status == Status::Pending;
        let error = task.last_error.filter(|error| task.status == Status::Failed && !error.message.is_empty());
        let leaf = |(path, value): (String, Value<'_>)| Leaf { path, cell: Cell::of(&value) };
        Self {
            id: task.id.to_string(),
            status: task.status,
            name: task.name.map(|name| cut(name, CELL_CHARS).into_owned()),
            error: error.map(|error| cut(error.message, CELL_CHARS).into_owned()),
            not_before: task.not_before.filter(|_| is_pending),
            unmet: if is_pending { task.unmet } else { 0 },
            is_archived: task.archived,
            cells: columns.iter().map(|column| Cell::in_column(column, task)).collect(),
            leaves: leaves(task, &DOCUMENTS, LEAVES).into_iter().map(leaf).collect(),
        }
    }

    fn bytes(&self) -> usize {
        let cell = |cell: &Cell| TEXT_BYTES + cell.text.len();
        let own = [Some(&self.id), self.name.as_ref(), self.error.as_ref()].into_iter().flatten();
        own.map(|text| TEXT_BYTES + text.len()).sum::<usize>()
            + self.cells.iter().map(cell).sum::<usize>()
            + self.leaves.iter().map(|leaf| TEXT_BYTES + leaf.path.len() + cell(&leaf.cell)).sum::<usize>()
    }
}

/// Takes the cells of these columns of each task, and what else could be columns; with what that takes.
pub(super) fn reader(columns: Vec<Column>) -> impl Fn(&TaskView<'_>) -> (Row, usize) + Send + Sync + 'static {
    move |task| {
        let row = Row::of(task, &columns);
        let bytes = row.bytes();
        (row, bytes)
    }
}

/// Which paths occur in these tasks.
pub(super) fn seen(rows: &[Row]) -> Seen {
    let mut seen = Seen::default();
    for leaf in rows.iter().flat_map(|row| &row.leaves) {
        seen.add(&leaf.path, leaf.cell.kind == Kind::Number);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::tests::task;

    #[test]
    fn of_a_megabyte_of_args_a_row_takes_what_it_shows() {
        let columns = || vec![Column::parse("args.big").unwrap(), Column::parse("attempt").unwrap()];
        let args = format!(r#"{{"big":"{}","lr":0.1}}"#, "x".repeat(1_000_000));
        let (view, read) = (task(&args, r#"{"loss":0.5}"#), reader(columns()));
        let (rows, bytes): (Vec<Row>, Vec<usize>) =
            [read(&view), read(&TaskView { name: None, ..view })].into_iter().unzip();
        assert!(bytes.iter().sum::<usize>() < 4_000, "{bytes:?}");
        assert_eq!((rows[0].name.as_deref(), rows[1].name.as_deref()), (Some("a name"), None));
        assert_eq!(rows[0].cells[0].text.chars().count(), CELL_CHARS);
        assert_eq!(rows[0].cells[1], Cell { kind: Kind::Number, text: "2/3".to_owned() });
        assert_eq!(rows[0].error.as_deref(), Some("CUDA out of memory"));
        let paths: Vec<&str> = rows[0].leaves.iter().map(|leaf| leaf.path.as_str()).collect();
        assert_eq!(paths, ["args.big", "args.lr", "metadata.batch", "result.loss", "progress.step", "progress.total"]);
        assert!(seen(&rows).is_numeric("args.lr"));
    }

    #[test]
    fn only_a_pending_row_says_what_it_waits_for() {
        let row = |status| {
            let not_before = Some(Timestamp::from_micros(5));
            let view = TaskView { status, not_before, unmet: 3, archived: true, ..task("{}", "{}") };
            let row = Row::of(&view, &[]);
            (row.not_before.map(Timestamp::as_micros), row.unmet, row.is_archived)
        };
        assert_eq!(row(Status::Pending), (Some(5), 3, true));
        assert_eq!(row(Status::Cancelled), (None, 0, true));
    }

    #[test]
    fn a_worker_is_shown_by_host_and_slot() {
        assert_eq!(worker(r#"{"host":"gpu-1","slot":0}"#).as_deref(), Some("gpu-1 · slot 0"));
        assert_eq!(worker(r#"{"host":"gpu-1"}"#).as_deref(), Some("gpu-1"));
        assert_eq!(worker(r#"{"pid":1}"#), None);
    }
}
