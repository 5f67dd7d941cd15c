//! `taskqueue loop`, which runs a worker, `taskqueue progress` for the command that it runs, and `taskqueue worker ...`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Subcommand, ValueEnum};
use taskqueue_core::grouping::WorkerDimension;
use taskqueue_core::ids::Route;
use taskqueue_core::limits::{NAME_CHARS, ROUTE_DEFAULT};
use taskqueue_worker::{OnFailures, SendOutput};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{LimitArgs, WorkerSelectionArgs};
use super::values::{
    OrNone, context_text, duration, interval, nonzero_duration, number_limit, route, slot_numbers, time_limit,
    worker_dimensions,
};

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
        match &self.slots {
            Some(numbers) => numbers.to_vec(),
            None => (0..usize::from(self.jobs)).collect(),
        }
    }

    /// Returns what failures in a row do.
    pub(crate) fn on_failures(&self) -> OnFailures {
        match self.stop_after_failures {
            None => OnFailures::SlowDown,
            Some(OrNone(Some(limit))) => OnFailures::StopAfter(limit),
            Some(OrNone(None)) => OnFailures::Ignore,
        }
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
