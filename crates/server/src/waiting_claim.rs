//! Claims that wait for a task: how long, how many at once, and what the response says about it. How a waiter is woken
//! is decided in the store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use taskqueue_core::ids::{QueueName, Route, RunId};
use taskqueue_store::StoreError;
use taskqueue_store::command::{Answer, Command};
use taskqueue_store::waiting;
use tokio::select;
use tokio::time::{Instant, sleep_until};

use crate::connection::Disconnect;
use crate::memory_budget::Reservation;
use crate::state::AppState;

/// The `Prefer: wait` of a claim.
pub(crate) struct WaitPreference {
    pub(crate) seconds: u32,
    /// None when a disconnect of the client cannot be noticed.
    pub(crate) disconnect: Option<Disconnect>,
}

/// The answer, the memory reserved for it, and the wait that was applied. No wait is applied when too many claims wait or
/// the server stops, so that the caller polls for a while instead of asking again at once.
type Claimed = (Answer, Option<Reservation>, Option<u32>);

/// Claims a task, and waits for one if the request prefers that. Each try reserves memory for its answer before it claims;
/// a waiting claim holds none.
pub(crate) async fn claim(
    state: &AppState,
    (queue, route, run_id): (QueueName, Route, RunId),
    preference: Option<WaitPreference>,
) -> Result<Claimed, StoreError> {
    let store = state.store();
    let waiter = preference.as_ref().and_then(|_| store.waiters().register(&queue, &route, state.waiting_cap()));
    let disconnect = preference.as_ref().and_then(|preference| preference.disconnect.clone());
    let reserved = Mutex::new(None);
    let try_claim = || async {
        let reservation = state.budgets().reserve_task().await.map_err(|_| StoreError::Busy)?;
        // The reservation may have taken seconds. No task is claimed for a client that has disconnected meanwhile.
        if disconnect.as_ref().is_some_and(Disconnect::has_occurred) {
            return Ok(Answer::Claimed(None));
        }
        let answer = store.write(Command::Claim { queue: queue.clone(), route: route.clone(), run_id }).await?;
        if answer != Answer::Claimed(None) {
            *reserved.lock().unwrap_or_else(PoisonError::into_inner) = Some(reservation);
        }
        Ok(answer)
    };
    let (answer, applied) = match (preference, waiter) {
        (Some(WaitPreference { seconds, disconnect }), Some(waiter)) => {
            let end = Instant::now() + Duration::from_secs(seconds.into());
            let answer = waiting::claim(waiter, try_claim, wait_over(end, disconnect)).await?;
            let cut_short = answer == Answer::Claimed(None) && store.waiters().is_closed();
            (answer, Some(seconds).filter(|_| !cut_short))
        }
        _ => (try_claim().await?, None),
    };
    Ok((answer, reserved.into_inner().unwrap_or_else(PoisonError::into_inner), applied))
}

/// Done when the time is over or the client has disconnected. It is polled once the first try has found no task.
async fn wait_over(end: Instant, disconnect: Option<Disconnect>) {
    tracing::debug!("a claim found nothing and waits");
    let disconnected = async {
        match &disconnect {
            Some(disconnect) => disconnect.wait().await,
            None => std::future::pending().await,
        }
    };
    select! {
        () = disconnected => tracing::debug!("the client of a waiting claim has disconnected"),
        () = sleep_until(end) => {}
    }
}
