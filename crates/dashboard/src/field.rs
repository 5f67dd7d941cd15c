//! One field of a form: what stands in it, what is wrong with that, and how names, numbers and routes are read. JSON objects are read in
//! `json_field.rs`. Nothing that was typed is lost when something is wrong with it.

use std::sync::Arc;

use taskqueue_core::definition::{InvalidRoutes, Routes, task_name};
use taskqueue_core::ids::Route;
use taskqueue_core::limits::{NAME_CHARS, TASK_NAME_CHARS, TASK_ROUTES};

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

    /// What stands in it, unless that is nothing.
    pub(crate) fn filled(&self) -> Option<&str> {
        Some(self.value.trim()).filter(|text| !text.is_empty())
    }

    /// Lines of a text area that shows it.
    pub(crate) fn rows(&self) -> usize {
        self.value.lines().count().clamp(ROWS_MIN, ROWS_MAX)
    }
}

/// The name of a task, or another label with the same rule; an empty text is none.
pub(crate) fn name(text: &str) -> Result<Option<Arc<str>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    task_name(text)
        .map(Some)
        .map_err(|_| format!("Use at most {TASK_NAME_CHARS} characters without control characters."))
}

/// A whole number that is not below the least one.
pub(crate) fn integer(text: &str, least: i64) -> Result<i64, String> {
    let rule = || match least {
        i64::MIN => "Write a whole number of 64 bits, such as 5 or -1.".to_owned(),
        _ => format!("Write a whole number, at least {least}."),
    };
    text.trim().parse().ok().filter(|number| *number >= least).ok_or_else(rule)
}

/// Routes between commas or white space, at least one. Repeated ones count once.
pub(crate) fn routes(text: &str) -> Result<Routes, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let rule = |word: &str| {
        let word = show::cut(word, WORD_CHARS);
        format!(
            "{word}: a route has 1 to {NAME_CHARS} of A-Z a-z 0-9 . _ - and begins with a letter or digit, such as a100."
        )
    };
    let mut routes = words.map(|word| Route::parse(word).ok_or_else(|| rule(word))).collect::<Result<Vec<_>, _>>()?;
    routes.sort();
    routes.dedup();
    Routes::requested(routes).map_err(|error| match error {
        InvalidRoutes::TooMany => format!("Name at most {TASK_ROUTES} routes."),
        InvalidRoutes::NoSet => "Name at least one route, such as a100.".to_owned(),
    })
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
}
