//! Query parameters: reads them by the rules of docs/reference/http-api.md §3.2, for each endpoint. All errors of a
//! query are collected. The syntax of filters and the contents of cursors are checked later.

use std::borrow::Cow;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use taskqueue_api::ErrorCode;
use taskqueue_api::body::{Invalid, RequestError};
use taskqueue_core::activity::Unit;
use taskqueue_core::filter::FilterError;
use taskqueue_core::fuzzy::FuzzyName;
use taskqueue_core::grouping::{TaskDimension, WorkerDimension, dimensions};
use taskqueue_core::limits::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, PAGE_LIMIT_MIN};
use taskqueue_core::stats::SeriesSelection;
use taskqueue_core::{OrderField, Status, TaskFilter, TaskOrder, TaskSelection, Timestamp};

use super::read_given_filter;
use crate::state::AppState;

/// A query string that is being read.
pub(crate) struct Query<'q> {
    raw: &'q str,
    errors: Vec<RequestError>,
}

impl<'q> Query<'q> {
    /// Reads the query after the `?`, if there is one.
    pub(crate) fn new(raw: Option<&'q str>) -> Self {
        Self { raw: raw.unwrap_or_default(), errors: Vec::new() }
    }

    /// `cascade` of a queue's deletion.
    pub(crate) fn delete_queue(mut self) -> Result<bool, Invalid> {
        let cascade = self.boolean("cascade", false);
        self.finish(cascade)
    }

    pub(crate) fn list_tasks(mut self) -> Result<ListTasks, Invalid> {
        let list = ListTasks {
            selectors: self.selectors(),
            order: self.order(),
            limit: self.limit(),
            cursor: self.text("cursor"),
        };
        self.finish(list)
    }

    pub(crate) fn count_tasks(mut self) -> Result<(Selectors, Option<Grouping<TaskDimension>>), Invalid> {
        let selectors = self.selectors();
        let expected = "use routes, status, or both separated by a comma";
        let grouping = self.grouping(|text| dimensions(text, TaskDimension::parse), expected);
        self.finish((selectors, grouping))
    }

    pub(crate) fn list_workers(mut self) -> Result<ListWorkers, Invalid> {
        let list = ListWorkers { filter: self.text("filter"), limit: self.limit(), cursor: self.text("cursor") };
        self.finish(list)
    }

    /// Returns the text of the filter, and the grouping.
    pub(crate) fn count_workers(mut self) -> Result<(Option<String>, Option<Grouping<WorkerDimension>>), Invalid> {
        let filter = self.text("filter");
        let expected = "use route, status, or both separated by a comma";
        let grouping = self.grouping(|text| dimensions(text, WorkerDimension::parse), expected);
        self.finish((filter, grouping))
    }

    /// Returns the offset of output, 0 without one.
    pub(crate) fn read_output(mut self) -> Result<u64, Invalid> {
        let offset = self.value("offset").map_or(Some(0), |word| digits::<i64>(&word).map(i64::unsigned_abs));
        if offset.is_none() {
            self.refuse("offset", "use an integer from 0 to 9223372036854775807");
        }
        self.finish(offset.unwrap_or_default())
    }

