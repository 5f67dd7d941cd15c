//! `taskqueue task ...`

use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_core::grouping::TaskDimension;

use super::change::{DeleteArgs, RequeueArgs, TargetArgs, UpdateArgs};
use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{ConditionArgs, ListArgs, SelectionArgs};
use super::submit::{SubmitArgs, SweepArgs};
use super::values::{TaskRef, duration, task_dimensions, task_ref};

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
