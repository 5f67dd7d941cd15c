//! Flags of live views: `taskqueue top`, and `--watch` of lists.

use std::time::Duration;

use clap::Args;
use taskqueue_core::ids::QueueName;

use super::connection::ConnectionArgs;
use super::values::{interval, queue_name};

/// Frequent enough for people, rare enough for servers.
const INTERVAL_DEFAULT: &str = "2";

pub(super) const TOP_HELP: &str = "\
Examples:
  taskqueue top
  taskqueue top --queue default --queue gpu --interval 0.5

Keys: up and down select a queue, tab another pane (routes, running, workers, failed), enter a task
of the pane and then its output, Esc goes back, space pauses, + and - change the interval, ? shows
all keys, q leaves.

Rates are computed from the counts: finished are tasks that succeeded, failed or were cancelled
within the last minute; the bars show the last five minutes. The ETA is the time until nothing is
pending at this rate; there is none while no worker has reported within five minutes. While the
server does not answer, the view keeps trying. Programs can use
taskqueue task count --group-by status --output json.";

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The time between two refreshes, in seconds
    #[arg(long, value_name = "SECONDS", default_value = INTERVAL_DEFAULT, value_parser = interval)]
    pub(crate) interval: Duration,

    /// Only this queue (repeatable) [default: all]
    #[arg(short, long = "queue", value_name = "NAME", value_parser = queue_name)]
    pub(crate) queues: Vec<QueueName>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WatchArgs {
    /// Show the list until q is pressed and refresh it every 2 seconds, or every SECONDS; with --output jsonl print
    /// each task that is new or changed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = INTERVAL_DEFAULT, value_parser = interval,
          conflicts_with = "all")]
    pub(crate) watch: Option<Duration>,
}
