//! One field of a form: what stands in it, what is wrong with that, and how names, numbers, routes, times and durations are read. JSON
//! objects are read in `json_field.rs`. Nothing that was typed is lost when something is wrong with it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use taskqueue_core::definition::{InvalidRoutes, task_name};
use taskqueue_core::limits::{NAME_CHARS, TASK_NAME_CHARS, TASK_ROUTES};
use taskqueue_core::scheduling::seconds_as_duration;
use taskqueue_core::words::{Units, exact_duration};
use taskqueue_core::{Route, Routes, Timestamp};

use crate::address::Query;
use crate::show;

/// Characters of a wrong word that a message shows.
const WORD_CHARS: usize = 60;
/// Lines of a text area, at least and at most.
const ROWS_MIN: usize = 4;
const ROWS_MAX: usize = 24;

/// A field: what stands in it, and what is wrong with that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) value: String,
    pub(crate) error: Option<String>,
}

impl Field {
    pub(crate) fn of(form: &Query, name: &str) -> Self {
        Self::with(form.get(name).unwrap_or_default())
    }

    pub(crate) fn with(value: impl Into<String>) -> Self {
        Self { value: value.into(), error: None }
    }

    /// Keeps the error of what was read from it.
    pub(crate) fn keep<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|error| self.error = Some(error)).ok()
    }

    /// Reads what stands in it, and keeps what is wrong with that.
    pub(crate) fn read<T>(&mut self, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let read = read(&self.value);
        self.keep(read)
    }

    /// Reads what stands in it, unless that is nothing.
    pub(crate) fn read_filled<T>(&mut self, read: impl FnOnce(&str) -> Result<T, String>) -> Option<Option<T>> {
        let read = self.filled().map(read).transpose();
        self.keep(read)
    }

    /// Returns what stands in it, unless that is nothing.
    pub(crate) fn filled(&self) -> Option<&str> {
        Some(self.value.trim()).filter(|text| !text.is_empty())
    }

    /// Lines of a text area that shows it.
    pub(crate) fn rows(&self) -> usize {
        self.value.lines().count().clamp(ROWS_MIN, ROWS_MAX)
    }
}

/// A row of a form with two texts, such as a key and its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PairRow {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) error: Option<String>,
    /// What stands beside it.
    pub(crate) note: String,
}

impl PairRow {
    pub(crate) fn of((name, value): (&str, &str)) -> Self {
        Self { name: name.trim().to_owned(), value: value.trim().to_owned(), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_empty() && self.value.is_empty()
    }

    /// The rows in which something stands, and empty ones behind them, so that rows can be added without a script: so many more than
    /// are filled, and so many in all.
    pub(crate) fn with_empty_ones(
        rows: impl Iterator<Item = Self>,
        more: usize,
        range: RangeInclusive<usize>,
    ) -> Vec<Self> {
        let mut rows: Vec<Self> = rows.filter(|row| !row.is_empty()).take(*range.end()).collect();
        rows.resize_with((rows.len() + more).clamp(*range.start(), *range.end()), Self::default);
        rows
    }
}

/// Takes what a form has for each of these fields. One that was not sent stays as it is.
pub(crate) fn take_typed<'f>(form: &Query, fields: impl Iterator<Item = (&'static str, &'f mut Field)>) {
    for (name, field) in fields {
        if let Some(typed) = form.get(name) {
            field.value = typed.replace("\r\n", "\n");
        }
    }
}

/// The name of a task, or another label with the same rule; an empty text is none.
pub(crate) fn name(text: &str) -> Result<Option<Arc<str>>, String> {
    let rule = |_| format!("Use at most {TASK_NAME_CHARS} characters without control characters.");
    if text.is_empty() { Ok(None) } else { task_name(text).map(Some).map_err(rule) }
}

/// A whole number that is not below the least one.
pub(crate) fn integer(text: &str, least: i64) -> Result<i64, String> {
    let rule = || match least {
        i64::MIN => "Write a whole number of 64 bits, such as 5 or -1.".to_owned(),
        _ => format!("Write a whole number, at least {least}."),
    };
    text.trim().parse().ok().filter(|number| *number >= least).ok_or_else(rule)
}

/// Returns what the words between commas or white space are, or the rule that the first wrong one breaks.
pub(crate) fn words<T>(
    text: &str,
    read: impl Fn(&str) -> Option<T>,
    rule: impl Fn(&str) -> String,
) -> Result<Vec<T>, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| read(word).ok_or_else(|| rule(&show::cut(word, WORD_CHARS)))).collect()
}

/// Routes between commas or white space, at least one. Repeated ones count once.
pub(crate) fn routes(text: &str) -> Result<Routes, String> {
    let rule = |word: &str| {
        format!(
            "{word}: a route has 1 to {NAME_CHARS} of A-Z a-z 0-9 . _ - and begins with a letter or digit, such as a100."
        )
    };
    let mut routes = words(text, Route::parse, rule)?;
    routes.sort();
    routes.dedup();
    Routes::requested(routes).map_err(|error| match error {
        InvalidRoutes::TooMany => format!("Name at most {TASK_ROUTES} routes."),
        InvalidRoutes::NoSet => "Name at least one route, such as a100.".to_owned(),
    })
}

