//! Requests that wait: an attempt, then another one whenever the waiter is woken, until one succeeds or the time is over.

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use taskqueue_core::time::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::{Waiter, Watcher};
use crate::command::{Claimed, ClaimedItems, has_found_nothing};
use crate::{StoreError, StoreResult};

/// Pause before a woken waiter tries again after a failure of the storage. A claim keeps its hint, so that only one waiter
/// per task repeats its claim.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long an attempt keeps its turn at most: far longer than one takes where nothing is in its way.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// A waiter between two attempts.
pub(super) trait Wait {
    /// Called after an attempt, before it is waited. A wake-up that came during the attempt counts.
    fn park(&mut self);

    /// Waits to be woken, and then for its turn. Cancel safe.
    fn woken(&mut self) -> impl Future<Output = Turn> + Send;

    /// Waits for its turn to do another attempt.
    fn turn(&self) -> impl Future<Output = Turn> + Send;

    /// Returns whether another attempt is due although the time is over.
    fn is_due(&mut self) -> bool;

    /// Returns whether the server is stopping.
    fn is_closed(&self) -> bool;
}

/// Claims with `try_claim`; if there is no task, waits until `time_over` is done. `time_over` is polled only between two
/// claims: its first poll means that the first claim found nothing.
///
/// A failure of the storage at the first claim is returned at once, later ones only when the time is over. While the waiter
/// is parked no claim is running: dropping this future then takes no task.
pub async fn claim<C: AsRef<Claimed>, L: Future<Output = StoreResult<Option<C>>>>(
    mut waiter: Waiter,
    mut try_claim: impl FnMut() -> L,
    time_over: impl Future<Output = ()>,
) -> StoreResult<Option<C>> {
    let attempt = || {
        let claim = try_claim();
        async { Ok(claim.await?.map_or(Continue(()), Break)) }
    };
    let claimed = attempts(&mut waiter, None, attempt, time_over).await?.break_value();
    if let Some(claimed) = &claimed {
        waiter.finish_with([claimed.as_ref().task.id]);
    }
    Ok(claimed)
}

/// Claims several tasks: waits until one of them got a task or is refused. One waiter stands for all of them,
/// and the tasks that it is not woken for stay for others. What found nothing is dropped before it waits; if the last attempt
/// did, there is nothing to give.
pub async fn claim_tasks<C: AsRef<ClaimedItems>, L: Future<Output = StoreResult<C>>>(
    mut waiter: Waiter,
    mut try_claim: impl FnMut() -> L,
    time_over: impl Future<Output = ()>,
) -> StoreResult<Option<C>> {
    let attempt = || {
        let claims = try_claim();
        async {
            let claimed = claims.await?;
            Ok(if has_found_nothing(claimed.as_ref()) { Continue(()) } else { Break(claimed) })
        }
    };
    let claimed = attempts(&mut waiter, None, attempt, time_over).await?.break_value();
    if let Some(claimed) = &claimed {
        waiter.finish_with(claimed.as_ref().iter().flatten().flatten().map(|claimed| claimed.task.id));
    }
    Ok(claimed)
}

/// Renews a lease with `renew`, waits until `time_over` is done, and gives the lease. When the run ends meanwhile, `renew` is
/// refused, and the refusal is returned at once, also when the time is over in the same moment. `time_over` and failures of
/// the storage are as in [`claim`].
pub async fn heartbeat<L: Future<Output = StoreResult<Timestamp>>>(
    mut watcher: Watcher,
    mut renew: impl FnMut() -> L,
    time_over: impl Future<Output = ()>,
) -> StoreResult<Timestamp> {
    let attempt = || {
        let renewal = renew();
        async { Ok(Continue::<Infallible, _>(renewal.await?)) }
    };
    let Continue(lease_expires_at) = attempts(&mut watcher, None, attempt, time_over).await?;
    Ok(lease_expires_at)
}

/// Reads output with `read`, again and again until it breaks or `time_over` is done, and gives what the last read gave. `read`
/// breaks when there is something to tell. The first one has this turn. `time_over` and failures of the storage are as in
/// [`claim`].
pub async fn output<B, C, L: Future<Output = StoreResult<ControlFlow<B, C>>>>(
    mut watcher: Watcher,
    turn: Turn,
    read: impl FnMut() -> L,
    time_over: impl Future<Output = ()>,
) -> StoreResult<ControlFlow<B, C>> {
    attempts(&mut watcher, Some(turn), read, time_over).await
}

