//! Claims that wait for a task, heartbeats that are held while their run goes on, and reads that wait for output: how long, how
//! many at once, and what the response says about it. How a waiter is woken is decided in the store.

use std::borrow::Borrow;
use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::{QueueName, RunId, TaskId, Timestamp};
use taskqueue_store::command::{Claim, ClaimTasks, Claimed, ClaimedItems, Heartbeat, Output, runs_bytes};
use taskqueue_store::submission::Held;
use taskqueue_store::{StoreError, StoreExt, waiting};
use tokio::select;
use tokio::time::{Instant, sleep_until};

use crate::connection::Disconnect;
use crate::extract::Places;
use crate::memory_budget::{AnswerRoom, Reservation, SMALL_BODY_BYTES, TASK_BYTES};
use crate::prefer::WaitPreference;
use crate::state::AppState;

/// How long a read that would wait for less may wait for its turn: as long as for a lock of the store
/// (docs/reference/http-api.md §12).
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// What was claimed or read, with the memory that is reserved for its answer.
pub(crate) struct Reserved<C, R = Reservation> {
    pub(crate) found: C,
    pub(crate) reservation: R,
}

impl<T, C: Borrow<T>, R> AsRef<T> for Reserved<C, R> {
    fn as_ref(&self) -> &T {
        self.found.borrow()
    }
}

/// Claims, and waits if the client prefers that. Gives the wait that was applied, in seconds: none when there are too many
/// waiters, so that the client polls for a while instead of coming back at once, and none when the server stops or the
/// client itself ended the wait. Each attempt reserves memory for its answer before it takes a task; while a claim waits, it has none.
pub(crate) async fn claim(
    state: &AppState,
    claim: Claim,
    preference: Option<WaitPreference>,
) -> Result<(Option<Reserved<Box<Claimed>>>, Option<u32>), StoreError> {
    let store = &state.store;
    let waiter = preference
        .as_ref()
        .and_then(|_| store.waiters().register(&claim.queue, &claim.route, state.limits.waiting_cap));
    let disconnect = preference.as_ref().and_then(|preference| preference.disconnect.clone());
    let try_claim = || async {
        let reservation = state.budgets.reserve_task().await.map_err(|_| StoreError::Busy)?;
        // The reservation may have taken seconds, and no task is taken for a client that has left meanwhile.
        if disconnect.as_ref().is_some_and(Disconnect::has_occurred) {
            return Ok(None);
        }
        let claimed = store.write(claim.clone()).await?;
        Ok(claimed.map(|claimed| Reserved { found: claimed, reservation }))
    };
    let (Some(preference), Some(waiter)) = (preference, waiter) else {
        return Ok((try_claim().await?, None));
    };
    let mut wait = WaitTime::of(preference, CLAIM);
    // Boxed, here and below: who does not wait does not pay for the room that a wait takes.
    let claimed = Box::pin(waiting::claim(waiter, try_claim, wait.is_over())).await?;
    let applied = if claimed.is_some() { Some(wait.seconds) } else { wait.applied(state) };
    Ok((claimed, applied))
}

