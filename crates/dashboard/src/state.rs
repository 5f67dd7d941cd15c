//! What every page shares. Cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_store::Store;
use taskqueue_store::submission::Held;
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::elsewhere::elsewhere;
use crate::host::Host;
use crate::looks::Looks;
use crate::mode::Mode;
use crate::problem::Problem;
use crate::refresh::Refresh;
use crate::shared_figures::SharedFigures;

/// What a page may hold while it is made: what it reads of a page of tasks, and its text.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How long the storage may take to say whether it works.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a large form waits for another one.
const LARGE_FORM_TIMEOUT: Duration = Duration::from_secs(5);

/// Downloads at once. Each holds the memory of a page for as long as its client takes.
const DOWNLOADS_AT_ONCE: usize = 4;

/// The dashboard of a server.
#[derive(Clone)]
pub struct Dashboard {
    inner: Arc<Inner>,
}

struct Inner {
    host: Arc<dyn Host>,
    mode: Mode,
    refresh: Refresh,
    looks: Looks,
    figures: SharedFigures,
    downloads: Arc<Semaphore>,
    sweeping: Mutex<()>,
    large_forms: Mutex<()>,
}

impl Dashboard {
    pub fn new(host: Arc<dyn Host>, mode: Mode) -> Self {
        let downloads = Arc::new(Semaphore::new(DOWNLOADS_AT_ONCE));
        let (refresh, looks, figures) = (Refresh::default(), Looks::default(), SharedFigures::default());
        Self {
            inner: Arc::new(Inner {
                host,
                mode,
                refresh,
                looks,
                figures,
                downloads,
                sweeping: Mutex::default(),
                large_forms: Mutex::default(),
            }),
        }
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

    pub(crate) fn looks(&self) -> &Looks {
        &self.inner.looks
    }

    pub(crate) fn figures(&self) -> &SharedFigures {
        &self.inner.figures
    }

    /// Whether this server offers an extension.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.inner.host.features().contains(&feature)
    }

    /// What the settings of the storage risk, in sentences; nothing if it does not work, or does not say so soon.
    pub(crate) async fn check_storage(&self) -> Option<Vec<String>> {
        timeout(CHECK_TIMEOUT, self.store().check()).await.ok().and_then(Result::ok)
    }

    /// The place of one more download, if there is one.
    pub(crate) fn download(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.inner.downloads).try_acquire_owned().map_err(|_| Problem::busy())
    }

    /// Held while the tasks of a sweep are made: of all sweeps together, one takes time at a moment.
    pub(crate) fn sweeping(&self) -> &Mutex<()> {
        &self.inner.sweeping
    }

    /// Waits for the memory of one more page. Every request has this; it is freed when the answer is sent.
    pub(crate) async fn reserve_page(&self) -> Result<Held, Problem> {
        self.reserve(PAGE_BYTES).await
    }

    /// Waits for more memory, for what holds more than a usual page.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Held, Problem> {
        self.inner.host.reserve(bytes).await.ok_or_else(Problem::busy)
    }

    /// Reads what has so many bytes of filters: where it is, or in the turn that the server gives it.
    pub(crate) async fn read_filter<T: Send + 'static>(
        &self,
        bytes: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let Some(turn) = self.inner.host.filter_turn(bytes).await else { return Ok(read()) };
        let work = move || {
            let done = read();
            drop(turn);
            done
        };
        elsewhere(work).await
    }

    /// Waits until no other large form is worked on.
    pub(crate) async fn large_form(&self) -> Result<MutexGuard<'_, ()>, Problem> {
        timeout(LARGE_FORM_TIMEOUT, self.inner.large_forms.lock()).await.map_err(|_| Problem::busy())
    }
}
