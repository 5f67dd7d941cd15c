//! The handler that runs a command: one child process per run, with its own folder, and with the task in its environment; the end of a run: its
//! time limit, after which the command is stopped as if the worker had asked for it; and its result: exit code 0 completes with the result
//! file, exit code 75 releases, everything else fails. How commands are started and stopped is in `process/`.

mod housekeeping;
mod run_folder;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use signal_hook::consts::signal::{SIGKILL, SIGTERM, SIGTRAP, SIGUSR1, SIGUSR2};
use taskqueue_client::{Failure, QueueName, Route};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

pub use self::housekeeping::Housekeeping;
pub use self::run_folder::PROGRESS_FILE_BYTES;
use self::run_folder::{ARGS, LOG, PROGRESS, ProgressFile, RESULT, RunFolder, make_new};
use crate::handler::{Event, EventSink, Handler, HandlerResult, Misfit, RunControl, TaskRun};
use crate::process::start::{REMOVED_VARIABLES, TIMEOUT, TOKEN, TRACE};
pub use crate::process::start::{TLS_CA, TLS_PIN, URL_FILE_VARIABLE};
use crate::process::{self, Chunk, CommandEnd, CommandSpec, Output, RUN_ID_VARIABLE, StartError, WindowSize};
use crate::run_dir::{RunDir, RunDirError};
use crate::settings::sleep_until_some;
use crate::spool::DISK_TIMEOUT;
use crate::supervisor::channel::StartRequest;
use crate::template::{FillError, Template, paths};

/// The default size limit of a log: enough for days of progress bars.
pub const LOG_CAP_BYTES: u64 = 100 * 1024 * 1024;

/// Between two looks at the progress file of a run.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct CommandSettings {
    pub template: Template,
    pub run_dir: RunDir,
    /// The URL of the server, for commands that call it.
    pub url: String,
    /// The project file that names the URL, if one does. `taskqueue` commands inside the run then send no other token there.
    pub url_file: Option<PathBuf>,
    /// The variable that says whom commands trust that call the server, and its value, if not the authorities of the system.
    pub tls: Option<(&'static str, OsString)>,
    pub queue: QueueName,
    pub route: Route,
    /// The token, if commands may have it.
    pub token: Option<String>,
    /// The longest time of a run; then it is stopped and fails.
    pub timeout: Option<Duration>,
    /// The time that a command has to end after SIGTERM.
    pub grace: Duration,
    pub log_cap_bytes: u64,
    /// The time for which folders of ended runs are kept; `None` keeps all. Those of runs that go on are made new more often.
    pub keep_runs: Option<Duration>,
    /// Receives the output.
    pub relay: mpsc::Sender<Chunk>,
    /// Relays output in whole lines that begin with slot and task, because several commands run at once.
    pub by_line: bool,
    /// The size of the commands' terminals, as it changes; `None` means pipes.
    pub terminal: Option<watch::Receiver<WindowSize>>,
}

pub struct CommandHandler {
    settings: CommandSettings,
    events: Arc<dyn EventSink>,
    /// The template has fitted a task.
    has_fitted: AtomicBool,
}

impl CommandHandler {
    /// Runs commands in a process that [`crate::keeper::start`] has made the reaper of what they leave behind.
    pub fn new(settings: CommandSettings, events: Arc<dyn EventSink>) -> Self {
        Self { settings, events, has_fitted: AtomicBool::new(false) }
    }

    /// The command for a task. As long as the template has fitted none, a value that is missing is a mistake in the template;
    /// afterwards it is one of the task.
    fn argv(&self, run: &TaskRun) -> Result<Vec<OsString>, HandlerResult> {
        let args = &run.claim.task.args;
        match self.settings.template.fill(args, run.slot) {
            Ok(argv) => {
                self.has_fitted.store(true, Ordering::Relaxed);
                Ok(argv)
            }
            Err(FillError::Missing(missing)) if !self.has_fitted.load(Ordering::Relaxed) => {
                Err(HandlerResult::Misfit(Misfit { missing, present: paths(args) }))
            }
            Err(error) => Err(result_of_fill_error(&error)),
        }
    }

    fn spec(&self, run: &TaskRun, folder: &RunFolder) -> Result<CommandSpec, HandlerResult> {
        Ok(CommandSpec {
            start: StartRequest {
                argv: self.argv(run)?,
                environment: run_variables(&self.settings, run, folder),
                remove: REMOVED_VARIABLES.map(Into::into).to_vec(),
                grace: self.settings.grace,
                window: None,
            },
            processes: run.processes.clone(),
            output: Output {
                log: folder.file(LOG),
                log_cap_bytes: self.settings.log_cap_bytes,
                relay: self.settings.relay.clone(),
                sent: run.output.clone(),
                label: self.settings.by_line.then(|| format!("{} {}", run.slot, run.claim.task.id).into()),
                terminal: self.settings.terminal.clone(),
            },
        })
    }

