//! `taskqueue task ...`: what its tasks are made of, for `submit` and `sweep`: their definition, when they may run, for how long, and behind which
//! tasks (`json_args.rs` makes of the flags what the server gets); and every other command. How tasks are selected is in `selection.rs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_client::{OnDependencyFailure, RetryDelay, Route, Status, TaskDimension, TaskId, Timestamp};
use taskqueue_core::fields::defined_fields;
use taskqueue_core::limits::RETRY_DELAY_MAX_SECONDS_DEFAULT;

use super::selection::{ConditionArgs, ListArgs, SelectionArgs};
use super::values::{
    TaskRef, batch_label, duration, on_dependency_failure, route, run_limit, status, task_dimensions, task_id,
    task_ref, time,
};
use super::{ConnectionArgs, OutputArgs, QueueArg};

#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) queue: QueueArg,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: TaskCommand,
    /// The filter, for messages about it.
    #[arg(skip)]
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Create one task, or one for each line of a file
    Submit(SubmitArgs),
    /// Create a task for each combination of values
    Sweep(SweepArgs),
    /// Show tasks with all their fields
    Get {
        /// The ids of the tasks
        #[arg(value_name = "ID", value_parser = task_ref, required = true)]
        ids: Vec<TaskRef>,
    },
    /// Say why a task is not claimed yet, and what helps
    Explain {
        /// The id of the task
        #[arg(value_name = "ID", value_parser = task_ref)]
        id: TaskRef,
    },
    /// Print what the latest run of a task printed, or follow it
    Logs(LogsArgs),
    /// List tasks
    List(ListArgs),
    /// Count tasks
    Count(CountArgs),
    /// Change tasks that are not running
    Update(UpdateArgs),
    /// Cancel tasks; the run of a running task is ended
    Cancel(TargetArgs),
    /// Reset pending, failed or cancelled tasks to pending, with no attempt used, and change them if asked to
    Requeue(RequeueArgs),
    /// Submit succeeded, failed or cancelled tasks again, under new ids
    Rerun(TargetArgs),
    /// Delete tasks that are not running
    Delete(DeleteArgs),
    /// Keep ended tasks, and leave them out of lists and counts
    Archive(TargetArgs),
    /// Take tasks out of the archive
    Unarchive(TargetArgs),
    /// Wait until tasks have ended; exit code 0 only if all of them succeeded
    Wait(WaitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    /// Count by status, routes, or both, such as status,routes
    #[arg(long, value_name = "FIELDS", value_parser = task_dimensions)]
    pub(crate) group_by: Option<Box<[TaskDimension]>>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The tasks, by id [without ids and options: all tasks of the queue]
    #[arg(value_name = "ID", value_parser = task_ref, conflicts_with_all = ["name", "fuzzy", "filter"])]
    pub(crate) ids: Vec<TaskRef>,

    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,

    /// Stop waiting after this time, such as 30s, 5m or 2h; 0 asks once
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Succeed if no task matches
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The id of the task
    #[arg(value_name = "ID", value_parser = task_ref)]
    pub(crate) id: TaskRef,

    /// Go on with what is printed later, until the task has ended
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only the last lines of what is kept
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) tail: Option<usize>,

    /// The bytes as they are, with all escape sequences
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_ref, required_unless_present_any = ["status", "filter"],
          conflicts_with_all = ["status", "filter"])]
    pub(crate) ids: Vec<TaskRef>,

    /// Change all tasks with this status: pending, succeeded, failed or cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<Status>,

    /// Change all tasks that match this filter, such as 'args.lr < 0.1 and "gpu" in routes'; all of the language:
    /// docs/reference/filter-language.md
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    /// Change archived tasks that match, too
    #[arg(long, conflicts_with = "ids")]
    pub(crate) include_archived: bool,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    /// Show which tasks would change and how, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl UpdateArgs {
    /// Returns the selection of the tasks, if none is named.
    pub(crate) fn selection(&self) -> SelectionArgs {
        let conditions = ConditionArgs { filter: self.filter.clone(), ..ConditionArgs::default() };
        SelectionArgs { status: self.status, conditions, include_archived: self.include_archived }
    }
}

/// Changes of single members of args and metadata. All others are kept.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PatchArgs {
    /// Set one member of the args and keep the others (repeatable), such as lr=0.1 or model.layers=2; an object is merged
    /// into the one that is there
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) arg: Vec<String>,

    /// Remove one member of the args (repeatable), such as lr or model.layers; a model that is no object becomes one
    #[arg(long, value_name = "KEY")]
    pub(crate) unset_arg: Vec<String>,

    /// Set one member of the metadata, as --arg does with the args (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) meta: Vec<String>,

    /// Remove one member of the metadata (repeatable)
    #[arg(long, value_name = "KEY")]
    pub(crate) unset_meta: Vec<String>,
}

