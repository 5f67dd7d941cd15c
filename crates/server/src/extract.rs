//! The parts of a request that handlers use, and the order of their checks (docs/reference/http-api.md §4): the body
//! was read within its limits before the handler begins; the handler checks body and query, then the identifiers of the
//! path.

mod batch;
mod body;
mod query;

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
pub(crate) use batch::{BatchCall, Places, away_from_async, filter_turn, read_filter, read_given_filter};
pub(crate) use body::{discard, discard_the_rest};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, EXPECT};
use hyper::{HeaderMap, Uri};
pub(crate) use query::{ListTasks, ListWorkers};
use taskqueue_api::ErrorCode;
use taskqueue_api::body::{self as api_body, Body, Invalid, RequestError};
use taskqueue_core::limits::REQUEST_BODY_BYTES;
use taskqueue_core::{QueueName, TaskId, WorkerId};
use taskqueue_store::submission::Held;

use self::query::Query;
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
            return Err(api_body::not_json::<B>().into());
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
        queue_component(self.uri.path()).ok_or_else(|| {
            invalid_path(
                "queue",
                "use a queue name of 1 to 128 of A-Z a-z 0-9 . _ - that begins with a letter or digit",
            )
        })
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
        let id = member_component(self.uri.path());
        match id.as_deref().and_then(WorkerId::parse) {
            Some(id) => Ok((queue, id)),
            None => Err(invalid_path("id", "use a worker id of w_ and exactly 12 of A-Z a-z 0-9 _ -")),
        }
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
    let ends_in_json =
        subtype.get(subtype.len().saturating_sub(5)..).is_some_and(|end| end.eq_ignore_ascii_case("+json"));
    kind.eq_ignore_ascii_case("application") && (subtype.eq_ignore_ascii_case("json") || ends_in_json)
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
