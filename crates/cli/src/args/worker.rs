//! `taskqueue loop`, which runs a worker, `taskqueue progress` for the command that it runs, and `taskqueue worker ...`; `taskqueue queue ...`,
//! and what shows a server as a whole: `taskqueue top` and `taskqueue health`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Subcommand, ValueEnum};
use taskqueue_client::{QueueName, Route, Timestamp, Unit, WorkerDimension};
use taskqueue_core::limits::{NAME_CHARS, ROUTE_DEFAULT};
use taskqueue_worker::SendOutput;

use super::selection::{LimitArgs, WorkerSelectionArgs};
use super::task::ConfirmArgs;
use super::values::{
    OrNone, context_text, count_or_none, duration, duration_or_none, interval, nonzero_duration, number_limit,
    queue_name, route, route_limit, slot_numbers, time, time_limit, unit, worker_dimensions,
};
use super::{ConnectionArgs, OutputArgs, QueueArg};

/// Returns what to add to the error about a word that is no flag: it is the command, and `--` before it is missing.
pub(super) fn command_hint(error: &clap::Error) -> Option<String> {
    let word = context_text(error, ContextKind::InvalidArg)?;
    let is_command = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    is_command.then(|| format!("; write -- before the command: taskqueue loop -- {word} ..."))
}

#[derive(Debug, Args)]
pub(crate) struct LoopArgs {
    /// Claim tasks that list this route
    #[arg(short, long, value_name = "ROUTE", default_value = ROUTE_DEFAULT, value_parser = route)]
    pub(crate) route: Route,

    /// A name that tells this worker apart from others of its machine: worker list and task get show it
    #[arg(long, value_name = "NAME", value_parser = worker_name)]
    pub(crate) name: Option<String>,

    /// One member of what is shown with this worker and its runs (repeatable), such as rack=7; filters find it as metadata.rack of workers
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<String>,

    /// How many tasks to run at the same time, each in a slot with a number from 0
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: u16,

    /// Run one task at a time in each of these slots, such as the numbers of GPUs: 2,3,5
    #[arg(long, value_name = "N,N,...", value_parser = slot_numbers, conflicts_with = "jobs")]
    pub(crate) slots: Option<Box<[usize]>>,

    /// End after being idle for this long (30, 30s, 5m, 2h), or never
    #[arg(long, value_name = "SECONDS|never", default_value = "never", value_parser = time_limit)]
    pub(crate) idle_timeout: OrNone<Duration>,

    /// End after this many different tasks have failed in a row [default: 5 if none has succeeded]; unless it is never, a worker that
    /// had a success pauses after each from the fifth on
    // The alias is its name of earlier versions, which meant the same but for the pauses.
    #[arg(long, value_name = "N|never", value_parser = number_limit, alias = "max-consecutive-failures")]
    pub(crate) stop_after_failures: Option<OrNone<u32>>,

    /// End after this many tasks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tasks: Option<u64>,

    /// End a run that takes longer than this (30, 30s, 5m, 2h); it fails as ExecutionTimeout
    #[arg(long, value_name = "SECONDS", value_parser = nonzero_duration)]
    pub(crate) timeout: Option<Duration>,

    /// How long a command may take to end after SIGTERM until it is killed
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = duration)]
    pub(crate) grace: Duration,

    /// What the first Ctrl-C or SIGTERM does with running tasks
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnStop::Finish)]
    pub(crate) on_stop: OnStop,

    /// Where the folders of runs and undelivered reports are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,

    /// Remove the folders of runs that ended longer ago than this (12h, 30d) [default: keep all]
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    pub(crate) keep_runs: Option<Duration>,

    /// Send what commands print to the server, for taskqueue task logs: on, off, or only the first so many bytes of a run
    #[arg(long, value_name = "on|off|BYTES", default_value = "on", value_parser = send_output)]
    pub(crate) send_output: SendOutput,

    /// Measure what runs, this machine and its GPUs (with nvidia-smi) use, and tell the server every 15 seconds
    #[arg(long, value_enum, value_name = "on|off", default_value_t = OnOff::On, hide_possible_values = true)]
    pub(crate) telemetry: OnOff,

    /// Pass the token to the command in TASKQUEUE_TOKEN
    #[arg(long)]
    pub(crate) pass_token: bool,

    /// Work inside a run of another worker
    #[arg(long)]
    pub(crate) nested: bool,

    /// The interval between heartbeats; for tests
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = interval, hide = true)]
    pub(crate) heartbeat: Duration,

    /// Warn when the disk of the run directory has less free space than this; for tests
    #[arg(long, value_name = "BYTES", hide = true)]
    pub(crate) low_disk: Option<u64>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) queue: QueueArg,
}

impl LoopArgs {
    /// Returns the numbers of the slots: those that `--slots` names, or as many from 0 as `--jobs` says.
    pub(crate) fn slot_numbers(&self) -> Vec<usize> {
        if let Some(numbers) = &self.slots { numbers.to_vec() } else { (0..usize::from(self.jobs)).collect() }
    }
}

fn worker_name(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.chars().count() <= NAME_CHARS && !text.chars().any(char::is_control);
    is_good
        .then(|| text.to_owned())
        .ok_or_else(|| format!("write 1 to {NAME_CHARS} characters, none of them a control character"))
}

fn send_output(text: &str) -> Result<SendOutput, &'static str> {
    match text {
        "on" => Ok(SendOutput::On),
        "off" | "0" => Ok(SendOutput::Off),
        _ => text.parse().map(SendOutput::First).map_err(|_| "write on, off, or a number of bytes"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStop {
    /// They may finish
    Finish,
    /// They are stopped and given back uncharged
    Release,
}

#[derive(Debug, Args)]
pub(crate) struct ProgressArgs {
    /// One member of the progress, such as step=120; replaces the same member of --json
    #[arg(value_name = "KEY=VALUE", required_unless_present = "json")]
    pub(crate) members: Vec<String>,

    /// The progress as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,
}

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
    /// The filter, for messages about it.
    #[arg(skip)]
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List the workers that reported within the last five minutes
    List(ListWorkersArgs),
    /// Count the workers that reported within the last five minutes
    Count(CountWorkersArgs),
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
    pub(crate) group_by: Option<Box<[WorkerDimension]>>,
}

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
