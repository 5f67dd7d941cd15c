//! Whether the server takes requests: it is not stopping, and its storage works. The storage is asked at most once a second, however
//! many callers want to know, because they need no token.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taskqueue_store::Store;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::error::ApiError;

/// How long an answer of the storage counts.
const FRESH: Duration = Duration::from_secs(1);

/// How long the storage may take to answer. Whoever asks gives up soon: Kubernetes after a second, unless told otherwise.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Readiness {
    is_stopping: AtomicBool,
    /// The last answer of the storage and when it was asked. Held while it is asked, so that all others get that answer.
    latest: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    /// Makes the server take no more requests from now on.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Refuses what the server cannot take now: it is stopping, or its storage does not work or does not answer.
    pub(crate) async fn check(&self, store: &dyn Store) -> Result<(), ApiError> {
        let works = !self.is_stopping() && self.storage_works(store).await;
        match (self.is_stopping(), works) {
            (true, _) => Err(ApiError::stopping()),
            (false, true) => Ok(()),
            (false, false) => Err(ApiError::not_ready()),
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    async fn storage_works(&self, store: &dyn Store) -> bool {
        let mut latest = self.latest.lock().await;
        if let Some((_, works)) = latest.filter(|(asked, _)| asked.elapsed() < FRESH) {
            return works;
        }
        let works = matches!(timeout(CHECK_TIMEOUT, store.check()).await, Ok(Ok(_)));
        *latest = Some((Instant::now(), works));
        works
    }
}
