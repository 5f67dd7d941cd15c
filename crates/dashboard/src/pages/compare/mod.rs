//! Tasks side by side: what differs in their args, what came out, which is the best, and charts of it. What the address asks for is in
//! `view`, what is read of tasks and kept of them in `collection`; the other modules make the parts of the page.

mod charts;
mod collection;
mod columns;
mod table;
mod value;
mod view;

use askama::Template;
use taskqueue_core::QueueName;
use tokio::sync::Semaphore;

use self::charts::{Parallel, Scatter};
use self::collection::Extent;
use self::columns::{Column, Columns};
use self::table::{Groups, Head, PAGE_ROWS, Sort, Table};
use self::view::{MOST_TASKS, View};
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::FilterMark;
use crate::state::on_own_thread;
use crate::visit::Visit;
use crate::{answer, show};

/// Comparisons that are worked on at once. Each may hold some ten megabytes, which is more than other pages do.
static TURNS: Semaphore = Semaphore::const_new(4);

/// Constants that are shown.
const CONSTANTS: usize = 40;
/// Parameters that a control of the form holds, so that no hidden field does.
const CONTROLS: [&str; 7] = ["filter", "x", "y", "x_scale", "y_scale", "color", "page"];

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage<'c> {
    shell: Shell,
    path: &'c str,
    queue: &'c QueueName,
    view: &'c View,
    columns: &'c Columns<'c>,
    filter_error: Option<FilterMark>,
    /// Where the field asks whether its filter can be read.
    tasks_path: String,
    /// The address that reads as many tasks as can be read.
    read_more: Option<String>,
    csv: String,
    extent: &'c Extent,
    auto_x: Option<Column<'c>>,
    auto_y: Option<Column<'c>>,
    scatter: Option<Scatter<'c>>,
    parallel: Option<Parallel<'c>>,
    sort: Option<Sort>,
    table: Option<Table<'c>>,
    groups: Option<Groups<'c>>,
    /// How many rows the table has, of tasks or of groups.
    rows: usize,
}

impl<'c> ComparePage<'c> {
    fn head(&self, column: &Column<'c>) -> Head<'c> {
        table::head(self.columns, column, self.view, self.sort)
    }

    fn is_shown(&self, column: &Column<'_>) -> bool {
        self.columns.shown.iter().any(|shown| shown.path == column.path)
    }

    fn is_axis(&self, column: &Column<'_>) -> bool {
        let axes = self.parallel.iter().flat_map(|parallel| &parallel.axes);
        axes.into_iter().any(|axis| axis.column.path == column.path)
    }

    /// The page of the table that is shown, and the last one.
    fn pages(&self) -> (usize, usize) {
        let last = self.rows.div_ceil(PAGE_ROWS).max(1);
        (self.view.page.min(last), last)
    }

    /// The choices of a scale: the automatic one says what it is.
    fn scales(&self, axis: &str) -> [(&'static str, &'static str); 3] {
        let is_log = self.scatter.as_ref().is_some_and(|scatter| scatter.is_log(axis));
        let choice = if axis == "x" { self.view.x_scale } else { self.view.y_scale };
        let automatic = match (choice, is_log) {
            (None, true) => "log (auto)",
            (None, false) => "linear (auto)",
            _ => "auto",
        };
        [("", automatic), ("linear", "linear"), ("log", "log")]
    }
}

/// The page.
pub(crate) async fn compare(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let query = visit.query.clone();
    let read_view = move || view::changed(&query).map_or_else(|| Ok(View::parse(&query)), Err);
    let view = match visit.dashboard.read_filter(view::filter_bytes(&visit.query), read_view).await? {
        Ok(view) => view,
        Err(changed) => return Ok(answer::see_other(&changed.at(&visit.path))),
    };
    let turn = TURNS.acquire().await.map_err(|_| Problem::busy())?;
    let (collection, extent) = collection::read(visit.dashboard.store(), &queue, &view).await?;
    let shell = Shell::new(&visit, format!("Compare tasks of {queue}"), Section::Compare, Some(&queue)).await?;
    let work = move || {
        let _turn = turn;
        let columns = Columns::new(&collection, &view);
        let page = page_of(&visit, &queue, shell, &columns, &view, &extent);
        layout::page(&visit, &page)
    };
    on_own_thread(work).await?
}

/// The table as a file.
pub(crate) async fn download(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let bytes = view::filter_bytes(&visit.query);
    let read_view = move || View::parse(&view::changed(&visit.query).unwrap_or(visit.query));
    let view = visit.dashboard.read_filter(bytes, read_view).await?;
    if let Err(error) = &view.selection {
        return Err(error.clone().into());
    }
    let turn = TURNS.acquire().await.map_err(|_| Problem::busy())?;
    let (collection, _) = collection::read(visit.dashboard.store(), &queue, &view).await?;
    let work = move || {
        let _turn = turn;
        let columns = Columns::new(&collection, &view);
        let sort = Sort::new(&columns, &view);
        match Groups::new(&columns, &view, sort) {
            Some(groups) => table::groups_csv(&groups),
            None => table::tasks_csv(&columns, &table::sorted(&columns, sort)),
        }
    };
    let disposition = format!("attachment; filename=\"{queue}-compare.csv\"");
    Ok(answer::file(on_own_thread(work).await?, "text/csv; charset=utf-8", &disposition))
}

/// Everything that is made of the tasks.
fn page_of<'c>(
    visit: &'c Visit,
    queue: &'c QueueName,
    shell: Shell,
    columns: &'c Columns<'c>,
    view: &'c View,
    extent: &'c Extent,
) -> ComparePage<'c> {
    let (collection, path) = (columns.collection, visit.path.as_str());
    let sort = Sort::new(columns, view);
    let groups = Groups::new(columns, view, sort);
    let table = Table::new(columns, view, &table::sorted(columns, sort));
    let rows = groups.as_ref().map_or(collection.rows.len(), |groups| groups.groups.len());
    let (auto_x, auto_y) = charts::axis_columns(columns, view);
    let filter = view.selectors.filter.as_deref().unwrap_or_default();
    ComparePage {
        filter_error: view.selection.as_ref().err().map(|error| FilterMark::new(filter, error)),
        tasks_path: path.strip_suffix("compare").map(|queue| format!("{queue}tasks")).unwrap_or_default(),
        read_more: (!extent.is_all && view.most < MOST_TASKS && !collection.rows.is_empty())
            .then(|| view.query.without("page").with("read", MOST_TASKS).at(path)),
        csv: view.query.without("page").at(&format!("{path}/csv")),
        scatter: Scatter::new(columns, view),
        parallel: Parallel::new(columns, view),
        table: Some(table).filter(|table| !table.rows.is_empty() || view.page > 1),
        shell: shell.made_by_now(visit),
        auto_x,
        auto_y,
        sort,
        rows,
        groups,
        columns,
        extent,
        view,
        queue,
        path,
    }
}