    /// Returns the series that is wanted instead of stats, if any.
    pub(crate) fn stats(mut self) -> Result<Option<SeriesSelection>, Invalid> {
        let (from, to) = (self.time("from"), self.time("to"));
        let Some(word) = self.value("series") else {
            for (name, given) in [("from", from), ("to", to)] {
                if given.is_some() {
                    self.refuse(name, "use this only with series");
                }
            }
            return self.finish(None);
        };
        let unit = Unit::parse(&word);
        if unit.is_none() {
            self.refuse("series", "use minute or hour");
        }
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            self.refuse("to", "use a time that is not before from");
        }
        self.finish(unit.map(|unit| SeriesSelection { unit, from, to }))
    }

    fn time(&mut self, name: &'static str) -> Option<Timestamp> {
        let word = self.value(name)?;
        let time = Timestamp::parse(&word);
        if time.is_none() {
            self.refuse(name, "use a time such as 2026-01-31T12:00:00Z");
        }
        time
    }

    fn finish<T>(self, read: T) -> Result<T, Invalid> {
        if self.errors.is_empty() {
            return Ok(read);
        }
        Err(Invalid { code: ErrorCode::InvalidRequest, errors: self.errors })
    }

    /// Returns every value of a parameter, the last one first.
    fn values(&self, name: &'static str) -> impl Iterator<Item = Cow<'q, str>> + use<'q> {
        self.raw.rsplit('&').filter_map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key) == name).then(|| decoded(value))
        })
    }

    /// Returns the value that counts: the last one.
    fn value(&self, name: &'static str) -> Option<Cow<'q, str>> {
        self.values(name).next()
    }

    fn text(&self, name: &'static str) -> Option<String> {
        self.value(name).map(Cow::into_owned)
    }

    fn refuse(&mut self, name: &str, message: impl Into<Cow<'static, str>>) {
        self.errors.push(RequestError::at("query", name, message));
    }

    fn selectors(&mut self) -> Selectors {
        let status = self.value("status").and_then(|word| {
            let status = Status::parse(&word);
            if status.is_none() {
                self.refuse("status", "use pending, running, succeeded, failed or cancelled");
            }
            status
        });
        let (name, name_fuzzy) = (self.text("name"), self.name_fuzzy());
        let include_archived = self.boolean("include_archived", false);
        let others = TaskSelection { status, name, name_fuzzy, include_archived, ..TaskSelection::default() };
        Selectors { others, filter: self.text("filter") }
    }

    fn name_fuzzy(&mut self) -> Option<(String, FuzzyName)> {
        let text = self.text("name_fuzzy")?;
        match FuzzyName::parse(&text) {
            Ok(search) => Some((text, search)),
            Err(error) => {
                self.refuse("name_fuzzy", error.to_string());
                None
            }
        }
    }

    fn order(&mut self) -> TaskOrder {
        let mut order = TaskOrder::default();
        if let Some(word) = self.value("order_by") {
            match OrderField::parse(&word) {
                Some(field) => order.field = field,
                None => self.refuse(
                    "order_by",
                    "use id, name, status, priority, attempt, max_attempts, last_route, created_at, updated_at, \
                     started_at or finished_at",
                ),
            }
        }
        order.descending = self.boolean("descending", order.descending);
        order
    }

    fn boolean(&mut self, name: &'static str, default: bool) -> bool {
        let Some(word) = self.value(name) else { return default };
        let is = |words: [&str; 6]| words.into_iter().any(|each| each.eq_ignore_ascii_case(&word));
        let (yes, no) = (is(["true", "t", "yes", "y", "on", "1"]), is(["false", "f", "no", "n", "off", "0"]));
        if !yes && !no {
            self.refuse(name, "use true or false");
        }
        yes
    }

    fn limit(&mut self) -> u16 {
        let Some(word) = self.value("limit") else { return PAGE_LIMIT_DEFAULT };
        match digits(&word) {
            Some(limit @ PAGE_LIMIT_MIN..=PAGE_LIMIT_MAX) => limit,
            _ => {
                self.refuse("limit", "use an integer from 1 to 1000");
                PAGE_LIMIT_DEFAULT
            }
        }
    }

    fn grouping<D>(&mut self, parse: fn(&str) -> Option<Vec<D>>, expected: &'static str) -> Option<Grouping<D>> {
        let mut given = self.values("group_by");
        let (text, again) = (given.next(), given.next());
        let Some(text) = text else {
            for name in ["limit", "cursor"] {
                if self.value(name).is_some() {
                    self.refuse(name, "use this only with group_by");
                }
            }
            return None;
        };
        if again.is_some() {
            self.refuse("group_by", "give group_by only once");
        }
        let dimensions = parse(&text);
        if dimensions.is_none() {
            self.refuse("group_by", expected);
        }
        let (limit, cursor) = (self.limit(), self.text("cursor"));
        Some(Grouping { dimensions: dimensions?, shape: text.into_owned(), limit, cursor })
    }
}

/// Which tasks are selected; the filter is not parsed yet.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    /// All but the filter.
    pub(crate) others: TaskSelection,
    pub(crate) filter: Option<String>,
}

impl Selectors {
    /// Returns the selection, if the filter is valid.
    pub(crate) async fn selection(self, state: &AppState) -> Result<TaskSelection, FilterError> {
        Ok(TaskSelection { filter: read_given_filter(state, self.filter, TaskFilter::parse).await?, ..self.others })
    }
}

#[derive(Debug)]
pub(crate) struct ListTasks {
    pub(crate) selectors: Selectors,
    pub(crate) order: TaskOrder,
    pub(crate) limit: u16,
    pub(crate) cursor: Option<String>,
}

/// A list of observations.
#[derive(Debug)]
pub(crate) struct ListWorkers {
    pub(crate) filter: Option<String>,
    pub(crate) limit: u16,
    pub(crate) cursor: Option<String>,
}

/// Grouped counts.
#[derive(Debug)]
pub(crate) struct Grouping<D> {
    pub(crate) dimensions: Vec<D>,
    /// The dimensions as they were asked for, which cursors are bound to.
    pub(crate) shape: String,
    pub(crate) limit: u16,
    pub(crate) cursor: Option<String>,
}

/// Reads a number of ASCII digits that fits; any number of leading zeros is allowed.
fn digits<N: FromStr>(word: &str) -> Option<N> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let significant = word.trim_start_matches('0');
    is_number.then(|| if significant.is_empty() { "0" } else { significant }.parse().ok()).flatten()
}

/// Decodes a name or value: `+` is a blank, broken percent sequences stay as they are, invalid UTF-8 becomes U+FFFD.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
