//! How soon an open page may ask again. Pages that are quick to make are refreshed every two seconds. One that is slow, because its
//! filter has to look at a million tasks, is refreshed as seldom as it takes to stay below a small part of a core; and when many
//! pages are open, all of them are.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How soon at the earliest.
const SOONEST: Duration = Duration::from_secs(2);
/// How late at the latest.
const LATEST: Duration = Duration::from_secs(300);
/// A page may cost this part of a core: one 200th, which is 0.5 %.
const PART_OF_A_PAGE: u32 = 200;
/// All pages together may cost this part of a core.
const PART_OF_ALL: u32 = 50;
/// Over how long the cost of all pages is measured.
const WINDOW: Duration = Duration::from_secs(10);

/// What the pages of this process have cost lately.
pub(crate) struct Refresh {
    windows: Mutex<Windows>,
}

struct Windows {
    began: Instant,
    current: Duration,
    previous: Duration,
}

impl Default for Refresh {
    fn default() -> Self {
        let windows = Windows { began: Instant::now(), current: Duration::ZERO, previous: Duration::ZERO };
        Self { windows: Mutex::new(windows) }
    }
}

impl Refresh {
    /// Counts a page that took so long, and says when it may be made again.
    pub(crate) fn after(&self, cost: Duration) -> Duration {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = windows.began.elapsed();
        if passed >= WINDOW {
            windows.previous = if passed < 2 * WINDOW { windows.current } else { Duration::ZERO };
            (windows.began, windows.current) = (Instant::now(), Duration::ZERO);
        }
        windows.current += cost;
        let lately = windows.current.max(windows.previous);
        let crowd = lately.as_secs_f64() * f64::from(PART_OF_ALL) / WINDOW.as_secs_f64();
        let for_all = SOONEST.mul_f64(crowd.min(1_000.0));
        (cost * PART_OF_A_PAGE).max(for_all).clamp(SOONEST, LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_quick_page_is_refreshed_soon_and_a_slow_one_as_seldom_as_it_must() {
        let refresh = Refresh::default();
        assert_eq!(refresh.after(Duration::from_millis(3)), SOONEST);
        assert_eq!(refresh.after(Duration::from_millis(100)), Duration::from_secs(20));
        assert_eq!(refresh.after(Duration::from_secs(10)), LATEST);
    }

    #[tokio::test(start_paused = true)]
    async fn when_many_pages_are_open_all_of_them_wait_longer_until_they_are_closed() {
        let refresh = Refresh::default();
        let mut last = Duration::ZERO;
        for _ in 0..200 {
            last = refresh.after(Duration::from_millis(3));
        }
        assert_eq!(last, Duration::from_secs(6), "0.6 s of work in 10 s is 3 times the part of a core that is theirs");
        tokio::time::advance(WINDOW).await;
        assert_eq!(refresh.after(Duration::from_millis(3)), Duration::from_secs(6));
        tokio::time::advance(2 * WINDOW).await;
        assert_eq!(refresh.after(Duration::from_millis(3)), SOONEST);
    }
}
