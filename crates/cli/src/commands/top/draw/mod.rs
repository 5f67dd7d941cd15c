//! Draws `taskqueue top`: the parts of the screen and how they share its height. The first line is the server, its state and the time;
//! then the queues, the rates of the selected one with a bar chart of the last minutes, and the open pane: the tabs, and the rows for the selected queue. Instead of
//! all that, the output of one task: the task and its progress, then the latest lines.

#[cfg(test)]
mod tests;

use anstyle::AnsiColor;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;
use taskqueue_client::{Observation, Status, Task, TaskId, WorkerStatus};
use taskqueue_core::time::{Timestamp, between};
use taskqueue_core::words;

use super::fetch::{Pane, QueueCounts, Rates, Rows, busy_first};
use super::{OpenOutput, TopView};
use crate::commands::queue::StatusCounts;
use crate::live::{self, DIMMED, DrawContext, HEADING, MARKED, Table, Theme, clock};
use crate::output::{Cell, Columns, ProgressView, Record, WideWorker, columns, escape};

/// Lower screens leave out the line of rates.
const RATES_FROM_HEIGHT: u16 = 12;
/// Queues that are shown on any screen.
const QUEUES_MIN: u16 = 2;

const FEW_KEYS: &str = "q leave  ? keys  tab pane  space pause";

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    if let Some(open) = &view.open {
        return draw_output(view, open, frame, context);
    }
    let height = frame.area().height;
    let queues_height = 1 + u16::try_from(view.queues().len()).unwrap_or(u16::MAX).clamp(1, QUEUES_MIN.max(height / 3));
    let [header, body] = live::draw_edges(frame, context, 1, &footer_notes(view), FEW_KEYS);
    let [queues, rates, tabs, rows] = body.layout(&Layout::vertical([
        Constraint::Length(queues_height),
        Constraint::Length((height >= RATES_FROM_HEIGHT).into()),
        Constraint::Length(1),
        Constraint::Fill(1),
    ]));
    draw_header(view, frame, header, context);
    draw_queues(view, frame, queues, context.theme);
    draw_rates(view, frame, rates, context.theme);
    draw_tabs(view, frame, tabs);
    draw_rows(view, frame, rows, context);
}

fn footer_notes(view: &TopView) -> Vec<String> {
    let left_out = view.snapshot.as_ref().map_or(0, |snapshot| snapshot.queues_left_out);
    (left_out > 0).then(|| format!("{left_out} more queues: select some with --queue")).into_iter().collect()
}

/// Narrower screens show the address only.
const NAME_FROM_WIDTH: u16 = 60;

fn draw_header(view: &TopView, frame: &mut Frame<'_>, area: Rect, context: &DrawContext<'_>) {
    let time = clock(context.clock);
    let server = server(view, area.width, context);
    // If both do not fit, the time is left out.
    let time_width = u16::try_from(time.len()).unwrap_or(u16::MAX);
    let has_room = server.width() + time.len() < usize::from(area.width);
    let [left, right] = area
        .layout(&Layout::horizontal([Constraint::Fill(1), Constraint::Length(if has_room { time_width } else { 0 })]));
    frame.render_widget(server, left);
    frame.render_widget(Span::styled(time, DIMMED), right);
}

