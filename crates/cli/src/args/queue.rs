//! `taskqueue queue ...`: what can be done with queues.

use clap::{Args, Subcommand};
use taskqueue_core::ids::QueueName;

use super::connection::{ConnectionArgs, OutputArgs};
use super::task::ConsentArgs;
use super::values::queue_name;

/// Queues.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

/// What to do with queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Make sure that a queue exists
    Create(QueueNameArgs),
    /// List all queues
    List,
    /// Delete a queue
    Delete(DeleteQueueArgs),
}

/// Which queue.
#[derive(Debug, Args)]
pub(crate) struct QueueNameArgs {
    /// The queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,
}

/// Which queue to delete, and whether with its tasks.
#[derive(Debug, Args)]
pub(crate) struct DeleteQueueArgs {
    /// The queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,

    /// Delete its tasks, too; asks before, unless --yes is given
    #[arg(long)]
    pub(crate) cascade: bool,

    #[command(flatten)]
    pub(crate) consent: ConsentArgs,
}
