//! How a child is started: its group, its environment, its streams, and what a start that fails means. A child on a
//! pseudo-terminal is started in `terminal.rs`.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;

use taskqueue_core::ids::RunId;
use tokio::process::{Child, Command};

use super::output::Source;
use super::table::{self, Place, RUN_ID_VARIABLE};
use super::{Launch, terminal};
use crate::keeper::KEPT_VARIABLE;

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
    fn new(program: &OsString, error: io::Error) -> Self {
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

/// A child that runs.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) place: Place,
    pub(crate) sources: [Option<Source>; 2],
    pub(crate) terminal: Option<terminal::Terminal>,
}

/// Starts the command of a run.
pub(crate) fn start(launch: &Launch) -> Result<Started, StartError> {
    let Some((program, arguments)) = launch.argv.split_first() else {
        return Err(StartError::NotFound(String::new()));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).env_remove(KEPT_VARIABLE);
    for variable in &launch.remove {
        command.env_remove(variable);
    }
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    command.env(RUN_ID_VARIABLE, launch.run_id.as_str());
    let started = match &launch.output.terminal {
        None => piped(command, launch.run_id),
        Some(size) => terminal::start(command, launch.run_id, size.clone()),
    };
    started.map_err(|error| StartError::new(program, error))
}

/// With two pipes. Nothing here may need code between fork and exec: std then starts the child without copying the page
/// tables of this process.
fn piped(mut command: Command, run_id: RunId) -> io::Result<Started> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let (mut child, place) = table::enter(run_id, || with_pid(command.spawn()?))?;
    let sources = [child.stdout.take().map(Source::Stdout), child.stderr.take().map(Source::Stderr)];
    Ok(Started { child, place, sources, terminal: None })
}

/// A child with its number.
pub(crate) fn with_pid(child: Child) -> io::Result<(Child, i32)> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.ok_or_else(|| io::Error::other("the child has no process number"))?;
    Ok((child, pid))
}
