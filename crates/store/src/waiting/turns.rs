//! Turns of woken requests. Ten thousand may be woken at one moment; if all went on at once they would wait for memory and
//! connections until their time is over, and everybody else with them. So some go on at a time, and the others stay in line.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