/// Does an attempt while it has its turn. One that takes long, because its queue is held for another command, lets the others go
/// on.
async fn within_turn<T>(turn: &mut Option<Turn>, attempt: impl Future<Output = T>) -> T {
    let mut attempt = pin!(attempt);
    let attempted = timeout(LONGEST_TURN, attempt.as_mut()).await;
    drop(turn.take());
    match attempted {
        Ok(attempted) => attempted,
        Err(_) => attempt.await,
    }
}

/// Tries until an attempt breaks, and gives what the last one gave.
async fn attempts<W: Wait, B, C, L: Future<Output = StoreResult<ControlFlow<B, C>>>>(
    waiter: &mut W,
    mut turn: Option<Turn>,
    mut attempt: impl FnMut() -> L,
    time_over: impl Future<Output = ()>,
) -> StoreResult<ControlFlow<B, C>> {
    let mut time_over = pin!(time_over);
    let (mut has_waited, mut unknown) = (false, false);
    loop {
        match within_turn(&mut turn, attempt()).await {
            Ok(Continue(outcome)) => {
                has_waited = true;
                waiter.park();
                // If the server began to stop during the attempt, this waiter was not woken.
                if !waiter.is_closed() {
                    turn = wait_for(waiter.woken(), time_over.as_mut()).await;
                }
                if turn.is_none() || waiter.is_closed() {
                    drop(turn);
                    return last_attempts(waiter, attempt, outcome).await;
                }
            }
            Err(failure @ (StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown)) if has_waited => {
                // Another attempt with the same run id is safe. Its failure does not tell how this one ended.
                unknown |= failure == StoreError::OutcomeUnknown;
                let paused = async {
                    sleep(RETRY_PAUSE).await;
                    waiter.turn().await
                };
                turn = wait_for(paused, time_over.as_mut()).await;
                if turn.is_none() || waiter.is_closed() {
                    return Err(if unknown { StoreError::OutcomeUnknown } else { failure });
                }
            }
            other => return other,
        }
    }
}

/// Returns what is answered when the time is over. An attempt is repeated only when the waiter was woken since the last one, so
/// this ends.
async fn last_attempts<W: Wait, B, C, L: Future<Output = StoreResult<ControlFlow<B, C>>>>(
    waiter: &mut W,
    mut attempt: impl FnMut() -> L,
    mut outcome: C,
) -> StoreResult<ControlFlow<B, C>> {
    while !waiter.is_closed() && waiter.is_due() {
        let mut turn = Some(waiter.turn().await);
        match within_turn(&mut turn, attempt()).await? {
            Continue(latest) => outcome = latest,
            done => return Ok(done),
        }
    }
    Ok(Continue(outcome))
}

/// Waits for one of both, and gives nothing if that is `time_over`. It has precedence: a client that has gone takes no task, and a
/// waiter that is woken again and again without success does not wait for ever. Its hint passes to the next waiter.
async fn wait_for<T>(woken: impl Future<Output = T>, mut time_over: Pin<&mut impl Future<Output = ()>>) -> Option<T> {
    let mut woken = pin!(woken);
    poll_fn(|context| {
        if time_over.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        woken.as_mut().poll(context).map(Some)
    })
    .await
}

/// Requests of a kind that go on at a time. More than the readers and the memory of a small server let through, so nothing is
/// idle while others are in line, and few enough that what others ask for at that moment waits for some milliseconds.
pub(super) const AT_A_TIME: usize = 32;

pub(super) struct Turns(Arc<Semaphore>);

/// Dropped when the request has done its attempt. Nothing if the server is stopping, when nobody is kept in line.
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Turns {
    /// Waits for a turn, in the order in which it was asked for. Cancel safe.
    pub(super) async fn next(&self) -> Turn {
        Turn { _permit: Arc::clone(&self.0).acquire_owned().await.ok() }
    }

    pub(super) fn close(&self) {
        self.0.close();
    }
}
