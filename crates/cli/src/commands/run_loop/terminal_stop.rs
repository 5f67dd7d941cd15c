//! Ctrl-Z. It stops the keeper, so that the shell comes back, but never the worker: a stopped worker renews no lease, and its tasks
//! would be lost without a word.

use std::sync::Arc;

use rustix::process::Signal;
use taskqueue_worker::keeper::is_ignored;
use tokio::signal::unix::{SignalKind, signal};

use super::console_reporter::ConsoleReporter;

/// Says that the worker goes on, each time that its terminal asks it to stop.
pub(super) fn watch(reporter: Arc<ConsoleReporter>) {
    let number = Signal::TSTP.as_raw();
    if is_ignored(number) {
        return;
    }
    let Ok(mut stops) = signal(SignalKind::from_raw(number)) else { return };
    tokio::spawn(async move {
        while stops.recv().await.is_some() {
            reporter.terminal_stop();
        }
    });
}
