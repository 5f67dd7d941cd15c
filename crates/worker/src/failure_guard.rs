//! The failure guard: counts failures in a row of different tasks. A worker with which every task fails is broken itself (a missing
//! driver, a full disk) and would use up the attempts of all tasks: it ends. One that has had a success may be in a bad region of a
//! sweep, so it only slows down. A task that fails at every attempt is not the worker's fault.

use std::collections::HashSet;
use std::time::Duration;

use taskqueue_client::TaskId;
use tokio::time::Instant;

use crate::events::RunOutcome;
use crate::settings::{BackoffLimits, OnFailures};

/// From this many failures in a row on, the worker slows down, or ends if it never had a success.
const SLOW_AFTER: u32 = 5;

/// The number of failed tasks that are remembered at least. One that fails again after that many others counts again.
const REMEMBERED: u32 = 1000;

impl OnFailures {
    /// Returns the number of failures that end a worker, if any do.
    fn limit(self, has_succeeded: bool) -> Option<u32> {
        match self {
            Self::StopAfter(limit) => Some(limit),
            Self::SlowDown if !has_succeeded => Some(SLOW_AFTER),
            Self::SlowDown | Self::Ignore => None,
        }
    }
}

/// The next step of the worker after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As before: claim, or wait for the end of a pause.
    GoOn,
    /// There was a success: claim, whatever was before.
    Recovered,
    /// Claim nothing for so long, after so many failures in a row.
    SlowDown { failures: u32, pause: Duration },
    /// End, after so many failures in a row.
    Stop { failures: u32 },
}

#[derive(Debug)]
pub(crate) struct FailureGuard {
    on_failures: OnFailures,
    pauses: BackoffLimits,
    /// The different tasks that have failed since the last success, the first of many.
    failed: HashSet<TaskId>,
    /// Failures since the last success. A task that fails again counts once. That this worker could not run a task is no fault of the
    /// task and not charged, so the same task counts each time.
    in_a_row: u32,
    has_succeeded: bool,
    /// The number of pauses since the last success.
    paused: u32,
    /// The end of the last of them.
    paused_until: Option<Instant>,
}

impl FailureGuard {
    pub(crate) fn new(on_failures: OnFailures, pauses: BackoffLimits) -> Self {
        Self {
            on_failures,
            pauses,
            failed: HashSet::new(),
            in_a_row: 0,
            has_succeeded: false,
            paused: 0,
            paused_until: None,
        }
    }

    /// Counts a run that has ended now.
    pub(crate) fn count(&mut self, task_id: TaskId, outcome: &RunOutcome, now: Instant) -> Verdict {
        match outcome {
            _ if self.on_failures == OnFailures::Ignore => return Verdict::GoOn,
            RunOutcome::Succeeded => return self.succeeded(),
            RunOutcome::Failed { .. } if self.failed.contains(&task_id) => return Verdict::GoOn,
            RunOutcome::Failed { .. } => self.failed_first(task_id),
            RunOutcome::CannotRun(_) => self.in_a_row = self.in_a_row.saturating_add(1),
            // Says nothing about this worker.
            RunOutcome::Released | RunOutcome::Revoked(_) | RunOutcome::Undelivered => return Verdict::GoOn,
        }
        let failures = self.in_a_row;
        if self.on_failures.limit(self.has_succeeded).is_some_and(|limit| failures >= limit) {
            return Verdict::Stop { failures };
        }
        // Runs that end within a pause began before it.
        let is_paused = self.paused_until.is_some_and(|end| now < end);
        if !self.has_succeeded || failures < SLOW_AFTER || is_paused {
            return Verdict::GoOn;
        }
        self.paused = self.paused.saturating_add(1);
        let pause = self.pauses.after(self.paused);
        self.paused_until = Some(now + pause);
        Verdict::SlowDown { failures, pause }
    }

