//! The tasks of a queue: the list with its filter, columns, order and pages. What can be done with many tasks at once is in `confirm.rs`
//! and `actions.rs`, the download of everything that matches in `download.rs`.

pub(crate) mod actions;
pub(crate) mod completion;
pub(crate) mod confirm;
pub(crate) mod download;
mod rows;
mod view;

use askama::Template;
use futures_util::future::try_join;
use taskqueue_core::access::Scope;
use taskqueue_core::cursor::Resource;
use taskqueue_core::ids::QueueName;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{OrderField, TaskQuery, TaskSelection};
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::{Store, StoreExt};

use self::rows::{Cell, CellKind, Row};
use self::view::{ColumnsMenu, OrderEntry, View, ViewCommands, order_entries, order_entry, order_words};
use crate::address::Query;
use crate::columns::Column;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::{FilterMark, Selectors, Unreadable, count_by_status};
use crate::show::{self, Moment};
use crate::visit::Visit;

/// What a download must know of the view.
const DOWNLOAD_PARAMETERS: [&str; 6] = ["status", "filter", "name_fuzzy", "archived", "order_by", "descending"];

#[derive(Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    shell: Shell,
    queue: String,
    tabs: Vec<Tab>,
    search: Search,
    columns_menu: ColumnsMenu,
    order_menu: Vec<OrderEntry>,
    order_words: String,
    downloads: [(&'static str, String); 2],
    commands: ViewCommands,
    /// None if the filter cannot be read.
    list: Option<List>,
    may_submit: bool,
    /// The list with archived tasks, or without them, if there is an archive.
    archive: Option<ArchiveToggle>,
}

/// What shows archived tasks.
struct ArchiveToggle {
    is_shown: bool,
    address: String,
}

/// The states above the list.
struct Tab {
    title: &'static str,
    /// None if it is not known, because the filter cannot be read.
    count: Option<String>,
    address: String,
    is_current: bool,
}

/// The fields above the list.
struct Search {
    path: String,
    filter: String,
    name: String,
    /// What the form must carry.
    carried: Query,
    filter_error: Option<FilterMark>,
    name_error: Option<String>,
    unknown_columns: Vec<String>,
    has_search: bool,
    clear: String,
}

struct List {
    heads: Vec<Head>,
    rows: Vec<ShownRow>,
    /// What the selection must carry.
    carried: Query,
    /// `50 of 9,498 tasks`.
    told: String,
    matching: String,
    first: Option<String>,
    next: Option<String>,
    /// Why it is empty: `queue-empty`, `only-archived` (there are tasks, and all of them are), `no-match` or `last-page`; else nothing.
    empty: &'static str,
    confirm: String,
    compare: String,
}

struct Head {
    label: String,
    /// Whether it holds numbers, and how much room it takes before anything stands in it.
    class: &'static str,
    /// Where the list is ordered by it.
    address: Option<String>,
    /// `ascending` or `descending`, if it is.
    sorted: Option<&'static str>,
}

struct ShownRow {
    id: String,
    status: &'static str,
    name: Option<String>,
    address: String,
    /// Why it is not claimed yet, in a few words.
    waits: Option<String>,
    is_archived: bool,
    cells: Vec<ShownCell>,
}

struct ShownCell {
    class: &'static str,
    text: String,
    moment: Option<Moment>,
    /// A moment that may lie ahead.
    when: Option<Moment>,
    /// How much is done: of a hundred, and as a text.
    progress: Option<(String, String)>,
    state: Option<String>,
}

/// The page.
pub(crate) async fn list(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let view = View::read(&queue, &visit.query);
    let read = view.selectors.in_turn(&visit.dashboard, |selectors| selectors.selection()).await?;
    let (found, error) = match read {
        Ok(selection) => (Some(find(visit.dashboard.store(), &queue, &view, selection).await?), None),
        Err(error) => (None, Some(error)),
    };
    let page = PageParts { visit: &visit, queue: &queue, view: &view };
    let page = page.assemble(found, error).await?;
    layout::page(&visit, &page)
}

/// What was read for a view.
struct Found {
    columns: Vec<Column>,
    rows: Vec<Row>,
    next: Option<String>,
    counts: [u64; 5],
    /// How many archived tasks there are, if none else are.
    archived: u64,
}

async fn find(store: &dyn Store, queue: &QueueName, view: &View, selection: TaskSelection) -> Result<Found, Problem> {
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
    let next = tasks.next.map(|next| binding.encode(&next));
    let may_be_archived = counts.iter().sum::<u64>() == 0 && !view.selectors.has_search() && !view.selectors.archived;
    let archived = if may_be_archived {
        store.count_tasks(queue, TaskSelection { include_archived: true, ..TaskSelection::default() }).await?
    } else {
        0
    };
    Ok(Found { columns, rows, next, counts, archived })
}

/// Gives rows that were read with the standard columns those that suit them.
fn suit(rows: &mut [Row]) -> Vec<Column> {
    let (standard, columns) = (rows::standard_columns(), rows::suiting_columns(rows));
    for row in rows {
        let cell = |column: &Column| match standard.iter().position(|known| known == column) {
            Some(place) => row.cells.get(place).cloned(),
            None => row.leaves.iter().find(|leaf| leaf.path == column.path()).map(|leaf| leaf.cell.clone()),
        };
        row.cells = columns.iter().map(|column| cell(column).unwrap_or_else(Cell::empty)).collect();
    }
    columns
}

struct PageParts<'p> {
    visit: &'p Visit,
    queue: &'p QueueName,
    view: &'p View,
}

