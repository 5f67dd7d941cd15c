//! `taskqueue queue ...`

use clap::{Args, Subcommand};
use taskqueue_core::ids::QueueName;

use super::change::ConfirmArgs;
use super::connection::{ConnectionArgs, OutputArgs};
use super::values::queue_name;

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
    Create(QueueNameArgs),
    /// List all queues
    List,
    /// Delete a queue
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
