//! Requests whose body is a batch: it may be large, and is then understood away from the threads that serve other requests.

use axum::extract::{FromRequest, Request};
use taskqueue_api::batch::BatchBody;
use taskqueue_core::ids::QueueName;
use taskqueue_core::limits::BATCH_BODY_BYTES;
use taskqueue_store::submission::Held;
use tokio::sync::OwnedSemaphorePermit;

use super::{Call, is_json};
use crate::error::ApiError;
use crate::state::AppState;
use crate::waiting::WaitPreference;

/// Up to this many bytes are read or written where they are: that takes about as long as to pass them to another thread.
const INLINE_BYTES: usize = 64 * 1024;

/// A request that was routed and whose batch has arrived.
pub(crate) struct BatchCall(Call);

impl FromRequest<AppState> for BatchCall {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        Call::read(request, BATCH_BODY_BYTES, state).await.map(Self)
    }
}

impl BatchCall {
    /// Reads the body, and makes of it what `understand` does. The text is dropped: from then on only the items are held, and
    /// what they `weigh` is reserved.
    pub(crate) async fn body<B: BatchBody + 'static, T: Send + 'static>(
        &mut self,
        state: &AppState,
        understand: fn(B) -> T,
        weigh: fn(&T) -> usize,
    ) -> Result<T, ApiError> {
        let Self(Call { headers, body, reservation, .. }) = self;
        let body = std::mem::take(body);
        if !body.is_empty() && !is_json(headers) {
            return Err(B::not_json().into());
        }
        let parsing = state.budgets().reserve_parsing(body.len()).await?;
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
        state.budgets().bodies.resize(reservation, weigh(&understood)).await?;
        Ok(understood)
    }

    pub(crate) fn queue(&self) -> Result<QueueName, ApiError> {
        self.0.queue()
    }

    /// What is reserved for its items, as [`Call::into_held`].
    pub(crate) fn into_held(self) -> Option<Held> {
        self.0.into_held()
    }

    /// How long the caller wants to wait, as [`Call::into_wait_preference`].
    pub(crate) fn into_wait_preference(self) -> Option<WaitPreference> {
        self.0.into_wait_preference()
    }
}

/// Does work that takes long if it is about many bytes.
pub(crate) async fn away_from_async<T: Send + 'static>(
    state: &AppState,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= INLINE_BYTES { work() } else { in_turn(state.budgets().turn().await, work).await }
}

/// Does work on a thread that serves no requests; no more of it at a time than there are turns.
pub(super) async fn in_turn<T: Send + 'static>(
    turn: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
