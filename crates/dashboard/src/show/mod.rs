//! How values look on every page: moments, long texts, rates, and HTML that is written piece by piece where a template would be too slow or
//! too clumsy. Numbers, durations and sizes are written as everywhere (`taskqueue_core::words`).

pub(crate) mod ansi;
mod drawings;
pub(crate) mod json;
pub(crate) mod scale;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;
use taskqueue_core::shell::CommandLine;
use taskqueue_core::time::between;
pub(crate) use taskqueue_core::words::{bytes, count, duration, number};
use taskqueue_core::words::{one_decimal, whole_duration};
use taskqueue_core::{TaskId, Timestamp};
pub(crate) use taskqueue_store::clock::wall_clock as now;

pub(crate) use self::drawings::{Bar, Meter, Minute, Spark};

/// A text of at most so many characters, with a sign where it was cut.
pub(crate) fn cut(text: &str, most_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most_chars) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let end = text.char_indices().nth(most_chars.saturating_sub(1)).map_or(0, |(at, _)| at);
            Cow::Owned(format!("{}…", &text[..end]))
        }
    }
}

/// Returns what a person calls a task: its name, or its id if it has none.
pub(crate) fn title<'t>(name: Option<&'t str>, id: &'t TaskId) -> &'t str {
    name.filter(|name| !name.trim().is_empty()).unwrap_or(id.as_str())
}

/// A text as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).chain(['.']).collect()
}

/// Returns how often something happens in a minute, with as many digits as tell something: `156`, `3.4`, `0.2`.
pub(crate) fn per_minute(times: u64, within: Duration) -> String {
    let rate = if within.is_zero() { 0.0 } else { times as f64 * 60.0 / within.as_secs_f64() };
    if rate >= 9.95 { number(rate.round() as u64) } else { one_decimal(rate) }
}

/// A moment, seen from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    at: Timestamp,
    now: Timestamp,
}

impl Moment {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self { at, now }
    }

    /// For programs, and for the hover: exact, in UTC.
    pub(crate) fn exact(&self) -> String {
        self.at.to_string()
    }

    /// Returns how far away, also ahead: `in 9 min`, `9 min ago`.
    pub(crate) fn distance(&self) -> String {
        if self.at > self.now { ahead(self.now, self.at) } else { format!("{} ago", self.age()) }
    }

    /// Returns how long ago: `41 s`, `3 h`. Something of a clock that is ahead is of now.
    pub(crate) fn age(&self) -> String {
        whole_duration(between(self.at, self.now))
    }
}

/// Returns how far ahead a moment is: `in 9 min`.
pub(crate) fn ahead(now: Timestamp, at: Timestamp) -> String {
    format!("in {}", whole_duration(between(now, at)))
}

/// Begins a command line of the program that does what a page does, to be copied into a shell. `words` are subcommands, such as
/// `task list`; `url` is the address of this server. Both are said, because the shell into which somebody copies the command may
/// be configured for another server and queue.
pub(crate) fn command_line(words: &str, queue: &str, url: &str) -> CommandLine {
    CommandLine::new(words).flag("--queue", queue).flag("--url", url)
}

/// A finished piece of HTML, which templates write as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Html(String);

impl Html {
    /// Markup of ours.
    pub(crate) fn markup(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// A text, with what HTML would read as markup escaped.
    pub(crate) fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(place) = rest.find(['<', '>', '&', '"', '\'']) {
            self.0.push_str(&rest[..place]);
            self.0.push_str(match rest.as_bytes()[place] {
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'&' => "&amp;",
                b'"' => "&quot;",
                _ => "&#39;",
            });
            rest = &rest[place + 1..];
        }
        self.0.push_str(rest);
    }

    /// A text with a look of its own.
    pub(crate) fn span(&mut self, class: &'static str, text: &str) {
        self.markup("<span class=\"");
        self.markup(class);
        self.markup("\">");
        self.text(text);
        self.markup("</span>");
    }

    pub(crate) fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything in it is ours or was escaped.
impl HtmlSafe for Html {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("", 3), "");
    }

    #[test]
    fn a_rate_has_few_digits() {
        let cases = [
            (0, 300, "0"),
            (1, 300, "0.2"),
            (5, 300, "1"),
            (17, 300, "3.4"),
            (780, 300, "156"),
            (90_000, 60, "90,000"),
            (3, 0, "0"),
        ];
        for (times, seconds, text) in cases {
            assert_eq!(per_minute(times, Duration::from_secs(seconds)), text, "{times} {seconds}");
        }
    }

    #[test]
    fn texts_cannot_become_markup() {
        let mut html = Html::default();
        html.markup("<b title=\"");
        html.text("\"><script>alert('1 & 2')</script>ü");
        html.markup("\">");
        let expected = "<b title=\"&quot;&gt;&lt;script&gt;alert(&#39;1 &amp; 2&#39;)&lt;/script&gt;ü\">";
        assert_eq!(html.to_string(), expected);
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_would_change_them() {
        let command =
            command_line("task sweep", "exp", "http://h:1").flag("--arg", "lr=0.1,1e-3").flag("--args", "{\"a\": 'x'}");
        let command = command.flag("--name", "-x").flag("--batch", "").switch("--zip", true);
        let expected = r#"taskqueue task sweep --queue exp --url http://h:1 --arg lr=0.1,1e-3 --args '{"a": '\''x'\''}' --name=-x --batch '' --zip"#;
        assert_eq!(command.to_string(), expected);
    }
}
