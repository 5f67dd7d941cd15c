//! One file or folder per command; those of a few lines are here. Commands that open a store run on several threads, client commands on
//! one.

mod maintenance;
mod queue;
mod run_loop;
mod serve;
mod task;
mod top;

use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

use clap_complete::Shell;
use clap_mangen::Man;
use taskqueue_core::access::{Grant, QueuePattern, TOKEN_BYTES, token_text};
use taskqueue_core::json::JsonObject;
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::digest;
use taskqueue_worker::command::{PROGRESS_FILE_BYTES, PROGRESS_FILE_VARIABLE};
use tokio::runtime::Builder;

use crate::args::{
    self, Command, ConfigArgs, ConfigCommand, CreateTokenArgs, Format, HealthArgs, LogFormat, LogLevel, OutputArgs,
    ProgressArgs, QueueArg, TokenArgs, TokenCommand,
};
use crate::config::{ClientConfig, ClientContext, Retrying, path_in, print_warnings};
use crate::failure::Failure;
use crate::files::replace_file;
use crate::json_args::{object_members, object_with};
use crate::output::{self, HealthRecord, NewTokenRecord, Printer, now};
use crate::tokens_file::{self, FileToken};
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
        Command::Backup(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, maintenance::run_backup(args)),
        Command::Restore(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, maintenance::run_restore(args)),
        Command::Check(args) => run_with_logs(LogFormat::Text, LogLevel::Warn, maintenance::run_check(args)),
        Command::Queue(args) => queue::run(args),
        Command::Task(args) => task::run(*args),
        Command::Loop(args) => run_loop::run(&args),
        Command::Progress(args) => write_progress(&args),
        Command::Worker(args) => queue::run_worker(args),
        Command::Top(args) => top::run(&args),
        Command::Health(args) => print_health(&args),
        Command::Token(args) => run_token(&args),
        Command::Config(args) => print_config(&args),
        Command::Completions { shell } => print_completions(shell),
        Command::Man { directory } => write_manual(directory.as_deref()),
        // The parser has already turned it into the text of the help.
        Command::Help { .. } => Ok(()),
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

fn print_completions(shell: Shell) -> Result<(), Failure> {
    let (mut command, mut script) = (args::command_line(), Vec::new());
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    Printer::new(OutputArgs::TABLE).text(&String::from_utf8_lossy(&script))
}

/// Prints or writes the manual pages, which are generated from the help texts.
fn write_manual(directory: Option<&Path>) -> Result<(), Failure> {
    let command = args::command_line();
    let refused = Failure::because::<io::Error>("the manual cannot be written");
    let Some(directory) = directory else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(refused)?;
        return Printer::new(OutputArgs::TABLE).text(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory)).map_err(refused)
}

/// Writes what a run says of its progress to the file that the worker reads. Nothing is sent from here.
fn write_progress(args: &ProgressArgs) -> Result<(), Failure> {
    let progress = progress_of(args)?;
    let path = path_in(PROGRESS_FILE_VARIABLE).ok_or_else(|| {
        let why = "this is not inside a run of taskqueue loop";
        Failure::Usage(format!("{why}: {PROGRESS_FILE_VARIABLE}, which names the file of the run, is not set"))
    })?;
    // Several processes of a run may do this at the same time.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    replace_file(&path, &new, |mut file| file.write_all(format!("{}\n", progress.as_str()).as_bytes()))
        .map_err(Failure::because(format!("cannot write the progress to {}", path.display())))
}

fn progress_of(args: &ProgressArgs) -> Result<JsonObject, Failure> {
    let whole = args.json.as_deref().map_or(Ok(Vec::new()), |text| object_members(text, "--json"))?;
    let progress = object_with(whole, "progress", &args.members)?;
    if progress.as_str().len() >= PROGRESS_FILE_BYTES {
        return Err(Failure::Usage(format!("the progress has to be shorter than {PROGRESS_FILE_BYTES} bytes")));
    }
    Ok(progress)
}

/// Makes tokens and checks files of them. No server is asked.
fn run_token(args: &TokenArgs) -> Result<(), Failure> {
    let printer = Printer::new(args.output);
    match &args.command {
        TokenCommand::Create(args) => create_token(args, &printer),
        TokenCommand::Check { file } => {
            let tokens = tokens_file::load(file).map_err(Failure::Refused)?;
            printer.list(&tokens)?;
            if tokens.is_empty() {
                output::note("there are no tokens in it; make one with: taskqueue token create NAME --scope SCOPE");
            }
            Ok(())
        }
    }
}

fn create_token(args: &CreateTokenArgs, printer: &Printer) -> Result<(), Failure> {
    let now = now();
    let expires_at = args
        .expires_at
        .or_else(|| args.expires_in.map(|time| now.plus_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))));
    if expires_at.is_some_and(|end| end <= now) {
        return Err(Failure::Usage("--expires-at is in the past".to_owned()));
    }
    // What the file would not take back.
    if expires_at.is_some_and(|end| Timestamp::parse(&end.to_string()).is_none()) {
        return Err(Failure::Usage("--expires-in ends after the year 9999".to_owned()));
    }
    let mut random = [0; TOKEN_BYTES];
    getrandom::fill(&mut random).map_err(Failure::because("the system gives no random numbers"))?;
    let token = token_text(&random);
    let all = || QueuePattern::parse("*").into_iter().collect();
    let queues = if args.queues.is_empty() { all() } else { args.queues.clone() };
    let grant = Grant { scopes: args.scopes.iter().copied().collect(), queues };
    let entry = FileToken { name: args.name.clone(), digest: digest(token.as_bytes()), grant, expires_at };
    // First: a token that is not in the file is worth nothing.
    if let Some(file) = &args.append {
        tokens_file::append(file, &entry).map_err(Failure::Refused)?;
    }
    if printer.format != Format::Table {
        return printer.one(&NewTokenRecord { token: &token, entry: &entry });
    }
    printer.text(&token)?;
    match &args.append {
        Some(file) => output::note(&format!("keep the token, it is not shown again; added to {}", file.display())),
        None => {
            output::note("keep the token, it is not shown again; the lines for the file of serve --tokens:");
            output::excerpt(&entry.to_string());
        }
    }
    Ok(())
}
