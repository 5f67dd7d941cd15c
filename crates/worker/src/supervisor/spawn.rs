//! Starts the command of a run: its process group, its environment, its pipes or its terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pty_process::blocking::{self, Pts, Pty};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::messages::{NotStarted, StartRequest};
use crate::process::WindowSize;

pub(super) struct Spawned {
    /// The pid of the command, which is also the id of its process group.
    pub(super) leader: i32,
    pub(super) terminal: Option<Terminal>,
}

pub(super) struct Terminal {
    /// The worker's side.
    pub(super) pty: Pty,
    /// The command's side. While it is open, the worker does not read an end of file, even if the command closes all its descriptors
    /// and opens /dev/tty later.
    pub(super) _pts: Pts,
}

pub(super) fn spawn(start: &StartRequest, files: Vec<OwnedFd>) -> Result<Spawned, NotStarted> {
    let Some((program, arguments)) = start.argv.split_first() else {
        return Err(of_command(io::ErrorKind::NotFound.into()));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for variable in &start.remove {
        command.env_remove(variable);
    }
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    match start.window {
        Some(window) => spawn_on_terminal(command, window),
        None => spawn_piped(command, files),
    }
}

/// Uses no code between fork and exec: std then starts the child without copying the page tables of this process.
fn spawn_piped(mut command: Command, files: Vec<OwnedFd>) -> Result<Spawned, NotStarted> {
    let [stdout, stderr] =
        <[OwnedFd; 2]>::try_from(files).map_err(|_| io::Error::other("a command has two outputs"))?;
    let child = command.stdout(stdout).stderr(stderr).process_group(0).spawn().map_err(of_command)?;
    Ok(Spawned { leader: pid(&child)?, terminal: None })
}

/// Starts a command as the leader of a session with its own terminal. Its standard input is empty. A command that opens /dev/tty can
/// write to it; reading from it blocks for ever.
fn spawn_on_terminal(command: Command, window: WindowSize) -> Result<Spawned, NotStarted> {
    let (pty, pts) = blocking::open().map_err(io_error)?;
    let mut modes = tcgetattr(&pts).map_err(io::Error::from)?;
    // The terminal that the output is relayed to adds carriage returns, and the log needs none.
    modes.output_modes.remove(OutputModes::ONLCR);
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&pts, OptionalActions::Now, &modes).map_err(io::Error::from)?;
    let size = Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // The command can run with any size.
    let _ = tcsetwinsize(&pty, size);
    let mut command = blocking::Command::from(command).stdin(Stdio::null());
    let child = command.spawn_borrowed(&pts).map_err(|error| of_command(io_error(error)))?;
    Ok(Spawned { leader: pid(&child)?, terminal: Some(Terminal { pty, _pts: pts }) })
}

fn of_command(error: io::Error) -> NotStarted {
    NotStarted { error, is_of_command: true }
}

fn pid(child: &Child) -> io::Result<i32> {
    i32::try_from(child.id()).map_err(io::Error::other)
}

fn io_error(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}
