//! Starts the command of a run: the request to its supervisor, its pipes or its terminal, and the errors of a start.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::output::Source;
use super::running_command::RunningCommand;
use super::terminal::{WindowResizer, WindowSize};
use super::{CommandSpec, RUN_ID_VARIABLE};
use crate::supervisor::messages::{NotStarted, Reply, Request, StartRequest};

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}: no such command")]
    NotFound(String),
    /// The file is a directory, lacks the permission, or is not a program.
    #[error("{0}: cannot be executed: {1}")]
    NotExecutable(String, io::Error),
    #[error("the arguments or the environment of the command are too long for this system")]
    TooLong,
    /// For example too many processes.
    #[error("the command could not be started: {0}")]
    Other(io::Error),
}

impl StartError {
    pub(crate) fn of(program: &OsString, NotStarted { error, is_of_command }: NotStarted) -> Self {
        if is_of_command { Self::new(program, error) } else { Self::Other(error) }
    }

    /// From the error of executing the program. The same error of anything else says nothing about the program.
    pub(crate) fn new(program: &OsString, error: io::Error) -> Self {
        // Errors of execve(2) for a file that is not a program. They are permanent.
        const NOT_A_PROGRAM: [i32; 3] = [
            rustix::io::Errno::NOEXEC.raw_os_error(),
            rustix::io::Errno::NAMETOOLONG.raw_os_error(),
            rustix::io::Errno::LOOP.raw_os_error(),
        ];
        let name = program.to_string_lossy().into_owned();
        match error.kind() {
            // The file exists, so its interpreter is missing.
            io::ErrorKind::NotFound if Path::new(program).is_file() => Self::NotExecutable(name, error),
            io::ErrorKind::NotFound => Self::NotFound(name),
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => Self::NotExecutable(name, error),
            io::ErrorKind::ArgumentListTooLong => Self::TooLong,
            _ if error.raw_os_error().is_some_and(|number| NOT_A_PROGRAM.contains(&number)) => {
                Self::NotExecutable(name, error)
            }
            _ => Self::Other(error),
        }
    }
}

/// A command that runs, unless the next reply says that it could not be started.
pub(crate) struct StartedCommand {
    pub(crate) running: RunningCommand,
    pub(crate) sources: [Option<Source>; 2],
    pub(crate) resizer: Option<WindowResizer>,
}

pub(crate) async fn start(spec: &CommandSpec, grace: Duration) -> Result<StartedCommand, NotStarted> {
    let mut environment = spec.environment.clone();
    environment.push((RUN_ID_VARIABLE.into(), spec.run_id.as_str().into()));
    let (argv, remove) = (spec.argv.clone(), spec.remove.clone());
    let start = StartRequest { argv, remove, environment, grace, window: None };
    match &spec.output.terminal {
        None => piped(start).await,
        Some(size) => on_terminal(start, size.clone()).await,
    }
}

async fn piped(start: StartRequest) -> Result<StartedCommand, NotStarted> {
    let ((stdout, child_stdout), (stderr, child_stderr)) = (io::pipe()?, io::pipe()?);
    let files = [child_stdout.as_fd(), child_stderr.as_fd()];
    let running = RunningCommand::start(&Request::Start(start), &files).await?;
    let sources = [Some(Source::pipe(stdout.into())?), Some(Source::pipe(stderr.into())?)];
    Ok(StartedCommand { running, sources, resizer: None })
}

async fn on_terminal(
    mut start: StartRequest,
    mut size: watch::Receiver<WindowSize>,
) -> Result<StartedCommand, NotStarted> {
    start.window = Some(*size.borrow_and_update());
    let mut running = RunningCommand::start(&Request::Start(start), &[]).await?;
    match running.reply().await {
        Ok(Reply::Terminal) => {}
        Ok(Reply::NotStarted { errno, is_of_command }) => return Err(running.not_started(errno, is_of_command)),
        _ => {
            running.kill_strays().await;
            return Err(io::Error::other("the supervisor of the run was killed").into());
        }
    }
    let pty = running.take_files().pop().ok_or_else(|| io::Error::other("the supervisor sent no terminal"))?;
    let resizer = WindowResizer::new(pty.try_clone()?, size);
    Ok(StartedCommand { running, sources: [Some(Source::terminal(pty)?), None], resizer: Some(resizer) })
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_errors_of_executing_the_command_are_about_the_command() {
        let program = OsString::from("/no/such/file");
        let of =
            |errno: Errno, is_of_command| StartError::of(&program, NotStarted { error: errno.into(), is_of_command });
        assert!(matches!(of(Errno::NOENT, true), StartError::NotFound(_)));
        // A machine without /dev/ptmx or /proc, or one that does not allow to use them.
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::PERM, Errno::TOOBIG, Errno::NOEXEC] {
            assert!(matches!(of(errno, false), StartError::Other(_)), "{errno}");
        }
        assert!(!NotStarted::from(io::Error::from(Errno::NOENT)).is_of_command);
    }
}
