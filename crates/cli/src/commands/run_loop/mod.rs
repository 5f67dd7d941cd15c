//! `taskqueue loop`: turns the arguments into a worker, and its end into an exit code. What a worker does is in the crate `worker`. The
//! run directory is one per user by default, so that the next worker finds the reports of this one. Here is also what the keeper does when
//! the worker was killed: it gives the running tasks back, so that nobody has to wait for the end of their leases, and says what happened.

mod console_reporter;

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use taskqueue_client::{Error, JsonObject, TaskId};
use taskqueue_core::json::Value;
use taskqueue_worker::command::{CommandHandler, CommandSettings, Housekeeping, LOG_CAP_BYTES, TLS_CA, TLS_PIN};
use taskqueue_worker::keeper::{self, LeftRun, Role, StopRequests, WorkerEnd};
use taskqueue_worker::process::{RUN_ID_VARIABLE, StartError, WindowSize, find_program};
use taskqueue_worker::{
    BackoffLimits, Counts, EndReason, Intervals, LeftTasks, Misfit, OnFailures, RunDir, RunDirError, Settings,
    SpoolSettings, Template, Worker, settle_left_runs,
};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::console_reporter::{ConsoleReporter, watch_stops, watch_terminal_stop};
use crate::args::{LoopArgs, OnOff, OrNone, OutputArgs};
use crate::config::{ClientContext, Retrying, Source, Trust, path_in, user_folder};
use crate::failure::{Failure, explain, similar_names};
use crate::files::absolute;
use crate::json_args::{checked, dotted_members, set_members};
use crate::output::{WorkerConsole, escape, warning};

/// Members of what a worker says of itself.
const OWN_MEMBERS: [&str; 8] = ["folder", "host", "id", "name", "pid", "slot", "slots", "version"];

/// So much leaves room for the path of the run directory in what a claim may say.
const METADATA_BYTES: usize = 1024;

/// Two, so that a slow disk does not delay heartbeats.
const THREADS: usize = 2;

pub(crate) fn run(args: &LoopArgs) -> Result<(), Failure> {
    // First, so that the keeper needs little memory.
    let role = keeper::start().map_err(Failure::because("cannot start the worker"))?;
    match role {
        Role::Keeper(end) => {
            if end.has_survivors || !end.left.is_empty() {
                settle(args, &end);
            }
            if end.code == 0 { Ok(()) } else { Err(Failure::ChildExit(end.code)) }
        }
        Role::Worker(requests) => start(args, requests),
    }
}

fn start(args: &LoopArgs, requests: StopRequests) -> Result<(), Failure> {
    if !args.nested && std::env::var_os(RUN_ID_VARIABLE).is_some_and(|run| !run.is_empty()) {
        let message = "this is inside a run of another worker; add --nested if a worker inside a worker is meant";
        return Err(Failure::Refused(message.to_owned()));
    }
    let template = Template::parse(&args.command).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(program) = template.program() {
        find_program(program).map_err(|error| Failure::Usage(unusable_command(program, &error)))?;
    }
    let metadata = metadata(&args.metadata)?;
    let context = ClientContext::open(&args.connection, &args.queue, OutputArgs::TABLE, Retrying::Never)?;
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("tq-worker").enable_all().build();
    let runtime = runtime.map_err(Failure::because("cannot start threads"))?;
    let result = runtime.block_on(work(args, template, metadata, &context, requests));
    // Does not wait for what is left, for example a hanging disk.
    runtime.shutdown_background();
    result
}

