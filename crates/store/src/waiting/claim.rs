//! A waiting claim: claim, park, and claim again when woken, until there is a task or the time is over.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::Waiter;
use crate::StoreError;
use crate::command::Claimed;

/// Pause before a woken waiter claims again after a failure of the storage. It keeps its hint, so that only one waiter per
/// task repeats its claim.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

#[derive(PartialEq, Eq)]
enum Event {
    Woken,
    TimeOver,
}

/// Claims with `try_claim`; if there is no task, waits until `time_over` is done. `time_over` is polled only between two
/// claims: its first poll means that the first claim found nothing.
///
/// A failure of the storage at the first claim is returned at once, later ones only when the time is over. While the waiter
/// is parked no claim is running: dropping this future then takes no task.
pub async fn claim<C: AsRef<Claimed>, L: Future<Output = Result<Option<C>, StoreError>>>(
    mut waiter: Waiter,
    mut try_claim: impl FnMut() -> L,
    time_over: impl Future<Output = ()>,
) -> Result<Option<C>, StoreError> {
    let mut time_over = pin!(time_over);
    let (mut has_waited, mut unknown) = (false, false);
    loop {
        match try_claim().await {
            Ok(None) => {
                has_waited = true;
                waiter.park();
                // If the server began to stop during the claim, this waiter was not woken.
                let over = waiter.is_closed() || wait_for(waiter.woken(), time_over.as_mut()).await == Event::TimeOver;
                if over || waiter.is_closed() {
                    return Ok(None);
                }
            }
            Ok(Some(claimed)) => {
                waiter.finish_with(claimed.as_ref().task.id);
                return Ok(Some(claimed));
            }
            Err(failure @ (StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown)) if has_waited => {
                // Another claim with the same run id is safe. Its failure does not tell how this one ended.
                unknown |= failure == StoreError::OutcomeUnknown;
                let paused = wait_for(sleep(RETRY_PAUSE), time_over.as_mut()).await;
                if paused == Event::TimeOver || waiter.is_closed() {
                    return Err(if unknown { StoreError::OutcomeUnknown } else { failure });
                }
            }
            other => return other,
        }
    }
}

/// Waits for one of both. `time_over` has precedence: a client that has gone takes no task, and a waiter that is woken
/// again and again without success does not wait for ever. Its hint passes to the next waiter.
async fn wait_for(woken: impl Future<Output = ()>, mut time_over: Pin<&mut impl Future<Output = ()>>) -> Event {
    let mut woken = pin!(woken);
    poll_fn(|context| {
        if time_over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Event::TimeOver);
        }
        woken.as_mut().poll(context).map(|()| Event::Woken)
    })
    .await
}
