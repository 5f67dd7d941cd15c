//! Draws `taskqueue top`: the parts of the screen and how they share its height. The first line is the server, its state and the time;
//! then the queues, the rates of the selected one with a bar chart of the last minutes, and the open pane (`pane.rs`).

mod pane;

use anstyle::AnsiColor;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;
use taskqueue_client::Status;
use taskqueue_core::words;

use super::snapshot::{QueueCounts, Rates};
use super::view::TopView;
use crate::live::{self, DrawContext, Table, Theme, clock};
use crate::output::{Cell, Columns, columns, escape};

/// Lower screens leave out the line of rates.
const RATES_FROM_HEIGHT: u16 = 12;
/// Queues that are shown on any screen.
const QUEUES_MIN: u16 = 2;

const FEW_KEYS: &str = "q leave  ? keys  tab pane  space pause";

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    if let Some(open) = &view.open {
        return pane::draw_output(view, open, frame, context);
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
    pane::draw_tabs(view, frame, tabs, context.theme);
    pane::draw_rows(view, frame, rows, context);
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
    frame.render_widget(Span::styled(time, context.theme.dimmed()), right);
}

fn server(view: &TopView, width: u16, context: &DrawContext<'_>) -> Line<'static> {
    let version = view.snapshot.as_ref().and_then(|snapshot| snapshot.version);
    let name = match version {
        _ if width < NAME_FROM_WIDTH => String::new(),
        Some(version) => format!("taskqueue {version} at "),
        None => "taskqueue at ".to_owned(),
    };
    let url = Span::styled(format!("{}  ", escape(&view.url)), context.theme.heading());
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
        None => Span::styled("connecting", theme.dimmed()),
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
            frame.render_widget(Line::styled(advice, theme.dimmed()), area);
        }
        return;
    }
    let selected = view.selected_index();
    let rows = view.queues().iter().enumerate().map(|(index, queue)| queue_cells(view, queue, selected == Some(index)));
    Table::new(COLUMNS, rows.collect()).draw(frame, area, LEAVE_OUT, selected, theme);
}

fn queue_cells(view: &TopView, queue: &QueueCounts, is_selected: bool) -> Vec<Cell> {
    let rates = view.history(&queue.name).and_then(|history| history.rates());
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
    let Some(history) = view.history(&queue.name) else { return };
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
    let line = Line::styled(text, theme.heading());
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

#[cfg(test)]
mod tests;