async fn work(
    args: &LoopArgs,
    template: Template,
    metadata: JsonObject,
    context: &ClientContext,
    requests: StopRequests,
) -> Result<(), Failure> {
    let console = WorkerConsole::start();
    let reporter = Arc::new(ConsoleReporter::new(&console, context, args, requests.active_runs.clone()));
    let run_dir = open_run_dir(args.run_dir.as_deref())?;
    reporter.begins(run_dir.path());
    let command = command_settings(args, template, context, &run_dir, &console);
    let handler = CommandHandler::new(command, Arc::<ConsoleReporter>::clone(&reporter));
    let settings = settings(args, metadata, context, &run_dir);
    let worker =
        Worker::new(context.client.traced(None), settings, Arc::new(handler), Arc::<ConsoleReporter>::clone(&reporter))
            .map_err(|error| unwritable_run_dir(run_dir.path(), &error))?;
    watch_terminal_stop(Arc::clone(&reporter));
    let housekeeping =
        Housekeeping { run_dir: run_dir.clone(), keep_runs: args.keep_runs, low_disk_bytes: args.low_disk };
    let housekeeping = tokio::spawn(housekeeping.run(Arc::<ConsoleReporter>::clone(&reporter)));
    let refresh = tokio::spawn(Arc::clone(&reporter).refresh_status());
    let (end, counts) = worker.run(watch_stops(requests, args.on_stop, Arc::clone(&reporter))).await;
    refresh.abort();
    housekeeping.abort();
    // Whatever the runs have left.
    keeper::kill_everything();
    reporter.ended(&end, counts);
    context.print_server_warnings();
    drop(reporter);
    console.close().await;
    to_result(context, end, counts).await
}

/// Reads `--metadata`.
fn metadata(given: &[String]) -> Result<JsonObject, Failure> {
    let mut members = Vec::new();
    set_members(&mut members, dotted_members("--metadata", given)?)?;
    let own = members.iter().find_map(|(key, _)| OWN_MEMBERS.into_iter().find(|own| key == own));
    if let Some(own) = own {
        return Err(Failure::Usage(format!("--metadata {own}: the worker says that itself")));
    }
    let metadata = checked(&Value::Object(members), "--metadata")?;
    if metadata.as_str().len() > METADATA_BYTES {
        return Err(Failure::Usage(format!("--metadata: write at most {METADATA_BYTES} bytes of JSON in all")));
    }
    Ok(metadata)
}

fn settings(args: &LoopArgs, metadata: JsonObject, context: &ClientContext, run_dir: &RunDir) -> Settings {
    Settings {
        name: args.name.clone(),
        metadata,
        slots: args.slot_numbers(),
        idle_timeout: args.idle_timeout.0,
        on_failures: args
            .stop_after_failures
            .map_or(OnFailures::SlowDown, |OrNone(limit)| limit.map_or(OnFailures::Ignore, OnFailures::StopAfter)),
        max_tasks: args.max_tasks,
        grace: args.grace,
        spool: Some(SpoolSettings { run_dir: run_dir.clone(), url: context.url.clone() }),
        send_output: args.send_output,
        telemetry: args.telemetry == OnOff::On,
        intervals: intervals(args.heartbeat),
        ..Settings::new(context.queue.clone(), args.route.clone())
    }
}

/// Returns why the command can run for no task.
fn unusable_command(program: &OsStr, error: &StartError) -> String {
    let name = program.to_string_lossy();
    match error {
        StartError::NotExecutable(name, error) => format!("the command {name} cannot be executed: {error}"),
        _ if Path::new(program).is_file() => {
            format!("the command {name} was not found in PATH; write ./{name} for the file in this folder")
        }
        _ => format!("the command {name} was not found on this machine; check its name and PATH"),
    }
}

/// No pause is longer than the one between heartbeats; those after failures begin with that, and an idle worker asks after five.
fn intervals(heartbeat: Duration) -> Intervals {
    let default = Intervals::default();
    Intervals {
        heartbeat,
        first_heartbeat: default.first_heartbeat.min(heartbeat),
        heartbeat_poll: default.heartbeat_poll.min(heartbeat),
        heartbeat_retry: default.heartbeat_retry.min(heartbeat),
        outage_settle: default.outage_settle.min(5 * heartbeat),
        idle_reason: default.idle_reason.min(5 * heartbeat),
        idle_reason_again: default.idle_reason_again.min(5 * heartbeat),
        failure_pause: BackoffLimits { first: default.failure_pause.first.min(heartbeat), ..default.failure_pause },
        ..default
    }
}

