//! The lines that every view has: what is wrong, the footer, the help, and how times are written in them.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use taskqueue_core::time::Timestamp;

use super::connection_state::{Contact, Trouble};
use super::controls::Controls;
use super::theme::Theme;
use crate::output::{escape, span};

/// What keys do in every view.
const KEYS: &[(&str, &str)] =
    &[("space", "pause and go on"), ("+ -", "ask more often, less often"), ("r", "ask now"), ("q Esc ^C", "leave")];

/// The line that says that the server does not answer. What matters most comes first: narrow screens cut the rest.
pub(crate) fn trouble(contact: &Contact, now: Instant, theme: Theme) -> Option<Line<'static>> {
    let Trouble { headline, message } = contact.trouble.as_ref()?;
    let age = contact.age(now).map_or("no data yet".to_owned(), |age| format!("data {} old", seconds(age)));
    let next = match contact.next_at {
        Some(at) => format!("next try in {}", seconds(at.saturating_duration_since(now))),
        None => "trying".to_owned(),
    };
    let text = format!("{headline}, {age}, {next}: {}", escape(message));
    Some(Line::styled(text, theme.alarm()))
}

/// The last line: a pause, the interval, what the view has to say, and a few keys.
pub(crate) fn footer(controls: &Controls, theme: Theme, told: &[String], keys: &str) -> Line<'static> {
    let state = if controls.paused {
        Span::styled("PAUSED".to_owned(), theme.notice())
    } else {
        Span::styled(format!("every {}", seconds(controls.interval)), theme.quiet())
    };
    let told = told.iter().map(|text| Span::styled(format!("  {text}"), theme.quiet()));
    let keys = Span::styled(format!("  {keys}"), theme.quiet());
    std::iter::once(state).chain(told).chain([keys]).collect()
}

/// The help, over everything else. `keys` are those of the view.
pub(crate) fn help(frame: &mut Frame<'_>, area: Rect, keys: &[(&str, &str)], theme: Theme) {
    let line = |(key, meaning): &(&str, &str)| {
        Line::from_iter([Span::styled(format!("{key:<9} "), theme.heading()), Span::raw((*meaning).to_owned())])
    };
    let title = Line::styled("Keys (any key closes this)", theme.heading());
    let lines: Vec<Line<'static>> = std::iter::once(title).chain(keys.iter().chain(KEYS).map(line)).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}

/// The time of day, as the server counts it.
pub(crate) fn clock(at: Timestamp) -> String {
    // `2026-11-15T07:15:25.123456Z`: the form is the contract's and never changes.
    at.to_string().get(11..19).map(|time| format!("{time} UTC")).unwrap_or_default()
}

/// A short time with a unit: `500ms`, `2s`, `5m`.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis @ 1..1000 => format!("{millis}ms"),
        millis @ 1000..10_000 if millis % 1000 == 500 => format!("{}.5s", millis / 1000),
        _ => span(time.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(trouble: Option<&str>, answered_at: Option<Instant>, next_at: Option<Instant>) -> Contact {
        let trouble = trouble.map(|message| Trouble { headline: "NO ANSWER", message: message.to_owned() });
        Contact { answered_at, trouble, next_at }
    }

    fn told(contact: &Contact, now: Instant) -> Option<String> {
        trouble(contact, now, Theme::PLAIN).map(|line| line.to_string())
    }

    #[test]
    fn trouble_tells_the_age_of_the_data_and_the_next_try() {
        let start = Instant::now();
        let now = start + Duration::from_secs(14);
        assert_eq!(told(&contact(None, Some(start), None), now), None);
        let waiting = contact(Some("refused\u{1b}[2J"), Some(start), Some(now + Duration::from_secs(3)));
        let expected = r"NO ANSWER, data 14s old, next try in 3s: refused\u{1b}[2J";
        assert_eq!(told(&waiting, now).as_deref(), Some(expected));
        let asking = contact(Some("timed out"), None, None);
        assert_eq!(told(&asking, now).as_deref(), Some("NO ANSWER, no data yet, trying: timed out"));
    }

    #[test]
    fn times_are_short() {
        assert_eq!(clock(Timestamp::from_micros(1_800_000_000_000_001)), "08:00:00 UTC");
        let cases =
            [(0, "0s"), (500, "500ms"), (1500, "1.5s"), (2000, "2s"), (2250, "2s"), (90_000, "90s"), (300_000, "5m")];
        for (millis, expected) in cases {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }
}
