//! `taskqueue loop`, which runs a worker, `taskqueue progress` for the command that it runs, and `taskqueue worker ...`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Subcommand, ValueEnum};
use taskqueue_core::ids::Route;
use taskqueue_core::limits::{NAME_CHARS, ROUTE_DEFAULT};
use taskqueue_worker::{OnFailures, SendOutput};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};
use super::selection::{LimitArgs, WorkerSelectionArgs};
use super::values::{
    OrNone, SlotNumbers, WorkerDimensions, duration, interval, nonzero_duration, number_limit, route, slot_numbers,
    time_limit, worker_dimensions,
};

pub(super) const LOOP_HELP: &str = "\
Examples:
  taskqueue loop -- python train.py --lr %{lr} --layers %{model.layers}
  taskqueue loop --route gpu --jobs 4 -- env CUDA_VISIBLE_DEVICES=%{slot} ./run.sh
  taskqueue loop --slots 2,3,5 --timeout 2h -- env CUDA_VISIBLE_DEVICES=%{slot} ./run.sh
  taskqueue loop --idle-timeout 10m --max-tasks 100 -- sh -c 'exec ./infer \"$1\"' sh %{prompt}

The command is a list of arguments, never a shell line: %{name} and %{object.field} stand for
values of the task's args (text as it is, everything else as JSON), %{name:64} for 64 where a
task has no such value, %{slot} for the number of the slot (from 0, or as --slots names them),
%{{ for a literal %{.

The command finds in its environment TASKQUEUE_TASK_ID, TASKQUEUE_RUN_ID, TASKQUEUE_ATTEMPT,
TASKQUEUE_QUEUE, TASKQUEUE_ROUTE, TASKQUEUE_URL, TASKQUEUE_WORKER_ID, TASKQUEUE_SLOT, and
TASKQUEUE_ARGS_FILE (the args as JSON), TASKQUEUE_RESULT_FILE (a JSON object that it writes there
becomes the result), TASKQUEUE_PROGRESS_FILE (a JSON object that it writes there is shown as its
progress; see taskqueue progress), TASKQUEUE_RUN_DIR (the folder of this run, with its output.log;
see --keep-runs), and TASKQUEUE_TIMEOUT_SECONDS if the task limits the time of its runs.

What the command prints is also sent to the server, where taskqueue task logs shows it from anywhere:
whoever may read the queue can read it. A progress bar is sent as its last state. Turn that off with
--send-output off; output.log has all of it in any case.

Exit code 0 completes the task, 75 gives it back uncharged, any other and any signal fails it.
Processes that the command leaves running are stopped. The first Ctrl-C or SIGTERM stops claiming
and lets tasks finish, the second gives them back, the third kills.

Exit codes: 0 stopped, idle or done, 1 too many failures in a row or refused by the server,
2 wrong arguments or a command that does not fit its first task, 3 ended with undelivered reports,
or idle because the server did not answer.";

/// Returns what to add to the error about a word that is no flag: it is the command, and `--` before it is missing.
pub(super) fn command_hint(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
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
    pub(crate) slots: Option<SlotNumbers>,

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
            Some(SlotNumbers(numbers)) => numbers.clone(),
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

pub(super) const PROGRESS_HELP: &str = "\
Examples:
  taskqueue progress step=120 total=1000 loss=0.31
  taskqueue progress percent=12.5 phase=warm-up
  taskqueue progress --json '{\"step\": 120, \"total\": 1000}'

For the command of a taskqueue loop. It writes one JSON object to the file that the worker names in
TASKQUEUE_PROGRESS_FILE, in place of what was there; the worker sends it to the server within two
seconds. A program can write that file itself. The task then shows it: taskqueue task get shows a
bar for step and total, or for percent, and taskqueue task list --columns id,progress.loss a column.

A value is JSON if it is valid JSON, and text otherwise, as in task submit --arg.

Exit codes: 0 written, 1 the file cannot be written, 2 wrong arguments, or not inside a run.";

#[derive(Debug, Args)]
pub(crate) struct ProgressArgs {
    /// One member of the progress, such as step=120; replaces the same member of --json
    #[arg(value_name = "KEY=VALUE", required_unless_present = "json")]
    pub(crate) members: Vec<String>,

    /// The progress as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,
}

pub(super) const WORKER_HELP: &str = "\
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
