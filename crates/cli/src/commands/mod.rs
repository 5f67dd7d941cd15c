//! One file or folder per command; those of a few lines are here. Commands that open a store run on several threads, client commands on
//! one.

mod backup;
mod maintenance;
mod print_pages;
mod progress;
mod queue;
mod run_loop;
mod serve;
mod status_counts;
mod task;
mod token;
mod top;
mod worker;

use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use clap_mangen::Man;
use tokio::runtime::Builder;

use crate::args::{self, Command, CompletionsArgs, ConfigArgs, ConfigCommand, HealthArgs};
use crate::args::{LogFormat, LogLevel, ManArgs, OutputArgs, QueueArg};
use crate::client_context::{ClientContext, Retrying, print_warnings};
use crate::config::ClientConfig;
use crate::failure::Failure;
use crate::output::{HealthRecord, Printer};
use crate::{logging, server_process};

/// More threads would only wait for the writer.
const WORKER_THREADS_MAX: usize = 8;
/// The time for which the end of the program waits for work that cannot be interrupted.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) if args.check => run_with_logs(LogFormat::Text, LogLevel::Warn, serve::check(args)),
        Command::Serve(args) => {
            server_process::begin_again_with_little_memory();
            let (format, level) = (args.log_format, args.log_level);
            run_with_logs(format, level, serve::run(args))
        }
        Command::Migrate(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, maintenance::run_migrate(args)),
        Command::Backup(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, backup::run_backup(args)),
        Command::Restore(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, backup::run_restore(args)),
        Command::Check(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, maintenance::run_check(args)),
        Command::Queue(args) => queue::run(args),
        Command::Task(args) => task::run(*args),
        Command::Loop(args) => run_loop::run(&args),
        Command::Progress(args) => progress::run(&args),
        Command::Worker(args) => worker::run(args),
        Command::Top(args) => top::run(&args),
        Command::Health(args) => print_health(&args),
        Command::Token(args) => token::run(&args),
        Command::Config(args) => print_config(&args),
        Command::Completions(args) => print_completions(&args),
        Command::Man(args) => write_manual(&args),
        // The parser has already turned it into the text of the help.
        Command::Help(_) => Ok(()),
    }
}

/// Runs a command that opens a store, with logging and a runtime with several threads.
fn run_with_logs<F: Future<Output = Result<(), Failure>>>(format: LogFormat, level: LogLevel, work: F) -> F::Output {
    // Dropped last, so that every log line is written.
    let _guard = logging::start(format, level)?;
    let threads = available_parallelism().map_or(1, NonZero::get).min(WORKER_THREADS_MAX);
    let runtime = Builder::new_multi_thread().worker_threads(threads).thread_name("tq-async").enable_all().build();
    let runtime = runtime.map_err(Failure::because("cannot start threads"))?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

fn print_health(args: &HealthArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    context.run(None, async |context| {
        let health = context.client.health().await?;
        let is_ok = health.is_ok;
        context.printer.one(&HealthRecord { url: &context.url, health })?;
        if is_ok {
            return Ok(());
        }
        let message = "the server's database does not work; see the server's log";
        Err(Failure::Refused(message.to_owned()).into())
    })
}

/// Prints the settings of clients. The token itself is never shown.
fn print_config(args: &ConfigArgs) -> Result<(), Failure> {
    let ConfigCommand::Show = args.command;
    let config = ClientConfig::load(&args.connection, &args.queue)?;
    print_warnings(&config);
    Printer::new(args.output).list(&config.settings())
}

fn print_completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let (mut command, mut script) = (args::command_line(), Vec::new());
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Printer::new(OutputArgs::TABLE).text(&String::from_utf8_lossy(&script))
}

/// Prints or writes the manual pages, which are generated from the help texts.
fn write_manual(args: &ManArgs) -> Result<(), Failure> {
    let command = args::command_line();
    let refused = Failure::because::<io::Error>("the manual cannot be written");
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(refused)?;
        return Printer::new(OutputArgs::TABLE).text(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory)).map_err(refused)
}
