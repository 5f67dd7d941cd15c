//! Runs a short command of the worker's own, such as a query about GPUs, and returns what it prints. It has a supervisor like every command,
//! because other children of this process are killed.

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::running_command::RunningCommand;
use crate::command::REMOVED;
use crate::stop::RunControl;
use crate::supervisor::messages::{Request, StartRequest};

/// How long a command may take to end when it is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(6);

/// What the command prints on standard output, if it succeeds in time. More than `most_bytes` is not read.
///
/// # Errors
///
/// Why there is nothing to read, for people.
pub(crate) async fn captured(
    program: &Path,
    arguments: &[&str],
    limit: Duration,
    most_bytes: u64,
) -> Result<Vec<u8>, String> {
    let argv = std::iter::once(program.into()).chain(arguments.iter().map(Into::into)).collect();
    let remove = REMOVED.map(Into::into).to_vec();
    let start = StartRequest { argv, remove, environment: Vec::new(), grace: Duration::ZERO, window: None };
    let (running, stdout) = started(start).await.map_err(|error| format!("it cannot be started: {error}"))?;
    let (control, receiver) = watch::channel(RunControl::Continue);
    let (mut waiting, mut bytes) = (pin!(running.wait(receiver)), Vec::new());
    let work = async {
        // A command that prints more is stopped by its closed pipe.
        let read = pipe::Receiver::from_owned_fd(stdout.into())?.take(most_bytes).read_to_end(&mut bytes).await;
        read.map(drop).and(waiting.as_mut().await.map_err(|not_started| not_started.error))
    };
    match timeout(limit, work).await {
        Ok(Ok(end)) => match end.status.map(ExitStatus::from_raw) {
            Some(status) if status.success() => Ok(bytes),
            Some(status) => Err(format!("it failed: {status}")),
            None => Err("it was killed".to_owned()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            control.send_replace(RunControl::Kill);
            drop(timeout(KILL_TIMEOUT, waiting).await);
            Err(format!("it did not end within {} s", limit.as_secs()))
        }
    }
}

async fn started(start: StartRequest) -> io::Result<(RunningCommand, PipeReader)> {
    let ((stdout, child_stdout), nothing) = (io::pipe()?, File::options().write(true).open("/dev/null")?);
    let running = RunningCommand::start(&Request::Start(start), &[child_stdout.as_fd(), nothing.as_fd()]).await?;
    Ok((running, stdout))
}
