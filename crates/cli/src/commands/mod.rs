//! One file per command or noun, and the two runtimes: threads for the server, one thread for everything else.

mod client_runtime;
mod completions;
mod config;
mod health;
mod man;
mod migrate;
mod queue;
mod run_loop;
mod serve;
mod task;
mod top;
mod worker;

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::args::{Command, LogFormat, LogLevel};
use crate::failure::Failure;
use crate::logging;

/// More threads than this only wait for the one writer.
const WORKER_THREADS_MAX: usize = 8;

/// How long work that cannot be interrupted may hold up the end of the program.
const LAST_WORK: Duration = Duration::from_millis(200);

/// Does what the command line says.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => {
            let (format, level) = (args.log_format, args.log_level);
            on_threads(format, level, serve::run(args))
        }
        Command::Migrate(args) => on_threads(LogFormat::Text, LogLevel::Warn, migrate::run(args)),
        Command::Queue(args) => queue::run(args),
        Command::Task(args) => task::run(args),
        Command::Loop(args) => run_loop::run(&args),
        Command::Worker(args) => worker::run(args),
        Command::Top(args) => top::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Runs what uses a store, with logs and threads.
fn on_threads(
    format: LogFormat,
    level: LogLevel,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    // Dropped last: whichever way out is taken, the lines that tell of it are written.
    let _logs = logging::start(format, level)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_WORK);
    outcome
}

fn runtime() -> Result<Runtime, Failure> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(WORKER_THREADS_MAX);
    let built = Builder::new_multi_thread().worker_threads(threads).thread_name("tq-async").enable_all().build();
    built.map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))
}
