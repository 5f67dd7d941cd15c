//! `taskqueue queue ...`

use clap::{Args, Subcommand};
use taskqueue_core::activity::Unit;
use taskqueue_core::ids::QueueName;
use taskqueue_core::time::Timestamp;

use super::change::ConfirmArgs;
use super::connection::{ConnectionArgs, OutputArgs};
use super::values::{queue_name, time, unit};

pub(super) const HELP: &str = "\
Examples:
  taskqueue queue create experiments
  taskqueue queue list
  taskqueue queue stats experiments
  taskqueue queue delete experiments";

const CREATE_HELP: &str = "\
Examples:
  taskqueue queue create experiments
  taskqueue queue create experiments --url http://127.0.0.1:8000

Creating a queue that exists changes nothing and is no error.";

const LIST_HELP: &str = "\
Examples:
  taskqueue queue list
  taskqueue queue list --output quiet    # only the names, for scripts

taskqueue top shows what each queue holds.";

const STATS_HELP: &str = "\
Examples:
  taskqueue queue stats experiments
  taskqueue queue stats experiments --output json
  taskqueue queue stats experiments --series hour --output csv    # for plots

Minutes are kept for a day, hours for a year. taskqueue top shows the same, live.";

const DELETE_HELP: &str = "\
Examples:
  taskqueue queue delete experiments
  taskqueue queue delete experiments --cascade --yes    # with all its tasks, without a question

A queue with running tasks is not deleted; cancel them first.";

#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Create a queue, unless it exists
    #[command(after_help = CREATE_HELP)]
    Create(QueueNameArgs),
    /// List all queues
    #[command(after_help = LIST_HELP)]
    List,
    /// Show what is going on in a queue: tasks, routes, workers, and what happened lately
    #[command(after_help = STATS_HELP)]
    Stats(QueueStatsArgs),
    /// Delete a queue
    #[command(after_help = DELETE_HELP)]
    Delete(DeleteQueueArgs),
}

#[derive(Debug, Args)]
pub(crate) struct QueueNameArgs {
    /// The name of the queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,
}

#[derive(Debug, Args)]
pub(crate) struct QueueStatsArgs {
    /// The name of the queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,

    /// List what happened in each minute or hour instead
    #[arg(long, value_name = "minute|hour", value_parser = unit)]
    pub(crate) series: Option<Unit>,

    /// The first moment of the series, such as 2026-01-31T12:00:00Z; by default everything that is kept
    #[arg(long, value_name = "TIME", value_parser = time, requires = "series")]
    pub(crate) from: Option<Timestamp>,

    /// The end of the series; by default now
    #[arg(long, value_name = "TIME", value_parser = time, requires = "series")]
    pub(crate) to: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteQueueArgs {
    /// The name of the queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,

    /// Delete its tasks, too; asks for confirmation unless --yes is given
    #[arg(long)]
    pub(crate) cascade: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
