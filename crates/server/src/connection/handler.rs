//! What the server and one of its connections know of each other: who answers requests, when to stop, that a request was
//! authenticated, and that the client of a waiting request has disconnected, which only the owner of the socket sees.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{Request, Response};
use taskqueue_api::ErrorCode;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::idle_connections::IdleEntry;
use crate::listener::ClientAddress;

/// Answers requests; cheap to clone.
pub(crate) trait Handler: Clone + Send + Sync + Unpin + 'static {
    fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;

    /// Returns the handler for the requests of one client, which tells the entry of its connection when one was authenticated.
    fn for_client(self, _: ClientAddress, _: &Arc<IdleEntry>) -> Self {
        self
    }

    /// Called when the connection itself has refused what was no valid request.
    fn refused(&self, _status: u16, _code: ErrorCode) {}
}

/// The order of the server to its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    None,
    /// Finish the current request, then close.
    Drain,
    /// Close at once.
    Abort,
}

/// Where a connection hears the order of the server.
pub(crate) type Orders = watch::Receiver<StopSignal>;

/// The disconnect of one client. Clones are of the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disconnect(Arc<DisconnectState>);

#[derive(Debug, Default)]
struct DisconnectState {
    /// When the request began to wait.
    waits_since: OnceLock<Instant>,
    has_occurred: AtomicBool,
    notify: Notify,
}

impl Disconnect {
    /// Waits until the client has closed its side, or has sent too much to go on waiting with it. The first poll marks the
    /// request as a waiting one: from then on it may hold no buffers.
    pub(crate) async fn wait(&self) {
        self.0.waits_since.get_or_init(Instant::now);
        if !self.has_occurred() {
            self.0.notify.notified().await;
        }
    }

    pub(crate) fn has_occurred(&self) -> bool {
        self.0.has_occurred.load(Ordering::Relaxed)
    }

    /// Returns since when the request waits, as its client has asked. What it does after that is as quick as any other request, or
    /// is found in the log of the others.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        self.0.waits_since.get().copied()
    }

    pub(super) fn report(&self) {
        self.0.has_occurred.store(true, Ordering::Relaxed);
        self.0.notify.notify_one();
    }
}
