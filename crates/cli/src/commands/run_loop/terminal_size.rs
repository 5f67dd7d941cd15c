//! The size of our terminal as it changes, for commands with their own terminal.

use std::io;

use rustix::termios::tcgetwinsize;
use taskqueue_worker::process::WindowSize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// `None` when standard output is not a terminal, or when its changes cannot be watched.
pub(super) fn watch() -> Option<watch::Receiver<WindowSize>> {
    let mut resized = signal(SignalKind::window_change()).ok()?;
    let (sizes, receiver) = watch::channel(size()?);
    tokio::spawn(async move {
        while resized.recv().await.is_some() {
            if let Some(size) = size() {
                sizes.send_replace(size);
            }
        }
    });
    Some(receiver)
}

fn size() -> Option<WindowSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(WindowSize { rows: size.ws_row, columns: size.ws_col })
}
