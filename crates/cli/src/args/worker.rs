//! `taskqueue worker ...`

use clap::{Args, Subcommand};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{LimitArgs, WorkerSelectionArgs};
use super::values::{WorkerDimensions, worker_dimensions};

pub(super) const HELP: &str = "\
Examples:
  taskqueue worker list
  taskqueue worker count --group-by status

taskqueue loop starts a worker.";

const LIST_HELP: &str = "\
Examples:
  taskqueue worker list
  taskqueue worker list --filter 'status == \"idle\" and route == \"gpu\"'
  taskqueue worker list --wide                           # with processor, memory and GPUs
  taskqueue worker list --filter 'telemetry.cpu_percent < 10' --wide
  taskqueue worker list --output csv > workers.csv

A worker is shown until it stops, or for five minutes after its last report. --wide shows what it
measured last, of its run and of the GPUs of its machine; JSON always has it.";

const COUNT_HELP: &str = "\
Examples:
  taskqueue worker count
  taskqueue worker count --group-by route,status
  taskqueue worker count --output quiet --filter 'route == \"gpu\"'    # only the number";

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
    #[command(after_help = LIST_HELP)]
    List(ListWorkersArgs),
    /// Count the workers that reported within the last five minutes
    #[command(after_help = COUNT_HELP)]
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

    /// Show what the workers measure: processor, memory, GPUs (also in csv)
    #[arg(long)]
    pub(crate) wide: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CountWorkersArgs {
    #[command(flatten)]
    pub(crate) selection: WorkerSelectionArgs,

    /// Count by status, route, or both, such as route,status
    #[arg(long, value_name = "FIELDS", value_parser = worker_dimensions)]
    pub(crate) group_by: Option<WorkerDimensions>,
}