impl PageParts<'_> {
    async fn assemble(&self, found: Option<Found>, error: Option<Unreadable>) -> Result<TasksPage, Problem> {
        let view = self.view;
        let seen = found.as_ref().map(|found| rows::paths_seen(&found.rows)).unwrap_or_default();
        let columns = found.as_ref().map_or(&[][..], |found| &found.columns);
        let columns_menu = ColumnsMenu::new(view, columns, &seen);
        let (path, query) = view.beside("download", &DOWNLOAD_PARAMETERS);
        let query = csv_columns(columns).iter().fold(query, |query, path| query.and("column", path));
        let download = |format: &str| query.with("format", format).at(&path);
        Ok(TasksPage {
            queue: self.queue.as_str().to_owned(),
            tabs: self.tabs(found.as_ref().map(|found| &found.counts)),
            search: self.search(error),
            columns_menu,
            order_menu: order_entries(view),
            order_words: order_words(view.order),
            downloads: [("CSV of these columns", download("csv")), ("JSON Lines, everything", download("jsonl"))],
            commands: ViewCommands::new(self.visit, self.queue, view, &csv_columns(columns)),
            list: found.map(|found| self.list(found)),
            may_submit: self.visit.may(Scope::Submit, self.queue),
            archive: self.visit.dashboard.has("archive").then(|| ArchiveToggle {
                is_shown: view.selectors.archived,
                address: view.archived_address(!view.selectors.archived),
            }),
            shell: Shell::new(self.visit, format!("Tasks of {}", self.queue), Section::Tasks, Some(self.queue)).await?,
        })
    }

    fn tabs(&self, counts: Option<&[u64; 5]>) -> Vec<Tab> {
        let tab = |status: Option<Status>, title, count: Option<u64>| Tab {
            title,
            count: count.map(show::number),
            address: self.view.status_address(status),
            is_current: self.view.selectors.status == status,
        };
        let titles = ["Pending", "Running", "Succeeded", "Failed", "Cancelled"];
        let all = tab(None, "All", counts.map(|counts| counts.iter().sum()));
        let each = Status::ALL.into_iter().zip(titles);
        let each = each.map(|(status, title)| tab(Some(status), title, counts.map(|counts| counts[status as usize])));
        std::iter::once(all).chain(each).collect()
    }

    fn search(&self, error: Option<Unreadable>) -> Search {
        let Selectors { filter, name_fuzzy, .. } = &self.view.selectors;
        let filter = filter.clone().unwrap_or_default();
        let (filter_error, name_error) = match error {
            Some(error) if error.parameter == "filter" => (Some(FilterMark::new(&filter, &error)), None),
            Some(error) => (None, Some(error.message)),
            None => (None, None),
        };
        Search {
            path: self.view.path.clone(),
            name: name_fuzzy.clone().unwrap_or_default(),
            carried: self.view.carried(&["filter", "name_fuzzy", "cursor"]),
            filter_error,
            name_error,
            unknown_columns: self.view.unknown_columns.clone(),
            has_search: self.view.selectors.has_search(),
            clear: self.view.unsearched_address(),
            filter,
        }
    }

    fn list(&self, found: Found) -> List {
        let view = self.view;
        let matching = view.selectors.status.map_or(found.counts.iter().sum(), |status| found.counts[status as usize]);
        let has_no_task = found.counts.iter().sum::<u64>() == 0 && !view.selectors.has_search();
        let empty = match (found.rows.is_empty(), view.cursor.is_some()) {
            (false, _) => "",
            (true, true) => "last-page",
            (true, false) if has_no_task && found.archived > 0 => "only-archived",
            (true, false) if has_no_task => "queue-empty",
            (true, false) => "no-match",
        };
        let numeric = numeric_columns(&found);
        let now = show::now();
        List {
            heads: found
                .columns
                .iter()
                .zip(&numeric)
                .map(|(column, is_number)| self.head(column, *is_number))
                .collect(),
            rows: found.rows.iter().map(|row| self.row(row, &found.columns, &numeric, now)).collect(),
            carried: view.carried(&[]),
            told: format!("{} of {}", show::number(found.rows.len() as u64), show::count(matching, "task")),
            matching: show::number(matching),
            first: view.cursor.is_some().then(|| view.first_page_address()),
            next: found.next.map(|cursor| view.next_page_address(&cursor)),
            empty,
            confirm: format!("{}/confirm", view.path),
            compare: format!("/ui/queues/{}/compare", self.queue),
        }
    }

    fn head(&self, column: &Column, is_number: bool) -> Head {
        let number = if is_number { "num" } else { "" };
        let (label, class) = match column.path() {
            "progress" => ("Progress", "of-progress"),
            "attempt" => ("Attempt", number),
            "last_run.worker" => ("Ran on", "of-worker"),
            "created_at" => ("Age", "num of-age"),
            "started_at" => ("Started", "num of-age"),
            "last_error.message" => ("Error", number),
            path => (path, number),
        };
        let entry = OrderField::parse(column.path()).map(|field| order_entry(self.view, field));
        let (address, sorted) = entry.map_or((None, None), |entry| (Some(entry.toggled), entry.sorted));
        Head { label: label.to_owned(), class, address, sorted }
    }

    fn row(&self, row: &Row, columns: &[Column], numeric: &[bool], now: Timestamp) -> ShownRow {
        // An error takes the place of the first result.
        let error_at = columns.iter().position(|column| column.path().starts_with("result"));
        let cell = |(at, cell): (usize, &Cell)| {
            let is_missing = cell.kind == CellKind::Empty && error_at == Some(at);
            let error = row.error.as_deref().filter(|_| is_missing).map(Cell::error);
            ShownCell::new(error.as_ref().unwrap_or(cell), numeric.get(at).copied().unwrap_or(false), now)
        };
        ShownRow {
            id: row.id.clone(),
            status: row.status.as_str(),
            name: row.name.clone(),
            address: format!("{}/{}", self.view.path, row.id),
            waits: wait_words(row, now),
            is_archived: row.is_archived,
            cells: row.cells.iter().enumerate().map(cell).collect(),
        }
    }
}