fn server(view: &TopView, width: u16, context: &DrawContext<'_>) -> Line<'static> {
    let version = view.snapshot.as_ref().and_then(|snapshot| snapshot.version);
    let name = match version {
        _ if width < NAME_FROM_WIDTH => String::new(),
        Some(version) => format!("taskqueue {version} at "),
        None => "taskqueue at ".to_owned(),
    };
    let url = Span::styled(format!("{}  ", escape(&view.url)), HEADING);
    Line::from_iter([Span::raw(name), url, health(view, context)])
}

fn health(view: &TopView, context: &DrawContext<'_>) -> Span<'static> {
    let theme = context.theme;
    if let Some(error) = &context.connection.error {
        return Span::styled(error.headline, theme.error());
    }
    // A slow refresh has not failed yet, and a pause is easily forgotten.
    if let Some(age) = context.connection.stale_age(context.now, context.controls.interval) {
        return Span::styled(format!("data {} old", words::span(age.as_secs())), theme.warning());
    }
    match &view.snapshot {
        None => Span::styled("connecting", DIMMED),
        Some(snapshot) if snapshot.health.is_ok => Span::styled("ok", theme.ok()),
        Some(_) => Span::styled("its database does not work", theme.error()),
    }
}

const COLUMNS: Columns = columns![
    shrinking "  QUEUE", number "PENDING", number "RUNNING", number "SUCCEEDED", number "FAILED", number "CANCELLED",
    number "CREATED/S", number "FINISHED/S", number "ETA", with_values "LIMITS" 6
];
const LEAVE_OUT: &[&str] = &["CREATED/S", "CANCELLED", "SUCCEEDED", "FINISHED/S", "ETA", "FAILED", "LIMITS", "RUNNING"];

fn draw_queues(view: &TopView, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    if view.queues().is_empty() {
        if view.snapshot.is_some() {
            let advice = "no queues; create one with: taskqueue queue create NAME";
            frame.render_widget(Line::styled(advice, DIMMED), area);
        }
        return;
    }
    let selected = view.selected_index();
    let rows = view.queues().iter().enumerate().map(|(index, queue)| queue_cells(view, queue, selected == Some(index)));
    Table::new(COLUMNS, rows.collect(), LEAVE_OUT).draw(frame, area, selected, theme);
}

fn queue_cells(view: &TopView, queue: &QueueCounts, is_selected: bool) -> Vec<Cell> {
    let rates = view.histories.get(&queue.name).and_then(|history| history.rates());
    let count = |status| {
        let count = queue.counts.get(status);
        let cell = Cell::number(count);
        match status {
            _ if count == 0 => cell.dimmed(),
            Status::Running | Status::Failed => cell.with_style_of(&Cell::status(status)),
            _ => cell,
        }
    };
    let mark = if is_selected { "> " } else { "  " };
    let mut cells = vec![Cell::new(format!("{mark}{}", queue.name))];
    cells.extend(Status::ALL.map(count));
    cells.extend([
        Cell::optional(rates.map(|rates| rate(rates.created))),
        Cell::optional(rates.map(|rates| rate(rates.finished))),
        Cell::optional(rates.and_then(|rates| eta(&rates, queue))),
        // A pause is easily forgotten.
        match &queue.settings {
            Some(words) => Cell::new(words).coloured(AnsiColor::Yellow),
            None => Cell::optional(None::<&str>),
        },
    ]);
    cells
}

/// With more bars, each would cover less than a refresh interval.
const BARS_MAX: u16 = 60;

fn draw_rates(view: &TopView, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let Some(queue) = view.selected_queue() else { return };
    let Some(history) = view.histories.get(&queue.name) else { return };
    let text = match history.rates() {
        Some(rates) => {
            let left = match eta(&rates, queue) {
                Some(left) => format!(", done in {left}"),
                None if queue.has_workers => String::new(),
                None => ", no workers".to_owned(),
            };
            format!("{}: {} finished/s{left}, last 5m ", queue.name, rate(rates.finished))
        }
        None => format!("{}: measuring", queue.name),
    };
    let line = Line::styled(text, HEADING);
    let width = u16::try_from(line.width()).unwrap_or(u16::MAX);
    let [left, right] = area.layout(&Layout::horizontal([Constraint::Length(width), Constraint::Fill(1)]));
    let bars = Rect { width: right.width.min(BARS_MAX), ..right };
    frame.render_widget(line, left);
    frame.render_widget(Sparkline::default().data(history.bars(bars.width.into())).style(theme.bars()), bars);
}

/// Tasks per second with as many digits as are meaningful.
fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.01 => "<0.01".to_owned(),
        rate if rate < 1.0 => format!("{rate:.2}"),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

/// The expected time until the pending tasks have ended. Without workers there is none, whatever was done a moment ago.
fn eta(rates: &Rates, queue: &QueueCounts) -> Option<String> {
    let seconds = rates.seconds_left(&queue.counts).filter(|_| queue.has_workers);
    // The cast saturates, which is good enough for centuries.
    seconds.map(|seconds| words::span((seconds.ceil() as u64).max(1)))
}

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
const PANE_LEAVE_OUT: &[&str] = &[
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

fn draw_tabs(view: &TopView, frame: &mut Frame<'_>, area: Rect) {
    let tab = |pane: Pane| {
        let count = row_count(view, pane, area.width).map(|count| format!(" {count}")).unwrap_or_default();
        let (title, _) = title_and_empty_text(pane);
        let title = format!("{title}{count}");
        let is_open = pane == view.pane;
        // Brackets are visible without colours, too.
        if is_open { Span::styled(format!("[{title}]"), HEADING) } else { Span::styled(format!(" {title} "), DIMMED) }
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

fn draw_rows(view: &TopView, frame: &mut Frame<'_>, area: Rect, context: &DrawContext<'_>) {
    let Some(detail) = view.detail() else { return };
    if detail.rows.tasks().is_empty() {
        let (_, text) = title_and_empty_text(view.pane);
        return frame.render_widget(Line::styled(text, DIMMED), area);
    }
    let now = context.clock;
    let (columns, rows) = match &detail.rows {
        Rows::Routes(routes) => (ROUTES, routes.iter().map(route).collect()),
        Rows::Running(tasks) => (RUNNING, tasks.iter().map(|task| running(task, now)).collect()),
        // What they measure has its columns if one measures something.
        Rows::Workers(workers) if workers.iter().all(|worker| worker.telemetry.is_none()) => {
            (Observation::COLUMNS, busy_first(workers).into_iter().map(|worker| worker.cells(now)).collect())
        }
        Rows::Workers(workers) => {
            (WideWorker::COLUMNS, busy_first(workers).into_iter().map(|worker| WideWorker(worker).cells(now)).collect())
        }
        Rows::Failed(tasks) => (FAILED, tasks.iter().map(|task| failed(task, now)).collect()),
    };
    Table::new(columns, rows, PANE_LEAVE_OUT).draw(frame, area, view.marked_row(), context.theme);
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
    if let Some(bar) = view.bar(BAR_WIDTH) { format!("{:<17} {bar}", view.short()) } else { view.short() }
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

fn draw_output(view: &TopView, open: &OpenOutput, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
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
    frame.render_widget(task_line(open.id, task), title);
    frame.render_widget(Line::styled(progress.unwrap_or_default(), context.theme.bars()), progress_area);
    let shown = output.map_or(&[][..], |output| &output.lines);
    if shown.is_empty() {
        let words = if output.is_some() { "nothing that it printed is kept" } else { "reading" };
        return frame.render_widget(Line::styled(words, DIMMED), lines);
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
        frame.render_widget(Line::styled(format!(" {hidden} more below "), MARKED).right_aligned(), title);
    }
}

fn task_line(id: TaskId, task: Option<Option<&Task>>) -> Line<'static> {
    let id = Span::styled(id.to_string(), HEADING);
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
