//! The rows of the list: what is taken of each task as soon as it is read, so that a page of tasks with a megabyte of args each
//! stays small. And the columns that suit the tasks of a page, when none were chosen: args that differ, what came out, and how and where
//! tasks ran.

use std::collections::HashSet;

use taskqueue_core::{Status, TaskView, Timestamp, json, progress};

use crate::columns::{Column, Seen, Value, leaves};
use crate::show::cut;

/// Characters of a value that a cell has at most. The page of the task has all of it.
const CELL_CHARS: usize = 160;
/// What the rows of a page take at most; with more it has fewer rows. Far beyond usual rows, and within the memory of a page.
pub(super) const MOST_BYTES: usize = 3 * 1_048_576;
/// What a text counts for besides its characters.
const TEXT_BYTES: usize = 5;
/// Values of each document of a task that are offered as columns.
const LEAVES_OFFERED: usize = 40;
const DOCUMENTS: [&str; 4] = ["args", "metadata", "result", "progress"];

/// What a cell shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Empty,
    Text(String),
    Number(String),
    Time(Timestamp),
    Status(Status),
    Json(String),
    /// How much is done, in thousandths.
    Progress(u16),
    /// Why the task failed.
    Error(String),
    /// A moment that may lie ahead.
    When(Timestamp),
}

impl Cell {
    fn of(value: &Value<'_>) -> Self {
        let text = || short(&value.text());
        match value {
            Value::Time(at) => Self::Time(*at),
            Value::Number(_) => Self::Number(text()),
            Value::Status(status) => Self::Status(*status),
            Value::Json(_) => Self::Json(text()),
            Value::Text(_) => Self::Text(text()),
        }
    }

    /// The cell of a task in a column. Some columns are shown as people read them.
    fn in_column(column: &Column, task: &TaskView<'_>) -> Self {
        let special = match column.path() {
            "attempt" => Some(Self::Number(format!("{}/{}", task.attempt, task.max_attempts))),
            "not_before" => task.not_before.map(Self::When),
            // Between 0 and 1, so it fits.
            "progress" => {
                task.progress.and_then(progress::part_done).map(|done| Self::Progress((done * 1_000.0) as u16))
            }
            "last_run.worker" => {
                task.last_run.and_then(|run| worker_text(run.worker)).map(|text| Self::Text(short(&text)))
            }
            _ => None,
        };
        special.or_else(|| column.value(task).map(|value| Self::of(&value))).unwrap_or(Self::Empty)
    }

    /// Its text, unless it is shown in another way.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Json(text) | Self::Error(text) => text,
            _ => "",
        }
    }

    /// Its class, in a column that holds numbers or does not.
    pub(super) fn class(&self, is_numeric: bool) -> &'static str {
        match self {
            Self::Error(_) => "soft error-cell",
            Self::Json(_) => "mono soft",
            Self::Time(_) | Self::When(_) => "num soft",
            _ if is_numeric => "num",
            _ => "",
        }
    }
}

fn short(text: &str) -> String {
    cut(text, CELL_CHARS).into_owned()
}

/// Returns where a run was: `gpu-1 · slot 0`.
fn worker_text(worker: &str) -> Option<String> {
    let text = |key: &str| Value::found(json::lookup(worker, &[key])?).map(|value| value.text().into_owned());
    let host = text("host")?;
    Some(text("slot").map_or_else(|| host.clone(), |slot| format!("{host} · slot {slot}")))
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
    /// The values that can be columns, by path.
    pub(super) leaves: Vec<(String, Cell)>,
}

