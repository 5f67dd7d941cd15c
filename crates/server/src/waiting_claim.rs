//! Claims that wait: how long, how many, and what is said about it. How a waiter looks and rests is the store's business.

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

/// What a claim asked for, and who asked.
pub(crate) struct WaitPreference {
    pub(crate) seconds: u32,
    /// Nothing when nobody can tell whether the client is still there.
    pub(crate) disconnect: Option<Disconnect>,
}

/// What a claim gave: its answer, the share of it, and the wait that was given. There is none of the latter when there are
/// too many waiters, so that the caller polls for a while instead of coming back at once, and none when the server stops.
type Claimed = (Answer, Option<Reservation>, Option<u32>);

/// Claims, and waits if that was wished for. Each look has room for its answer before it takes a task; who rests has none.
pub(crate) async fn claim(
    state: &AppState,
    (queue, route, run_id): (QueueName, Route, RunId),
    preference: Option<WaitPreference>,
) -> Result<Claimed, StoreError> {
    let store = state.store();
    let waiter = preference.as_ref().and_then(|_| store.waiters().register(&queue, &route, state.waiting_cap()));
    let disconnect = preference.as_ref().and_then(|preference| preference.disconnect.clone());
    let room = Mutex::new(None);
    let look = || async {
        let share = state.budgets().for_task().await.map_err(|_| StoreError::Busy)?;
        // Room may have taken seconds, and nobody takes a task for a client that has gone meanwhile.
        if disconnect.as_ref().is_some_and(Disconnect::is_gone) {
            return Ok(Answer::Claimed(None));
        }
        let answer = store.write(Command::Claim { queue: queue.clone(), route: route.clone(), run_id }).await?;
        if answer != Answer::Claimed(None) {
            *room.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
        }
        Ok(answer)
    };
    let (answer, applied) = match (preference, waiter) {
        (Some(WaitPreference { seconds, disconnect }), Some(waiter)) => {
            let end = Instant::now() + Duration::from_secs(seconds.into());
            let answer = waiting::claim(waiter, look, is_over(end, disconnect)).await?;
            let cut_short = answer == Answer::Claimed(None) && store.waiters().is_closed();
            (answer, Some(seconds).filter(|_| !cut_short))
        }
        _ => (look().await?, None),
    };
    Ok((answer, room.into_inner().unwrap_or_else(PoisonError::into_inner), applied))
}

/// Done when the time is over or the client gone. Its first poll tells that there was nothing at first.
async fn is_over(end: Instant, disconnect: Option<Disconnect>) {
    tracing::debug!("a claim found nothing and waits");
    let gone = async {
        match &disconnect {
            Some(disconnect) => disconnect.gone().await,
            None => std::future::pending().await,
        }
    };
    select! {
        () = gone => tracing::debug!("whoever waited for a task has gone"),
        () = sleep_until(end) => {}
    }
}
