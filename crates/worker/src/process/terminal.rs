//! A child on a pseudo-terminal: it shows colours and progress bars as it would without us. Where its output goes is said in
//! `output.rs`.

use std::io;

use pty_process::{OwnedWritePty, Pts, Size};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, tcgetattr, tcsetattr};
use taskqueue_core::ids::RunId;
use tokio::process::Command;
use tokio::sync::watch;

use super::output::Source;
use super::start::{Started, with_pid};
use super::table;

/// The size of a terminal window in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters per line.
    pub columns: u16,
}

/// The pseudo-terminal of a child.
pub(crate) struct Terminal {
    pub(crate) window: Window,
    /// Our own handle of the child's side. While it is open, a child may close all of its own and open /dev/tty later
    /// without our reading having come to an end meanwhile.
    pub(crate) open: Pts,
}

/// Passes changes of the size on. The kernel tells the child (SIGWINCH).
pub(crate) struct Window {
    pty: OwnedWritePty,
    size: watch::Receiver<WindowSize>,
}

impl Window {
    fn fit(&mut self) {
        let size = *self.size.borrow_and_update();
        // A size is decoration: the child runs on with the old one.
        let _ = self.pty.resize(Size::new(size.rows, size.columns));
    }

    /// Passes changes on for as long as there are any.
    pub(crate) async fn follow(&mut self) {
        while self.size.changed().await.is_ok() {
            self.fit();
        }
        std::future::pending().await
    }
}

fn io_error(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        error => io::Error::other(error),
    }
}

/// Starts a command as the leader of a session with its own terminal. Its input is what the command says (nothing): nobody
/// would type into that terminal. A child that opens /dev/tty can write there; reading from there waits for ever.
pub(crate) fn start(command: Command, run_id: RunId, size: watch::Receiver<WindowSize>) -> io::Result<Started> {
    let (pty, open) = pty_process::open().map_err(io_error)?;
    let mut modes = tcgetattr(&open)?;
    // The terminal that the output is relayed to returns the carriage, and the log needs no returns at all.
    modes.output_modes.remove(OutputModes::ONLCR);
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&open, OptionalActions::Now, &modes)?;
    let (read, write) = pty.into_split();
    let mut window = Window { pty: write, size };
    window.fit();
    let mut command = pty_process::Command::from(command).stdin(std::process::Stdio::null());
    let spawn = || with_pid(command.spawn_borrowed(&open).map_err(io_error)?);
    let (child, place) = table::enter(run_id, spawn)?;
    let sources = [Some(Source::Terminal(read)), None];
    Ok(Started { child, place, sources, terminal: Some(Terminal { window, open }) })
}
