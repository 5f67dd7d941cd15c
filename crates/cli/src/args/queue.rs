//! `taskqueue queue ...`, and what shows a server as a whole: `taskqueue top` and `taskqueue health`.

use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_core::activity::Unit;
use taskqueue_core::ids::{QueueName, Route};
use taskqueue_core::time::Timestamp;

use super::change::ConfirmArgs;
use super::connection::{ConnectionArgs, OutputArgs};
use super::values::{OrNone, count_or_none, duration_or_none, interval, queue_name, route_limit, time, unit};

pub(super) const QUEUE_HELP: &str = "\
Examples:
  taskqueue queue create experiments
  taskqueue queue list
  taskqueue queue stats experiments
  taskqueue queue pause experiments
  taskqueue queue limit experiments --max-running 8 --route gpu=4
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

The table shows how many tasks each queue has by status, without archived ones; the other formats
have the names. taskqueue queue stats shows more of one queue, taskqueue top a live view of all.";

const STATS_HELP: &str = "\
Examples:
  taskqueue queue stats experiments
  taskqueue queue stats experiments --output json
  taskqueue queue stats experiments --series hour --output csv    # for plots

Minutes are kept for a day, hours for a year. taskqueue top shows the same, live.";

const PAUSE_HELP: &str = "\
Examples:
  taskqueue queue pause experiments
  taskqueue queue resume experiments

Workers get no more tasks of a paused queue; what is running goes on. A pause stays until the queue
is resumed, also when the server is restarted.";

const RESUME_HELP: &str = "\
Examples:
  taskqueue queue resume experiments

Workers that wait for a task get one at once.";

const LIMIT_HELP: &str = "\
Examples:
  taskqueue queue limit experiments --max-running 8
  taskqueue queue limit experiments --route gpu=4 --route cpu=16
  taskqueue queue limit experiments --route gpu=none    # removes this limit
  taskqueue queue limit experiments --none              # removes all limits

At most so many tasks of the queue, or of those that were claimed for a route, run at the same time,
over all workers and servers. What is running goes on when a limit becomes smaller. Limits that are
not named stay.";

const RETENTION_HELP: &str = "\
Examples:
  taskqueue queue retention experiments --succeeded 7d --cancelled 1d
  taskqueue queue retention experiments --failed none    # keeps failed tasks for ever
  taskqueue queue retention experiments --none           # keeps all tasks for ever

Tasks that ended longer ago are deleted by the server, archived ones too. This cannot be undone: if
there are tasks that are old enough to be deleted at once, the command asks for confirmation;
programs have to give --yes. What is not named stays.";

const SETTINGS_HELP: &str = "\
Examples:
  taskqueue queue settings experiments
  taskqueue queue settings experiments --output json";

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
    /// Show the settings of a queue: pause, limits, and how long ended tasks are kept
    #[command(after_help = SETTINGS_HELP)]
    Settings(QueueNameArgs),
    /// Give no more tasks of a queue to workers
    #[command(after_help = PAUSE_HELP)]
    Pause(QueueNameArgs),
    /// End a pause
    #[command(after_help = RESUME_HELP)]
    Resume(QueueNameArgs),
    /// Limit how many tasks of a queue run at the same time
    #[command(after_help = LIMIT_HELP)]
    Limit(QueueLimitArgs),
    /// Say how long the tasks of a queue are kept after their end
    #[command(after_help = RETENTION_HELP)]
    Retention(QueueRetentionArgs),
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

pub(super) const HEALTH_HELP: &str = "\
Examples:
  taskqueue health
  taskqueue health --url https://queue.example --output quiet    # ok or error

Exit codes: 0 the server and its database work, 1 they do not, 3 the server was not reached.";

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
