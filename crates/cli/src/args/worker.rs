//! `taskqueue worker ...`: what workers report of themselves.

use clap::{Args, Subcommand};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{ExtentArgs, WorkerSelectionArgs};
use super::values::{WorkerDimensions, worker_dimensions};

/// Workers.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) queue: QueueArg,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: WorkerCommand,
}

/// What to show of workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List the workers that reported within the last five minutes
    List(ListWorkersArgs),
    /// Count them
    Count(CountWorkersArgs),
}

impl WorkerCommand {
    /// The filter expression of the command, for messages about it.
    pub(crate) fn filter(&self) -> Option<&str> {
        let selection = match self {
            Self::List(args) => &args.selection,
            Self::Count(args) => &args.selection,
        };
        selection.filter.as_deref()
    }
}

/// Which workers to list.
#[derive(Debug, Args)]
pub(crate) struct ListWorkersArgs {
    #[command(flatten)]
    pub(crate) selection: WorkerSelectionArgs,

    #[command(flatten)]
    pub(crate) extent: ExtentArgs,
}

/// Which workers to count.
#[derive(Debug, Args)]
pub(crate) struct CountWorkersArgs {
    #[command(flatten)]
    pub(crate) selection: WorkerSelectionArgs,

    /// Count by status, route, or both, such as route,status
    #[arg(long, value_name = "FIELDS", value_parser = worker_dimensions)]
    pub(crate) group_by: Option<WorkerDimensions>,
}
