//! `taskqueue task ...`, except what its tasks are made of (`submit.rs`) and how they are selected (`selection.rs`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_core::grouping::TaskDimension;
use taskqueue_core::ids::Route;
use taskqueue_core::task::Status;

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{ConditionArgs, ListArgs, SelectionArgs};
use super::submit::{SchedulingChangeArgs, SubmitArgs, SweepArgs};
use super::values::{TaskRef, duration, route, status, task_dimensions, task_ref};

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
    Get(GetArgs),
    /// Say why a task is not claimed yet, and what helps
    Explain(ExplainArgs),
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
pub(crate) struct GetArgs {
    /// The ids of the tasks
    #[arg(value_name = "ID", value_parser = task_ref, required = true)]
    pub(crate) ids: Vec<TaskRef>,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The id of the task
    #[arg(value_name = "ID", value_parser = task_ref)]
    pub(crate) id: TaskRef,
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
