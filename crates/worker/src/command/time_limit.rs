//! The time limit of a run. When it has passed, the command is stopped as if the worker had asked for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::stop::RunControl;

/// Passes on what the worker wants of a run, and asks for its end when its time is over. Never returns. `is_exceeded` becomes true if the
/// time is over before the worker asks for the end: such a run fails, whatever the worker asks for until it has ended.
pub(super) async fn pass_on(
    limit: Option<Duration>,
    mut wanted: watch::Receiver<RunControl>,
    control: &watch::Sender<RunControl>,
    is_exceeded: &AtomicBool,
) {
    let mut is_over = std::pin::pin!(passed(limit));
    let (mut has_timed_out, mut is_open) = (false, true);
    loop {
        tokio::select! {
            biased;
            changed = wanted.changed(), if is_open => is_open = changed.is_ok(),
            () = &mut is_over, if !has_timed_out => {
                has_timed_out = true;
                is_exceeded.store(*wanted.borrow() == RunControl::Continue, Ordering::Relaxed);
            }
            else => std::future::pending().await,
        }
        let least = if has_timed_out { RunControl::Stop } else { RunControl::Continue };
        control.send_replace(least.max(*wanted.borrow_and_update()));
    }
}

async fn passed(limit: Option<Duration>) {
    match limit {
        Some(limit) => sleep(limit).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_time_is_a_request_to_stop_and_a_stronger_one_wins() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, mut seen) = watch::channel(RunControl::Continue);
        let limit = Duration::from_secs(7200);
        let started = tokio::time::Instant::now();
        let is_exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_exceeded);
        tokio::spawn(async move { pass_on(Some(limit), wanted, &control, &flag).await });
        seen.wait_for(|control| *control == RunControl::Stop).await.unwrap();
        assert!(started.elapsed() >= limit);
        worker.send_replace(RunControl::Kill);
        seen.wait_for(|control| *control == RunControl::Kill).await.unwrap();
        assert!(is_exceeded.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_was_asked_to_end_within_its_time_does_not_exceed_it() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, _seen) = watch::channel(RunControl::Continue);
        let is_exceeded = AtomicBool::new(false);
        let limit = Duration::from_secs(10);
        worker.send_replace(RunControl::Stop);
        let passing = pass_on(Some(limit), wanted, &control, &is_exceeded);
        assert!(tokio::time::timeout(2 * limit, passing).await.is_err());
        assert!(!is_exceeded.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_only_the_worker_decides() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, mut seen) = watch::channel(RunControl::Continue);
        tokio::spawn(async move { pass_on(None, wanted, &control, &AtomicBool::new(false)).await });
        let year = Duration::from_secs(31_536_000);
        assert!(tokio::time::timeout(year, seen.wait_for(|control| *control > RunControl::Continue)).await.is_err());
        worker.send_replace(RunControl::Stop);
        seen.wait_for(|control| *control == RunControl::Stop).await.unwrap();
    }
}
