//! `taskqueue loop`: from the command line to a worker and back to an exit code. What a worker does is in the crate `worker`.

mod console_reporter;
mod event_text;
mod run_dir;
mod status;
mod stop_sequence;
mod terminal_size;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_worker::command::{Command, CommandSettings, LOG_CAP_BYTES};
use taskqueue_worker::keeper::{self, Kept, StopRequests};
use taskqueue_worker::process::{Processes, RUN_ID_VARIABLE};
use taskqueue_worker::{Counts, End, Intervals, RunDir, Settings, SpoolSettings, Template, Worker};
use tokio::runtime::Builder;

use self::console_reporter::ConsoleReporter;
use crate::args::{Format, LoopArgs, OutputArgs};
use crate::config::Source;
use crate::explain_error::explain;
use crate::failure::Failure;
use crate::output::WorkerConsole;
use crate::session::{Retrying, Session};

/// One thread waits for children and servers while another is held up by a slow disk.
const THREADS: usize = 2;

pub(crate) fn run(args: &LoopArgs) -> Result<(), Failure> {
    // First of all, so that the keeper stays as small as a process can be.
    let kept = keeper::keep().map_err(|error| Failure::Refused(format!("cannot start the worker: {error}")))?;
    match kept {
        Kept::Keeper(0) => Ok(()),
        Kept::Keeper(code) => Err(Failure::ChildExit(code)),
        Kept::Worker(requests) => start(args, requests),
    }
}

fn start(args: &LoopArgs, requests: StopRequests) -> Result<(), Failure> {
    if !args.nested && std::env::var_os(RUN_ID_VARIABLE).is_some_and(|run| !run.is_empty()) {
        let message = "this is inside a run of another worker; add --nested if a worker inside a worker is meant";
        return Err(Failure::Refused(message.to_owned()));
    }
    let template = Template::parse(&args.command).map_err(|error| Failure::Usage(error.to_string()))?;
    let output = OutputArgs { output: Format::Table };
    let session = Session::open(&args.connection, &args.queue, output, Retrying::Never)?;
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("tq-worker").enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(work(args, template, &session, requests));
    // Nothing that is left may hold up the end: what matters is done.
    runtime.shutdown_background();
    outcome
}

async fn work(args: &LoopArgs, template: Template, session: &Session, requests: StopRequests) -> Result<(), Failure> {
    let console = WorkerConsole::start(args.slots.into());
    let reporter = Arc::new(ConsoleReporter::new(&console, session, args));
    let run_dir = run_dir::open(args.run_dir.as_deref())?;
    let processes = Processes::new();
    let processes = processes.map_err(|error| Failure::Refused(format!("cannot watch processes: {error}")))?;
    let command = command(args, template, session, &run_dir, &console);
    let command = Command::new(command, processes, Arc::<ConsoleReporter>::clone(&reporter));
    let settings = settings(args, session, &run_dir);
    let worker =
        Worker::new(session.client.clone(), settings, Arc::new(command), Arc::<ConsoleReporter>::clone(&reporter))
            .map_err(|error| run_dir::unwritable(run_dir.path(), &error))?;
    let ticks = tokio::spawn(Arc::clone(&reporter).tick());
    let (end, counts) = worker.run(stop_sequence::watch(requests, args.on_stop, Arc::clone(&reporter))).await;
    ticks.abort();
    // Whatever the runs have not taken along with them.
    keeper::kill_everything();
    reporter.ended(&end, counts);
    session.print_server_warnings();
    drop(reporter);
    console.close().await;
    outcome(session, end, counts).await
}

fn settings(args: &LoopArgs, session: &Session, run_dir: &RunDir) -> Settings {
    Settings {
        slots: args.slots.into(),
        idle_timeout: args.idle_timeout.0,
        max_consecutive_failures: args.max_consecutive_failures.0,
        max_tasks: args.max_tasks,
        grace: args.grace,
        spool: Some(SpoolSettings { run_dir: run_dir.clone(), url: session.url.clone() }),
        pace: pace(args.heartbeat),
        ..Settings::new(session.queue.clone(), args.route.clone())
    }
}

/// Heartbeats as often as said; one that failed is not repeated later than the next one would come.
fn pace(heartbeat: Duration) -> Intervals {
    let usual = Intervals::default();
    Intervals { heartbeat, heartbeat_retry: usual.heartbeat_retry.min(heartbeat), ..usual }
}

fn command(
    args: &LoopArgs,
    template: Template,
    session: &Session,
    run_dir: &RunDir,
    console: &WorkerConsole,
) -> CommandSettings {
    let is_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
    // What the server may not see, commands that talk to it may not see either.
    let token = session.token.as_ref().filter(|_| args.pass_token);
    CommandSettings {
        template,
        run_dir: run_dir.clone(),
        url: session.url.clone(),
        // A passed token may go to the URL, and comes before the user's own.
        url_file: if token.is_none() { url_file(session) } else { None },
        queue: session.queue.clone(),
        route: args.route.clone(),
        token: token.map(|token| token.expose().to_owned()),
        grace: args.grace,
        log_cap_bytes: LOG_CAP_BYTES,
        relay: console.output_sender(),
        by_line: args.slots > 1,
        terminal: if is_terminal && args.slots == 1 { terminal_size::watch() } else { None },
    }
}

/// The project file that names the server, if one does.
fn url_file(session: &Session) -> Option<PathBuf> {
    match &session.url_source {
        Source::ProjectFile(path) => Some(path.clone()),
        Source::BuiltIn | Source::Flag(_) | Source::Environment(_) | Source::UserFile(_) => None,
    }
}

/// What a worker's end means for whoever started it.
async fn outcome(session: &Session, end: End, counts: Counts) -> Result<(), Failure> {
    match end {
        End::Guard(failures) => Err(Failure::Refused(format!(
            "{failures} runs failed in a row, so this worker stopped: is it this machine? See one of them with taskqueue task get"
        ))),
        End::Refused(error) => Err(explain(session, error, None).await),
        End::Broken(why) => Err(Failure::Refused(why)),
        End::Stopped | End::Idle | End::OutOfContact | End::MaxTasks if counts.undelivered > 0 => {
            Err(Failure::Unreachable(format!(
                "the ends of {} runs could not be reported; the next worker with this run directory will",
                counts.undelivered
            )))
        }
        End::OutOfContact => Err(Failure::Unreachable(format!("no answer from {}; see taskqueue health", session.url))),
        End::Stopped | End::Idle | End::MaxTasks => Ok(()),
    }
}
