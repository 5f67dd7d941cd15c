//! What every page shares, and how soon an open page may ask again.
//!
//! Pages that are quick to make are refreshed every two seconds. One that is slow, because its filter has to look at a million tasks, is
//! refreshed as seldom as it takes to stay below a small part of a core; and when many pages are open, all of them are.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_store::Store;
use taskqueue_store::submission::Held;
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::attention::NewestTasksSeen;
use crate::host::{Host, Mode};
use crate::problem::Problem;
use crate::shared_figures::SharedFigures;

/// Does work that takes longer than others should wait for it, on a thread of its own. It goes on when nobody waits for it any more.
pub(crate) async fn on_own_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a part of a page could not be made");
        Problem::mistake()
    })
}

/// How soon at the earliest.
const SOONEST_REFRESH: Duration = Duration::from_secs(2);
/// How late at the latest.
const LATEST_REFRESH: Duration = Duration::from_secs(300);
/// A page may cost this part of a core: one 200th, which is 0.5 %.
const PART_OF_A_PAGE: u32 = 200;
/// All pages together may cost this part of a core.
const PART_OF_ALL: u32 = 50;
/// Over how long the cost of all pages is measured.
const COST_WINDOW: Duration = Duration::from_secs(10);

/// What the pages of this process have cost lately.
pub(crate) struct Refresh {
    windows: parking_lot::Mutex<CostWindows>,
}

struct CostWindows {
    began: Instant,
    current: Duration,
    previous: Duration,
}

impl Default for Refresh {
    fn default() -> Self {
        let windows = CostWindows { began: Instant::now(), current: Duration::ZERO, previous: Duration::ZERO };
        Self { windows: windows.into() }
    }
}

impl Refresh {
    /// Counts a page that took so long, and says when it may be made again.
    pub(crate) fn after(&self, cost: Duration) -> Duration {
        let mut windows = self.windows.lock();
        let passed = windows.began.elapsed();
        if passed >= COST_WINDOW {
            windows.previous = if passed < 2 * COST_WINDOW { windows.current } else { Duration::ZERO };
            (windows.began, windows.current) = (Instant::now(), Duration::ZERO);
        }
        windows.current += cost;
        let lately = windows.current.max(windows.previous);
        let crowd = lately.as_secs_f64() * f64::from(PART_OF_ALL) / COST_WINDOW.as_secs_f64();
        let for_all = SOONEST_REFRESH.mul_f64(crowd.min(1_000.0));
        (cost * PART_OF_A_PAGE).max(for_all).clamp(SOONEST_REFRESH, LATEST_REFRESH)
    }
}

/// What a page may hold while it is made: what it reads of a page of tasks, and its text.
pub(crate) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How long the storage may take to say whether it works.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a large form waits for another one.
const LARGE_FORM_TIMEOUT: Duration = Duration::from_secs(5);

/// Downloads at once. Each holds the memory of a page for as long as its client takes.
const DOWNLOADS_AT_ONCE: usize = 4;

/// The dashboard of a server.
pub(crate) struct Dashboard {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) mode: Mode,
    pub(crate) refresh: Refresh,
    pub(crate) newest_tasks: NewestTasksSeen,
    pub(crate) figures: SharedFigures,
    downloads: Arc<Semaphore>,
    /// Held while the tasks of a sweep are made: of all sweeps together, one takes time at a moment.
    pub(crate) sweeping: Mutex<()>,
    large_forms: Mutex<()>,
}

impl Dashboard {
    pub(crate) fn new(host: Arc<dyn Host>, mode: Mode) -> Self {
        Self {
            host,
            mode,
            refresh: Refresh::default(),
            newest_tasks: NewestTasksSeen::default(),
            figures: SharedFigures::default(),
            downloads: Arc::new(Semaphore::new(DOWNLOADS_AT_ONCE)),
            sweeping: Mutex::default(),
            large_forms: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.host.store()
    }

    /// Returns whether this server offers an extension.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.host.features().contains(&feature)
    }

    /// Returns what the settings of the storage risk, in sentences; nothing if it does not work, or does not say so soon.
    pub(crate) async fn check_storage(&self) -> Option<Vec<String>> {
        timeout(CHECK_TIMEOUT, self.store().check()).await.ok().and_then(Result::ok)
    }

    /// The place of one more download, if there is one.
    pub(crate) fn download(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.downloads).try_acquire_owned().map_err(|_| Problem::busy())
    }

    /// Waits for memory: every request has [`PAGE_BYTES`] until its answer is made, and more if it holds more than a usual page.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Held, Problem> {
        self.host.reserve(bytes).await.ok_or_else(Problem::busy)
    }

    /// Reads what has so many bytes of filters: where it is, or in the turn that the server gives it.
    pub(crate) async fn read_filter<T: Send + 'static>(
        &self,
        bytes: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let Some(turn) = self.host.filter_turn(bytes).await else { return Ok(read()) };
        let work = move || {
            let done = read();
            drop(turn);
            done
        };
        on_own_thread(work).await
    }

    /// Waits until no other large form is worked on.
    pub(crate) async fn large_form_turn(&self) -> Result<MutexGuard<'_, ()>, Problem> {
        timeout(LARGE_FORM_TIMEOUT, self.large_forms.lock()).await.map_err(|_| Problem::busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_go_on_meanwhile_and_a_panic_is_a_page() {
        let (send, receive) = std::sync::mpsc::channel();
        // On the thread of the others this would wait for itself.
        let work = on_own_thread(move || receive.recv_timeout(std::time::Duration::from_secs(20)));
        let (done, sent) = tokio::join!(work, async move { send.send(7) });
        assert_eq!((done, sent), (Ok(Ok(7)), Ok(())));
        assert!(on_own_thread::<u8>(|| panic!("a mistake")).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_page_is_refreshed_soon_and_a_slow_one_as_seldom_as_it_must() {
        let refresh = Refresh::default();
        assert_eq!(refresh.after(Duration::from_millis(3)), SOONEST_REFRESH);
        assert_eq!(refresh.after(Duration::from_millis(100)), Duration::from_secs(20));
        assert_eq!(refresh.after(Duration::from_secs(10)), LATEST_REFRESH);
    }

    #[tokio::test(start_paused = true)]
    async fn when_many_pages_are_open_all_of_them_wait_longer_until_they_are_closed() {
        let refresh = Refresh::default();
        let mut last = Duration::ZERO;
        for _ in 0..200 {
            last = refresh.after(Duration::from_millis(3));
        }
        assert_eq!(last, Duration::from_secs(6), "0.6 s of work in 10 s is 3 times the part of a core that is theirs");
        tokio::time::advance(COST_WINDOW).await;
        assert_eq!(refresh.after(Duration::from_millis(3)), Duration::from_secs(6));
        tokio::time::advance(2 * COST_WINDOW).await;
        assert_eq!(refresh.after(Duration::from_millis(3)), SOONEST_REFRESH);
    }
}
