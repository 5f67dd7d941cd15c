//! The settings of a worker; all of its intervals in one place, so that tests can shorten them; the backoff between tries; and the
//! waits that the server is asked for.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use taskqueue_client::{JsonObject, QueueName, Route};
use tokio::time::{Instant, sleep_until};

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

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
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
            heartbeat: seconds(60),
            heartbeat_poll: seconds(5),
            heartbeat_retry: seconds(5),
            // Many proxies cut a silent connection after 60 seconds.
            wait: seconds(50),
            backoff: BackoffLimits { first: seconds(1), longest: seconds(10) },
            // Long enough to spare a sweep, short enough that its good region is found within minutes.
            failure_pause: BackoffLimits { first: seconds(10), longest: seconds(300) },
            observation: seconds(60),
            observation_gap: seconds(1),
            output: seconds(1),
            output_rewrite: seconds(5),
            late_output: seconds(10),
            output_at_exit: seconds(3),
            outage_settle: seconds(5),
            progress: seconds(1),
            telemetry: seconds(15),
            idle_reason: seconds(10),
            idle_reason_again: seconds(60),
            shutdown_timeout: seconds(1),
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
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
