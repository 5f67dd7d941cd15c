//! The table of queues: tasks by status, rates, and the expected end of the pending tasks.

use anstyle::AnsiColor;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use taskqueue_client::Status;

use super::rates::{eta, rate};
use crate::commands::top::snapshot::QueueCounts;
use crate::commands::top::view::TopView;
use crate::live::{Table, Theme, first_visible_row};
use crate::output::{Cell, Column};

const COLUMNS: &[Column<'static>] = &[
    Column::shrinking("  QUEUE"),
    Column::number("PENDING"),
    Column::number("RUNNING"),
    Column::number("SUCCEEDED"),
    Column::number("FAILED"),
    Column::number("CANCELLED"),
    Column::number("CREATED/S"),
    Column::number("FINISHED/S"),
    Column::number("ETA"),
    Column::with_values("LIMITS", 6),
];
const LEAVE_OUT: &[&str] = &["CREATED/S", "CANCELLED", "SUCCEEDED", "FINISHED/S", "ETA", "FAILED", "LIMITS", "RUNNING"];

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    if view.queues().is_empty() {
        if view.snapshot.is_some() {
            let advice = "no queues; create one with: taskqueue queue create NAME";
            frame.render_widget(Line::styled(advice, theme.dimmed()), area);
        }
        return;
    }
    let selected = view.selected_index();
    let rows = view.queues().iter().enumerate().map(|(index, queue)| cells(view, queue, selected == Some(index)));
    let (head, mut lines) = Table::new(COLUMNS, rows.collect()).lines(area.width, LEAVE_OUT, theme);
    if let Some(line) = selected.and_then(|index| lines.get_mut(index)) {
        *line = std::mem::take(line).patch_style(theme.marked());
    }
    let height = usize::from(area.height.saturating_sub(1));
    let start = first_visible_row(selected.unwrap_or(0), lines.len(), height);
    let shown = std::iter::once(head).chain(lines.into_iter().skip(start).take(height));
    for (line, row) in shown.zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

fn cells(view: &TopView, queue: &QueueCounts, is_selected: bool) -> Vec<Cell> {
    let rates = view.history(&queue.name).and_then(|history| history.rates());
    let count = |status| {
        let count = queue.counts.get(status);
        let cell = Cell::number(count);
        match status {
            _ if count == 0 => cell.dimmed(),
            Status::Running => cell.with_style_of(&Cell::status(status)),
            Status::Failed => cell.with_style_of(&Cell::status(status)),
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
