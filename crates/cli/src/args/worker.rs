//! `taskqueue worker ...`

use clap::{Args, Subcommand};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{LimitArgs, WorkerSelectionArgs};
use super::values::{WorkerDimensions, worker_dimensions};

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

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List the workers that reported within the last five minutes
    List(ListWorkersArgs),
    /// Count the workers that reported within the last five minutes
    Count(CountWorkersArgs),
}

impl WorkerCommand {
    /// For messages about the filter.
    pub(crate) fn filter(&self) -> Option<&str> {
        let selection = match self {
            Self::List(args) => &args.selection,
            Self::Count(args) => &args.selection,
        };
        selection.filter.as_deref()
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListWorkersArgs {
    #[command(flatten)]
    pub(crate) selection: WorkerSelectionArgs,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CountWorkersArgs {
    #[command(flatten)]
    pub(crate) selection: WorkerSelectionArgs,

    /// Count by status, route, or both, such as route,status
    #[arg(long, value_name = "FIELDS", value_parser = worker_dimensions)]
    pub(crate) group_by: Option<WorkerDimensions>,
}