/// Names of units and their seconds, the largest first. The first name of each is the one that is written.
const DURATION_UNITS: [(f64, &[&str]); 4] = [
    (86_400.0, &["days", "day", "d"]),
    (3_600.0, &["h", "hour", "hours"]),
    (60.0, &["min", "m", "minute", "minutes"]),
    (1.0, &["s", "sec", "second", "seconds"]),
];
const DURATION_RULE: &str = "Write a number with its unit, such as 90 s, 15 min, 2 h or 7 days.";
/// How a moment begins that is counted from now.
pub(crate) const MOMENT_AHEAD: &str = "in ";
const MOMENT_RULE: &str = "Write a time such as 2027-01-31T08:00:00Z, or how far ahead it is: in 2 h.";

/// A number of seconds, not negative. A number without a unit is of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let factor = DURATION_UNITS.iter().find(|(_, names)| names.contains(&unit)).map(|(factor, _)| *factor);
    let factor = if unit.is_empty() { Some(1.0) } else { factor };
    let seconds = number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    seconds.filter(|seconds| seconds.is_finite()).ok_or_else(|| DURATION_RULE.to_owned())
}

/// A whole number of seconds between these.
pub(crate) fn whole_seconds(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let exact = seconds(text)?;
    // Exact up to 2^53, far beyond what follows.
    let whole = exact as u64;
    if exact.fract() != 0.0 || exact > 9e15 {
        return Err("Write a whole number of seconds, minutes, hours or days.".to_owned());
    }
    if (least..=most).contains(&whole) {
        return Ok(whole);
    }
    Err(format!("Write at least {} and at most {}.", seconds_text(least as f64), seconds_text(most as f64)))
}

/// Returns how many seconds, as they can be typed: `90 s`, `2 h`, `1 day`.
pub(crate) fn seconds_text(seconds: f64) -> String {
    exact_duration(seconds, Units::Full)
}

/// A moment, or how far ahead of now it is.
pub(crate) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    match text.strip_prefix(MOMENT_AHEAD) {
        Some(ahead) => seconds(ahead).map(|seconds| now.plus(seconds_as_duration(seconds))),
        None => Timestamp::parse(text).ok_or_else(|| MOMENT_RULE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_exactly_or_refused() {
        assert_eq!(integer(" -5 ", i64::MIN), Ok(-5));
        assert_eq!(integer("9223372036854775807", 1), Ok(i64::MAX));
        for (text, least) in [("", i64::MIN), ("1.5", i64::MIN), ("9223372036854775808", i64::MIN), ("0", 1)] {
            assert!(integer(text, least).is_err(), "{text}");
        }
    }

    #[test]
    fn routes_are_named_once_and_at_least_one_is() {
        assert_eq!(routes("h100, a100 a100,\n").unwrap().as_json(), r#"["a100","h100"]"#);
        for (text, error) in [("", "Name at least one"), (" , ", "Name at least one"), ("a b/c", "b/c: a route has")] {
            assert!(routes(text).unwrap_err().starts_with(error), "{text}");
        }
        let many: String = (0..=TASK_ROUTES).map(|n| format!("r{n} ")).collect();
        assert_eq!(routes(&many), Err(format!("Name at most {TASK_ROUTES} routes.")));
    }

    #[test]
    fn a_name_may_be_missing_and_must_be_short() {
        assert_eq!(name(""), Ok(None));
        assert!(name("a\u{7}").is_err() && name(&"x".repeat(TASK_NAME_CHARS + 1)).is_err());
    }

    #[test]
    fn durations_are_read_with_their_units_and_written_so_that_they_read_back() {
        let cases = [
            ("0", 0.0, "0 s"),
            ("90", 90.0, "90 s"),
            (" 90s ", 90.0, "90 s"),
            ("1.5 h", 5_400.0, "90 min"),
            ("15 min", 900.0, "15 min"),
            ("1 day", 86_400.0, "1 day"),
            ("7days", 604_800.0, "7 days"),
            ("36 hours", 129_600.0, "36 h"),
            ("0.25", 0.25, "0.25 s"),
        ];
        for (text, expected, back) in cases {
            assert_eq!(seconds(text), Ok(expected), "{text}");
            assert_eq!(seconds_text(expected), back);
            assert_eq!(seconds(back), Ok(expected));
        }
        for text in ["", "h", "-5 s", "5 weeks", "1e3", "1 2 s", "1..2 s", "nan"] {
            assert_eq!(seconds(text), Err(DURATION_RULE.to_owned()), "{text}");
        }
    }

    #[test]
    fn whole_seconds_are_within_their_range() {
        assert_eq!(whole_seconds("2 h", 1, 10_000), Ok(7_200));
        for text in ["0", "0.5 s", "1 day"] {
            assert!(whole_seconds(text, 1, 10_000).is_err(), "{text}");
        }
        let most = whole_seconds("2 days", 1, 86_400).unwrap_err();
        assert_eq!(most, "Write at least 1 s and at most 1 day.");
    }

    #[test]
    fn a_moment_is_a_time_or_ahead_of_now() {
        let now = Timestamp::from_micros(0);
        assert_eq!(moment(" 1970-01-01T00:01:00Z ", now), Ok(now.plus_seconds(60)));
        assert_eq!(moment("in 2 h", now), Ok(now.plus_seconds(7_200)));
        assert_eq!(moment("tomorrow", now), Err(MOMENT_RULE.to_owned()));
        assert_eq!(moment("in a while", now), Err(DURATION_RULE.to_owned()));
    }
}
