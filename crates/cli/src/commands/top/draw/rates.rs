//! The line of rates of the selected queue with a bar chart of the last minutes, and the format of rates.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Sparkline;
use taskqueue_core::words;

use crate::commands::top::rates::Rates;
use crate::commands::top::snapshot::QueueCounts;
use crate::commands::top::view::TopView;
use crate::live::Theme;

/// With more bars, each would cover less than a refresh interval.
const BARS_MAX: u16 = 60;

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
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
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.01 => "<0.01".to_owned(),
        rate if rate < 1.0 => format!("{rate:.2}"),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

/// The expected time until the pending tasks have ended. Without workers there is none, whatever was done a moment ago.
pub(super) fn eta(rates: &Rates, queue: &QueueCounts) -> Option<String> {
    let seconds = rates.seconds_left(&queue.counts).filter(|_| queue.has_workers);
    // The cast saturates, which is good enough for centuries.
    seconds.map(|seconds| words::span((seconds.ceil() as u64).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_as_many_digits_as_are_meaningful() {
        let cases = [
            (0.0, "0"),
            (0.001, "<0.01"),
            (0.05, "0.05"),
            (0.333, "0.33"),
            (2.5, "2.5"),
            (99.94, "99.9"),
            (1234.5, "1234"),
        ];
        for (per_second, expected) in cases {
            assert_eq!(rate(per_second), expected);
        }
    }
}
