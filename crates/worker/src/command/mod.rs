//! The handler that runs a command: one child process per run, with its own folder, and with the task in its environment. How commands
//! are started and stopped is in `process/`.

mod ending;
mod housekeeping;
mod json_file;
mod progress_file;
mod run_folder;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_client::{QueueName, Route};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use self::ending::TimeLimit;
pub use self::housekeeping::Housekeeping;
pub use self::progress_file::PROGRESS_FILE_BYTES;
use self::progress_file::ProgressFile;
use self::run_folder::RunFolder;
use crate::events::{Event, EventSink};
use crate::handler::{Handler, HandlerResult, Misfit, TaskRun};
pub use crate::process::start::URL_FILE_VARIABLE;
use crate::process::start::{REMOVED_VARIABLES, TIMEOUT, TLS_CA, TLS_PIN, TOKEN, TRACE};
use crate::process::{self, Chunk, CommandSpec, Output, WindowSize};
use crate::run_dir::{RunDir, RunDirError};
use crate::spool::DISK_TIMEOUT;
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
    /// The trust of commands that call the server, if not the authorities of the system.
    pub tls: Option<TrustVariable>,
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

/// The trust of a command when it calls the server over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustVariable {
    /// Servers with one of these keys, with commas between them.
    Pin(String),
    /// The certificate authorities in this file.
    Authorities(PathBuf),
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
            Err(error) => Err(ending::result_of_fill_error(&error)),
        }
    }

    fn spec(&self, run: &TaskRun, folder: &RunFolder) -> Result<CommandSpec, HandlerResult> {
        Ok(CommandSpec {
            argv: self.argv(run)?,
            environment: run_variables(&self.settings, run, folder),
            remove: REMOVED_VARIABLES.map(Into::into).to_vec(),
            run_id: run.claim.run_id,
            grace: self.settings.grace,
            processes: run.processes.clone(),
            output: Output {
                log: folder.log(),
                log_cap_bytes: self.settings.log_cap_bytes,
                relay: self.settings.relay.clone(),
                sent: run.output.clone(),
                label: self.settings.by_line.then(|| format!("{} {}", run.slot, run.claim.task.id).into()),
                terminal: self.settings.terminal.clone(),
            },
        })
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
        let program = spec.argv.first().cloned().unwrap_or_default();
        let of_task = run.times_out_at.zip(run.claim.task.scheduling.run_limit());
        let (limit, is_exceeded) = (TimeLimit::first(self.settings.timeout, of_task), AtomicBool::new(false));
        let (control, receiver) = watch::channel(*run.control.borrow());
        let ends_at = limit.as_ref().map(|limit| limit.ends_at);
        let meanwhile = async {
            tokio::join!(
                ending::pass_on_control(ends_at, run.control.clone(), &control, &is_exceeded),
                folder.keep_new(housekeeping::refresh_interval(self.settings.keep_runs)),
                ProgressFile::new(folder.progress()).watch(PROGRESS_INTERVAL, &run.progress),
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
            Err(error) => return ending::result_of_start_error(&program, &error),
        };
        self.note(&run, [&end.log_note, &end.process_note]);
        let exceeded = limit.filter(|_| is_exceeded.into_inner());
        let progress = run.progress.clone();
        let ended = unless_stopped(&mut run, move || {
            let last_progress = ProgressFile::new(folder.progress()).read_changed();
            (
                last_progress.map(|last| last.into_iter().for_each(|last| progress.report(last))),
                ending::result_of_end(&end, &folder, exceeded),
            )
        });
        let (last_progress, (result, note)) = ended.await.unwrap_or((Ok(()), (HandlerResult::Stopped, None)));
        let progress_note = last_progress.err().map(|why| format!("its progress file cannot be used: {why}"));
        self.note(&run, [&note, &progress_note]);
        result
    }
}

impl CommandHandler {
    fn note<'a>(&self, run: &TaskRun, notes: impl IntoIterator<Item = &'a Option<String>>) {
        for text in notes.into_iter().flatten() {
            self.events.on_event(&Event::Note { task_id: Some(run.claim.task.id), text });
        }
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
        (ARGS_FILE.into(), folder.args().into()),
        (RESULT_FILE.into(), folder.result().into()),
        (PROGRESS_FILE_VARIABLE.into(), folder.progress().into()),
        (TRACE.into(), run.trace.to_string().into()),
    ];
    variables.extend(task.scheduling.run_limit().map(|limit| (TIMEOUT.into(), limit.as_secs().to_string().into())));
    variables.extend(settings.token.iter().map(|token| (TOKEN.into(), token.into())));
    variables.extend(settings.url_file.iter().map(|file| (URL_FILE_VARIABLE.into(), file.into())));
    variables.extend(settings.tls.as_ref().map(|trust| match trust {
        TrustVariable::Pin(pins) => (TLS_PIN.into(), pins.into()),
        TrustVariable::Authorities(path) => (TLS_CA.into(), path.into()),
    }));
    variables
}
