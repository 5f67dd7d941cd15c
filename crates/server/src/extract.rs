//! The parts of a request that handlers use, and the order of their checks (docs/reference/http-api.md §4): the body
//! was read within its limits before the handler begins; the handler checks body and query, then the identifiers of the
//! path. A query is read by the rules of docs/reference/http-api.md §3.2, for each endpoint: all of its errors are collected; the syntax
//! of filters and the contents of cursors are checked later.

mod batch;
mod body;

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequest, Request};
pub(crate) use batch::{BatchCall, Places, away_from_async, filter_turn, read_filter, read_given_filter};
pub(crate) use body::{discard, discard_the_rest};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, EXPECT};
use hyper::{HeaderMap, Uri};
use taskqueue_api::ErrorCode;
use taskqueue_api::body::{self as api_body, Body, Invalid, RequestError};
use taskqueue_core::activity::Unit;
use taskqueue_core::filter::FilterError;
use taskqueue_core::fuzzy::FuzzyName;
use taskqueue_core::grouping::{TaskDimension, WorkerDimension, dimensions};
use taskqueue_core::limits::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, PAGE_LIMIT_MIN, REQUEST_BODY_BYTES};
use taskqueue_core::stats::SeriesSelection;
use taskqueue_core::{
    OrderField, QueueName, Status, TaskFilter, TaskId, TaskOrder, TaskSelection, Timestamp, WorkerId,
};
use taskqueue_store::submission::Held;

use crate::auth::NamedToken;
use crate::connection::Disconnect;
use crate::endpoints;
use crate::error::ApiError;
use crate::memory_budget::Reservation;
use crate::path::{member_component, queue_component};
use crate::prefer::{self, WaitPreference};
use crate::state::AppState;

/// A request that was routed and whose body, of at most `LIMIT` bytes, has arrived.
pub(crate) struct Call<const LIMIT: usize = REQUEST_BODY_BYTES> {
    uri: Uri,
    pub(crate) headers: HeaderMap,
    body: Bytes,
    disconnect: Option<Disconnect>,
    /// The token of a caller who may not do everything.
    token: Option<Arc<NamedToken>>,
    /// The memory that is reserved for a large body, until the request is answered.
    reservation: Option<Reservation>,
}

impl<const LIMIT: usize> FromRequest<AppState> for Call<LIMIT> {
    type Rejection = ApiError;

    /// Reads a request, if its caller may do this. Every handler begins here, so that none can forget to ask: behind the routing and
    /// before the body.
    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (mut head, body) = request.into_parts();
        let expects_continue = head.headers.contains_key(EXPECT);
        let token: Option<Arc<NamedToken>> = head.extensions.remove();
        if let Some(token) = &token
            && let Err(denied) = endpoints::check(token, &head)
        {
            if !expects_continue {
                discard(body);
            }
            return Err(denied);
        }
        let (body, reservation) = body::read(body, LIMIT, expects_continue, &state.budgets.bodies).await?;
        let disconnect = head.extensions.remove();
        Ok(Self { uri: head.uri, headers: head.headers, body, disconnect, token, reservation })
    }
}

impl<const LIMIT: usize> Call<LIMIT> {
    /// Returns the body of an endpoint that takes one. A large one waits for memory: parsed, it takes many times its size.
    pub(crate) async fn body<B: Body>(&self, state: &AppState) -> Result<B, ApiError> {
        if !self.body.is_empty() && !is_json(&self.headers) {
            return Err(api_body::not_json(B::CODE).into());
        }
        let _reservation = state.budgets.reserve_parsing(self.body.len()).await?;
        Ok(api_body::decode(&self.body)?)
    }

    /// Returns how long the caller wants to wait. This drops the request: while it waits, nothing of it is held.
    pub(crate) fn into_wait_preference(self) -> Option<WaitPreference> {
        let seconds = prefer::wait_seconds(&self.headers)?;
        Some(WaitPreference { seconds, disconnect: self.disconnect })
    }

    /// Takes the memory that is reserved for the request.
    pub(crate) fn take_held(&mut self) -> Option<Held> {
        self.reservation.take().map(|reservation| -> Held { Box::new(reservation) })
    }

    /// Returns the memory that is reserved for the request, and drops the rest of it. The memory goes with the command: a writer may
    /// have that for longer than its client waits.
    pub(crate) fn into_held(mut self) -> Option<Held> {
        self.take_held()
    }

    /// Returns whether the caller may see a queue.
    pub(crate) fn sees(&self, queue: &QueueName) -> bool {
        self.token.as_ref().is_none_or(|token| token.grant.sees(queue.as_str()))
    }

