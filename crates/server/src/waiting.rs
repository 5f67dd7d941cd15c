//! Claims that wait for a task, and heartbeats that are held while their run goes on: how long, how many at once, and what the
//! response says about it. How a waiter is woken is decided in the store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use taskqueue_core::ids::RunId;
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::time::Timestamp;
use taskqueue_store::command::{Claim, ClaimTasks, Claimed, ClaimedItems, Heartbeat};
use taskqueue_store::{StoreError, StoreExt, waiting};
use tokio::select;
use tokio::time::{Instant, sleep_until};

use crate::batch_places::Places;
use crate::connection::Disconnect;
use crate::memory_budget::{Reservation, SMALL_BODY_BYTES, TASK_BYTES};
use crate::state::AppState;

/// The `Prefer: wait` of a claim or heartbeat.
pub(crate) struct WaitPreference {
    pub(crate) seconds: u32,
    /// None when a disconnect of the client cannot be noticed.
    pub(crate) disconnect: Option<Disconnect>,
}

/// A claimed task with the memory that is reserved for its answer.
pub(crate) struct ClaimedTask {
    pub(crate) claimed: Box<Claimed>,
    pub(crate) reservation: Reservation,
}

impl AsRef<Claimed> for ClaimedTask {
    fn as_ref(&self) -> &Claimed {
        &self.claimed
    }
}

/// Claims, and waits if the client prefers that. Gives the wait that was applied, in seconds: none when there are too many
/// waiters, so that the client polls for a while instead of coming back at once, and none when the server stops or the
/// client itself ended the wait. Each attempt reserves memory for its answer before it takes a task; while a claim waits, it has none.
pub(crate) async fn claim(
    state: &AppState,
    claim: Claim,
    preference: Option<WaitPreference>,
) -> Result<(Option<ClaimedTask>, Option<u32>), StoreError> {
    let store = state.store();
    let waiter =
        preference.as_ref().and_then(|_| store.waiters().register(&claim.queue, &claim.route, state.waiting_cap()));
    let disconnect = preference.as_ref().and_then(|preference| preference.disconnect.clone());
    let try_claim = || async {
        let reservation = state.budgets().reserve_task().await.map_err(|_| StoreError::Busy)?;
        // The reservation may have taken seconds, and no task is taken for a client that has left meanwhile.
        if disconnect.as_ref().is_some_and(Disconnect::has_occurred) {
            return Ok(None);
        }
        let claimed = store.write(claim.clone()).await?;
        Ok(claimed.map(|claimed| ClaimedTask { claimed, reservation }))
    };
    let (Some(WaitPreference { seconds, disconnect }), Some(waiter)) = (preference, waiter) else {
        return Ok((try_claim().await?, None));
    };
    let (end, mut disconnected) = (end_of(seconds), false);
    let time_over = async {
        tracing::debug!("a claim found nothing and waits");
        disconnected = wait_over(end, disconnect).await == WaitEnd::Disconnected;
        if disconnected {
            tracing::debug!("the client of a waiting claim has disconnected");
        }
    };
    let claimed = waiting::claim(waiter, try_claim, time_over).await?;
    let cut_short = claimed.is_none() && (disconnected || store.waiters().is_closed());
    Ok((claimed, Some(seconds).filter(|_| !cut_short)))
}

/// The answers of a batch of claims, with the memory that is reserved for them.
pub(crate) struct ClaimedBatch {
    pub(crate) items: ClaimedItems,
    pub(crate) reservation: Reservation,
}