fn command_settings(
    args: &LoopArgs,
    template: Template,
    context: &ClientContext,
    run_dir: &RunDir,
    console: &WorkerConsole,
) -> CommandSettings {
    let slots = args.slot_numbers().len();
    let is_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
    // A token that may not be sent to this server is not passed to commands either.
    let token = context.config.token.as_ref().filter(|_| args.pass_token);
    CommandSettings {
        template,
        run_dir: run_dir.clone(),
        url: context.url.clone(),
        // With a passed token no protection is needed: it may be sent to the URL, and takes precedence over the user's own.
        url_file: match &context.config.url.source {
            Source::ProjectFile(path) if token.is_none() => Some(path.clone()),
            _ => None,
        },
        tls: context.config.trust.as_ref().map(|trust| trust_variable(&trust.value)),
        queue: context.queue.clone(),
        route: args.route.clone(),
        token: token.map(|token| token.value.expose().to_owned()),
        timeout: args.timeout,
        grace: args.grace,
        log_cap_bytes: LOG_CAP_BYTES,
        keep_runs: args.keep_runs,
        relay: console.chunks.clone(),
        by_line: slots > 1,
        terminal: if is_terminal && slots == 1 { watch_terminal_size() } else { None },
    }
}

/// Whom commands that call the server trust, as a variable of their environment.
fn trust_variable(trust: &Trust) -> (&'static str, OsString) {
    match trust {
        Trust::Pins(_) => (TLS_PIN, trust.text().into()),
        // A command may have another current folder.
        Trust::Authorities(path) => (TLS_CA, absolute(path).into()),
    }
}

/// The exit code and the message for the end of the worker.
async fn to_result(context: &ClientContext, end: EndReason, counts: Counts) -> Result<(), Failure> {
    match end {
        EndReason::FailureGuard { failures, task_id } => Err(Failure::Refused(format!(
            "{failures} failures in a row, so this worker stopped (a task that fails again counts once); check this machine, \
             and see one of the tasks: taskqueue task get {task_id}"
        ))),
        EndReason::Misfit { task_id, misfit } => {
            Err(Failure::Usage(misfit_text(task_id, &misfit, counts.undelivered == 0)))
        }
        EndReason::Refused(error) => Err(explain(context, error, None).await),
        EndReason::InternalError(why) => Err(Failure::Refused(why)),
        EndReason::Stopped | EndReason::Idle | EndReason::ServerUnreachable | EndReason::MaxTasks
            if counts.undelivered > 0 =>
        {
            Err(Failure::Unreachable(format!(
                "{} runs could not be reported; the next worker with this run directory will report them",
                counts.undelivered
            )))
        }
        EndReason::ServerUnreachable => {
            Err(Failure::Unreachable(format!("no answer from {}; see taskqueue health", context.url)))
        }
        EndReason::Stopped | EndReason::Idle | EndReason::MaxTasks => Ok(()),
    }
}

/// That the command needs a value that the first task does not have, with those that may be meant.
fn misfit_text(task_id: TaskId, misfit: &Misfit, is_given_back: bool) -> String {
    let missing = &misfit.missing;
    let present: Vec<&str> = misfit.present.iter().map(String::as_str).collect();
    let advice = match similar_names(missing, &present).as_slice() {
        [] => format!("see taskqueue task get {task_id}; %{{{missing}:VALUE}} gives a value to tasks without it"),
        similar => format!("did you mean {}?", escape(&similar.join(", "))),
    };
    let given_back = if is_given_back {
        "that task was given back uncharged"
    } else {
        "the next worker with this run directory will give that task back"
    };
    format!(
        "the command needs {missing}, and the args of its first task, {task_id}, have none; {given_back}, and this worker stopped; \
         {advice}"
    )
}

