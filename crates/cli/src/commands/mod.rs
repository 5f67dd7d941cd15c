//! One file or folder per command. Commands that open a store run on several threads, client commands on one.

mod backup;
mod check;
mod client_runtime;
mod completions;
mod config;
mod health;
mod maintenance;
mod man;
mod migrate;
mod print_pages;
mod progress;
mod queue;
mod restore;
mod run_loop;
mod serve;
mod status_counts;
mod task;
mod token;
mod top;
mod worker;

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::args::{Command, LogFormat, LogLevel};
use crate::failure::Failure;
use crate::{logging, purge_delay};

/// More threads would only wait for the writer.
const WORKER_THREADS_MAX: usize = 8;

/// How long the end of the program waits for work that cannot be interrupted.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) if args.check => run_with_logs(LogFormat::Text, LogLevel::Warn, serve::check(args)),
        Command::Serve(args) => {
            purge_delay::shorten_with_little_memory();
            let (format, level) = (args.log_format, args.log_level);
            run_with_logs(format, level, serve::run(args))
        }
        Command::Migrate(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, migrate::run(args)),
        Command::Backup(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, backup::run(args)),
        Command::Restore(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, restore::run(args)),
        Command::Check(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, check::run(args)),
        Command::Queue(args) => queue::run(args),
        Command::Task(args) => task::run(*args),
        Command::Loop(args) => run_loop::run(&args),
        Command::Progress(args) => progress::run(&args),
        Command::Worker(args) => worker::run(args),
        Command::Top(args) => top::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        // The parser has already turned it into the text of the help.
        Command::Help(_) => Ok(()),
    }
}

/// For commands that open a store: logging and a runtime with several threads.
fn run_with_logs(
    format: LogFormat,
    level: LogLevel,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    // Dropped last, so that every log line is written.
    let _guard = logging::start(format, level)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

fn runtime() -> Result<Runtime, Failure> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(WORKER_THREADS_MAX);
    let built = Builder::new_multi_thread().worker_threads(threads).thread_name("tq-async").enable_all().build();
    built.map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))
}
