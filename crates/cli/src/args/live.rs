//! Flags of live views: `taskqueue top`, and `--watch` of lists.

use std::time::Duration;

use clap::Args;
use taskqueue_core::ids::QueueName;

use super::connection::ConnectionArgs;
use super::values::{interval, queue_name};

/// How often a view asks unless somebody says otherwise: people see that it lives, and servers do not notice it.
const INTERVAL: &str = "2";

pub(super) const TOP_HELP: &str = "\
Examples:
  taskqueue top
  taskqueue top --queue default --queue gpu --interval 0.5

Keys: up and down choose a queue, tab another pane (routes, running, workers, failed), space
pauses, + and - change the interval, ? shows all keys, q leaves.

Rates are told from the counts: finished are tasks that succeeded, failed or were cancelled,
over the last minute; the bars show the last five minutes. A server that goes away is waited
for. For programs there is taskqueue task count --group-by status --output json.";

/// What to show of a server.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Ask the server so often, in seconds
    #[arg(long, value_name = "SECONDS", default_value = INTERVAL, value_parser = interval)]
    pub(crate) interval: Duration,

    /// Only this queue (repeatable) [default: all]
    #[arg(short, long = "queue", value_name = "NAME", value_parser = queue_name)]
    pub(crate) queues: Vec<QueueName>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Whether to go on looking.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WatchArgs {
    /// Keep the list in view, asking every 2 seconds or so often; jsonl prints what is new or changed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = INTERVAL, value_parser = interval,
          conflicts_with = "all")]
    pub(crate) watch: Option<Duration>,
}