    fn succeeded(&mut self) -> Verdict {
        let (on_failures, pauses) = (self.on_failures, self.pauses);
        let was_paused = self.paused > 0;
        *self = Self { has_succeeded: true, ..Self::new(on_failures, pauses) };
        if was_paused { Verdict::Recovered } else { Verdict::GoOn }
    }

    fn failed_first(&mut self, task_id: TaskId) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let most = match self.on_failures {
            OnFailures::StopAfter(limit) => limit.max(REMEMBERED),
            OnFailures::SlowDown | OnFailures::Ignore => REMEMBERED,
        };
        if u32::try_from(self.failed.len()).is_ok_and(|remembered| remembered < most) {
            self.failed.insert(task_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OnFailures::{Ignore, SlowDown, StopAfter};
    use super::RunOutcome::{Released, Succeeded};
    use super::*;
    use crate::settings::Intervals;

    fn task(number: u8) -> TaskId {
        TaskId::parse(&format!("t_00000000{number:04}")).unwrap()
    }

    fn failed() -> RunOutcome {
        RunOutcome::Failed { kind: "ExitCode".into(), message: "exit code 1".into() }
    }

    fn cannot_run() -> RunOutcome {
        RunOutcome::CannotRun("full".to_owned())
    }

    fn guard(on_failures: OnFailures) -> FailureGuard {
        FailureGuard::new(on_failures, Intervals::default().failure_pause)
    }

    /// Counts runs of these tasks; returns after how many failures each of them ends the worker.
    fn stops_of(on_failures: OnFailures, runs: &[(u8, RunOutcome)]) -> Vec<Option<u32>> {
        let (mut guard, now) = (guard(on_failures), Instant::now());
        let mut stop = |(number, outcome): &(u8, RunOutcome)| match guard.count(task(*number), outcome, now) {
            Verdict::Stop { failures } => Some(failures),
            _ => None,
        };
        runs.iter().map(&mut stop).collect()
    }

    /// Counts runs of different tasks.
    fn stops(on_failures: OnFailures, runs: &[RunOutcome]) -> Vec<Option<u32>> {
        let runs: Vec<(u8, RunOutcome)> = (0..).zip(runs.iter().cloned()).collect();
        stops_of(on_failures, &runs)
    }

    /// Counts failures of different tasks after a success, each at the end of the pause before; returns the pauses.
    fn pauses(on_failures: OnFailures, failures: u8) -> Vec<u64> {
        let (mut guard, mut now, mut pauses) = (guard(on_failures), Instant::now(), Vec::new());
        guard.count(task(0), &Succeeded, now);
        for number in 1..=failures {
            if let Verdict::SlowDown { pause, .. } = guard.count(task(number), &failed(), now) {
                pauses.push(pause.as_secs());
                now += pause;
            }
        }
        pauses
    }

    #[test]
    fn only_failures_in_a_row_count() {
        assert_eq!(stops(StopAfter(2), &[failed(), Succeeded, failed(), failed()]), [None, None, None, Some(2)]);
    }

    #[test]
    fn a_task_that_fails_again_counts_once() {
        let runs = [1, 2, 1, 2, 1, 2, 3].map(|number| (number, failed()));
        assert_eq!(stops_of(StopAfter(3), &runs), [None, None, None, None, None, None, Some(3)]);
        let runs = [(1, failed()), (2, failed()), (3, Succeeded), (1, failed()), (2, failed()), (4, failed())];
        assert_eq!(stops_of(StopAfter(3), &runs), [None, None, None, None, None, Some(3)], "a success resets");
    }

    #[test]
    fn a_worker_that_cannot_run_the_same_task_counts_each_time() {
        assert_eq!(stops_of(StopAfter(2), &[(1, cannot_run()), (1, cannot_run())]), [None, Some(2)]);
        assert_eq!(stops_of(StopAfter(2), &[(1, cannot_run()), (1, failed())]), [None, Some(2)]);
    }

    #[test]
    fn revoked_and_released_runs_neither_count_nor_reset() {
        for undecided in [Released, RunOutcome::Revoked("cancelled".to_owned()), RunOutcome::Undelivered] {
            assert_eq!(stops(StopAfter(2), &[failed(), undecided.clone(), failed()]), [None, None, Some(2)]);
            assert_eq!(stops(StopAfter(1), &[undecided]), [None]);
        }
    }

    #[test]
    fn runs_that_end_after_it_has_tripped_do_not_reset_it() {
        assert_eq!(stops(StopAfter(1), &[failed(), cannot_run()]), [Some(1), Some(2)]);
    }

    #[test]
    fn five_end_only_a_worker_that_never_had_a_success() {
        let five = [failed(), failed(), failed(), failed(), failed()];
        assert_eq!(stops(SlowDown, &five), [None, None, None, None, Some(5)]);
        let after_success: Vec<RunOutcome> = [Succeeded].into_iter().chain(vec![failed(); 40]).collect();
        assert_eq!(stops(SlowDown, &after_success), vec![None; 41]);
        assert_eq!(stops(StopAfter(40), &after_success)[39..], [None, Some(40)], "with a number in any case");
        assert_eq!(stops(Ignore, &vec![failed(); 40]), vec![None; 40]);
    }

    #[test]
    fn from_the_fifth_on_each_failure_doubles_the_pause_up_to_five_minutes() {
        assert!(pauses(SlowDown, 4).is_empty());
        assert_eq!(pauses(SlowDown, 11), [10_u64, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pauses(StopAfter(8), 11), [10_u64, 20, 40], "until it ends");
        assert!(pauses(Ignore, 11).is_empty());
    }

    #[test]
    fn a_worker_that_never_had_a_success_does_not_pause() {
        let mut guard = guard(StopAfter(8));
        let verdicts: Vec<Verdict> =
            (1..=8).map(|number| guard.count(task(number), &failed(), Instant::now())).collect();
        assert_eq!(verdicts[..7], [Verdict::GoOn; 7]);
        assert_eq!(verdicts[7], Verdict::Stop { failures: 8 });
    }

    #[test]
    fn a_task_that_fails_again_neither_counts_nor_makes_the_pause_longer() {
        let (mut guard, mut now) = (guard(SlowDown), Instant::now());
        guard.count(task(0), &Succeeded, now);
        for number in 1..=7 {
            if let Verdict::SlowDown { pause, .. } = guard.count(task(number), &failed(), now) {
                now += pause;
            }
        }
        (1..=7).for_each(|number| assert_eq!(guard.count(task(number), &failed(), now), Verdict::GoOn, "{number}"));
        let pause = Duration::from_secs(80);
        assert_eq!(guard.count(task(8), &failed(), now), Verdict::SlowDown { failures: 8, pause });
    }

    #[test]
    fn runs_that_end_within_a_pause_do_not_make_it_longer_and_a_success_ends_it() {
        let (mut guard, now) = (guard(SlowDown), Instant::now());
        guard.count(task(0), &Succeeded, now);
        (1..=4).for_each(|number| assert_eq!(guard.count(task(number), &failed(), now), Verdict::GoOn));
        let pause = Duration::from_secs(10);
        assert_eq!(guard.count(task(5), &failed(), now), Verdict::SlowDown { failures: 5, pause });
        assert_eq!(guard.count(task(6), &failed(), now + pause / 2), Verdict::GoOn);
        assert_eq!(guard.count(task(7), &Succeeded, now + pause / 2), Verdict::Recovered);
        (1..=4).for_each(|number| assert_eq!(guard.count(task(number), &failed(), now + pause / 2), Verdict::GoOn));
        let verdict = guard.count(task(5), &failed(), now + pause / 2);
        assert_eq!(verdict, Verdict::SlowDown { failures: 5, pause }, "from the beginning again");
    }
}
