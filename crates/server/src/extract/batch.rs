//! Requests with a body or a filter that may be large, which is then understood away from the threads that serve other requests: batches,
//! the places of their items in the answer, and filters.

use taskqueue_api::ErrorCode;
use taskqueue_api::batch::{BatchBody, ItemsWriter};
use taskqueue_api::body::not_json;
use taskqueue_core::filter::{Filter, FilterError};
use taskqueue_core::limits::BATCH_BODY_BYTES;
use taskqueue_store::StoreError;
use tokio::sync::OwnedSemaphorePermit;

use super::{Call, is_json};
use crate::error::ApiError;
use crate::state::AppState;

/// Up to this many bytes are read or written where they are: that takes about as long as to pass them to another thread.
const INLINE_BYTES: usize = 64 * 1024;

/// A request that was routed and whose batch has arrived.
pub(crate) type BatchCall = Call<BATCH_BODY_BYTES>;

impl BatchCall {
    /// Reads the body, and makes of it what `understand` does. The text is dropped: from then on only the items are held, and
    /// what they `weigh` is reserved.
    pub(crate) async fn items<B: BatchBody + 'static, T: Send + 'static>(
        &mut self,
        state: &AppState,
        understand: fn(B) -> T,
        weigh: fn(&T) -> usize,
    ) -> Result<T, ApiError> {
        let Self { headers, body, reservation, .. } = self;
        let body = std::mem::take(body);
        if !body.is_empty() && !is_json(headers) {
            return Err(not_json(ErrorCode::InvalidRequest).into());
        }
        let parsing = state.budgets.reserve_parsing(body.len()).await?;
        // The work has its memory even if nobody waits for it any more.
        let held = reservation.take();
        let (understood, held) = away_from_async(state, body.len(), move || {
            let understood = B::decode(&body).map(understand);
            drop((body, parsing));
            (understood, held)
        })
        .await;
        *reservation = held;
        let understood = understood?;
        state.budgets.bodies.resize(reservation, weigh(&understood)).await?;
        Ok(understood)
    }
}

/// Does work that takes long if it is about many bytes.
pub(crate) async fn away_from_async<T: Send + 'static>(
    state: &AppState,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= INLINE_BYTES { work() } else { in_turn(state.budgets.turn().await, work).await }
}

/// Does work on a thread that serves no requests; no more of it at a time than there are turns.
async fn in_turn<T: Send + 'static>(
    turn: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// The most bytes that an item takes of the answer, the task of a claim aside: the ids, and the longest refusal of the store, which
/// names a queue of 128 characters twice.
const MOST_ITEM_BYTES: usize = 640;
/// The bytes that an item takes of the answer as a rule.
const ITEM_BYTES: usize = 80;

/// One place for each item of a request; `I` is what an item is known by.
pub(crate) struct Places<I> {
    /// What the store decides; or the item of the answer, where it was refused before.
    places: Vec<Result<I, Vec<u8>>>,
    pub(crate) refused_bytes: usize,
}