impl Row {
    fn of(task: &TaskView<'_>, columns: &[Column]) -> Self {
        let is_pending = task.status == Status::Pending;
        let error = task.last_error.filter(|error| task.status == Status::Failed && !error.message.is_empty());
        let leaf = |(path, value): (String, Value<'_>)| (path, Cell::of(&value));
        Self {
            id: task.id.to_string(),
            status: task.status,
            name: task.name.map(short),
            error: error.map(|error| short(error.message)),
            not_before: task.not_before.filter(|_| is_pending),
            unmet: if is_pending { task.unmet } else { 0 },
            is_archived: task.archived,
            cells: columns.iter().map(|column| Cell::in_column(column, task)).collect(),
            leaves: leaves(task, &DOCUMENTS, LEAVES_OFFERED).into_iter().map(leaf).collect(),
        }
    }

    fn bytes(&self) -> usize {
        let cell = |cell: &Cell| TEXT_BYTES + cell.text().len();
        let own = [Some(&self.id), self.name.as_ref(), self.error.as_ref()].into_iter().flatten();
        own.map(|text| TEXT_BYTES + text.len()).sum::<usize>()
            + self.cells.iter().map(cell).sum::<usize>()
            + self.leaves.iter().map(|(path, leaf)| TEXT_BYTES + path.len() + cell(leaf)).sum::<usize>()
    }
}

/// Takes the cells of these columns of each task, and what else could be columns; with what that takes.
pub(super) fn row_reader(columns: Vec<Column>) -> impl Fn(&TaskView<'_>) -> (Row, usize) + Send + Sync + 'static {
    move |task| {
        let row = Row::of(task, &columns);
        let bytes = row.bytes();
        (row, bytes)
    }
}

/// Returns which paths occur in these tasks.
pub(super) fn paths_seen(rows: &[Row]) -> Seen {
    let mut seen = Seen::default();
    for (path, cell) in rows.iter().flat_map(|row| &row.leaves) {
        seen.add(path, matches!(cell, Cell::Number(_)));
    }
    seen
}

/// Args that are shown.
const SUITING_ARGS: usize = 4;
/// Results that are shown.
const SUITING_RESULTS: usize = 2;
/// Longer values are for the page of the task.
const SHORT_CHARS: usize = 32;

/// The columns that every row is read with, because they cannot be found among the values of its documents.
pub(super) fn standard_columns() -> Vec<Column> {
    let paths = ["progress", "last_error.message", "attempt", "last_run.worker", "created_at", "started_at"];
    paths.into_iter().filter_map(Column::parse).collect()
}

/// The columns for these rows, which were read with the standard ones.
pub(super) fn suiting_columns(rows: &[Row]) -> Vec<Column> {
    let seen = paths_seen(rows);
    let standard = standard_columns();
    let is_there = |path: &str| {
        let place = standard.iter().position(|column| column.path() == path);
        place.is_some_and(|place| rows.iter().any(|row| row.cells.get(place).is_some_and(|cell| *cell != Cell::Empty)))
    };
    let results = suiting_results(&seen);
    let mut paths: Vec<&str> = suiting_args(rows, &seen);
    paths.extend(is_there("progress").then_some("progress"));
    paths.extend(&results);
    // Errors stand in the column of the first result, where there is one.
    paths.extend((results.is_empty() && rows.iter().any(|row| row.error.is_some())).then_some("last_error.message"));
    paths.push("attempt");
    paths.extend(is_there("last_run.worker").then_some("last_run.worker"));
    // Of what runs, people want to know since when.
    let all_run = !rows.is_empty() && rows.iter().all(|row| row.status == Status::Running);
    paths.push(if all_run { "started_at" } else { "created_at" });
    paths.into_iter().filter_map(Column::parse).collect()
}

/// Short args of most tasks: those that differ between tasks, because they tell tasks apart, and if none do, any.
fn suiting_args<'s>(rows: &[Row], seen: &'s Seen) -> Vec<&'s str> {
    let cells = |path: &str| {
        let path = path.to_owned();
        rows.iter().flat_map(|row| &row.leaves).filter(move |(known, _)| *known == path).map(|(_, cell)| cell)
    };
    let is_usable = |path: &&str| {
        2 * seen.tasks(path) >= rows.len()
            && cells(path).all(|cell| !matches!(cell, Cell::Json(_)) && cell.text().chars().count() <= SHORT_CHARS)
    };
    let differs = |path: &str| cells(path).map(Cell::text).collect::<HashSet<_>>().len() > 1;
    let usable: Vec<&str> = seen.most_frequent("args.").into_iter().filter(is_usable).collect();
    let (different, same): (Vec<&str>, Vec<&str>) = usable.into_iter().partition(|path| differs(path));
    let mut chosen = if different.is_empty() { same } else { different };
    chosen.truncate(SUITING_ARGS);
    chosen.sort_unstable();
    chosen
}

