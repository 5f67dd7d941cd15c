//! `taskqueue task ...`

use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_core::ids::TaskId;

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::definition::ChangeArgs;
use super::selection::{ListArgs, SelectionArgs, TargetArgs};
use super::submit::{SUBMIT_EXAMPLES, SWEEP_EXAMPLES, SubmitArgs, SweepArgs};
use super::values::{TaskDimensions, duration, task_dimensions, task_id};

const SELECT_EXAMPLES: &str = "\
Name tasks by id, or select them with the options. Before selected tasks are changed, the
command shows their number and asks for confirmation; programs have to give --yes.";

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
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Create one task, or one for each line of a file
    #[command(after_help = SUBMIT_EXAMPLES)]
    Submit(SubmitArgs),
    /// Create a task for each combination of values
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(SweepArgs),
    /// Show one task
    Get(GetArgs),
    /// List tasks
    List(ListArgs),
    /// Count tasks
    Count(CountArgs),
    /// Change tasks that are not running
    #[command(after_help = SELECT_EXAMPLES)]
    Update(UpdateArgs),
    /// Cancel tasks; the run of a running task is ended
    #[command(after_help = SELECT_EXAMPLES)]
    Cancel(ActionArgs),
    /// Reset pending, failed or cancelled tasks to pending, with no attempt used
    #[command(after_help = SELECT_EXAMPLES)]
    Requeue(ActionArgs),
    /// Delete tasks that are not running
    #[command(after_help = SELECT_EXAMPLES)]
    Delete(ActionArgs),
    /// Wait until tasks have ended; exit code 0 only if all of them succeeded
    Wait(WaitArgs),
}

impl TaskCommand {
    /// For messages about the filter.
    pub(crate) fn filter(&self) -> Option<&str> {
        let filter = match self {
            Self::List(args) => &args.selection.filter,
            Self::Count(args) => &args.selection.filter,
            Self::Update(args) => &args.filter,
            Self::Cancel(args) | Self::Requeue(args) | Self::Delete(args) => &args.target.selection.filter,
            Self::Wait(args) => &args.target.selection.filter,
            Self::Submit(_) | Self::Sweep(_) | Self::Get(_) => &None,
        };
        filter.as_deref()
    }
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The id of the task
    #[arg(value_name = "ID", value_parser = task_id)]
    pub(crate) id: TaskId,
}

#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    /// Count by status, routes, or both, such as status,routes
    #[arg(long, value_name = "FIELDS", value_parser = task_dimensions)]
    pub(crate) group_by: Option<TaskDimensions>,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_id, required_unless_present = "filter", conflicts_with = "filter")]
    pub(crate) ids: Vec<TaskId>,

    /// Change all tasks that match this filter and are not running, or none of them
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ActionArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Stop waiting after this time, such as 30s, 5m or 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}