/// New values for tasks.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) patch: PatchArgs,

    /// Replace all args by this JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args_file")]
    pub(crate) args: Option<String>,

    /// Replace all args by the JSON object in this file; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,

    /// Replace all metadata by this JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,

    /// The new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Remove the name
    #[arg(long, conflicts_with = "name")]
    pub(crate) no_name: bool,

    /// Tasks with a higher priority are claimed first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    /// How many times the task is attempted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) max_attempts: Option<i64>,

    /// Workers of this route may claim the task (repeatable); replaces all routes
    #[arg(long = "route", value_name = "ROUTE", value_parser = route)]
    pub(crate) routes: Vec<Route>,

    /// Replace the result by this JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) result: Option<String>,

    #[command(flatten)]
    pub(crate) scheduling: SchedulingChangeArgs,
}

/// Tasks that are named by id, or selected, and whether to ask before they are changed.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_ref, required_unless_present_any = ["status", "name", "fuzzy", "filter"],
          conflicts_with_all = ["status", "name", "fuzzy", "filter", "include_archived"])]
    pub(crate) ids: Vec<TaskRef>,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) patch: PatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Succeed if a named task does not exist
    #[arg(long)]
    pub(crate) ignore_missing: bool,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Returns the paragraph about the lines of a file in the help of `task submit`.
pub(super) fn lines_help() -> String {
    let names: Vec<&str> = defined_fields().map(|field| field.path).collect();
    format!(
        "With --from each line is one task: an object with any of {}, and id, such as {{\"name\": \"a\", \"args\": \
         {{\"lr\": 0.1}}}}. The flags count for lines that do not say it themselves. A line with dependencies does not \
         get those of --after. {{KEY}} in --name is filled in from the args of the line; {{{{ and }}}} stand for braces.",
        names.join(", ")
    )
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The id of the task [default: a random id]
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) id: Option<TaskId>,

    #[command(flatten)]
    pub(crate) object: ObjectArgs,

    #[command(flatten)]
    pub(crate) definition: DefinitionArgs,

    #[command(flatten)]
    pub(crate) scheduling: SchedulingArgs,

    /// A JSON Lines file with one task per line; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "args", "arg", "args_file"])]
    pub(crate) from: Option<PathBuf>,

    /// With --from: a label that makes other tasks of the same lines, and that --after-batch finds; kept as metadata.batch
    #[arg(long, value_name = "LABEL", value_parser = batch_label)]
    pub(crate) batch: Option<String>,

    /// Check and show what would be created, of many tasks the first and their number, and create none
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// A member of args and its values (repeatable): KEY=V1,V2,... or KEY=A..B
    #[arg(long = "arg", value_name = "KEY=VALUES", required = true)]
    pub(crate) arg: Vec<String>,

    /// Take the first values of all keys together, then the second ones, instead of every combination
    #[arg(long)]
    pub(crate) zip: bool,

    /// The args that all tasks have, as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,

    #[command(flatten)]
    pub(crate) definition: DefinitionArgs,

    #[command(flatten)]
    pub(crate) scheduling: SchedulingArgs,

    /// A label that makes other tasks of the same values, and that --after-batch finds; kept as metadata.batch
    #[arg(long, value_name = "LABEL", value_parser = batch_label)]
    pub(crate) batch: Option<String>,

    /// Show the first tasks and their number, and create none
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObjectArgs {
    /// The args as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args_file")]
    pub(crate) args: Option<String>,

    /// One member of the args (repeatable), such as lr=0.1 or model.layers=2; replaces the same member of --args
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) arg: Vec<String>,

    /// A file with the args as one JSON object; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,
}

impl ObjectArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.args.is_none() && self.arg.is_empty() && self.args_file.is_none()
    }
}

/// The definition without its args.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DefinitionArgs {
    /// The name of the task
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Metadata of the task, as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,

    /// Tasks with a higher priority are claimed first (new tasks: 0)
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    /// How many times the task is attempted (new tasks: 3)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) max_attempts: Option<i64>,

    /// Workers of this route may claim the task (repeatable; new tasks: default)
    #[arg(long = "route", value_name = "ROUTE", value_parser = route)]
    pub(crate) routes: Vec<Route>,
}

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

/// The flags of scheduling for an update, which can also take something away.
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

/// Reads `10s..1h`, or `10s` alone.
fn retry_delay(text: &str) -> Result<RetryDelay, &'static str> {
    const FORM: &str = "write the first delay and the longest as 10s..1h, or only the first as 10s";
    let (first, longest) = text.split_once("..").map_or((text, None), |(first, longest)| (first, Some(longest)));
    let seconds = |text: &str| duration(text).map(|time| time.as_secs_f64()).map_err(|_| FORM);
    let (first, longest) = (seconds(first)?, longest.map(seconds).transpose()?);
    if longest.is_some_and(|longest| longest < first) {
        return Err("the longest delay is shorter than the first one; write the shorter one first, as 10s..1h");
    }
    // A first delay alone is never cut by the longest one that others have.
    let longest = longest.unwrap_or(RETRY_DELAY_MAX_SECONDS_DEFAULT).max(first);
    RetryDelay::new(first, None, Some(longest)).ok_or(FORM)
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
