//! The tasks of a queue: the list with its filter, columns, order and pages. What can be done with many tasks at once is in
//! `actions.rs`, the download of everything that matches in `download.rs`.

pub(crate) mod actions;
pub(crate) mod completion;
pub(crate) mod download;
mod rows;
mod view;

use askama::Template;
use futures_util::future::try_join;
use taskqueue_core::cursor::Resource;
use taskqueue_core::{OrderField, QueueName, Refusal, Scope, Status, TaskQuery, TaskSelection, Timestamp};
use taskqueue_store::{Store, StoreExt};

use self::rows::{Cell, Row};
use self::view::{ColumnEntry, View, column_entries, curl_command, list_command, submit_command};
use crate::columns::Column;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::{FilterMark, count_by_status};
use crate::show::{self, Moment};
use crate::visit::Visit;

/// What a download must know of the view.
const DOWNLOAD_PARAMETERS: [&str; 6] = ["status", "filter", "name_fuzzy", "archived", "order_by", "descending"];

#[derive(Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    shell: Shell,
    queue: QueueName,
    view: View,
    filter_error: Option<FilterMark>,
    name_error: Option<String>,
    column_entries: Vec<ColumnEntry>,
    downloads: [(&'static str, String); 2],
    /// The view as a command and as a request, and the command that makes a first task.
    cli: String,
    curl: String,
    submit: String,
    /// None if the filter cannot be read.
    list: Option<List>,
    may_submit: bool,
    has_archive: bool,
    now: Timestamp,
}

/// The tasks that were read for a view.
struct List {
    columns: Vec<Column>,
    /// True for columns that hold only numbers and times.
    numeric: Vec<bool>,
    rows: Vec<Row>,
    /// The cursor of the next page.
    next: Option<String>,
    counts: [u64; 5],
    /// How many archived tasks there are, if none else are.
    archived: u64,
}

/// The page.
pub(crate) async fn list(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let view = View::read(&queue, &visit.query);
    let read = view.selectors.in_turn(&visit.dashboard, |selectors| selectors.selection()).await?;
    let (list, error) = match read {
        Ok(selection) => (Some(find(visit.dashboard.store(), &queue, &view, selection).await?), None),
        Err(error) => (None, Some(error)),
    };
    let (filter_error, name_error) = match error {
        Some(error) if error.parameter == "filter" => {
            (Some(FilterMark::new(view.selectors.filter.as_deref().unwrap_or_default(), &error)), None)
        }
        Some(error) => (None, Some(error.message)),
        None => (None, None),
    };
    let seen = list.as_ref().map(|list| rows::paths_seen(&list.rows)).unwrap_or_default();
    let columns = list.as_ref().map_or(&[][..], |list| &list.columns);
    let csv_columns = csv_columns(columns);
    let query = csv_columns.iter().fold(view.query.only(&DOWNLOAD_PARAMETERS), |query, path| query.and("column", path));
    let download = |format: &str| query.with("format", format).at(&format!("{}/download", view.path));
    let url = visit.server_url();
    let page = TasksPage {
        column_entries: column_entries(columns, &seen),
        downloads: [("CSV of these columns", download("csv")), ("JSON Lines, everything", download("jsonl"))],
        cli: list_command(&url, &queue, &view, &csv_columns),
        curl: curl_command(&url, visit.viewer.has_session, &queue, &view),
        submit: submit_command(&url, &queue),
        may_submit: visit.may(Scope::Submit, &queue),
        has_archive: visit.dashboard.has("archive"),
        now: show::now(),
        shell: Shell::new(&visit, format!("Tasks of {queue}"), Section::Tasks, Some(&queue)).await?,
        filter_error,
        name_error,
        queue,
        view,
        list,
    };
    layout::page(&visit, &page)
}

async fn find(store: &dyn Store, queue: &QueueName, view: &View, selection: TaskSelection) -> Result<List, Problem> {
    let binding = selection.binding(Resource::TaskList, queue, &view.order.shape());
    let after = view.cursor.as_deref().map(|cursor| binding.decode(cursor)).transpose();
    let after = after.map_err(|_| Problem::from(Refusal::InvalidCursor))?;
    let columns = view.columns.clone().unwrap_or_else(rows::standard_columns);
    let of_all_states = TaskSelection { status: None, ..selection.clone() };
    let query = TaskQuery { selection, order: view.order, limit: view.limit, after, max_bytes: rows::MOST_BYTES };
    let tasks = store.list_rows(queue, query, rows::row_reader(columns.clone()));
    let (tasks, counts) = try_join(tasks, count_by_status(store, queue, of_all_states)).await?;
    let mut rows = tasks.items;
    let columns = if view.columns.is_some() { columns } else { suit(&mut rows) };
    let numeric = (0..columns.len()).map(|at| is_numeric(&rows, at)).collect();
    place_errors(&mut rows, &columns);
    let next = tasks.next.map(|next| binding.encode(&next));
    let may_be_archived = counts.iter().sum::<u64>() == 0 && !view.selectors.has_search() && !view.selectors.archived;
    let all = TaskSelection { include_archived: true, ..TaskSelection::default() };
    let archived = if may_be_archived { store.count_tasks(queue, all).await? } else { 0 };
    Ok(List { columns, numeric, rows, next, counts, archived })
}

/// Gives rows that were read with the standard columns those that suit them.
fn suit(rows: &mut [Row]) -> Vec<Column> {
    let (standard, columns) = (rows::standard_columns(), rows::suiting_columns(rows));
    for row in rows {
        let cell = |column: &Column| match standard.iter().position(|known| known == column) {
            Some(place) => row.cells.get(place).cloned(),
            None => row.leaves.iter().find(|(path, _)| path == column.path()).map(|(_, cell)| cell.clone()),
        };
        row.cells = columns.iter().map(|column| cell(column).unwrap_or(Cell::Empty)).collect();
    }
    columns
}

/// Returns whether a column holds only numbers and times.
fn is_numeric(rows: &[Row], at: usize) -> bool {
    let cells = rows.iter().filter_map(|row| row.cells.get(at)).filter(|cell| **cell != Cell::Empty);
    let mut cells = cells.peekable();
    cells.peek().is_some() && cells.all(|cell| matches!(cell, Cell::Number(_) | Cell::Time(_) | Cell::When(_)))
}

/// Puts errors in the place of the first result.
fn place_errors(rows: &mut [Row], columns: &[Column]) {
    let Some(at) = columns.iter().position(|column| column.path().starts_with("result")) else { return };
    for row in rows {
        if let (Some(cell), Some(error)) = (row.cells.get_mut(at).filter(|cell| **cell == Cell::Empty), &row.error) {
            *cell = Cell::Error(error.clone());
        }
    }
}

impl List {
    /// Returns how many tasks of a state match, or of all states.
    fn matching(&self, status: Option<Status>) -> u64 {
        status.map_or(self.counts.iter().sum(), |status| self.counts[status as usize])
    }
}

impl TasksPage {
    /// All states together, and each alone.
    fn tabs(&self) -> impl Iterator<Item = Option<Status>> {
        [None].into_iter().chain(Status::ALL.map(Some))
    }
    /// Returns why a list is empty: `queue-empty`, `only-archived` (there are tasks, and all of them are), `no-match` or `last-page`;
    /// else nothing.
    fn emptiness(&self, list: &List) -> &'static str {
        let has_no_task = list.matching(None) == 0 && !self.view.selectors.has_search();
        match (list.rows.is_empty(), self.view.cursor.is_some()) {
            (false, _) => "",
            (true, true) => "last-page",
            (true, false) if has_no_task && list.archived > 0 => "only-archived",
            (true, false) if has_no_task => "queue-empty",
            (true, false) => "no-match",
        }
    }
}

