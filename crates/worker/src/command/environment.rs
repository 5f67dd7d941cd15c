//! The environment variables of a command, in addition to those of the worker. `process/` adds the run id.

use std::ffi::OsString;
use std::path::PathBuf;

use super::CommandSettings;
use super::run_folder::RunFolder;
use crate::handler::TaskRun;

const TOKEN: &str = "TASKQUEUE_TOKEN";
const TLS_PIN: &str = "TASKQUEUE_TLS_PIN";
const TLS_CA: &str = "TASKQUEUE_TLS_CA";

/// Whom a command trusts when it calls the server over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustVariable {
    /// Servers with one of these keys, with commas between them.
    Pin(String),
    /// The certificate authorities in this file.
    Authorities(PathBuf),
}

/// The variable with the path of the project file that names the URL.
pub const URL_FILE_VARIABLE: &str = "TASKQUEUE_URL_FILE";

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

/// For how many seconds a run of the task may be active, if it limits that. Not the limit of an outer run, if there is one.
const TIMEOUT: &str = "TASKQUEUE_TIMEOUT_SECONDS";

/// The variables that tell a command about its run, besides the run id. The others are settings of clients.
pub const RUN_VARIABLES: [&str; 10] =
    [ROUTE, TASK_ID, ATTEMPT, WORKER_ID, SLOT, RUN_DIR, ARGS_FILE, RESULT_FILE, PROGRESS_FILE_VARIABLE, TIMEOUT];

/// The place in a trace (W3C Trace Context). Each run has its own, whatever the worker was started with.
const TRACE: &str = "TRACEPARENT";

/// Where systemd has put the secrets of the service, the worker's token among them.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Commands do not inherit these from the worker, nor does what it starts for itself: secrets and where they are, whom the worker trusts,
/// the time limit and the trace of what the worker was started in, and what is between the worker and its service manager.
/// `TASKQUEUE_TOKEN_FILE` is a variable of the server, and of scripts around workers.
pub(crate) const REMOVED: [&str; 12] = [
    TOKEN,
    "TASKQUEUE_TOKEN_FILE",
    CREDENTIALS,
    URL_FILE_VARIABLE,
    TLS_PIN,
    TLS_CA,
    TIMEOUT,
    TRACE,
    "TRACESTATE",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

pub(super) fn variables(settings: &CommandSettings, run: &TaskRun, folder: &RunFolder) -> Vec<(OsString, OsString)> {
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
