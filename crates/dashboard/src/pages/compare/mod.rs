//! Tasks side by side: what differs in their args, what came out, which is the best, and charts of it. What the address asks for is in
//! `view`, what is read of tasks in `read`, what is kept of them in `collection`; the other modules make the parts of the page.

mod collection;
mod columns;
mod groups;
mod parallel;
mod read;
mod scatter;
mod table;
mod value;
mod view;

use askama::Template;
use taskqueue_core::ids::QueueName;
use tokio::sync::Semaphore;

use self::collection::{Collection, Row};
use self::columns::Columns;
use self::groups::{GroupTable, Groups};
use self::parallel::Parallel;
use self::read::{Extent, Wanted};
use self::scatter::Scatter;
use self::table::{PAGE_ROWS, Sort, Table};
use self::view::{Grouping, MOST_TASKS, ScaleChoice, View};
use crate::address::Query;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::FilterMark;
use crate::state::{Dashboard, on_own_thread};
use crate::visit::Visit;
use crate::{answer, show};

/// Comparisons that are worked on at once. Each may hold some ten megabytes, which is more than other pages do.
static TURNS: Semaphore = Semaphore::const_new(4);

/// Constants that are shown.
const CONSTANTS: usize = 40;
/// Parameters that a control of the form holds, so that no hidden field does.
const CONTROLS: [&str; 7] = ["filter", "x", "y", "x_scale", "y_scale", "color", "page"];

/// An entry of a list of paths.
struct Choice {
    path: String,
    is_chosen: bool,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    shell: Shell,
    path: String,
    queue: String,
    view: View,
    /// The parameters that hidden fields keep.
    kept: Query,
    filter_error: Option<FilterMark>,
    /// Where the field asks whether its filter can be read.
    tasks_path: String,
    summary: String,
    /// The address that reads as many tasks as can be read.
    read_more: Option<String>,
    csv: String,
    warnings: Vec<String>,
    constants: Vec<(String, String)>,
    more_constants: usize,
    numeric: Vec<Choice>,
    all: Vec<Choice>,
    columns: Vec<Choice>,
    axes: Vec<Choice>,
    group_by: Vec<Choice>,
    auto_x: Option<String>,
    auto_y: Option<String>,
    scatter: Option<Scatter>,
    parallel: Option<Parallel>,
    table: Option<Table>,
    groups: Option<GroupTable>,
    pages: Pages,
}

impl ComparePage {
    /// The choices of a scale: the automatic one says what it is.
    fn scales(&self, axis: &str) -> [(&'static str, &'static str); 3] {
        let is_log =
            self.scatter.as_ref().is_some_and(|scatter| if axis == "x" { scatter.x_is_log } else { scatter.y_is_log });
        let choice = if axis == "x" { self.view.x_scale } else { self.view.y_scale };
        let automatic = match (choice, is_log) {
            (ScaleChoice::Auto, true) => "log (auto)",
            (ScaleChoice::Auto, false) => "linear (auto)",
            _ => "auto",
        };
        [("", automatic), ("linear", "linear"), ("log", "log")]
    }
}

/// Where this page of the table is among all of them.
struct Pages {
    current: usize,
    last: usize,
    first_row: usize,
    last_row: usize,
    rows: usize,
}

/// The page.
pub(crate) async fn compare(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let query = visit.query.clone();
    let read_view = move || match view::changed(&query) {
        Some(changed) => Err(changed),
        None => Ok(View::parse(&query)),
    };
    let view = match visit.dashboard.read_filter(view::filter_bytes(&visit.query), read_view).await? {
        Ok(view) => view,
        Err(changed) => return Ok(answer::see_other(&changed.at(&visit.path))),
    };
    let turn = TURNS.acquire().await.map_err(|_| Problem::busy())?;
    let (collection, extent) = read(&visit.dashboard, &queue, &view).await?;
    let shell = Shell::new(&visit, format!("Compare tasks of {queue}"), Section::Compare, Some(&queue)).await?;
    let work = move || {
        let _turn = turn;
        let parts = Parts::new(&collection, &view);
        let page = parts.into_page(shell.made_by_now(&visit), &queue, &visit.path, view, &extent);
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
    let (collection, _) = read(&visit.dashboard, &queue, &view).await?;
    let work = move || {
        let _turn = turn;
        let columns = Columns::new(&collection, &view);
        let sort = Sort::new(&columns, &view);
        match Groups::new(&columns, &view, sort) {
            Some(groups) => groups::groups_csv(&groups),
            None => groups::tasks_csv(&columns, &table::sorted(&columns, sort)),
        }
    };
    let disposition = format!("attachment; filename=\"{queue}-compare.csv\"");
    Ok(answer::file(on_own_thread(work).await?, "text/csv; charset=utf-8", &disposition))
}

/// Returns what the view asks for; nothing if its filter is not valid.
async fn read(dashboard: &Dashboard, queue: &QueueName, view: &View) -> Result<(Collection, Extent), Problem> {
    let Ok(selection) = view.selection.clone() else { return Ok(Default::default()) };
    let wanted = Wanted { selection, ids: &view.ids, most: view.most, paths: view.paths() };
    wanted.read(dashboard.store(), queue).await
}

/// Everything that is made of the tasks.
struct Parts<'c> {
    columns: Columns<'c>,
    scatter: Option<Scatter>,
    parallel: Option<Parallel>,
    table: Table,
    groups: Option<GroupTable>,
}

