//! The handler that runs a command: one child process per run, in a folder of its own, told by its environment what it works
//! on. How children are started, heard and stopped is in `process/`.

mod environment;
mod handler_result;
mod run_folder;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_client::{QueueName, Route};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

pub use self::environment::URL_FILE_VARIABLE;
use self::run_folder::RunFolder;
use crate::events::{Event, Listener};
use crate::handler::{Handler, Outcome, Run};
use crate::process::{Chunk, Launch, Output, Processes, WindowSize};
use crate::run_dir::{RunDir, RunDirError};
use crate::spool::DISK_PATIENCE;
use crate::template::Template;

/// How much of a child's output is kept unless said otherwise: enough for days of progress bars.
pub const LOG_CAP_BYTES: u64 = 100 * 1024 * 1024;

/// What every run of a command is told.
#[derive(Debug)]
pub struct CommandSettings {
    /// The command, with holes for the args of tasks.
    pub template: Template,
    /// Where each run gets a folder.
    pub run_dir: RunDir,
    /// The server, for children that talk to it.
    pub url: String,
    /// The project file that names the server, if one does. Children are told, so that they send no other token there.
    pub url_file: Option<PathBuf>,
    /// The queue.
    pub queue: QueueName,
    /// The route.
    pub route: Route,
    /// The token, if children shall have it.
    pub token: Option<String>,
    /// How long a child may take to end when it is told to.
    pub grace: Duration,
    /// How much of a child's output is kept.
    pub log_cap_bytes: u64,
    /// Where output goes while it is made.
    pub relay: mpsc::Sender<Chunk>,
    /// Whether output is relayed in whole lines, because several children talk at once.
    pub by_line: bool,
    /// The size of the terminal that children get, as it changes; nothing means pipes.
    pub terminal: Option<watch::Receiver<WindowSize>>,
}

/// Runs one child process per task.
pub struct Command {
    settings: CommandSettings,
    processes: Processes,
    listener: Arc<dyn Listener>,
}

impl Command {
    /// A handler whose children are `processes`' business.
    pub fn new(settings: CommandSettings, processes: Processes, listener: Arc<dyn Listener>) -> Self {
        Self { settings, processes, listener }
    }

    fn launch(&self, run: &Run, folder: &RunFolder) -> Result<Launch, Outcome> {
        let task = &run.claim.task;
        let argv =
            self.settings.template.fill(&task.args, run.slot).map_err(|error| handler_result::unfilled(&error))?;
        Ok(Launch {
            argv,
            environment: environment::of(&self.settings, run, folder),
            remove: environment::REMOVED.map(Into::into).to_vec(),
            run_id: run.claim.run_id,
            output: Output {
                slot: run.slot,
                log: folder.log(),
                log_cap_bytes: self.settings.log_cap_bytes,
                relay: self.settings.relay.clone(),
                by_line: self.settings.by_line,
                terminal: self.settings.terminal.clone(),
            },
        })
    }
}

#[async_trait]
impl Handler for Command {
    async fn run(&self, mut run: Run) -> Outcome {
        let (run_dir, task, run_id) = (self.settings.run_dir.clone(), run.claim.task.clone(), run.claim.run_id);
        let making = move || RunFolder::create(&run_dir, task.id, run_id, &task.args);
        let folder = match unless_told_to_end(&mut run, making).await {
            None => return Outcome::Stopped,
            Some(Ok(folder)) => folder,
            Some(Err(error)) => return Outcome::Unable(no_folder(&error)),
        };
        let launch = match self.launch(&run, &folder) {
            Ok(launch) => launch,
            Err(outcome) => return outcome,
        };
        let program = launch.argv.first().cloned().unwrap_or_default();
        match self.processes.run(launch, run.orders.clone(), self.settings.grace).await {
            Err(error) => handler_result::not_started(&program, &error),
            Ok(ended) => {
                for text in [&ended.log_note, &ended.process_note].into_iter().flatten() {
                    self.listener.hear(&Event::Note { task_id: Some(run.claim.task.id), text });
                }
                unless_told_to_end(&mut run, move || handler_result::of(&ended, &folder))
                    .await
                    .unwrap_or(Outcome::Stopped)
            }
        }
    }
}

fn no_folder(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(RunDirError::NotOurs(why)) => format!("the run directory is not safe from other users: {why}"),
        _ => format!("the run directory cannot be written: {error}"),
    }
}

/// Does something with the disk off the threads that keep the leases of all slots. Nothing when the run is to end and the disk
/// does not answer.
async fn unless_told_to_end<T: Send + 'static>(run: &mut Run, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::select! {
        biased;
        done = spawn_blocking(work) => done.ok(),
        () = async { run.told_to_end().await; sleep(DISK_PATIENCE).await } => None,
    }
}