/// Numbers first: they are what is compared.
fn suiting_results(seen: &Seen) -> Vec<&str> {
    let paths = seen.most_frequent("result.");
    let numbers: Vec<&str> = paths.iter().copied().filter(|path| seen.is_numeric(path)).take(SUITING_RESULTS).collect();
    if numbers.is_empty() { paths.into_iter().take(1).collect() } else { numbers }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::task_view::TaskView;

    use super::*;
    use crate::columns::tests::task;

    #[test]
    fn of_a_megabyte_of_args_a_row_takes_what_it_shows() {
        let columns = || vec![Column::parse("args.big").unwrap(), Column::parse("attempt").unwrap()];
        let args = format!(r#"{{"big":"{}","lr":0.1}}"#, "x".repeat(1_000_000));
        let (view, read) = (task(&args, r#"{"loss":0.5}"#), row_reader(columns()));
        let (rows, bytes): (Vec<Row>, Vec<usize>) =
            [read(&view), read(&TaskView { name: None, ..view })].into_iter().unzip();
        assert!(bytes.iter().sum::<usize>() < 4_000, "{bytes:?}");
        assert_eq!((rows[0].name.as_deref(), rows[1].name.as_deref()), (Some("a name"), None));
        assert_eq!(rows[0].cells[0].text().chars().count(), CELL_CHARS);
        assert_eq!(rows[0].cells[1], Cell::Number("2/3".to_owned()));
        assert_eq!(rows[0].error.as_deref(), Some("CUDA out of memory"));
        let paths: Vec<&str> = rows[0].leaves.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["args.big", "args.lr", "metadata.batch", "result.loss", "progress.step", "progress.total"]);
        assert!(paths_seen(&rows).is_numeric("args.lr"));
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
        assert_eq!(worker_text(r#"{"host":"gpu-1","slot":0}"#).as_deref(), Some("gpu-1 · slot 0"));
        assert_eq!(worker_text(r#"{"host":"gpu-1"}"#).as_deref(), Some("gpu-1"));
        assert_eq!(worker_text(r#"{"pid":1}"#), None);
    }

    fn chosen(tasks: &[(&str, &str)]) -> Vec<String> {
        let read = row_reader(standard_columns());
        let rows: Vec<Row> = tasks.iter().map(|(args, result)| read(&task(args, result)).0).collect();
        suiting_columns(&rows).iter().map(|column| column.path().to_owned()).collect()
    }

    #[test]
    fn args_that_differ_and_numbers_that_came_out_are_shown() {
        let common = r#""a":1,"b":1,"c":1,"d":1"#;
        let args = |lr: &str| format!(r#"{{{common},"list":[1],"long":"{}","lr":{lr}}}"#, "x".repeat(100));
        let (first, second) = (args("0.1"), args("0.2"));
        let columns = chosen(&[(&first, r#"{"note":"x"}"#), (&second, r#"{"loss":0.5,"note":"y"}"#)]);
        assert_eq!(columns, ["args.lr", "progress", "result.loss", "attempt", "last_run.worker", "created_at"]);
        assert_eq!(chosen(&[(&first, "{}")])[..5], ["args.a", "args.b", "args.c", "args.d", "progress"]);
    }

    #[test]
    fn what_runs_is_shown_with_its_start_and_anything_else_with_its_age() {
        let last = |statuses: &[Status]| {
            let read = row_reader(standard_columns());
            let view = |status: &Status| TaskView { status: *status, ..task("{}", "{}") };
            let rows: Vec<Row> = statuses.iter().map(|status| read(&view(status)).0).collect();
            suiting_columns(&rows).last().map(|column| column.path().to_owned()).unwrap()
        };
        assert_eq!(last(&[Status::Running, Status::Running]), "started_at");
        assert_eq!(last(&[Status::Running, Status::Pending]), "created_at");
    }

    #[test]
    fn without_results_the_errors_have_a_column() {
        let expected = ["progress", "last_error.message", "attempt", "last_run.worker", "created_at"];
        assert_eq!(chosen(&[("{}", "{}")]), expected);
        assert_eq!(chosen(&[]), ["attempt", "created_at"]);
    }
}
