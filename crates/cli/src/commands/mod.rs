//! One file per command, and the runtime that they share.

mod serve;

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::args::Command;
use crate::failure::Failure;
use crate::logging;

/// More threads than this only wait for the one writer.
const WORKER_THREADS_MAX: usize = 8;

/// How long work that cannot be interrupted may hold up the end of the program.
const LAST_WORK: Duration = Duration::from_millis(200);

/// Does what the command line says.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    let Command::Serve(args) = command;
    // Dropped last: whichever way out is taken, the lines that tell of it are written.
    let _logs = logging::start(args.log_format, args.log_level)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve::run(args));
    runtime.shutdown_timeout(LAST_WORK);
    outcome
}

fn runtime() -> Result<Runtime, Failure> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(WORKER_THREADS_MAX);
    let built = Builder::new_multi_thread().worker_threads(threads).thread_name("tq-async").enable_all().build();
    built.map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))
}