    fn note<'a>(&self, run: &TaskRun, notes: impl IntoIterator<Item = &'a Option<String>>) {
        for text in notes.into_iter().flatten() {
            self.events.on_event(&Event::Note { task_id: Some(run.claim.task.id), text });
        }
    }
}

#[async_trait]
impl Handler for CommandHandler {
    async fn run(&self, mut run: TaskRun) -> HandlerResult {
        let (run_dir, task, run_id) = (self.settings.run_dir.clone(), run.claim.task.clone(), run.claim.run_id);
        let create = move || RunFolder::create(&run_dir, task.id, run_id, &task.args);
        let folder = match unless_stopped(&mut run, create).await {
            None => return HandlerResult::Stopped,
            Some(Ok(folder)) => folder,
            Some(Err(error)) => return HandlerResult::CannotRun(folder_error(&error)),
        };
        let spec = match self.spec(&run, &folder) {
            Ok(spec) => spec,
            Err(result) => return result,
        };
        let program = spec.start.argv.first().cloned().unwrap_or_default();
        let of_task = run.times_out_at.zip(run.claim.task.scheduling.run_limit());
        let (limit, is_exceeded) = (TimeLimit::first(self.settings.timeout, of_task), AtomicBool::new(false));
        let (control, receiver) = watch::channel(*run.control.borrow());
        let ends_at = limit.as_ref().map(|limit| limit.ends_at);
        let meanwhile = async {
            tokio::join!(
                pass_on_control(ends_at, run.control.clone(), &control, &is_exceeded),
                folder.keep_new(housekeeping::refresh_interval(self.settings.keep_runs)),
                ProgressFile::new(folder.file(PROGRESS)).watch(PROGRESS_INTERVAL, &run.progress),
            )
        };
        let ended = tokio::select! {
            biased;
            ended = process::run(spec, receiver) => ended,
            // None of these ends.
            _ = meanwhile => std::future::pending().await,
        };
        let end = match ended {
            Ok(end) => end,
            Err(error) => return result_of_start_error(&program, &error),
        };
        self.note(&run, [&end.log_note, &end.process_note]);
        let exceeded = limit.filter(|_| is_exceeded.into_inner());
        let progress = run.progress.clone();
        let ended = unless_stopped(&mut run, move || {
            let last_progress = ProgressFile::new(folder.file(PROGRESS)).read_changed();
            (
                last_progress.map(|last| last.into_iter().for_each(|last| progress.report(last))),
                result_of_end(&end, &folder, exceeded),
            )
        });
        let (last_progress, (result, note)) = ended.await.unwrap_or((Ok(()), (HandlerResult::Stopped, None)));
        let progress_note = last_progress.err().map(|why| format!("its progress file cannot be used: {why}"));
        self.note(&run, [&note, &progress_note]);
        result
    }
}

fn folder_error(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(RunDirError::Insecure(why)) => format!("the run directory is not safe from other users: {why}"),
        _ => format!("the run directory cannot be written: {error}"),
    }
}

/// Runs a disk operation on a blocking thread, because the async threads renew leases. Returns `None` when the run was asked to end
/// and the disk hangs.
async fn unless_stopped<T: Send + 'static>(run: &mut TaskRun, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::select! {
        biased;
        done = spawn_blocking(work) => done.ok(),
        () = async { run.stop_requested().await; sleep(DISK_TIMEOUT).await } => None,
    }
}

/// The variable with the path of the file in which a command says how far it is.
pub const PROGRESS_FILE_VARIABLE: &str = "TASKQUEUE_PROGRESS_FILE";

const ROUTE: &str = "TASKQUEUE_ROUTE";
const TASK_ID: &str = "TASKQUEUE_TASK_ID";
const ATTEMPT: &str = "TASKQUEUE_ATTEMPT";
const WORKER_ID: &str = "TASKQUEUE_WORKER_ID";
const SLOT: &str = "TASKQUEUE_SLOT";
const RUN_DIR: &str = "TASKQUEUE_RUN_DIR";
const ARGS_FILE: &str = "TASKQUEUE_ARGS_FILE";
const RESULT_FILE: &str = "TASKQUEUE_RESULT_FILE";

/// The variables that tell a command about its run, besides the run id. The others are settings of clients.
pub const RUN_VARIABLES: [&str; 10] =
    [ROUTE, TASK_ID, ATTEMPT, WORKER_ID, SLOT, RUN_DIR, ARGS_FILE, RESULT_FILE, PROGRESS_FILE_VARIABLE, TIMEOUT];

