//! Whether the client of a waiting request is still there. The handler asks; whoever holds the socket knows.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The client of one request, for as long as the request waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disconnect(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Whether the request waits for something that may take long.
    waits: bool,
    gone: bool,
    waker: Option<Waker>,
}

impl Disconnect {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the client is gone, has nothing more to say, or says too much. Asking is what makes a request a waiting one: from
    /// then on it may cost no buffers.
    pub(crate) async fn gone(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            state.waits = true;
            if state.gone {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether the client is not waited with any longer.
    pub(crate) fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Whether the request waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.state().waits
    }

    /// The client is not waited with any longer.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.gone = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}
