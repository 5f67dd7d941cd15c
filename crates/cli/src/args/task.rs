//! `taskqueue task ...`

use std::time::Duration;

use clap::{Args, Subcommand};

use super::change::{self, DeleteArgs, RequeueArgs, TargetArgs, UpdateArgs};
use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{COUNT_HELP, ConditionArgs, ListArgs, SelectionArgs, list_help};
use super::submit::{SWEEP_EXAMPLES, SubmitArgs, SweepArgs, submit_help};
use super::values::{TaskDimensions, TaskRef, duration, task_dimensions, task_ref};

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
    #[command(after_help = LOGS_HELP)]
    Logs(LogsArgs),
    /// List tasks
    #[command(after_help = list_help())]
    List(ListArgs),
    /// Count tasks
    #[command(after_help = COUNT_HELP)]
    Count(CountArgs),
    /// Change tasks that are not running
    #[command(after_help = change::UPDATE_HELP)]
    Update(UpdateArgs),
    /// Cancel tasks; the run of a running task is ended
    #[command(after_help = change::CANCEL_HELP)]
    Cancel(TargetArgs),
    /// Reset pending, failed or cancelled tasks to pending, with no attempt used, and change them if asked to
    #[command(after_help = change::REQUEUE_HELP)]
    Requeue(RequeueArgs),
    /// Submit succeeded, failed or cancelled tasks again, under new ids
    #[command(after_help = change::RERUN_HELP)]
    Rerun(TargetArgs),
    /// Delete tasks that are not running
    #[command(after_help = change::DELETE_HELP)]
    Delete(DeleteArgs),
    /// Keep ended tasks, and leave them out of lists and counts
    #[command(after_help = change::ARCHIVE_HELP)]
    Archive(TargetArgs),
    /// Take tasks out of the archive
    #[command(after_help = change::UNARCHIVE_HELP)]
    Unarchive(TargetArgs),
    /// Wait until tasks have ended; exit code 0 only if all of them succeeded
    #[command(after_help = WAIT_HELP)]
    Wait(WaitArgs),
}

impl TaskCommand {
    /// Returns the filter, for messages about it.
    pub(crate) fn filter(&self) -> Option<&str> {
        let conditions = match self {
            Self::List(args) => &args.selection.conditions,
            Self::Count(args) => &args.selection.conditions,
            Self::Cancel(args) | Self::Rerun(args) | Self::Archive(args) | Self::Unarchive(args) => {
                &args.selection.conditions
            }
            Self::Requeue(args) => &args.target.selection.conditions,
            Self::Delete(args) => &args.target.selection.conditions,
            Self::Wait(args) => &args.conditions,
            Self::Update(args) => return args.filter.as_deref(),
            Self::Submit(_) | Self::Sweep(_) | Self::Get(_) | Self::Explain(_) | Self::Logs(_) => return None,
        };
        conditions.filter.as_deref()
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

const WAIT_HELP: &str = "\
Examples:
  taskqueue task wait                                   # all tasks of the queue
  taskqueue task wait --filter 'args.model == \"vit\"' --timeout 2h
  ids=$(taskqueue task rerun --status failed --yes --output quiet)
  [ -n \"$ids\" ] && taskqueue task wait $ids             # without ids: all tasks of the queue
  taskqueue task wait && python report.py               # only if every task succeeded

The command waits until none of the tasks is pending or running. Tasks that match later count, too.

Exit codes: 0 every task succeeded. 1 tasks failed, were cancelled or do not exist; nothing
matches; or the time is over. 3 the server stays away for half a minute, or is away when the
time is over.";

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

const LOGS_HELP: &str = "\
Examples:
  taskqueue task logs t_lZxL89_zReNB
  taskqueue task logs t_lZxL89_zReNB --tail 20 --follow
  taskqueue task logs t_lZxL89_zReNB --raw > output.log
  taskqueue task logs t_lZxL89_zReNB --output json

The server keeps the last 256 KiB of what the latest run printed (serve --task-output-bytes). If
older output is gone, a note says so, and where the full log is. Workers send the output within
about a second.

--follow goes on while the task waits, runs and is tried again, also while the server restarts, and
ends when the task has ended. On a terminal a progress bar is drawn in place; elsewhere each line
is printed when it is complete.

Lines are shown in the last state of a progress bar, without escape sequences other than colours,
and with colours only on a terminal. --raw prints the bytes as the server has them. A line in
brackets says where bytes are missing; with --raw it goes to standard error.

Formats: json gives one object (attempt, start, end, text, ended, missing_bytes), jsonl one object
for each piece, also with --follow, and quiet the text without notes.

Exit codes: 0 the output was printed, however the task ended (taskqueue task wait tells that). 1 there
is no such task, or the server keeps no output. 3 the server stays away for half a minute.";

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
