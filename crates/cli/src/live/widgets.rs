//! The parts that every view has: the error line, the footer, the help and the clock.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;

use super::connection_state::{ConnectionState, FetchError};
use super::controls::Controls;
use super::theme::Theme;
use crate::output::escape;

const KEYS: &[(&str, &str)] = &[
    ("space", "pause and go on"),
    ("+ -", "refresh more often, less often"),
    ("r", "refresh now"),
    ("q Esc ^C", "leave"),
];

/// The line that is shown while refreshes fail. The most important comes first, because narrow screens cut the rest.
pub(crate) fn error_line(connection: &ConnectionState, now: Instant, theme: Theme) -> Option<Line<'static>> {
    let FetchError { headline, message } = connection.error.as_ref()?;
    let age =
        connection.age(now).map_or("no data yet".to_owned(), |age| format!("data {} old", words::span(age.as_secs())));
    let next = match connection.next_at {
        Some(at) => format!("next try in {}", words::short_duration(at.saturating_duration_since(now).as_secs_f64())),
        None => "trying".to_owned(),
    };
    let text = format!("{headline}, {age}, {next}: {}", escape(message));
    Some(Line::styled(text, theme.error()))
}

/// The last line: the pause or the interval, the notes of the view, and a few keys.
pub(crate) fn footer(controls: &Controls, theme: Theme, notes: &[String], keys: &str) -> Line<'static> {
    let state = if controls.paused {
        Span::styled("PAUSED".to_owned(), theme.warning())
    } else {
        Span::styled(format!("every {}", words::short_duration(controls.interval.as_secs_f64())), theme.dimmed())
    };
    let notes = notes.iter().map(|text| Span::styled(format!("  {text}"), theme.dimmed()));
    let keys = Span::styled(format!("  {keys}"), theme.dimmed());
    std::iter::once(state).chain(notes).chain([keys]).collect()
}

/// Draws the help over the whole area. `keys` are those of the view.
pub(crate) fn help(frame: &mut Frame<'_>, area: Rect, keys: &[(&str, &str)], theme: Theme) {
    let line = |(key, meaning): &(&str, &str)| {
        Line::from_iter([Span::styled(format!("{key:<9} "), theme.heading()), Span::raw((*meaning).to_owned())])
    };
    let title = Line::styled("Keys (any key closes this)", theme.heading());
    let lines: Vec<Line<'static>> = std::iter::once(title).chain(keys.iter().chain(KEYS).map(line)).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}

/// The time of day in UTC.
pub(crate) fn clock(at: Timestamp) -> String {
    // The format of the contract: `2026-11-15T07:15:25.123456Z`.
    at.to_string().get(11..19).map(|time| format!("{time} UTC")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(error: Option<&str>, answered_at: Option<Instant>, next_at: Option<Instant>) -> ConnectionState {
        let error = error.map(|message| FetchError { headline: "NO ANSWER", message: message.to_owned() });
        ConnectionState { answered_at, error, next_at }
    }

    fn line_text(connection: &ConnectionState, now: Instant) -> Option<String> {
        error_line(connection, now, Theme::PLAIN).map(|line| line.to_string())
    }

    #[test]
    fn the_error_line_has_the_age_of_the_data_and_the_next_try() {
        let start = Instant::now();
        let now = start + Duration::from_secs(14);
        assert_eq!(line_text(&state(None, Some(start), None), now), None);
        let waiting = state(Some("refused\u{1b}[2J"), Some(start), Some(now + Duration::from_secs(3)));
        let expected = r"NO ANSWER, data 14s old, next try in 3s: refused\u{1b}[2J";
        assert_eq!(line_text(&waiting, now).as_deref(), Some(expected));
        let asking = state(Some("timed out"), None, None);
        assert_eq!(line_text(&asking, now).as_deref(), Some("NO ANSWER, no data yet, trying: timed out"));
    }

    #[test]
    fn the_clock_has_the_time_of_day() {
        assert_eq!(clock(Timestamp::from_micros(1_800_000_000_000_001)), "08:00:00 UTC");
    }
}