impl<I> Places<I> {
    /// Sorts the items of a request: each gets a place. `send` gives what an item is known by and what goes to the store; `refuse` gives the
    /// item of the answer.
    pub(crate) fn sort<T, E, S>(
        items: impl ExactSizeIterator<Item = Result<T, E>>,
        send: impl Fn(T) -> (I, S),
        refuse: impl Fn(E) -> Vec<u8>,
    ) -> (Self, Vec<S>) {
        let (mut places, mut sent) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            places.push(item.map_err(&refuse).map(|item| {
                let (id, item) = send(item);
                sent.push(item);
                id
            }));
        }
        let refused_bytes = places.iter().flat_map(|place| place.as_ref().err()).map(|item| item.len() + 1).sum();
        (Self { places, refused_bytes }, sent)
    }

    /// Returns the bytes that the places take in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.len() * size_of::<Result<I, Vec<u8>>>() + self.refused_bytes
    }

    /// Returns the bytes of the answer at most, whatever the store decides; tasks aside.
    pub(crate) fn most_bytes(&self) -> usize {
        self.places.len() * MOST_ITEM_BYTES + self.refused_bytes
    }

    /// Returns the answer to the batch, with what the store decided about the items that it got, in their order. There are tasks of so
    /// many bytes in it.
    pub(crate) fn answer<A>(
        self,
        task_bytes: usize,
        decided: Vec<A>,
        mut write: impl FnMut(&mut ItemsWriter, I, A),
    ) -> Result<Vec<u8>, ApiError> {
        let bytes = self.places.len() * ITEM_BYTES + self.refused_bytes + task_bytes;
        let (mut out, mut decided) = (ItemsWriter::with_capacity(bytes), decided.into_iter());
        for place in self.places {
            match place {
                Ok(item) => {
                    let decided = decided.next().ok_or(StoreError::Broken("the store left an item undecided"))?;
                    write(&mut out, item, decided);
                }
                Err(item) => out.written(&item),
            }
        }
        Ok(out.end())
    }
}

/// Up to this many bytes are read where they are: some dozens of predicates, which is more than people write. Reading a filter also
/// plans how it is evaluated, so for each byte it takes many times as long as reading a body.
const INLINE_FILTER_BYTES: usize = 1024;

/// Reads a filter, with `parse` of its kind.
pub(crate) async fn read_filter<P: Send + 'static>(
    state: &AppState,
    text: impl AsRef<str> + Send + 'static,
    parse: fn(&str) -> Result<Filter<P>, FilterError>,
) -> Result<Filter<P>, FilterError> {
    let bytes = text.as_ref().len();
    match filter_turn(state, bytes).await {
        None => parse(text.as_ref()),
        turn => in_turn(turn, move || parse(text.as_ref())).await,
    }
}