impl<'c> Parts<'c> {
    fn new(collection: &'c Collection, view: &View) -> Self {
        let columns = Columns::new(collection, view);
        let sort = Sort::new(&columns, view);
        let rows: Vec<&Row> = table::sorted(&columns, sort);
        let groups = Groups::new(&columns, view, sort);
        Self {
            scatter: Scatter::new(&columns, view),
            parallel: Parallel::new(&columns, view),
            table: Table::new(&columns, view, sort, &rows),
            groups: groups.map(|groups| GroupTable::new(&groups, &columns, view, sort)),
            columns,
        }
    }

    fn into_page(self, shell: Shell, queue: &QueueName, path: &str, view: View, extent: &Extent) -> ComparePage {
        let collection = self.columns.collection;
        let rows = self.groups.as_ref().map_or(collection.rows.len(), |groups| groups.total);
        let (auto_x, auto_y) = scatter::axis_columns(&self.columns, &view);
        let is_shown = |text: &str| self.columns.shown.iter().any(|column| column.text == text);
        let has_axis =
            |text: &str| self.parallel.as_ref().is_some_and(|parallel| parallel.paths.iter().any(|path| path == text));
        let has_group = |text: &str| matches!(&view.grouping, Some(Grouping::By(paths)) if paths.iter().any(|path| path.text == text));
        let constants: Vec<(String, String)> = self
            .columns
            .constants
            .iter()
            .map(|(path, value)| ((*path).to_owned(), scatter::short_value(value)))
            .collect();
        ComparePage {
            path: path.to_owned(),
            queue: queue.as_str().to_owned(),
            kept: view.query.except(&CONTROLS),
            filter_error: view
                .selection
                .as_ref()
                .err()
                .map(|error| FilterMark::new(view.selectors.filter.as_deref().unwrap_or_default(), error)),
            tasks_path: path.strip_suffix("compare").map(|queue| format!("{queue}tasks")).unwrap_or_default(),
            summary: summary(&self.columns, &view, extent),
            read_more: (!extent.is_all && view.most < MOST_TASKS && !collection.rows.is_empty())
                .then(|| view.query.without("page").with("read", MOST_TASKS).at(path)),
            csv: view.query.without("page").at(&format!("{path}/csv")),
            warnings: warnings(&self.columns, &view, extent),
            more_constants: constants.len().saturating_sub(CONSTANTS),
            constants: constants.into_iter().take(CONSTANTS).collect(),
            numeric: self.choices(|_, is_numeric| is_numeric, |_| false),
            all: self.choices(|_, _| true, |_| false),
            columns: self.choices(|_, _| true, is_shown),
            axes: self.choices(|_, _| true, has_axis),
            group_by: self.choices(|text, _| !text.starts_with("result.") && !text.starts_with("progress."), has_group),
            auto_x: auto_x.map(|column| column.text),
            auto_y: auto_y.map(|column| column.text),
            pages: Pages::new(view.page, rows),
            table: Some(self.table).filter(|table| !table.rows.is_empty() || view.page > 1),
            groups: self.groups,
            scatter: self.scatter,
            parallel: self.parallel,
            view,
            shell,
        }
    }

    fn choices(&self, is_offered: impl Fn(&str, bool) -> bool, is_chosen: impl Fn(&str) -> bool) -> Vec<Choice> {
        let offered = self.columns.paths().filter(|(_, text, facts)| is_offered(text, facts.is_numeric()));
        offered.map(|(_, text, _)| Choice { path: text.to_owned(), is_chosen: is_chosen(text) }).collect()
    }
}

impl Pages {
    fn new(current: usize, rows: usize) -> Self {
        let last = rows.div_ceil(PAGE_ROWS).max(1);
        let current = current.min(last);
        Self {
            current,
            last,
            first_row: (current - 1) * PAGE_ROWS + 1,
            last_row: (current * PAGE_ROWS).min(rows),
            rows,
        }
    }
}

/// Returns how many tasks, out of how many, and how many args differ.
fn summary(columns: &Columns<'_>, view: &View, extent: &Extent) -> String {
    let read = columns.collection.rows.len() as u64;
    let tasks = match extent.matching {
        _ if view.selection.is_err() => return "no tasks: the filter is not valid".to_owned(),
        _ if extent.is_all => show::count(read, "task"),
        Some(matching) => format!("the newest {} of {} that match", show::number(read), show::number(matching)),
        None => format!("the newest {}; more match", show::count(read, "task")),
    };
    match (read, columns.differing_args()) {
        (0 | 1, _) => tasks,
        (_, 1) => format!("{tasks}, 1 arg differs"),
        (_, args) => format!("{tasks}, {args} args differ"),
    }
}

fn warnings(columns: &Columns<'_>, view: &View, extent: &Extent) -> Vec<String> {
    let (collection, mut warnings) = (columns.collection, view.complaints.clone());
    if view.is_grouped_by_args() && columns.args_but_seed().count() > groups::KEYS_MAX {
        warnings.push(format!("More than {} args differ: tasks are grouped by the first ones only.", groups::KEYS_MAX));
    }
    if extent.gone > 0 {
        warnings.push(format!("{} of the chosen tasks are not there any more.", show::number(extent.gone as u64)));
    }
    if collection.has_more_paths {
        warnings.push("The tasks hold more different paths than fit here. Add a column by its path.".to_owned());
    }
    if collection.partial > 0 {
        let tasks = show::count(collection.partial as u64, "task");
        warnings
            .push(format!("{tasks} with more values than were looked at: only columns that you choose are complete."));
    }
    warnings
}