/// Claims several tasks, and waits if the client prefers that until one of the claims got a task or is refused. The rest is as
/// in [`claim`]. Who waits keeps its run ids and their places in the answer: where these are many, they are a part of the memory
/// for bodies, and without room for them there is no wait.
pub(crate) async fn claim_tasks(
    state: &AppState,
    claims: ClaimTasks,
    places: &Places<RunId>,
    preference: Option<WaitPreference>,
) -> Result<(Reserved<ClaimedItems, AnswerRoom>, Option<u32>), StoreError> {
    let (store, budgets, answer_bytes) = (&state.store, &state.budgets, places.most_bytes());
    let kept_bytes = runs_bytes(&claims.run_ids, &claims.workers) + places.memory_bytes();
    let kept = match preference {
        Some(_) if kept_bytes > SMALL_BODY_BYTES => budgets.try_reserve_waiting(kept_bytes).map(Some),
        _ => Some(None),
    };
    let preference = preference.filter(|_| kept.is_some());
    let waiter = preference
        .as_ref()
        .and_then(|_| store.waiters().register(&claims.queue, &claims.route, state.limits.waiting_cap));
    let disconnect = preference.as_ref().and_then(|preference| preference.disconnect.clone());
    let try_claim = || async {
        let wanted = claims.run_ids.len().saturating_mul(TASK_BYTES).min(PAGE_BYTES - answer_bytes);
        let least = answer_bytes + TASK_BYTES.min(claims.run_ids.len() * TASK_BYTES);
        let room = budgets.reserve_claims(least, answer_bytes + wanted).await.map_err(|_| StoreError::Busy)?;
        if disconnect.as_ref().is_some_and(Disconnect::has_occurred) {
            return Ok(Reserved { found: claims.nothing(), reservation: room });
        }
        let most_bytes = room.answer.bytes().min(PAGE_BYTES) - answer_bytes;
        let claimed = store.write(ClaimTasks { most_bytes, ..claims.clone() }).await?;
        Ok(Reserved { found: claimed, reservation: room })
    };
    let (Some(preference), Some(waiter)) = (preference, waiter) else {
        return Ok((try_claim().await?, None));
    };
    let mut wait = WaitTime::of(preference, BATCH_OF_CLAIMS);
    if let Some(claimed) = Box::pin(waiting::claim_tasks(waiter, try_claim, wait.is_over())).await? {
        return Ok((claimed, Some(wait.seconds)));
    }
    // Nothing was claimed, so it may still be refused.
    let room = budgets.reserve_claims(answer_bytes, answer_bytes).await.map_err(|_| StoreError::Busy)?;
    Ok((Reserved { found: claims.nothing(), reservation: room }, wait.applied(state)))
}

/// Renews a lease, and holds the answer if the client prefers that. Gives the lease and the wait that was applied, as
/// [`claim`] does. The refusal of a run that ends meanwhile is given at once. `held` is what is reserved for the request.
pub(crate) async fn heartbeat(
    state: &AppState,
    mut heartbeat: Heartbeat,
    held: Option<Held>,
    preference: Option<WaitPreference>,
) -> Result<(Timestamp, Option<u32>), StoreError> {
    let store = &state.store;
    // Before the renewal, so that no end of the run is missed after it.
    let watcher = preference.as_ref().and_then(|_| store.waiters().watch(heartbeat.run_id, state.limits.waiting_cap));
    let (Some(preference), Some(watcher)) = (preference, watcher) else {
        return Ok((store.write_holding(heartbeat, held).await?, None));
    };
    let mut first = Some((heartbeat.progress.take(), held));
    let renew = || {
        // Progress is of the moment at which it was sent: a later renewal must not bring it back.
        let (progress, held) = first.take().unwrap_or_default();
        store.write_holding(Heartbeat { progress, ..heartbeat.clone() }, held)
    };
    let mut wait = WaitTime::of(preference, HEARTBEAT);
    let lease_expires_at = Box::pin(waiting::heartbeat(watcher, renew, wait.is_over())).await?;
    Ok((lease_expires_at, wait.applied(state)))
}

