//! The handler that runs a command: one child process per run, with its own folder, and with the task in its environment. How commands
//! are started and stopped is in `process/`.

mod ending;
mod housekeeping;
mod json_file;
mod progress_file;
mod run_folder;
mod settings;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use self::ending::TimeLimit;
pub use self::housekeeping::Housekeeping;
pub use self::progress_file::PROGRESS_FILE_BYTES;
use self::progress_file::ProgressFile;
use self::run_folder::RunFolder;
pub use self::settings::{CommandSettings, PROGRESS_FILE_VARIABLE, RUN_VARIABLES, TrustVariable};
use crate::events::{Event, EventSink};
use crate::handler::{Handler, HandlerResult, Misfit, TaskRun};
use crate::process::start::REMOVED_VARIABLES;
pub use crate::process::start::URL_FILE_VARIABLE;
use crate::process::{CommandEnd, CommandRunner, CommandSpec, Output, StartError};
use crate::run_dir::RunDirError;
use crate::spool::DISK_TIMEOUT;
use crate::template::{FillError, paths};

/// The default size limit of a log: enough for days of progress bars.
pub const LOG_CAP_BYTES: u64 = 100 * 1024 * 1024;

/// Between two looks at the progress file of a run.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

pub struct CommandHandler {
    settings: CommandSettings,
    runner: CommandRunner,
    events: Arc<dyn EventSink>,
    /// The template has fitted a task.
    has_fitted: AtomicBool,
}

impl CommandHandler {
    pub fn new(settings: CommandSettings, runner: CommandRunner, events: Arc<dyn EventSink>) -> Self {
        Self { settings, runner, events, has_fitted: AtomicBool::new(false) }
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
            environment: settings::run_variables(&self.settings, run, folder),
            remove: REMOVED_VARIABLES.map(Into::into).to_vec(),
            run_id: run.claim.run_id,
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
        let (limit, is_exceeded) = (self.time_limit(&run), AtomicBool::new(false));
        let end = match self
            .run_command(spec, &run, &folder, limit.as_ref().map(|limit| limit.ends_at), &is_exceeded)
            .await
        {
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
    /// The limit of the worker or of the task, whichever ends the run first.
    fn time_limit(&self, run: &TaskRun) -> Option<TimeLimit> {
        let of_task = run.times_out_at.zip(run.claim.task.scheduling.run_limit());
        TimeLimit::first(self.settings.timeout, of_task)
    }

    /// Runs the command to its end, or until its time is over, of which `is_exceeded` tells.
    async fn run_command(
        &self,
        spec: CommandSpec,
        run: &TaskRun,
        folder: &RunFolder,
        ends_at: Option<Instant>,
        is_exceeded: &AtomicBool,
    ) -> Result<CommandEnd, StartError> {
        let progress = ProgressFile::new(folder.progress());
        let refresh_interval = housekeeping::refresh_interval(self.settings.keep_runs);
        let (control, receiver) = watch::channel(*run.control.borrow());
        tokio::select! {
            biased;
            end = self.runner.run(spec, receiver, self.settings.grace) => end,
            () = ending::pass_on_control(ends_at, run.control.clone(), &control, is_exceeded) => {
                std::future::pending().await
            }
            () = folder.keep_new(refresh_interval) => std::future::pending().await,
            () = progress.watch(PROGRESS_INTERVAL, &run.progress) => std::future::pending().await,
        }
    }

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
