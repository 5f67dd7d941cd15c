//! The lower part: the tabs, and the rows of the open pane for the selected queue; or instead of it over the whole screen the output of
//! one task: the task and its progress, then the latest lines.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use taskqueue_client::{Observation, Status, Task, TaskId, WorkerStatus};
use taskqueue_core::time::{Timestamp, between};
use taskqueue_core::words;

use super::draw_header;
use crate::commands::status_counts::StatusCounts;
use crate::commands::top::snapshot::{Pane, Rows, busy_first};
use crate::commands::top::view::{OpenOutput, TopView};
use crate::live::{self, DrawContext, Table, Theme};
use crate::output::{Cell, Columns, ProgressView, Record, WideWorker, columns, escape};

const ROUTES: Columns = columns![
    shrinking "ROUTE", number "PENDING", number "RUNNING", number "SUCCEEDED", number "FAILED", number "CANCELLED"
];
const RUNNING: Columns = columns![
    text "ID", shrinking "NAME", shrinking "ROUTE", number "ATTEMPT", number "RUNS FOR", with_values "PROGRESS" 5
];
const FAILED: Columns = columns![text "ID", shrinking "NAME", number "ATTEMPT", text "FINISHED", shrinking "ERROR"];
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
        let (title, _) = title_and_empty_text(pane);
        let title = format!("{title}{count}");
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
    if detail.rows.tasks().is_empty() {
        let (_, text) = title_and_empty_text(view.pane);
        return frame.render_widget(Line::styled(text, context.theme.dimmed()), area);
    }
    let table = match &detail.rows {
        Rows::Routes(routes) => Table::new(ROUTES, routes.iter().map(route).collect()),
        Rows::Running(tasks) => Table::new(RUNNING, tasks.iter().map(|task| running(task, context.clock)).collect()),
        Rows::Workers(workers) => worker_table(workers, context.clock),
        Rows::Failed(tasks) => Table::new(FAILED, tasks.iter().map(|task| failed(task, context.clock)).collect()),
    };
    table.draw(frame, area, LEAVE_OUT, view.marked_row(), context.theme);
}

/// With what the workers measure, if one of them does.
fn worker_table(workers: &[Observation], now: Timestamp) -> Table<'static> {
    if workers.iter().all(|worker| worker.telemetry.is_none()) {
        return Table::of(busy_first(workers), now);
    }
    let rows = busy_first(workers).into_iter().map(|worker| WideWorker(worker).cells(now)).collect();
    Table::new(WideWorker::COLUMNS, rows)
}

/// Returns the title of a pane, and what it says without rows.
fn title_and_empty_text(pane: Pane) -> (&'static str, &'static str) {
    match pane {
        Pane::Routes => ("Routes", "no tasks"),
        Pane::Running => ("Running", "nothing is running"),
        Pane::Workers => ("Workers", "no worker has reported within the last five minutes"),
        Pane::Failed => ("Failed", "nothing has failed"),
    }
}

fn route((route, counts): &(String, StatusCounts)) -> Vec<Cell> {
    let counts = Status::ALL.map(|status| Cell::number(counts.get(status)));
    std::iter::once(Cell::new(route)).chain(counts).collect()
}

fn running(task: &Task, now: Timestamp) -> Vec<Cell> {
    vec![
        Cell::new(task.id.as_str()),
        Cell::optional(task.name.as_deref()),
        Cell::optional(task.last_route.as_ref().map(|route| route.as_str())),
        attempt(task),
        Cell::optional(task.started_at.map(|at| words::span(between(at, now).as_secs()))),
        Cell::optional(ProgressView::of(task, now).map(|view| progress_cell(&view)).filter(|text| !text.is_empty())),
    ]
}

/// The numbers first: where there is no room the bar is cut.
fn progress_cell(view: &ProgressView) -> String {
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

const OUTPUT_BAR_WIDTH: usize = 20;
const OUTPUT_KEYS: &str = "Esc back  up down scroll  ? keys  q leave";

pub(super) fn draw_output(view: &TopView, open: &OpenOutput, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    let output = view.output();
    let progress = output.and_then(|output| output.task.as_ref()).and_then(|task| progress_line(task, context.clock));
    let [header, body] = live::draw_edges(frame, context, 1, &[], OUTPUT_KEYS);
    let [title, progress_area, lines] = body.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(progress.is_some().into()),
        Constraint::Fill(1),
    ]));
    draw_header(view, frame, header, context);
    let task = output.map(|output| output.task.as_ref());
    frame.render_widget(task_line(open.id, task, context.theme), title);
    frame.render_widget(Line::styled(progress.unwrap_or_default(), context.theme.bars()), progress_area);
    let shown = output.map_or(&[][..], |output| &output.lines);
    if shown.is_empty() {
        let words = if output.is_some() { "nothing that it printed is kept" } else { "reading" };
        return frame.render_widget(Line::styled(words, context.theme.dimmed()), lines);
    }
    // As many of the latest lines as fit, unless somebody scrolls.
    let height = usize::from(lines.height);
    let start = shown.len().saturating_sub(height).saturating_sub(open.scroll);
    for (text, row) in shown.iter().skip(start).zip(lines.rows()) {
        // Tabs have no width of their own here.
        frame.render_widget(Line::raw(text.replace('\t', "    ")), row);
    }
    let hidden = shown.len().saturating_sub(start + height);
    if hidden > 0 {
        let more = Line::styled(format!(" {hidden} more below "), context.theme.marked()).right_aligned();
        frame.render_widget(more, title);
    }
}

fn task_line(id: TaskId, task: Option<Option<&Task>>, theme: Theme) -> Line<'static> {
    let id = Span::styled(id.to_string(), theme.heading());
    let rest = match task {
        None => String::new(),
        Some(None) => "  does not exist any more".to_owned(),
        Some(Some(task)) => {
            let name = task.name.as_deref().map(|name| format!("  {}", escape(name))).unwrap_or_default();
            format!("{name}  {}  attempt {}/{}", task.status.as_str(), task.attempt, task.max_attempts)
        }
    };
    Line::from_iter([id, Span::raw(rest)])
}

fn progress_line(task: &Task, now: Timestamp) -> Option<String> {
    let view = ProgressView::of(task, now)?;
    let parts = [view.bar(OUTPUT_BAR_WIDTH), Some(view.measures()), Some(view.said())];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    Some(escape(&parts.join("  ")).into_owned())
}
