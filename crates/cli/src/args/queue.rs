//! `taskqueue queue ...`, and what shows a server as a whole: `taskqueue top` and `taskqueue health`.

use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_core::activity::Unit;
use taskqueue_core::ids::{QueueName, Route};
use taskqueue_core::time::Timestamp;

use super::connection::{ConnectionArgs, OutputArgs};
use super::task::ConfirmArgs;
use super::values::{OrNone, count_or_none, duration_or_none, interval, queue_name, route_limit, time, unit};

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
    /// Show what is going on in a queue: tasks, routes, workers, and what happened lately
    Stats(QueueStatsArgs),
    /// Show the settings of a queue: pause, limits, and how long ended tasks are kept
    Settings(QueueNameArgs),
    /// Give no more tasks of a queue to workers
    Pause(QueueNameArgs),
    /// End a pause
    Resume(QueueNameArgs),
    /// Limit how many tasks of a queue run at the same time
    Limit(QueueLimitArgs),
    /// Say how long the tasks of a queue are kept after their end
    Retention(QueueRetentionArgs),
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
pub(crate) struct QueueLimitArgs {
    /// The name of the queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,

    /// How many tasks of the queue may run; none removes the limit
    #[arg(long, value_name = "COUNT", value_parser = count_or_none)]
    pub(crate) max_running: Option<OrNone<u64>>,

    /// How many tasks that were claimed for a route may run (repeatable), such as gpu=4; gpu=none removes the limit
    #[arg(long = "route", value_name = "ROUTE=COUNT", value_parser = route_limit)]
    pub(crate) routes: Vec<(Route, OrNone<u64>)>,

    /// Remove all limits
    #[arg(long, conflicts_with_all = ["max_running", "routes"])]
    pub(crate) none: bool,
}

#[derive(Debug, Args)]
pub(crate) struct QueueRetentionArgs {
    /// The name of the queue
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(crate) name: QueueName,

    /// For how long tasks are kept that have succeeded, such as 12h or 7d; none keeps them for ever
    #[arg(long, value_name = "DURATION", value_parser = duration_or_none)]
    pub(crate) succeeded: Option<OrNone<u64>>,

    /// The same for tasks that have failed
    #[arg(long, value_name = "DURATION", value_parser = duration_or_none)]
    pub(crate) failed: Option<OrNone<u64>>,

    /// The same for tasks that were cancelled
    #[arg(long, value_name = "DURATION", value_parser = duration_or_none)]
    pub(crate) cancelled: Option<OrNone<u64>>,

    /// Keep all tasks for ever
    #[arg(long, conflicts_with_all = ["succeeded", "failed", "cancelled"])]
    pub(crate) none: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
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

/// Frequent enough for people, rare enough for servers.
pub(super) const INTERVAL_DEFAULT: &str = "2";

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

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