/// Reads a filter, if there is one.
pub(crate) async fn read_given_filter<P: Send + 'static>(
    state: &AppState,
    text: Option<String>,
    parse: fn(&str) -> Result<Filter<P>, FilterError>,
) -> Result<Option<Filter<P>>, FilterError> {
    match text {
        Some(text) => read_filter(state, text, parse).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the turn in which a filter of so many bytes is read, on a thread that serves no requests; `None` if it is read where it is.
pub(crate) async fn filter_turn(state: &AppState, bytes: usize) -> Option<OwnedSemaphorePermit> {
    if bytes <= INLINE_FILTER_BYTES { None } else { state.budgets.turn().await }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::sync::Arc;

    use axum::body::{Body, to_bytes};
    use hyper::{Request, StatusCode};
    use taskqueue_core::time::Timestamp;
    use taskqueue_dashboard::Mode;
    use taskqueue_store::InstallationSecret;
    use taskqueue_store::conformance::ManualClock;
    use taskqueue_store::conformance::model::ModelStore;

    use super::*;
    use crate::auth::Gate;
    use crate::browser_check::Hosts;
    use crate::config::Limits;
    use crate::http_service::{HttpService, service};

    /// A request with a filter (method, target and body), and the status of its answer.
    type WithFilter = (&'static str, String, String, StatusCode);

    fn request(method: &str, path: &str, body: &str) -> Request<Body> {
        let is_page = path.starts_with("/ui/");
        let kind = if is_page { "application/x-www-form-urlencoded" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        request.header("content-type", kind).body(Body::from(body.to_owned())).unwrap()
    }

    /// Lets everything else on this thread go on until it waits for something.
    async fn settle() {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    async fn status(http: &HttpService, method: &str, path: &str, body: &str) -> StatusCode {
        http.call(request(method, path, body)).await.status()
    }

    /// The secret that forms carry.
    async fn form_token(http: &HttpService) -> String {
        let page = http.call(request("GET", "/ui/", "")).await.into_body();
        let page = String::from_utf8(to_bytes(page, usize::MAX).await.unwrap().to_vec()).unwrap();
        let (_, rest) = page.split_once("name=\"form_token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Every endpoint that takes a filter.
    fn endpoints(filter: &str) -> Vec<WithFilter> {
        let at = |path: &str| format!("/api/v2/queues/q/{path}?filter={filter}");
        let body = |rest: &str| format!(r#"{{"filter":"{}"{rest}}}"#, filter.replace("%20", " "));
        let all = [
            ("GET", at("tasks"), String::new()),
            ("GET", at("tasks/count"), String::new()),
            ("GET", at("workers"), String::new()),
            ("GET", at("workers/count"), String::new()),
            ("PATCH", "/api/v2/queues/q/tasks".to_owned(), body(r#","changes":{"priority":1}"#)),
            ("POST", "/api/v2/queues/q/tasks/bulk/cancel".to_owned(), body("")),
        ];
        all.into_iter().map(|(method, path, body)| (method, path, body, StatusCode::OK)).collect()
    }

    /// Every page and every form that takes a filter.
    fn pages(filter: &str, form_token: &str) -> Vec<WithFilter> {
        let at = |path: &str| format!("/ui/queues/q/{path}filter={filter}");
        let page = |path: &str| ("GET", at(path), String::new(), StatusCode::OK);
        let form = format!("form_token={form_token}&expect=0&value=1");
        let (few, many) = (form.clone(), form.replace("expect=0", "expect=201"));
        vec![
            page("tasks?"),
            page("tasks/check?"),
            page("tasks/download?format=jsonl&"),
            page("tasks/confirm?action=archive&all=1&"),
            page("workers?"),
            page("compare?"),
            page("compare/csv?"),
            ("GET", at("compare?and=priority==1&"), String::new(), StatusCode::SEE_OTHER),
            ("POST", at("tasks/confirm?action=cancel&all=1&"), form, StatusCode::SEE_OTHER),
            ("POST", at("tasks/confirm?action=priority&all=1&"), few, StatusCode::SEE_OTHER),
            // By then there are not as many, and it is asked again.
            ("POST", at("tasks/confirm?action=archive&all=1&"), many, StatusCode::CONFLICT),
        ]
    }

    /// Whatever takes a filter, while others use all cores for large bodies and answers. Short ones wait for nobody.
    #[tokio::test]
    async fn a_long_filter_waits_for_its_turn_and_nobody_else_does() {
        let store = ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000))));
        let secret = InstallationSecret::from_bytes(&[1; 32]).unwrap();
        let state = AppState::new(Arc::new(store), Gate::default(), Arc::default(), Limits::default());
        let state = state.with_dashboard(secret, Mode::Full, false);
        let http = Arc::new(service(Hosts::default(), state.clone()));
        assert_eq!(status(&http, "PUT", "/api/v2/queues/q", "").await, StatusCode::CREATED);
        let form_token = form_token(&http).await;
        let with = |filter: &str| [endpoints(filter), pages(filter, &form_token)].concat();
        let mut turns = Vec::new();
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            turns.push(state.budgets.turn().await);
        }
        let long = format!("id=='x'{}", "or%20id=='x'".repeat(600));
        let mut waiting = Vec::new();
        for (method, path, body, expected) in with(&long) {
            let (http, what) = (Arc::clone(&http), format!("{method} {}", path.replace(&long, "...")));
            let sent = tokio::spawn(async move { status(&http, method, &path, &body).await });
            waiting.push((what, sent, expected));
        }
        settle().await;
        assert_eq!(status(&http, "GET", "/health", "").await, StatusCode::OK);
        for (method, path, body, expected) in with("id=='x'") {
            assert_eq!(status(&http, method, &path, &body).await, expected, "{method} {path}");
        }
        settle().await;
        for (what, sent, _) in &waiting {
            assert!(!sent.is_finished(), "{what} was read between those of others");
        }
        drop(turns);
        for (what, sent, expected) in waiting {
            assert_eq!(sent.await.unwrap(), expected, "{what}");
        }
    }
}
