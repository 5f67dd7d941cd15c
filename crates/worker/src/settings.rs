//! The settings of a worker; all of its intervals in one place, so that tests can shorten them; the backoff between tries; the waits that the
//! server is asked for; and the failure guard, which counts failures in a row of different tasks. A worker with which every task fails is broken
//! itself (a missing driver, a full disk) and would use up the attempts of all tasks: it ends. One that has had a success may be in a bad region
//! of a sweep, so it only slows down. A task that fails at every attempt is not the worker's fault.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use taskqueue_client::{JsonObject, QueueName, Route, TaskId};
use tokio::time::{Instant, sleep_until};

use crate::handler::RunOutcome;
use crate::run_dir::RunDir;
use crate::sent_output::SendOutput;

#[derive(Clone, Debug)]
pub struct Settings {
    pub queue: QueueName,
    pub route: Route,
    /// Tells this worker apart from others of its machine.
    pub name: Option<String>,
    /// The members that are shown with its observations and runs, besides what the worker says itself. Members that the server has no room for are
    /// left out.
    pub metadata: JsonObject,
    /// The numbers of the slots. Each slot runs one task at a time.
    pub slots: Vec<usize>,
    /// The worker ends after being idle for this long; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// The effect of failures in a row of different tasks.
    pub on_failures: OnFailures,
    /// The worker ends after this many tasks.
    pub max_tasks: Option<u64>,
    /// The time that a run has to end after it was asked to.
    pub grace: Duration,
    /// The place where reports are stored until the server has accepted or refused them.
    pub spool: Option<SpoolSettings>,
    /// The part of the output of runs that is sent, to a server that keeps it.
    pub send_output: SendOutput,
    /// Measures what runs, the machine and its GPUs use, and sends it to the server. For that a program may be
    /// started, so `main` has to begin with [`run_if_supervisor`](crate::run_if_supervisor).
    pub telemetry: bool,
    pub intervals: Intervals,
}

#[derive(Clone, Debug)]
pub struct SpoolSettings {
    pub run_dir: RunDir,
    /// The URL of the server. The next worker delivers the stored reports only to the same URL.
    pub url: String,
}

impl Settings {
    /// One slot that works until it is stopped, or until five different tasks have failed and none has succeeded.
    pub fn new(queue: QueueName, route: Route) -> Self {
        Self {
            queue,
            route,
            name: None,
            metadata: JsonObject::empty(),
            slots: vec![0],
            idle_timeout: None,
            on_failures: OnFailures::SlowDown,
            max_tasks: None,
            grace: Duration::from_secs(10),
            spool: None,
            send_output: SendOutput::On,
            telemetry: false,
            intervals: Intervals::default(),
        }
    }
}

/// The effect of failures in a row of different tasks on the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailures {
    /// Five end a worker that has had no success yet, and slow down any other.
    SlowDown,
    /// So many end it in any case. Five slow it down before if it has had a success.
    StopAfter(u32),
    /// None at all.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Between the start of a run and its first heartbeat: most short runs need none.
    pub first_heartbeat: Duration,
    /// The time that the server is asked to hold a heartbeat, but no longer than `wait`: a fifth of the lease.
    pub heartbeat: Duration,
    /// Between two heartbeats where the server does not hold them.
    pub heartbeat_poll: Duration,
    /// Between a failed heartbeat and the next one.
    pub heartbeat_retry: Duration,
    /// The time that the server is asked to wait for a task, or to hold a heartbeat. The server may shorten it.
    pub wait: Duration,
    /// Between claims of an idle worker whose server does not wait, and between tries of any call that failed.
    pub backoff: BackoffLimits,
    /// Between claims of a worker that slows down because of failures in a row.
    pub failure_pause: BackoffLimits,
    /// Between two observations while nothing changes.
    pub observation: Duration,
    /// The minimum time between two observations.
    pub observation_gap: Duration,
    /// The shortest time between two requests with output of one run, while it goes on.
    pub output: Duration,
    /// The shortest time between two requests with a line that changes again and again, such as a progress bar.
    pub output_rewrite: Duration,
    /// The time for which output of a run is sent after the run was reported.
    pub late_output: Duration,
    /// The time by which sending output may delay the end of the worker.
    pub output_at_exit: Duration,
    /// For how long calls succeed again until an outage of the server is over.
    pub outage_settle: Duration,
    /// Between two looks at the progress of a run, and between two reports of it.
    pub progress: Duration,
    /// Between two reports of what is measured.
    pub telemetry: Duration,
    /// After so long without a task an idle worker asks why.
    pub idle_reason: Duration,
    /// The time until it asks again.
    pub idle_reason_again: Duration,
    /// The time by which the worker's last calls (observations, reports of an earlier worker) may delay its end.
    pub shutdown_timeout: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            first_heartbeat: Duration::from_millis(500),
            heartbeat: Duration::from_secs(60),
            heartbeat_poll: Duration::from_secs(5),
            heartbeat_retry: Duration::from_secs(5),
            // Many proxies cut a silent connection after 60 seconds.
            wait: Duration::from_secs(50),
            backoff: BackoffLimits { first: Duration::from_secs(1), longest: Duration::from_secs(10) },
            // Long enough to spare a sweep, short enough that its good region is found within minutes.
            failure_pause: BackoffLimits { first: Duration::from_secs(10), longest: Duration::from_secs(300) },
            observation: Duration::from_secs(60),
            observation_gap: Duration::from_secs(1),
            output: Duration::from_secs(1),
            output_rewrite: Duration::from_secs(5),
            late_output: Duration::from_secs(10),
            output_at_exit: Duration::from_secs(3),
            outage_settle: Duration::from_secs(5),
            progress: Duration::from_secs(1),
            telemetry: Duration::from_secs(15),
            idle_reason: Duration::from_secs(10),
            idle_reason_again: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(1),
        }
    }
}

