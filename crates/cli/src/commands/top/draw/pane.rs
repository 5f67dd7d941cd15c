//! The lower part: the tabs, and the rows of the open pane for the selected queue.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use taskqueue_client::{Observation, Status, Task, WorkerStatus};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;

use crate::commands::top::snapshot::{Counts, Pane, Rows, busy_first};
use crate::commands::top::view::TopView;
use crate::live::{DrawContext, Table, Theme, first_visible_row};
use crate::output::{Cell, Column, Record, WideWorker};
use crate::progress_view::ProgressView;

const ROUTES: &[Column<'static>] = &[
    Column::shrinking("ROUTE"),
    Column::number("PENDING"),
    Column::number("RUNNING"),
    Column::number("SUCCEEDED"),
    Column::number("FAILED"),
    Column::number("CANCELLED"),
];
const RUNNING: &[Column<'static>] = &[
    Column::text("ID"),
    Column::shrinking("NAME"),
    Column::shrinking("ROUTE"),
    Column::number("ATTEMPT"),
    Column::number("RUNS FOR"),
    Column::with_values("PROGRESS", 5),
];
const FAILED: &[Column<'static>] = &[
    Column::text("ID"),
    Column::shrinking("NAME"),
    Column::number("ATTEMPT"),
    Column::text("FINISHED"),
    Column::shrinking("ERROR"),
];
/// The width of the bar of a task.
const BAR_WIDTH: usize = 16;
/// Narrower screens do not show how many workers are busy.
const BUSY_FROM_WIDTH: u16 = 60;
/// Columns of any pane that are left out where there is no room.
const LEAVE_OUT: &[&str] = &[
    "MEASURED",
    "EXPIRES",
    "CANCELLED",
    "SUCCEEDED",
    "ATTEMPT",
    "FAILED",
    "ROUTE",
    "NAME",
    "TASK",
    "FINISHED",
    "LAST SEEN",
];

pub(super) fn draw_tabs(view: &TopView, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let tab = |pane: Pane| {
        let count = row_count(view, pane, area.width).map(|count| format!(" {count}")).unwrap_or_default();
        let title = format!("{}{count}", pane.title());
        // Brackets are visible without colours, too.
        match pane == view.pane {
            true => Span::styled(format!("[{title}]"), theme.heading()),
            false => Span::styled(format!(" {title} "), theme.dimmed()),
        }
    };
    frame.render_widget(Line::from_iter(Pane::ALL.map(tab)), area);
}

/// The number of rows of a pane, where it is known.
fn row_count(view: &TopView, pane: Pane, width: u16) -> Option<String> {
    let counts = view.selected_queue()?.counts;
    match pane {
        Pane::Running => Some(counts.get(Status::Running).to_string()),
        Pane::Failed => Some(counts.get(Status::Failed).to_string()),
        Pane::Routes => None,
        Pane::Workers => match &view.detail()?.rows {
            Rows::Workers(workers) if width < BUSY_FROM_WIDTH => Some(workers.len().to_string()),
            Rows::Workers(workers) => {
                let busy = workers.iter().filter(|worker| worker.report.status == WorkerStatus::Busy).count();
                Some(format!("{busy} busy {} idle", workers.len() - busy))
            }
            _ => None,
        },
    }
}

pub(super) fn draw_rows(view: &TopView, frame: &mut Frame<'_>, area: Rect, context: &DrawContext<'_>) {
    let Some(detail) = view.detail() else { return };
    if detail.rows.len() == 0 {
        return frame.render_widget(Line::styled(empty_text(view.pane), context.theme.dimmed()), area);
    }
    let table = match &detail.rows {
        Rows::Routes(routes) => Table::new(ROUTES, routes.iter().map(route).collect()),
        Rows::Running(tasks) => Table::new(RUNNING, tasks.iter().map(|task| running(task, context.clock)).collect()),
        Rows::Workers(workers) => worker_table(workers, context.clock),
        Rows::Failed(tasks) => Table::new(FAILED, tasks.iter().map(|task| failed(task, context.clock)).collect()),
    };
    let (head, lines) = table.lines(area.width, LEAVE_OUT, context.theme);
    let marked = view.marked_row();
    let marked_lines = lines
        .into_iter()
        .enumerate()
        .map(|(row, line)| if Some(row) == marked { line.patch_style(context.theme.marked()) } else { line });
    let height = usize::from(area.height.saturating_sub(1));
    let start = marked.map_or(0, |marked| first_visible_row(marked, detail.rows.len(), height));
    for (line, row) in std::iter::once(head).chain(marked_lines.skip(start)).zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// With what the workers measure, if one of them does.
fn worker_table(workers: &[Observation], now: Timestamp) -> Table<'static> {
    if workers.iter().all(|worker| worker.telemetry.is_none()) {
        return Table::of(busy_first(workers), now);
    }
    let rows = busy_first(workers).into_iter().map(|worker| WideWorker(worker).cells(now)).collect();
    Table::new(WideWorker::COLUMNS, rows)
}

fn empty_text(pane: Pane) -> &'static str {
    match pane {
        Pane::Routes => "no tasks",
        Pane::Running => "nothing is running",
        Pane::Workers => "no worker has reported within the last five minutes",
        Pane::Failed => "nothing has failed",
    }
}

fn route((route, counts): &(String, Counts)) -> Vec<Cell> {
    let counts = Status::ALL.map(|status| Cell::number(counts.get(status)));
    std::iter::once(Cell::new(route)).chain(counts).collect()
}

fn running(task: &Task, now: Timestamp) -> Vec<Cell> {
    let since = |at: Timestamp| now.as_micros().saturating_sub(at.as_micros()).max(0).unsigned_abs() / 1_000_000;
    vec![
        Cell::new(task.id.as_str()),
        Cell::optional(task.name.as_deref()),
        Cell::optional(task.last_route.as_ref().map(|route| route.as_str())),
        attempt(task),
        Cell::optional(task.started_at.map(|at| words::span(since(at)))),
        Cell::optional(ProgressView::of(task, now).map(|view| progress(&view)).filter(|text| !text.is_empty())),
    ]
}

/// The numbers first: where there is no room the bar is cut.
fn progress(view: &ProgressView) -> String {
    match view.bar(BAR_WIDTH) {
        Some(bar) => format!("{:<17} {bar}", view.short()),
        None => view.short(),
    }
}

fn failed(task: &Task, now: Timestamp) -> Vec<Cell> {
    let error = task.last_error.as_ref().map(|error| format!("{}: {}", error.failure.kind, error.failure.message));
    vec![
        Cell::new(task.id.as_str()),
        Cell::optional(task.name.as_deref()),
        attempt(task),
        Cell::optional(task.finished_at.map(|at| words::age(at, now))),
        Cell::optional(error),
    ]
}

fn attempt(task: &Task) -> Cell {
    Cell::new(format!("{}/{}", task.attempt, task.max_attempts))
}
