//! The worker's side of the pseudo-terminal of a command. Its output is handled in `output.rs`.

use std::os::fd::OwnedFd;

use rustix::termios::{Winsize, tcsetwinsize};
use tokio::sync::watch;

/// In characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

/// Sets the size of a command's terminal when the size of ours changes. The kernel sends SIGWINCH to the command.
pub(crate) struct WindowResizer {
    pty: OwnedFd,
    size: watch::Receiver<WindowSize>,
}

impl WindowResizer {
    pub(crate) fn new(pty: OwnedFd, size: watch::Receiver<WindowSize>) -> Self {
        Self { pty, size }
    }

    /// Never returns.
    pub(crate) async fn run(&mut self) {
        while self.size.changed().await.is_ok() {
            let WindowSize { rows, columns } = *self.size.borrow_and_update();
            // On an error the command keeps the old size.
            let _ = tcsetwinsize(&self.pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        }
        std::future::pending().await
    }
}