    pub(crate) fn query(&self) -> Query<'_> {
        Query::new(self.uri.query())
    }

    /// Returns the queue in the path.
    pub(crate) fn queue(&self) -> Result<QueueName, ApiError> {
        let rule = "use a queue name of 1 to 128 of A-Z a-z 0-9 . _ - that begins with a letter or digit";
        queue_component(self.uri.path()).ok_or_else(|| invalid_path("queue", rule))
    }

    /// Returns the queue and the task in the path.
    pub(crate) fn task(&self) -> Result<(QueueName, TaskId), ApiError> {
        let queue = self.queue()?;
        let text = member_component(self.uri.path());
        let id = text.as_deref().and_then(TaskId::parse);
        id.map(|id| (queue, id)).ok_or_else(|| ApiError::invalid_task_id(text.as_deref().unwrap_or("\u{fffd}")))
    }

    /// Returns the queue and the worker in the path.
    pub(crate) fn worker(&self) -> Result<(QueueName, WorkerId), ApiError> {
        let queue = self.queue()?;
        let id = member_component(self.uri.path()).as_deref().and_then(WorkerId::parse);
        let rule = "use a worker id of w_ and exactly 12 of A-Z a-z 0-9 _ -";
        id.map(|id| (queue, id)).ok_or_else(|| invalid_path("id", rule))
    }
}

fn invalid_path(name: &str, message: &'static str) -> ApiError {
    Invalid { code: ErrorCode::InvalidRequest, errors: vec![RequestError::at("path", name, message)] }.into()
}

/// Returns whether the media type is `application/json` or `application/*+json`, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    // Parameters may hold bytes that are not UTF-8.
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().split(|byte| *byte == b';').next());
    let Some(media_type) = media_type.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::trim) else {
        return false;
    };
    let Some((kind, subtype)) = media_type.split_once('/') else { return false };
    let ending = subtype.rsplit('+').next().unwrap_or_default();
    kind.eq_ignore_ascii_case("application") && ending.eq_ignore_ascii_case("json")
}

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
        let (selectors, order) = (self.selectors(), self.order());
        let list = ListTasks { selectors, order, limit: self.limit(), cursor: self.text("cursor") };
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
        let offset = self.parsed("offset", digits::<i64>, "use an integer from 0 to 9223372036854775807");
        self.finish(offset.unwrap_or_default().unsigned_abs())
    }

    /// Returns the series that is wanted instead of stats, if any.
    pub(crate) fn stats(mut self) -> Result<Option<SeriesSelection>, Invalid> {
        let mut time = |name| self.parsed(name, Timestamp::parse, "use a time such as 2026-01-31T12:00:00Z");
        let (from, to) = (time("from"), time("to"));
        if self.value("series").is_none() {
            for (name, given) in [("from", from), ("to", to)] {
                if given.is_some() {
                    self.refuse(name, "use this only with series");
                }
            }
            return self.finish(None);
        }
        let unit = self.parsed("series", Unit::parse, "use minute or hour");
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            self.refuse("to", "use a time that is not before from");
        }
        self.finish(unit.map(|unit| SeriesSelection { unit, from, to }))
    }

    /// Reads a value that has to follow a rule.
    fn parsed<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Option<T>, rule: &'static str) -> Option<T> {
        let read = parse(&self.value(name)?);
        if read.is_none() {
            self.refuse(name, rule);
        }
        read
    }

    fn finish<T>(self, read: T) -> Result<T, Invalid> {
        if self.errors.is_empty() {
            return Ok(read);
        }
        Err(Invalid { code: ErrorCode::InvalidRequest, errors: self.errors })
    }

    /// Returns every value of a parameter, the last one first.
    fn values(&self, name: &'static str) -> impl Iterator<Item = Cow<'q, str>> + use<'q> {
        let pairs = self.raw.rsplit('&').flat_map(|pair| form_urlencoded::parse(pair.as_bytes()));
        pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
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
        let status = self.parsed("status", Status::parse, "use pending, running, succeeded, failed or cancelled");
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
        let TaskOrder { field, descending } = TaskOrder::default();
        let rule = "use id, name, status, priority, attempt, max_attempts, last_route, created_at, updated_at, \
            started_at or finished_at";
        let field = self.parsed("order_by", OrderField::parse, rule).unwrap_or(field);
        TaskOrder { field, descending: self.boolean("descending", descending) }
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
        let within = |word: &str| digits(word).filter(|limit| (PAGE_LIMIT_MIN..=PAGE_LIMIT_MAX).contains(limit));
        self.parsed("limit", within, "use an integer from 1 to 1000").unwrap_or(PAGE_LIMIT_DEFAULT)
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
    Some(word).filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn json_is_application_json_or_anything_that_ends_in_json() {
        let json = "application/json ¦ Application/JSON ¦ application/json; charset=latin-1 ¦ application/json; ¦ \
             application/json; x=é ¦ application/problem+json ¦ application/vnd.x+JSON;v=1 ¦ application/+json"
            .split(" ¦ ")
            .map(|value| (value, true));
        let other =
            "application/jsonü ¦ text/json ¦ text/plain ¦ application/jsonl ¦ application/x-json ¦ application ¦ \
             json ¦ application/x-www-form-urlencoded"
                .split(" ¦ ")
                .chain([""]);
        for (value, expected) in json.chain(other.map(|value| (value, false))) {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}

#[cfg(test)]
#[path = "extract/query_tests.rs"]
mod query_tests;
