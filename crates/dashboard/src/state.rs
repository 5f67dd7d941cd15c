//! What every page shares. Cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::host::Host;
use crate::mode::Mode;
use crate::problem::Problem;
use crate::refresh::Refresh;

/// Pages and forms that are worked on at once. Each holds a few megabytes at most, so this bounds the memory of all.
const PAGES_AT_ONCE: usize = 32;
/// How long a page waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// The dashboard of a server.
#[derive(Clone)]
pub struct Dashboard {
    inner: Arc<Inner>,
}

struct Inner {
    host: Arc<dyn Host>,
    mode: Mode,
    refresh: Refresh,
    turns: Arc<Semaphore>,
}

impl Dashboard {
    pub fn new(host: Arc<dyn Host>, mode: Mode) -> Self {
        let turns = Arc::new(Semaphore::new(PAGES_AT_ONCE));
        Self { inner: Arc::new(Inner { host, mode, refresh: Refresh::default(), turns }) }
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &*self.inner.host
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.inner.host.store()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.inner.mode
    }

    pub(crate) fn refresh(&self) -> &Refresh {
        &self.inner.refresh
    }

    /// Whether this server offers an extension.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.inner.host.features().contains(&feature)
    }

    /// Waits for the turn of one more page.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match timeout(TURN_TIMEOUT, Arc::clone(&self.inner.turns).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphore is never closed, so this is about time.
            Ok(Err(_)) | Err(_) => Err(Problem::busy()),
        }
    }
}
