//! The worker's side of the pseudo-terminal of a command, which shows colours and progress bars as it would without us. Where
//! its output goes is said in `output.rs`.

use std::os::fd::OwnedFd;

use rustix::termios::{Winsize, tcsetwinsize};
use tokio::sync::watch;

/// The size of a terminal window in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// LineSplitter.
    pub rows: u16,
    /// Characters per line.
    pub columns: u16,
}

/// Passes changes of the size on. The kernel tells the command (SIGWINCH).
pub(crate) struct Window {
    pty: OwnedFd,
    size: watch::Receiver<WindowSize>,
}

impl Window {
    pub(crate) fn new(pty: OwnedFd, size: watch::Receiver<WindowSize>) -> Self {
        Self { pty, size }
    }

    /// Passes changes on for as long as there are any.
    pub(crate) async fn follow(&mut self) {
        while self.size.changed().await.is_ok() {
            let WindowSize { rows, columns } = *self.size.borrow_and_update();
            // A size is decoration: the command runs on with the old one.
            let _ = tcsetwinsize(&self.pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        }
        std::future::pending().await
    }
}
