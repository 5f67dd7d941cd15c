//! How `taskqueue top` looks: the parts of the screen and how they share its height. One file per part.

mod header;
mod pane;
mod queues;
mod rates;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};

use super::view::TopView;
use crate::live::{self, Moment};

/// Screens that are lower have no room for the line of rates.
const RATES_FROM_HEIGHT: u16 = 12;
/// Queues that are shown however low the screen is.
const QUEUES_LEAST: u16 = 2;

const KEYS: &[(&str, &str)] = &[("up down", "choose a queue (also k, j)"), ("tab", "next pane (also left, right)")];
const FEW_KEYS: &str = "q leave  ? keys  tab pane  space pause";

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, moment: &Moment<'_>) {
    let area = frame.area();
    if moment.controls.help {
        return live::help(frame, area, KEYS, moment.theme);
    }
    let trouble = live::trouble(moment.contact, moment.now, moment.theme);
    let queues_height = 1 + count(view.queues().len()).clamp(1, QUEUES_LEAST.max(area.height / 3));
    let [header, alarm, queues, rates, tabs, rows, footer] = area.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(trouble.is_some().into()),
        Constraint::Length(queues_height),
        Constraint::Length((area.height >= RATES_FROM_HEIGHT).into()),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]));
    header::draw(view, frame, header, moment);
    frame.render_widget(trouble.unwrap_or_default(), alarm);
    queues::draw(view, frame, queues, moment.theme);
    rates::draw(view, frame, rates, moment.theme);
    pane::draw_tabs(view, frame, tabs, moment.theme);
    pane::draw_rows(view, frame, rows, moment);
    frame.render_widget(live::footer(moment.controls, moment.theme, &told(view), FEW_KEYS), footer);
}

/// What there is to know and to see nowhere else.
fn told(view: &TopView) -> Vec<String> {
    let left_out = view.snapshot.as_ref().map_or(0, |snapshot| snapshot.queues_left_out);
    (left_out > 0).then(|| format!("{left_out} more queues: name those to see with --queue")).into_iter().collect()
}

/// A number of lines; screens are not higher than this can tell.
fn count(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