impl TasksPage {
    /// The heads of the two columns that are always there.
    fn fixed_head(&self, field: &str) -> Head {
        let entry = self.order_menu.iter().find(|entry| entry.word == field);
        let address = entry.map(|entry| entry.toggled.clone());
        Head { label: String::new(), class: "", address, sorted: entry.and_then(|entry| entry.sorted) }
    }
}

impl ShownCell {
    fn new(cell: &Cell, is_number: bool, now: Timestamp) -> Self {
        let class = match cell.kind {
            CellKind::Error => "soft error-cell",
            CellKind::Json => "mono soft",
            CellKind::Time | CellKind::When => "num soft",
            _ if is_number => "num",
            _ => "",
        };
        let of_kind = |kind| cell.text.parse().ok().filter(|_| cell.kind == kind).map(Timestamp::from_micros);
        let moment = |kind| of_kind(kind).map(|at| Moment::new(at, now));
        let thousandths: Option<u32> = cell.text.parse().ok().filter(|_| cell.kind == CellKind::Progress);
        Self {
            class,
            moment: moment(CellKind::Time),
            when: moment(CellKind::When),
            progress: thousandths.map(|done| (format!("{}.{}", done / 10, done % 10), format!("{} %", done / 10))),
            state: (cell.kind == CellKind::Status).then(|| cell.text.clone()),
            text: cell.text.clone(),
        }
    }
}

/// Returns why a pending task is not claimed yet, as far as it says so itself: `waits for 3`, `in 9 min`.
fn wait_words(row: &Row, now: Timestamp) -> Option<String> {
    let delay = row.not_before.filter(|at| *at > now).map(|at| show::ahead(now, at));
    if row.unmet > 0 { Some(format!("waits for {}", show::number(row.unmet))) } else { delay }
}

/// Returns which columns hold only numbers and times.
fn numeric_columns(found: &Found) -> Vec<bool> {
    let is_numeric = |at: usize| {
        let mut cells = found
            .rows
            .iter()
            .filter_map(|row| row.cells.get(at))
            .filter(|cell| cell.kind != CellKind::Empty)
            .peekable();
        cells.peek().is_some()
            && cells.all(|cell| matches!(cell.kind, CellKind::Number | CellKind::Time | CellKind::When))
    };
    (0..found.columns.len()).map(is_numeric).collect()
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
