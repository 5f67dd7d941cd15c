//! `taskqueue queue ...`

use clap::{Args, Subcommand};
use taskqueue_core::ids::QueueName;

use super::change::ConfirmArgs;
use super::connection::{ConnectionArgs, OutputArgs};
use super::values::queue_name;

pub(super) const HELP: &str = "\
Examples:
  taskqueue queue create experiments
  taskqueue queue list
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
