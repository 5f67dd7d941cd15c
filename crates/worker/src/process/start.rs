//! How the command of a run is started: what its supervisor is told, the streams or the terminal, and what a start that fails
//! means.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::output::Source;
use super::running_command::RunningCommand;
use super::supervisor_pool;
use super::terminal::{Window, WindowSize};
use super::{Launch, RUN_ID_VARIABLE};
use crate::supervisor::messages::{Reply, Request, Start};

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such command.
    #[error("{0}: no such command")]
    NotFound(String),
    /// There is such a file, but it is a directory, lacks the permission, or is no program.
    #[error("{0}: cannot be executed: {1}")]
    NotExecutable(String, io::Error),
    /// Arguments and environment are longer than the system allows.
    #[error("the arguments or the environment of the command are too long for this system")]
    TooLong,
    /// Something else, such as too many processes.
    #[error("the command could not be started: {0}")]
    Other(io::Error),
}

impl StartError {
    pub(crate) fn new(program: &OsString, error: io::Error) -> Self {
        // What execve(2) says of what is no program, which no other machine and no later moment will change.
        const NO_PROGRAM: [i32; 3] = [
            rustix::io::Errno::NOEXEC.raw_os_error(),
            rustix::io::Errno::NAMETOOLONG.raw_os_error(),
            rustix::io::Errno::LOOP.raw_os_error(),
        ];
        let name = program.to_string_lossy().into_owned();
        match error.kind() {
            // The file is there, so what is missing is the interpreter that it names.
            io::ErrorKind::NotFound if Path::new(program).is_file() => Self::NotExecutable(name, error),
            io::ErrorKind::NotFound => Self::NotFound(name),
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => Self::NotExecutable(name, error),
            io::ErrorKind::ArgumentListTooLong => Self::TooLong,
            _ if error.raw_os_error().is_some_and(|number| NO_PROGRAM.contains(&number)) => {
                Self::NotExecutable(name, error)
            }
            _ => Self::Other(error),
        }
    }
}

/// A command that runs, unless its supervisor says next that it could not be started.
pub(crate) struct Started {
    pub(crate) running: RunningCommand,
    pub(crate) sources: [Option<Source>; 2],
    pub(crate) window: Option<Window>,
}

/// Has the command of a run started.
pub(crate) async fn start(launch: &Launch, grace: Duration) -> io::Result<Started> {
    let mut environment = launch.environment.clone();
    environment.push((RUN_ID_VARIABLE.into(), launch.run_id.as_str().into()));
    let (argv, remove) = (launch.argv.clone(), launch.remove.clone());
    let start = Start { argv, remove, environment, grace, window: None };
    match &launch.output.terminal {
        None => piped(start).await,
        Some(size) => on_terminal(start, size.clone()).await,
    }
}

async fn piped(start: Start) -> io::Result<Started> {
    let ((stdout, their_stdout), (stderr, their_stderr)) = (io::pipe()?, io::pipe()?);
    let files = [their_stdout.as_fd(), their_stderr.as_fd()];
    let running = RunningCommand::begin(&Request::Start(start), &files).await?;
    let sources = [Some(Source::pipe(stdout.into())?), Some(Source::pipe(stderr.into())?)];
    Ok(Started { running, sources, window: None })
}

async fn on_terminal(mut start: Start, mut size: watch::Receiver<WindowSize>) -> io::Result<Started> {
    start.window = Some(*size.borrow_and_update());
    let mut running = RunningCommand::begin(&Request::Start(start), &[]).await?;
    match running.reply().await {
        Ok(Reply::Terminal) => {}
        Ok(Reply::NotStarted(errno)) => {
            running.over();
            return Err(io::Error::from_raw_os_error(errno));
        }
        _ => {
            drop(running);
            supervisor_pool::sweep().await;
            return Err(io::Error::other("the supervisor of the run was killed"));
        }
    }
    let pty = running.take_files().pop().ok_or_else(|| io::Error::other("the terminal did not come along"))?;
    let window = Window::new(pty.try_clone()?, size);
    Ok(Started { running, sources: [Some(Source::terminal(pty)?), None], window: Some(window) })
}
