//! The settings of commands, and the environment variables of a command in addition to those of the worker. `process/` adds
//! the run id.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use taskqueue_client::{QueueName, Route};
use tokio::sync::{mpsc, watch};

use super::run_folder::RunFolder;
use crate::handler::TaskRun;
use crate::process::start::{TIMEOUT, TLS_CA, TLS_PIN, TOKEN, TRACE, URL_FILE_VARIABLE};
use crate::process::{Chunk, WindowSize};
use crate::run_dir::RunDir;
use crate::template::Template;

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
pub(super) fn run_variables(
    settings: &CommandSettings,
    run: &TaskRun,
    folder: &RunFolder,
) -> Vec<(OsString, OsString)> {
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
    if let Some(limit) = task.scheduling.run_limit() {
        variables.push((TIMEOUT.into(), limit.as_secs().to_string().into()));
    }
    if let Some(token) = &settings.token {
        variables.push((TOKEN.into(), token.into()));
    }
    if let Some(file) = &settings.url_file {
        variables.push((URL_FILE_VARIABLE.into(), file.into()));
    }
    variables.extend(settings.tls.as_ref().map(|trust| match trust {
        TrustVariable::Pin(pins) => (TLS_PIN.into(), pins.into()),
        TrustVariable::Authorities(path) => (TLS_CA.into(), path.into()),
    }));
    variables
}
