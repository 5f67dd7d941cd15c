//! The time limit of a run: that of the worker or that of the task. When it has passed, the command is stopped as if the worker had
//! asked for it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::stop::RunControl;

/// When a run has to end, and who wants that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    pub(super) ends_at: Instant,
    seconds: u64,
    setter: Setter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setter {
    /// By `--timeout`.
    Worker,
    /// By its `timeout_seconds`.
    Task,
}

impl TimeLimit {
    /// The limit that ends a run first, if there is one: that of the worker, which counts from now on, or the end and the seconds
    /// that the task has.
    pub(super) fn first(of_worker: Option<Duration>, of_task: Option<(Instant, Duration)>) -> Option<Self> {
        let of_worker = of_worker.and_then(|limit| {
            let ends_at = Instant::now().checked_add(limit)?;
            Some(Self { ends_at, seconds: limit.as_secs(), setter: Setter::Worker })
        });
        let of_task = of_task.map(|(ends_at, limit)| Self { ends_at, seconds: limit.as_secs(), setter: Setter::Task });
        of_worker.into_iter().chain(of_task).min_by_key(|limit| limit.ends_at)
    }
}

/// What the run has exceeded.
impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setter = match self.setter {
            Setter::Worker => "--timeout allows",
            Setter::Task => "the timeout_seconds of its task allow",
        };
        write!(f, "{setter} ({} s)", self.seconds)
    }
}

/// Passes on what the worker wants of a run, and asks for its end when its time is over. Never returns. `is_exceeded` becomes true if the
/// time is over before the worker asks for the end: such a run fails, whatever the worker asks for until it has ended.
pub(super) async fn pass_on(
    ends_at: Option<Instant>,
    mut wanted: watch::Receiver<RunControl>,
    control: &watch::Sender<RunControl>,
    is_exceeded: &AtomicBool,
) {
    let mut is_over = std::pin::pin!(passed(ends_at));
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

async fn passed(ends_at: Option<Instant>) {
    match ends_at {
        Some(ends_at) => sleep_until(ends_at).await,
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
        let started = Instant::now();
        let is_exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_exceeded);
        tokio::spawn(async move { pass_on(Some(started + limit), wanted, &control, &flag).await });
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
        let passing = pass_on(Some(Instant::now() + limit), wanted, &control, &is_exceeded);
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

    #[tokio::test(start_paused = true)]
    async fn the_limit_that_ends_a_run_first_counts_and_is_named() {
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let task = |left, limit| Some((now + seconds(left), seconds(limit)));
        let cases = [
            (None, None, None),
            (Some(seconds(7)), None, Some((7, "--timeout allows (7 s)"))),
            (None, task(9, 10), Some((9, "the timeout_seconds of its task allow (10 s)"))),
            (Some(seconds(7)), task(9, 10), Some((7, "--timeout allows (7 s)"))),
            (Some(seconds(9)), task(7, 8), Some((7, "the timeout_seconds of its task allow (8 s)"))),
        ];
        for (of_worker, of_task, expected) in cases {
            let first = TimeLimit::first(of_worker, of_task);
            let first = first.map(|limit| ((limit.ends_at - now).as_secs(), limit.to_string()));
            assert_eq!(first, expected.map(|(left, words)| (left, words.to_owned())), "{of_worker:?} {of_task:?}");
        }
    }
}
