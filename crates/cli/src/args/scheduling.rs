//! Flags that say when a task may run, for how long, and behind which tasks; for new tasks and for updates. `scheduling_args.rs` makes
//! of them what the server gets.

use std::time::Duration;

use clap::Args;
use taskqueue_core::limits::RETRY_DELAY_MAX_SECONDS_DEFAULT;
use taskqueue_core::scheduling::{self, OnDependencyFailure, RetryDelay};
use taskqueue_core::time::Timestamp;

use super::values::{TaskRef, batch_label, duration, task_ref, time};

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SchedulingArgs {
    /// The task is claimed after this time at the earliest, such as 30s, 10m or 2h; counted by the clock of this machine
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "not_before")]
    pub(crate) delay: Option<Duration>,

    /// The task is claimed from then on, such as 2027-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) not_before: Option<Timestamp>,

    /// How long the task waits after an attempt that failed: the first time, twice as long each further time, at most the second
    /// duration, such as 10s..1h; 10s alone is 10s..1d
    #[arg(long, value_name = "FIRST[..LONGEST]", value_parser = retry_delay)]
    pub(crate) retry_delay: Option<RetryDelay>,

    /// How long a run of the task may take, such as 30s, 5m or 2h; then it is ended, and tried again while attempts are left
    #[arg(long, value_name = "DURATION", value_parser = run_limit)]
    pub(crate) timeout: Option<i64>,

    /// The task is claimed only when this one has succeeded (repeatable); an update replaces all of them
    #[arg(long, value_name = "ID", value_parser = task_ref)]
    pub(crate) after: Vec<TaskRef>,

    /// The same for all tasks that were submitted with this --batch so far (repeatable)
    #[arg(long, value_name = "LABEL", value_parser = batch_label)]
    pub(crate) after_batch: Vec<String>,

    /// What becomes of the task when one of these fails for good, is cancelled or is deleted: it waits on, as it does if nothing is
    /// said, or is cancelled
    #[arg(long, value_name = "wait|cancel", value_parser = on_dependency_failure)]
    pub(crate) on_dependency_failure: Option<OnDependencyFailure>,
}

/// The same for an update, which can also take something away.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SchedulingChangeArgs {
    #[command(flatten)]
    pub(crate) new: SchedulingArgs,

    /// The task can be claimed at once
    #[arg(long, conflicts_with_all = ["delay", "not_before"])]
    pub(crate) no_delay: bool,

    /// The task does not wait after an attempt that failed
    #[arg(long, conflicts_with = "retry_delay")]
    pub(crate) no_retry_delay: bool,

    /// A run of the task may take any time
    #[arg(long, conflicts_with = "timeout")]
    pub(crate) no_timeout: bool,

    /// The task waits for no other task
    #[arg(long, conflicts_with_all = ["after", "after_batch"])]
    pub(crate) no_after: bool,
}

/// `10s..1h`, or `10s` alone.
fn retry_delay(text: &str) -> Result<RetryDelay, &'static str> {
    const FORM: &str = "write the first delay and the longest as 10s..1h, or only the first as 10s";
    let (first, longest) = match text.split_once("..") {
        Some((first, longest)) => (first, Some(longest)),
        None => (text, None),
    };
    let seconds = |text: &str| duration(text).map(|time| time.as_secs_f64()).map_err(|_| FORM);
    let (first, longest) = (seconds(first)?, longest.map(seconds).transpose()?);
    if longest.is_some_and(|longest| longest < first) {
        return Err("the longest delay is shorter than the first one; write the shorter one first, as 10s..1h");
    }
    // A first delay alone is never cut by the longest one that others have.
    let longest = longest.unwrap_or(RETRY_DELAY_MAX_SECONDS_DEFAULT).max(first);
    RetryDelay::new(first, None, Some(longest)).ok_or(FORM)
}

fn run_limit(text: &str) -> Result<i64, &'static str> {
    let seconds = duration(text).ok().and_then(|time| i64::try_from(time.as_secs()).ok());
    seconds.and_then(scheduling::run_limit).ok_or("write a duration from 1s to 365d, such as 30s, 5m or 2h")
}

fn on_dependency_failure(text: &str) -> Result<OnDependencyFailure, &'static str> {
    OnDependencyFailure::parse(text).ok_or("use wait or cancel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_delay_has_a_first_and_a_longest_one() {
        let parts = |text| retry_delay(text).map(|delay| (delay.seconds(), delay.factor(), delay.max_seconds()));
        let cases = [
            ("10s..1h", (10.0, 2.0, 3600.0)),
            ("10s", (10.0, 2.0, 86_400.0)),
            ("5..5", (5.0, 2.0, 5.0)),
            ("0..2m", (0.0, 2.0, 120.0)),
            ("2d..3d", (172_800.0, 2.0, 259_200.0)),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", "10s..1h"),
            ("10s..", "10s..1h"),
            ("..1h", "10s..1h"),
            ("10s..1h..2", "10s..1h"),
            ("10s-1h", "10s..1h"),
            ("-1", "10s..1h"),
            ("1h..10s", "shorter one first"),
        ] {
            let error = retry_delay(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_first_delay_of_more_than_a_day_is_waited_for() {
        let delay = retry_delay("2d").unwrap();
        assert_eq!(delay.after_attempt(1), Duration::from_secs(2 * 86_400));
    }

    #[test]
    fn a_time_limit_is_a_second_to_a_year() {
        for (text, expected) in [("1", 1), ("2h", 7200), ("365d", 31_536_000)] {
            assert_eq!(run_limit(text), Ok(expected), "{text}");
        }
        for text in ["0", "366d", "1.5h", "never", ""] {
            assert!(run_limit(text).unwrap_err().contains("such as 30s, 5m or 2h"), "{text}");
        }
    }
}
