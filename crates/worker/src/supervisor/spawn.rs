//! How a supervisor starts the command of a run: its group, its environment, its streams or its terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pty_process::blocking::{self, Pts, Pty};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::messages::Start;
use crate::process::WindowSize;

/// A command that runs.
pub(super) struct Started {
    /// Its process, which is also the number of its group.
    pub(super) leader: i32,
    pub(super) terminal: Option<Terminal>,
}

/// The terminal of a command.
pub(super) struct Terminal {
    /// The side that the worker reads.
    pub(super) pty: Pty,
    /// Our own handle of the command's side. While it is open, a command may close all of its own and open /dev/tty later without
    /// the worker's reading having come to an end meanwhile.
    pub(super) _open: Pts,
}

pub(super) fn start(start: &Start, files: Vec<OwnedFd>) -> io::Result<Started> {
    let Some((program, arguments)) = start.argv.split_first() else { return Err(io::ErrorKind::NotFound.into()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for variable in &start.remove {
        command.env_remove(variable);
    }
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    match start.window {
        Some(window) => on_terminal(command, window),
        None => piped(command, files),
    }
}

/// Nothing here may need code between fork and exec: std then starts the child without copying the page tables of this process.
fn piped(mut command: Command, files: Vec<OwnedFd>) -> io::Result<Started> {
    let [stdout, stderr] =
        <[OwnedFd; 2]>::try_from(files).map_err(|_| io::Error::other("a command has two outputs"))?;
    let child = command.stdout(stdout).stderr(stderr).process_group(0).spawn()?;
    Ok(Started { leader: pid(&child)?, terminal: None })
}

/// Starts a command as the leader of a session with its own terminal. Its input is empty: nobody would type into that terminal.
/// A command that opens /dev/tty can write there; reading from there waits for ever.
fn on_terminal(command: Command, window: WindowSize) -> io::Result<Started> {
    let (pty, open) = blocking::open().map_err(io_error)?;
    let mut modes = tcgetattr(&open)?;
    // The terminal that the output is relayed to returns the carriage, and the log needs no returns at all.
    modes.output_modes.remove(OutputModes::ONLCR);
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&open, OptionalActions::Now, &modes)?;
    let size = Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // A size is decoration.
    let _ = tcsetwinsize(&pty, size);
    let mut command = blocking::Command::from(command).stdin(Stdio::null());
    let child = command.spawn_borrowed(&open).map_err(io_error)?;
    Ok(Started { leader: pid(&child)?, terminal: Some(Terminal { pty, _open: open }) })
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
