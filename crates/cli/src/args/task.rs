//! `taskqueue task ...`

use clap::{Args, Subcommand};

use super::change::{self, ArchiveArgs, CancelArgs, DeleteArgs, RequeueArgs, RerunArgs, UpdateArgs};
use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::logs::{self, LogsArgs};
use super::selection::{self, ListArgs, SelectionArgs};
use super::submit::{SWEEP_EXAMPLES, SubmitArgs, SweepArgs, submit_help};
use super::values::{TaskDimensions, TaskRef, task_dimensions, task_ref};
use super::wait::{self, WaitArgs};

const GET_EXAMPLES: &str = "\
Examples:
  taskqueue task get t_lZxL89_zReNB
  taskqueue task get t_lZxL89_zReNB t_jsR8k3J-oVIW --output json

With one id the JSON is that task, with several a list of tasks.
Exit code 1 if a task does not exist; the others are shown.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  taskqueue task explain t_lZxL89_zReNB
  taskqueue task explain t_lZxL89_zReNB --output json

Each reason is one line, the one that weighs most first. With --output quiet only their codes are
printed, one per line; nothing if nothing holds the task back.
Exit code 0 also if the task cannot be claimed now; 1 if it does not exist.";

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
    #[command(after_help = submit_help())]
    Submit(SubmitArgs),
    /// Create a task for each combination of values
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(SweepArgs),
    /// Show tasks with all their fields
    #[command(after_help = GET_EXAMPLES)]
    Get(GetArgs),
    /// Say why a task is not claimed yet, and what helps
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Print what the latest run of a task printed, or follow it
    #[command(after_help = logs::HELP)]
    Logs(LogsArgs),
    /// List tasks
    #[command(after_help = selection::list_help())]
    List(ListArgs),
    /// Count tasks
    #[command(after_help = selection::COUNT_HELP)]
    Count(CountArgs),
    /// Change tasks that are not running
    #[command(after_help = change::UPDATE_HELP)]
    Update(UpdateArgs),
    /// Cancel tasks; the run of a running task is ended
    #[command(after_help = change::CANCEL_HELP)]
    Cancel(CancelArgs),
    /// Reset pending, failed or cancelled tasks to pending, with no attempt used, and change them if asked to
    #[command(after_help = change::REQUEUE_HELP)]
    Requeue(RequeueArgs),
    /// Submit succeeded, failed or cancelled tasks again, under new ids
    #[command(after_help = change::RERUN_HELP)]
    Rerun(RerunArgs),
    /// Delete tasks that are not running
    #[command(after_help = change::DELETE_HELP)]
    Delete(DeleteArgs),
    /// Keep ended tasks, and leave them out of lists and counts
    #[command(after_help = change::ARCHIVE_HELP)]
    Archive(ArchiveArgs),
    /// Take tasks out of the archive
    #[command(after_help = change::UNARCHIVE_HELP)]
    Unarchive(ArchiveArgs),
    /// Wait until tasks have ended; exit code 0 only if all of them succeeded
    #[command(after_help = wait::HELP)]
    Wait(WaitArgs),
}

impl TaskCommand {
    /// For messages about the filter.
    pub(crate) fn filter(&self) -> Option<&str> {
        let filter = match self {
            Self::List(args) => &args.selection.conditions.filter,
            Self::Count(args) => &args.selection.conditions.filter,
            Self::Update(args) => &args.filter,
            Self::Cancel(args) => &args.target.selection.conditions.filter,
            Self::Requeue(args) => &args.target.selection.conditions.filter,
            Self::Rerun(args) => &args.target.selection.conditions.filter,
            Self::Delete(args) => &args.target.selection.conditions.filter,
            Self::Archive(args) | Self::Unarchive(args) => &args.target.selection.conditions.filter,
            Self::Wait(args) => &args.conditions.filter,
            Self::Submit(_) | Self::Sweep(_) | Self::Get(_) | Self::Explain(_) | Self::Logs(_) => &None,
        };
        filter.as_deref()
    }
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
    pub(crate) group_by: Option<TaskDimensions>,
}