/// The label and the class of a column: whether it holds numbers, and how much room it takes before anything stands in it.
fn head(column: &Column, is_numeric: bool) -> (&str, &'static str) {
    let number = if is_numeric { "num" } else { "" };
    match column.path() {
        "progress" => ("Progress", "of-progress"),
        "attempt" => ("Attempt", number),
        "last_run.worker" => ("Ran on", "of-worker"),
        "created_at" => ("Age", "num of-age"),
        "started_at" => ("Started", "num of-age"),
        "last_error.message" => ("Error", number),
        path => (path, number),
    }
}

/// Returns why a pending task is not claimed yet, as far as it says so itself: `waits for 3`, `in 9 min`.
fn wait_words(row: &Row, now: Timestamp) -> Option<String> {
    let delay = row.not_before.filter(|at| *at > now).map(|at| show::ahead(now, at));
    if row.unmet > 0 { Some(format!("waits for {}", show::number(row.unmet))) } else { delay }
}

/// The columns of a file: what the list always shows, and those of the view.
fn csv_columns(columns: &[Column]) -> Vec<String> {
    let always = ["id", "status", "name"];
    let others = columns.iter().map(Column::path).filter(|path| !always.contains(path));
    always.into_iter().chain(others).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_why_its_task_waits_in_a_few_words() {
        let now = Timestamp::from_micros(0);
        let row = |seconds: Option<i64>, unmet| Row {
            id: String::new(),
            status: Status::Pending,
            name: None,
            error: None,
            not_before: seconds.map(|seconds| now.plus_seconds(seconds)),
            unmet,
            is_archived: false,
            cells: Vec::new(),
            leaves: Vec::new(),
        };
        let cases = [
            (None, 0, None),
            (Some(-5), 0, None),
            (Some(0), 0, None),
            (Some(540), 0, Some("in 9 min")),
            (Some(540), 1_000, Some("waits for 1,000")),
            (None, 1, Some("waits for 1")),
        ];
        for (seconds, unmet, text) in cases {
            assert_eq!(wait_words(&row(seconds, unmet), now).as_deref(), text, "{seconds:?} {unmet}");
        }
    }

    #[test]
    fn files_have_the_columns_that_every_row_shows_and_those_of_the_view_once() {
        let columns: Vec<Column> = ["args.lr", "id", "attempt"].into_iter().filter_map(Column::parse).collect();
        assert_eq!(csv_columns(&columns), ["id", "status", "name", "args.lr", "attempt"]);
    }
}