/// Pauses that double from one try to the next; by default 1, 2, 4, 8, 10, 10 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffLimits {
    pub first: Duration,
    pub longest: Duration,
}

impl BackoffLimits {
    /// The pause after this many failed tries (at least 1), without jitter.
    pub(crate) fn after(&self, tries: u32) -> Duration {
        let doublings = tries.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

#[derive(Debug)]
pub(crate) struct Backoff {
    limits: BackoffLimits,
    tries: u32,
}

impl Backoff {
    pub(crate) fn new(limits: BackoffLimits) -> Self {
        Self { limits, tries: 0 }
    }

    /// Counts a failed try and returns the pause after it.
    pub(crate) fn next(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        jittered(self.limits.after(self.tries))
    }

    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// Up to a tenth more or less, so that workers that were started together do not send their calls together.
pub(crate) fn jittered(interval: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) as u16;
    interval.mul_f64(0.9 + 0.2 * f64::from(random) / f64::from(u16::MAX))
}

/// Rounded up, so that the last wait ends no earlier than the idle timeout.
pub(crate) fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Returns whether the server has waited as its answer says. A server that is shutting down answers at once; calling again at once
/// would be a busy loop.
pub(crate) fn has_waited(applied: Option<u32>, wanted: Option<Duration>, took: Duration) -> bool {
    let applied = applied.map(|seconds| Duration::from_secs(seconds.into()));
    applied.zip(wanted).is_some_and(|(applied, wanted)| took >= applied.min(wanted) / 2)
}

/// Sleeps until this time; for ever without one.
pub(crate) async fn sleep_until_some(time: Option<Instant>) {
    or_never(time.map(sleep_until)).await
}

/// Waits for a future; for ever without one.
pub(crate) async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    if let Some(future) = future { future.await } else { std::future::pending().await }
}

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
        let (failed, paused_until) = (HashSet::new(), None);
        Self { on_failures, pauses, failed, in_a_row: 0, has_succeeded: false, paused: 0, paused_until }
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

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn pauses_are_1_2_4_8_and_then_10_seconds() {
        let limits = Intervals::default().backoff;
        let waited: Vec<u64> = (1..=6).map(|tries| limits.after(tries).as_secs()).collect();
        assert_eq!(waited, [1, 2, 4, 8, 10, 10]);
        assert_eq!(limits.after(u32::MAX), seconds(10));
    }

    #[test]
    fn a_success_resets_the_backoff() {
        let mut backoff = Backoff::new(Intervals::default().backoff);
        let first = [backoff.next(), backoff.next()];
        assert!(first[0] < seconds(2) && first[1] > seconds(1), "{first:?}");
        backoff.reset();
        assert!(backoff.next() < seconds(2));
    }

    #[test]
    fn jitter_stays_within_a_tenth() {
        for _ in 0..1000 {
            let drawn = jittered(seconds(10));
            assert!(drawn >= seconds(9) && drawn <= seconds(11), "{drawn:?}");
        }
    }

    #[test]
    fn a_wait_counts_only_if_it_took_its_time() {
        let seconds = Duration::from_secs;
        for (applied, wanted, took, expected) in [
            (Some(50), Some(seconds(50)), seconds(50), true),
            (Some(10), Some(seconds(50)), seconds(10), true),
            (Some(50), Some(seconds(50)), seconds(1), false),
            (None, Some(seconds(50)), seconds(50), false),
            (Some(50), None, seconds(50), false),
        ] {
            assert_eq!(has_waited(applied, wanted, took), expected, "{applied:?} {wanted:?} {took:?}");
        }
    }

    #[test]
    fn waits_are_rounded_up() {
        let asked = [0, 1, 999, 1000, 1001].map(|millis| whole_seconds(Duration::from_millis(millis)));
        assert_eq!(asked, [0, 1, 1, 1, 2]);
        assert_eq!(whole_seconds(Duration::MAX), u32::MAX);
    }

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
