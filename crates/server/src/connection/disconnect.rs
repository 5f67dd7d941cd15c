//! Informs the handler of a waiting request that its client has disconnected, which only the owner of the socket sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The disconnect of one client. Clones are of the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disconnect(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_watched: AtomicBool,
    has_occurred: AtomicBool,
    notify: Notify,
}

impl Disconnect {
    /// Waits until the client has closed its side, or has sent too much to go on waiting with it. The first poll marks the
    /// request as a waiting one: from then on it may hold no buffers.
    pub(crate) async fn wait(&self) {
        self.0.is_watched.store(true, Ordering::Relaxed);
        if !self.has_occurred() {
            self.0.notify.notified().await;
        }
    }

    pub(crate) fn has_occurred(&self) -> bool {
        self.0.has_occurred.load(Ordering::Relaxed)
    }

    /// Whether the request waits.
    pub(super) fn is_watched(&self) -> bool {
        self.0.is_watched.load(Ordering::Relaxed)
    }

    pub(super) fn report(&self) {
        self.0.has_occurred.store(true, Ordering::Relaxed);
        self.0.notify.notify_one();
    }
}