/// Returns the variables that are added to the environment of a run.
fn run_variables(settings: &CommandSettings, run: &TaskRun, folder: &RunFolder) -> Vec<(OsString, OsString)> {
    let task = &run.claim.task;
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("TASKQUEUE_URL".into(), settings.url.as_str().into()),
        ("TASKQUEUE_QUEUE".into(), settings.queue.as_str().into()),
        (ROUTE.into(), settings.route.as_str().into()),
        (TASK_ID.into(), task.id.as_str().into()),
        (ATTEMPT.into(), task.attempt.to_string().into()),
        (WORKER_ID.into(), run.worker_id.as_str().into()),
        (SLOT.into(), run.slot.to_string().into()),
        (RUN_DIR.into(), folder.path().into()),
        (ARGS_FILE.into(), folder.file(ARGS).into()),
        (RESULT_FILE.into(), folder.file(RESULT).into()),
        (PROGRESS_FILE_VARIABLE.into(), folder.file(PROGRESS).into()),
        (TRACE.into(), run.trace.to_string().into()),
        (RUN_ID_VARIABLE.into(), run.claim.run_id.as_str().into()),
    ];
    variables.extend(task.scheduling.run_limit().map(|limit| (TIMEOUT.into(), limit.as_secs().to_string().into())));
    variables.extend(settings.token.iter().map(|token| (TOKEN.into(), token.into())));
    variables.extend(settings.url_file.iter().map(|file| (URL_FILE_VARIABLE.into(), file.into())));
    variables.extend(settings.tls.iter().map(|(variable, value)| (variable.into(), value.clone())));
    variables
}

/// From sysexits.h: a temporary failure.
const EX_TEMPFAIL: i32 = 75;

/// The type of the error of a run that took too long. The server uses the same word.
const TIMEOUT_KIND: &str = "ExecutionTimeout";

/// The result, and a note about it that was also added to the log. `exceeded` is the time limit that ended the run, if one did.
/// Blocks.
fn result_of_end(end: &CommandEnd, folder: &RunFolder, exceeded: Option<TimeLimit>) -> (HandlerResult, Option<String>) {
    make_new(folder.path());
    if !end.was_stopped && end.status.success() {
        return match folder.read_result() {
            Ok((result, note)) => {
                note.iter().for_each(|note| folder.append_to_log(note));
                (HandlerResult::Complete(result), note)
            }
            Err(failure) => (HandlerResult::Fail(failure), None),
        };
    }
    (without_success(end, exceeded), None)
}

fn without_success(end: &CommandEnd, exceeded: Option<TimeLimit>) -> HandlerResult {
    let (kind, message) = match (end.status.code(), exceeded) {
        (_, Some(limit)) if end.was_stopped => {
            (TIMEOUT_KIND, format!("the run took longer than {} and was stopped", limit.words))
        }
        _ if end.was_stopped => return HandlerResult::Stopped,
        (Some(EX_TEMPFAIL), _) => return HandlerResult::Release,
        (Some(code), _) => ("ExitCode", format!("the command ended with exit code {code}")),
        (None, _) => {
            let signal = signal_name(end.status.signal().unwrap_or_default());
            ("Signal", format!("the command was ended by {signal}"))
        }
    };
    let traceback = (!end.tail.is_empty()).then(|| end.tail.as_str().into());
    HandlerResult::Fail(Failure { kind: kind.into(), message: message.into(), traceback })
}

fn result_of_start_error(program: &OsStr, error: &StartError) -> HandlerResult {
    let program = program.to_string_lossy();
    let (kind, message) = match error {
        StartError::NotFound(_) => ("CommandNotFound", format!("{program} was not found on the worker's machine")),
        StartError::NotExecutable(_, error) => {
            ("CommandNotExecutable", format!("{program} cannot be executed on the worker's machine: {error}"))
        }
        StartError::TooLong => {
            ("CommandTooLong", "the arguments are too long for a command; read TASKQUEUE_ARGS_FILE instead".to_owned())
        }
        // Too many processes or no memory: the task can run elsewhere or later.
        StartError::Other(error) => {
            return HandlerResult::CannotRun(format!("{program} could not be started: {error}"));
        }
    };
    reject(kind, message)
}

fn result_of_fill_error(error: &FillError) -> HandlerResult {
    match error {
        FillError::Missing(path) => reject("MissingArgument", format!("the command needs the argument {path}")),
        FillError::Nul(path) => {
            reject("InvalidArgument", format!("the argument {path} contains U+0000, which no command line can"))
        }
    }
}

/// Running the task again would end in the same way.
fn reject(kind: &str, message: String) -> HandlerResult {
    HandlerResult::Reject(Failure { kind: kind.into(), message: message.into(), traceback: None })
}

