//! Draws `taskqueue top`: the parts of the screen and how they share its height. One file per part.

mod header;
mod output;
mod pane;
mod queues;
mod rates;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};

use super::view::TopView;
use crate::live::{self, DrawContext};

/// Lower screens leave out the line of rates.
const RATES_FROM_HEIGHT: u16 = 12;
/// Queues that are shown on any screen.
const QUEUES_MIN: u16 = 2;

const KEYS: &[(&str, &str)] = &[
    ("up down", "choose a queue (also k, j)"),
    ("tab", "next pane (also left, right)"),
    ("enter l", "choose a task, show its output"),
];
const FEW_KEYS: &str = "q leave  ? keys  tab pane  space pause";

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    let area = frame.area();
    if context.controls.shows_help {
        return live::help(frame, area, KEYS, context.theme);
    }
    if let Some(open) = view.open_output() {
        return output::draw(view, open, frame, context);
    }
    let error = live::error_line(context.connection, context.now, context.theme);
    let queues_height = 1 + line_count(view.queues().len()).clamp(1, QUEUES_MIN.max(area.height / 3));
    let [header, error_area, queues, rates, tabs, rows, footer] = area.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(error.is_some().into()),
        Constraint::Length(queues_height),
        Constraint::Length((area.height >= RATES_FROM_HEIGHT).into()),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]));
    header::draw(view, frame, header, context);
    frame.render_widget(error.unwrap_or_default(), error_area);
    queues::draw(view, frame, queues, context.theme);
    rates::draw(view, frame, rates, context.theme);
    pane::draw_tabs(view, frame, tabs, context.theme);
    pane::draw_rows(view, frame, rows, context);
    frame.render_widget(live::footer(context.controls, context.theme, &footer_notes(view), FEW_KEYS), footer);
}

fn footer_notes(view: &TopView) -> Vec<String> {
    let left_out = view.snapshot.as_ref().map_or(0, |snapshot| snapshot.queues_left_out);
    (left_out > 0).then(|| format!("{left_out} more queues: select some with --queue")).into_iter().collect()
}

fn line_count(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