/// Claims several tasks, and waits if the client prefers that until one of the claims got a task or is refused. The rest is as
/// in [`claim`]. Who waits keeps its run ids and their places in the answer: where these are many, they are a part of the memory
/// for bodies, and without room for them there is no wait.
pub(crate) async fn claim_tasks(
    state: &AppState,
    claims: ClaimTasks,
    places: &Places<RunId>,
    preference: Option<WaitPreference>,
) -> Result<(ClaimedBatch, Option<u32>), StoreError> {
    let (store, budgets, answer_bytes) = (state.store(), state.budgets(), places.most_bytes());
    let kept_bytes = claims.run_ids.len() * size_of::<RunId>() + places.memory_bytes();
    let kept = match preference {
        Some(_) if kept_bytes > SMALL_BODY_BYTES => budgets.try_reserve_waiting(kept_bytes).map(Some),
        _ => Some(None),
    };
    let preference = preference.filter(|_| kept.is_some());
    let waiter =
        preference.as_ref().and_then(|_| store.waiters().register(&claims.queue, &claims.route, state.waiting_cap()));
    let disconnect = preference.as_ref().and_then(|preference| preference.disconnect.clone());
    let reservation = Mutex::new(None);
    let hold = |held| *reservation.lock().unwrap_or_else(PoisonError::into_inner) = held;
    let try_claim = || async {
        let wanted = claims.run_ids.len().saturating_mul(TASK_BYTES).min(PAGE_BYTES - answer_bytes);
        let least = answer_bytes + TASK_BYTES.min(claims.run_ids.len() * TASK_BYTES);
        let reserved = budgets.reserve_between(least, answer_bytes + wanted).await.map_err(|_| StoreError::Busy)?;
        if disconnect.as_ref().is_some_and(Disconnect::has_occurred) {
            return Ok(claims.nothing());
        }
        let most_bytes = reserved.bytes().min(PAGE_BYTES) - answer_bytes;
        let items = store.write(ClaimTasks { most_bytes, ..claims.clone() }).await?;
        hold(Some(reserved).filter(|_| !has_found_nothing(&items)));
        Ok(items)
    };
    let (items, applied) = match (preference, waiter) {
        (Some(WaitPreference { seconds, disconnect }), Some(waiter)) => {
            let (end, mut disconnected) = (end_of(seconds), false);
            let time_over = async {
                tracing::debug!("a batch of claims found nothing and waits");
                disconnected = wait_over(end, disconnect).await == WaitEnd::Disconnected;
                if disconnected {
                    tracing::debug!("the client of a waiting batch of claims has disconnected");
                }
            };
            let items = waiting::claim_tasks(waiter, try_claim, time_over).await?;
            let cut_short = has_found_nothing(&items) && (disconnected || store.waiters().is_closed());
            (items, Some(seconds).filter(|_| !cut_short))
        }
        _ => (try_claim().await?, None),
    };
    let reservation = match reservation.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(reservation) => reservation,
        // Nothing was claimed, so it may still be refused.
        None => budgets.answers.reserve(answer_bytes).await.map_err(|_| StoreError::Busy)?,
    };
    Ok((ClaimedBatch { items, reservation }, applied))
}

fn has_found_nothing(items: &ClaimedItems) -> bool {
    items.iter().all(|item| matches!(item, Ok(None)))
}

/// Renews a lease, and holds the answer if the client prefers that. Gives the lease and the wait that was applied, as
/// [`claim`] does. The refusal of a run that ends meanwhile is given at once.
pub(crate) async fn heartbeat(
    state: &AppState,
    heartbeat: Heartbeat,
    preference: Option<WaitPreference>,
) -> Result<(Timestamp, Option<u32>), StoreError> {
    let store = state.store();
    // Before the renewal, so that no end of the run is missed after it.
    let watcher = preference.as_ref().and_then(|_| store.waiters().watch(heartbeat.run_id, state.waiting_cap()));
    let (Some(WaitPreference { seconds, disconnect }), Some(watcher)) = (preference, watcher) else {
        return Ok((store.write(heartbeat).await?, None));
    };
    let (end, mut disconnected) = (end_of(seconds), false);
    let time_over = async {
        tracing::debug!("a heartbeat is held");
        disconnected = wait_over(end, disconnect).await == WaitEnd::Disconnected;
        if disconnected {
            tracing::debug!("the client of a held heartbeat has disconnected");
        }
    };
    let lease_expires_at = waiting::heartbeat(watcher, || store.write(heartbeat.clone()), time_over).await?;
    let cut_short = disconnected || store.waiters().is_closed();
    Ok((lease_expires_at, Some(seconds).filter(|_| !cut_short)))
}

fn end_of(seconds: u32) -> Instant {
    Instant::now() + Duration::from_secs(seconds.into())
}

#[derive(PartialEq, Eq)]
enum WaitEnd {
    TimeOver,
    Disconnected,
}

/// Done when the time is over or the client has disconnected. It is polled once the first try leaves something to wait for.
async fn wait_over(end: Instant, disconnect: Option<Disconnect>) -> WaitEnd {
    let disconnected = async {
        match &disconnect {
            Some(disconnect) => disconnect.wait().await,
            None => std::future::pending().await,
        }
    };
    select! {
        () = disconnected => WaitEnd::Disconnected,
        () = sleep_until(end) => WaitEnd::TimeOver,
    }
}
