//! The claim of one who waits: look, rest, look again when woken, until there is a task or the time is over.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::Waiter;
use crate::StoreError;
use crate::command::Claimed;

/// Pause of a woken waiter before it looks again, when the storage failed under it. It keeps its hint meanwhile, so that
/// a storage that is out is asked by one waiter for each task and not by all of them.
const PAUSE: Duration = Duration::from_millis(500);

/// What ended a rest.
#[derive(PartialEq, Eq)]
enum Rested {
    Woken,
    Over,
}

/// Claims by `look`, waiting until `over` is done if there is nothing. `over` is polled only between two looks: its
/// first poll tells that there was nothing at first.
///
/// A failure of the storage at the first look is answered at once, as for everybody; later ones only when the time is
/// over. Between two looks nothing is under way: whoever drops this while it rests takes no task.
pub async fn claim<C: AsRef<Claimed>, L: Future<Output = Result<Option<C>, StoreError>>>(
    mut waiter: Waiter,
    mut look: impl FnMut() -> L,
    over: impl Future<Output = ()>,
) -> Result<Option<C>, StoreError> {
    let mut over = pin!(over);
    let (mut looked, mut unknown) = (false, false);
    loop {
        match look().await {
            Ok(None) => {
                looked = true;
                waiter.park();
                // The server may have begun to stop during the look, when there was nobody to wake.
                let over = waiter.is_closed() || until(waiter.woken(), over.as_mut()).await == Rested::Over;
                if over || waiter.is_closed() {
                    return Ok(None);
                }
            }
            Ok(Some(claimed)) => {
                waiter.finish_with(claimed.as_ref().task.id);
                return Ok(Some(claimed));
            }
            Err(failure @ (StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown)) if looked => {
                // The run id makes another look harmless; but a later look that was not begun tells nothing of this one.
                unknown |= failure == StoreError::OutcomeUnknown;
                let paused = until(sleep(PAUSE), over.as_mut()).await;
                if paused == Rested::Over || waiter.is_closed() {
                    return Err(if unknown { StoreError::OutcomeUnknown } else { failure });
                }
            }
            other => return other,
        }
    }
}

/// Waits for the one or the other. That it is over comes first: a client that has gone takes nothing, and who is woken again
/// and again, always too late, does not wait for ever. What it was woken by goes to the next one.
async fn until(woken: impl Future<Output = ()>, mut over: Pin<&mut impl Future<Output = ()>>) -> Rested {
    let mut woken = pin!(woken);
    poll_fn(|context| {
        if over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Rested::Over);
        }
        woken.as_mut().poll(context).map(|()| Rested::Woken)
    })
    .await
}