/// Reads the output of a task from `offset` on, and waits if the client prefers that until there is some or the run that
/// printed it is over. Gives the wait that was applied, as [`claim`] does. Without a text there is no reservation.
pub(crate) async fn output(
    state: &AppState,
    (queue, id): (QueueName, TaskId),
    offset: u64,
    preference: Option<WaitPreference>,
) -> Result<(Reserved<Output, Option<Reservation>>, Option<u32>), StoreError> {
    let (store, most_bytes) = (&state.store, state.limits.task_output_bytes);
    // What there is to wait for is a small answer, so nothing is reserved while it is waited.
    let read = async || {
        let room = state.budgets.reserve_output(most_bytes).await.map_err(|_| StoreError::Busy)?;
        let output = store.read_output(&queue, id, offset, most_bytes).await?;
        let reservation = Some(room.answer).filter(|_| !output.text.is_empty());
        Ok::<_, StoreError>(Reserved { found: output, reservation })
    };
    let Some(preference) = preference else { return Ok((read().await?, None)) };
    let mut wait = WaitTime::of(preference, OUTPUT);
    // Who would wait for output also waits for its turn: thousands may come back at once after a line that woke them.
    let turn = select! {
        biased;
        turn = store.waiters().output_turn() => turn,
        // In line it waits outside of hyper: there its socket would be looked at 25 times a second.
        () = wait.disconnected() => return Err(StoreError::Busy),
        () = sleep_until(wait.end.max(Instant::now() + TURN_TIMEOUT)) => return Err(StoreError::Busy),
    };
    let first = read().await?;
    let run_id = first.found.run_id;
    if has_news(&first.found, run_id) {
        return Ok((first, Some(wait.seconds)));
    }
    let watcher = store.waiters().watch_output(run_id, state.limits.waiting_cap);
    let Some(watcher) = watcher else { return Ok((first, None)) };
    // From here on nothing is missed, so this begins with another read.
    let attempt = || async {
        let read = read().await?;
        Ok(if has_news(&read.found, run_id) { Break(read) } else { Continue(read) })
    };
    let waited = Box::pin(waiting::output(watcher, turn, attempt, wait.is_over())).await?;
    let applied = if waited.is_break() { Some(wait.seconds) } else { wait.applied(state) };
    let (Break(read) | Continue(read)) = waited;
    Ok((read, applied))
}

/// Returns whether there is something to tell to who waits for the output of a run: text, the end of the run, or another run that
/// prints instead.
fn has_news(output: &Output, run_id: RunId) -> bool {
    !output.text.is_empty() || output.ended || output.run_id != run_id
}

/// The words of the log when a request begins to wait, and when its client leaves.
type WaitTexts = [&'static str; 2];

const CLAIM: WaitTexts = ["a claim found nothing and waits", "the client of a waiting claim has disconnected"];
const BATCH_OF_CLAIMS: WaitTexts =
    ["a batch of claims found nothing and waits", "the client of a waiting batch of claims has disconnected"];
const HEARTBEAT: WaitTexts = ["a heartbeat is held", "the client of a held heartbeat has disconnected"];
const OUTPUT: WaitTexts = ["a read of output waits", "the client of a waiting read of output has disconnected"];

/// The time that a request waits.
struct WaitTime {
    seconds: u32,
    end: Instant,
    disconnect: Option<Disconnect>,
    texts: WaitTexts,
    has_disconnected: bool,
}

impl WaitTime {
    fn of(WaitPreference { seconds, disconnect }: WaitPreference, texts: WaitTexts) -> Self {
        let end = Instant::now() + Duration::from_secs(seconds.into());
        Self { seconds, end, disconnect, texts, has_disconnected: false }
    }

    /// Done when the time is over or the client has disconnected. It is polled once the first try leaves something to wait for.
    async fn is_over(&mut self) {
        let [begins, has_disconnected] = self.texts;
        tracing::debug!("{begins}");
        select! {
            () = self.disconnected() => {
                self.has_disconnected = true;
                tracing::debug!("{has_disconnected}");
            }
            () = sleep_until(self.end) => {}
        }
    }

    async fn disconnected(&self) {
        match &self.disconnect {
            Some(disconnect) => disconnect.wait().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the wait that the answer names when it came to nothing; `None` if it was cut short.
    fn applied(&self, state: &AppState) -> Option<u32> {
        let cut_short = self.has_disconnected || state.store.waiters().is_closed();
        (!cut_short).then_some(self.seconds)
    }
}