fn signal_name(number: i32) -> String {
    match signal_hook::low_level::signal_name(number) {
        _ if number == SIGKILL => "SIGKILL (out of memory?)".to_owned(),
        Some(name) if number <= SIGTERM && !matches!(number, SIGTRAP | SIGUSR1 | SIGUSR2) => name.to_owned(),
        _ => format!("signal {number}"),
    }
}

/// The end of the time of a run, and who has set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    pub(super) ends_at: Instant,
    /// Says for people what the run has exceeded.
    words: String,
}

impl TimeLimit {
    /// The limit that ends a run first, if there is one: that of the worker, which counts from now on, or the end and the seconds
    /// that the task has.
    pub(super) fn first(of_worker: Option<Duration>, of_task: Option<(Instant, Duration)>) -> Option<Self> {
        let of_worker =
            of_worker.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit, "--timeout allows")));
        let of_task = of_task.map(|(ends_at, limit)| (ends_at, limit, "the timeout_seconds of its task allow"));
        let first = of_worker.into_iter().chain(of_task).min_by_key(|(ends_at, ..)| *ends_at);
        first.map(|(ends_at, limit, setter)| Self { ends_at, words: format!("{setter} ({} s)", limit.as_secs()) })
    }
}

/// Passes on what the worker wants of a run, and asks for its end when its time is over. Never returns. `is_exceeded` becomes true if the
/// time is over before the worker asks for the end: such a run fails, whatever the worker asks for until it has ended.
async fn pass_on_control(
    ends_at: Option<Instant>,
    mut wanted: watch::Receiver<RunControl>,
    control: &watch::Sender<RunControl>,
    is_exceeded: &AtomicBool,
) {
    let mut is_over = std::pin::pin!(sleep_until_some(ends_at));
    let (mut has_timed_out, mut is_open) = (false, true);
    loop {
        tokio::select! {
            biased;
            changed = wanted.changed(), if is_open => is_open = changed.is_ok(),
            () = &mut is_over, if !has_timed_out => {
                has_timed_out = true;
                is_exceeded.store(*wanted.borrow() == RunControl::Continue, Ordering::Relaxed);
            }
            else => std::future::pending().await,
        }
        let least = if has_timed_out { RunControl::Stop } else { RunControl::Continue };
        control.send_replace(least.max(*wanted.borrow_and_update()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_time_is_a_request_to_stop_and_a_stronger_one_wins() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, mut seen) = watch::channel(RunControl::Continue);
        let limit = Duration::from_secs(7200);
        let started = Instant::now();
        let is_exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_exceeded);
        tokio::spawn(async move { pass_on_control(Some(started + limit), wanted, &control, &flag).await });
        seen.wait_for(|control| *control == RunControl::Stop).await.unwrap();
        assert!(started.elapsed() >= limit);
        worker.send_replace(RunControl::Kill);
        seen.wait_for(|control| *control == RunControl::Kill).await.unwrap();
        assert!(is_exceeded.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_was_asked_to_end_within_its_time_does_not_exceed_it() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, _seen) = watch::channel(RunControl::Continue);
        let is_exceeded = AtomicBool::new(false);
        let limit = Duration::from_secs(10);
        worker.send_replace(RunControl::Stop);
        let passing = pass_on_control(Some(Instant::now() + limit), wanted, &control, &is_exceeded);
        assert!(tokio::time::timeout(2 * limit, passing).await.is_err());
        assert!(!is_exceeded.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_only_the_worker_decides() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, mut seen) = watch::channel(RunControl::Continue);
        tokio::spawn(async move { pass_on_control(None, wanted, &control, &AtomicBool::new(false)).await });
        let year = Duration::from_secs(31_536_000);
        assert!(tokio::time::timeout(year, seen.wait_for(|control| *control > RunControl::Continue)).await.is_err());
        worker.send_replace(RunControl::Stop);
        seen.wait_for(|control| *control == RunControl::Stop).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_that_ends_a_run_first_counts_and_is_named() {
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let task = |left, limit| Some((now + seconds(left), seconds(limit)));
        let cases = [
            (None, None, None),
            (Some(seconds(7)), None, Some((7, "--timeout allows (7 s)"))),
            (None, task(9, 10), Some((9, "the timeout_seconds of its task allow (10 s)"))),
            (Some(seconds(7)), task(9, 10), Some((7, "--timeout allows (7 s)"))),
            (Some(seconds(9)), task(7, 8), Some((7, "the timeout_seconds of its task allow (8 s)"))),
        ];
        for (of_worker, of_task, expected) in cases {
            let first = TimeLimit::first(of_worker, of_task);
            let first = first.map(|limit| ((limit.ends_at - now).as_secs(), limit.words));
            assert_eq!(first, expected.map(|(left, words)| (left, words.to_owned())), "{of_worker:?} {of_task:?}");
        }
    }
}
