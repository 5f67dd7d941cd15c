//! The arguments of `taskqueue loop`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use taskqueue_core::ids::Route;
use taskqueue_core::limits::ROUTE_DEFAULT;

use super::connection::{ConnectionArgs, QueueArg};
use super::values::{Limit, duration, interval, number_limit, route, time_limit};

pub(super) const HELP: &str = "\
Examples:
  taskqueue loop -- python train.py --lr %{lr} --layers %{model.layers}
  taskqueue loop --route gpu --jobs 4 -- env CUDA_VISIBLE_DEVICES=%{slot} ./run.sh
  taskqueue loop --idle-timeout 10m --max-tasks 100 -- sh -c 'exec ./infer \"$1\"' sh %{prompt}

The command is a list of arguments, never a shell line: %{name} and %{object.field} stand for
values of the task's args (text as it is, everything else as JSON), %{slot} for the number of
the slot from 0, %{{ for a literal %{.

The command finds in its environment TASKQUEUE_TASK_ID, TASKQUEUE_RUN_ID, TASKQUEUE_ATTEMPT,
TASKQUEUE_QUEUE, TASKQUEUE_ROUTE, TASKQUEUE_URL, TASKQUEUE_WORKER_ID, TASKQUEUE_SLOT, and
TASKQUEUE_ARGS_FILE (the args as JSON), TASKQUEUE_RESULT_FILE (a JSON object that it writes there
becomes the result), TASKQUEUE_RUN_DIR (the folder of this run, kept, with its output.log).

Exit code 0 completes the task, 75 gives it back uncharged, any other and any signal fails it.
Processes that the command leaves running are stopped. The first Ctrl-C or SIGTERM stops claiming and
lets tasks finish, the second gives them back, the third kills.

Exit codes: 0 stopped, idle or done, 1 too many failures in a row or refused by the server,
2 wrong arguments, 3 ended with undelivered reports, or idle because the server did not answer.";

#[derive(Debug, Args)]
pub(crate) struct LoopArgs {
    /// Claim tasks that list this route
    #[arg(short, long, value_name = "ROUTE", default_value = ROUTE_DEFAULT, value_parser = route)]
    pub(crate) route: Route,

    /// How many tasks to run at the same time, each in a slot with a number from 0
    #[arg(short = 'j', long = "jobs", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) slots: u16,

    /// End after being idle for this long (30, 30s, 5m, 2h), or never
    #[arg(long, value_name = "SECONDS|never", default_value = "never", value_parser = time_limit)]
    pub(crate) idle_timeout: Limit<Duration>,

    /// End after this many failures in a row, which probably have their cause on this machine; or never
    #[arg(long, value_name = "N|never", default_value = "5", value_parser = number_limit)]
    pub(crate) max_consecutive_failures: Limit<u32>,

    /// End after this many tasks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tasks: Option<u64>,

    /// How long a command may take to end after SIGTERM until it is killed
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = duration)]
    pub(crate) grace: Duration,

    /// What the first Ctrl-C or SIGTERM does with running tasks
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnStop::Finish)]
    pub(crate) on_stop: OnStop,

    /// Where the folders of runs and undelivered reports are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,

    /// Pass the token to the command in TASKQUEUE_TOKEN
    #[arg(long)]
    pub(crate) pass_token: bool,

    /// Work inside a run of another worker
    #[arg(long)]
    pub(crate) nested: bool,

    /// The interval between heartbeats; for tests
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = interval, hide = true)]
    pub(crate) heartbeat: Duration,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) queue: QueueArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStop {
    /// They may finish
    Finish,
    /// They are stopped and given back uncharged
    Release,
}