fn open_run_dir(given: Option<&Path>) -> Result<RunDir, Failure> {
    let path = given.map_or_else(|| default_run_dir(path_in("XDG_STATE_HOME"), path_in("HOME")), Path::to_owned);
    RunDir::open(&path).map_err(|error| match error {
        RunDirError::Insecure(why) => insecure_run_dir(&path, &why),
        RunDirError::Unusable { error, .. } => unwritable_run_dir(&path, &error),
    })
}

/// The user's state directory (XDG base directories); without a home, the current directory.
fn default_run_dir(state_home: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let state = user_folder(state_home, home, ".local/state");
    state.map_or_else(|| "taskqueue-runs".into(), |state| state.join("taskqueue/runs"))
}

fn insecure_run_dir(run_dir: &Path, why: &str) -> Failure {
    let path = run_dir.display();
    Failure::Refused(format!(
        "the run directory {path} is not safe from other users: {why}; correct that, or choose another \
         directory with --run-dir"
    ))
}

fn unwritable_run_dir(run_dir: &Path, error: &io::Error) -> Failure {
    let path = run_dir.display();
    if let Some(RunDirError::Insecure(why)) = error.get_ref().and_then(|error| error.downcast_ref()) {
        return insecure_run_dir(run_dir, why);
    }
    Failure::Refused(format!("the run directory {path} cannot be written: {error}; choose another with --run-dir"))
}

/// `None` when standard output is not a terminal, or when its changes cannot be watched.
fn watch_terminal_size() -> Option<watch::Receiver<WindowSize>> {
    let mut resized = signal(SignalKind::window_change()).ok()?;
    let (sizes, receiver) = watch::channel(terminal_size()?);
    tokio::spawn(async move {
        while resized.recv().await.is_some() {
            if let Some(size) = terminal_size() {
                sizes.send_replace(size);
            }
        }
    });
    Some(receiver)
}

fn terminal_size() -> Option<WindowSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(WindowSize { rows: size.ws_row, columns: size.ws_col })
}

/// The time for which the server is asked. A person may wait for the end of the keeper; what is not done then, the next worker does.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn settle(args: &LoopArgs, end: &WorkerEnd) {
    let how = match end.signal {
        Some(signal) => format!("was killed by signal {signal}"),
        None => format!("ended with exit code {}", end.code),
    };
    let what = if end.has_survivors {
        survivors(&end.left)
    } else {
        match settled(args, end) {
            Ok(left) => outcome(&left),
            Err(failure) => {
                let why = failure.message().unwrap_or_default().to_owned();
                format!("its running tasks could not be given back, and wait for the end of their leases: {why}")
            }
        }
    };
    warning(&format!("the worker, process {}, {how}; {what}", end.pid));
}

fn settled(args: &LoopArgs, end: &WorkerEnd) -> Result<LeftTasks, Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, OutputArgs::TABLE, Retrying::Never)?;
    let run_dir = open_run_dir(args.run_dir.as_deref())?;
    let spool = SpoolSettings { run_dir, url: context.url.clone() };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(error.to_string()))?;
    let settling = settle_left_runs(&context.client, &context.queue, Some(&spool), end.left.clone(), PATIENCE);
    Ok(runtime.block_on(settling))
}

/// A run of which something is alive must not begin elsewhere, so nothing is given back.
fn survivors(left: &[LeftRun]) -> String {
    const WHAT: &str = "a process that it had started could not be killed";
    let tasks: Vec<TaskId> = left.iter().map(|run| run.task_id).collect();
    match tasks.as_slice() {
        [] => WHAT.to_owned(),
        tasks => format!("{WHAT}, so its running tasks wait for the end of their leases: {}", named(tasks)),
    }
}

/// Returns what the server said, if it said anything.
fn answer(error: &Error) -> Option<String> {
    match error.origin() {
        Error::Transport { .. } => None,
        error => Some(format!(": {}", escape(&error.to_string()))),
    }
}

fn outcome(left: &LeftTasks) -> String {
    let LeftTasks { given_back, settled, undelivered, last_error } = left;
    let why = last_error.as_ref().and_then(answer).unwrap_or_else(|| ", because the server did not answer".to_owned());
    let parts = [
        (given_back, "given back, uncharged".to_owned()),
        (settled, "had ended already".to_owned()),
        (undelivered, format!("could not be given back{why}; the next worker with this run directory will")),
    ];
    let parts = parts.into_iter().filter(|(tasks, _)| !tasks.is_empty());
    let parts: Vec<String> = parts.map(|(tasks, what)| format!("{}: {what}", named(tasks))).collect();
    parts.join("; ")
}

/// The first of many.
fn named(tasks: &[TaskId]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<&str> = tasks.iter().take(SHOWN).map(TaskId::as_str).collect();
    match tasks.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::RunId;

    use super::*;

    #[test]
    fn a_task_that_does_not_fit_is_called_given_back_only_if_the_server_knows() {
        let task_id = TaskId::parse("t_000000000001").unwrap();
        let misfit = Misfit { missing: "lr".to_owned(), present: Vec::new() };
        let text = |is_given_back| misfit_text(task_id, &misfit, is_given_back);
        let given_back = text(true);
        assert!(given_back.contains("; that task was given back uncharged, and this worker stopped; "), "{given_back}");
        assert!(!text(false).contains("was given back") && text(false).contains("will give that task back"));
    }

    #[test]
    fn the_default_is_in_the_users_state_directory() {
        let path = |state: Option<&str>, home: Option<&str>| {
            default_run_dir(state.map(Into::into), home.map(Into::into)).display().to_string()
        };
        assert_eq!(path(Some("/s"), Some("/h")), "/s/taskqueue/runs");
        assert_eq!(path(Some("relative"), Some("/h")), "/h/.local/state/taskqueue/runs");
        assert_eq!(path(None, Some("/h")), "/h/.local/state/taskqueue/runs");
        assert_eq!(path(None, None), "taskqueue-runs");
    }

    #[test]
    fn that_a_process_could_not_be_killed_is_said_with_the_tasks_that_wait_for_it() {
        let task_id = TaskId::parse("t_000000000001").unwrap();
        let left = [LeftRun { task_id, run_id: RunId::parse("r_000000000001").unwrap() }];
        assert_eq!(survivors(&[]), "a process that it had started could not be killed");
        assert!(survivors(&left).ends_with("wait for the end of their leases: t_000000000001"), "{}", survivors(&left));
    }

    #[test]
    fn each_task_is_named_with_what_became_of_it() {
        let task = |number: u32| TaskId::parse(&format!("t_{number:012}")).unwrap();
        let left = LeftTasks { given_back: vec![task(1), task(2)], settled: vec![task(3)], ..LeftTasks::default() };
        let expected = "t_000000000001, t_000000000002: given back, uncharged; t_000000000003: had ended already";
        assert_eq!(outcome(&left), expected);
        let refused = Error::Transport { message: "connection refused".to_owned(), may_have_arrived: false };
        let broken = Error::Protocol { status: 502, message: "Bad Gateway".to_owned(), from_taskqueue: false };
        for (last_error, why) in [
            (None, ", because the server did not answer"),
            (Some(refused), ", because the server did not answer"),
            (Some(broken), ": the answer is not valid: Bad Gateway"),
        ] {
            let undelivered = LeftTasks { undelivered: vec![task(4)], last_error, ..LeftTasks::default() };
            let expected =
                format!("t_000000000004: could not be given back{why}; the next worker with this run directory will");
            assert_eq!(outcome(&undelivered), expected);
        }
        let many = LeftTasks { given_back: (0..10).map(task).collect(), ..LeftTasks::default() };
        assert!(outcome(&many).ends_with("t_000000000007 and 2 more: given back, uncharged"), "{}", outcome(&many));
    }
}
