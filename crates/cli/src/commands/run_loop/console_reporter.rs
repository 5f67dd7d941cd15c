//! Hears the worker and tells what it does: lines and the status. How they get to the terminal is in `output`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskqueue_worker::{Counts, End, Event, Listener, Stop};

use super::event_text;
use super::status::Status;
use crate::args::LoopArgs;
use crate::output::{ConsoleHandle, WorkerConsole, colours_allowed};
use crate::session::Session;

/// Hears the worker and tells it on the console.
pub(super) struct ConsoleReporter {
    console: ConsoleHandle,
    status: Mutex<Status>,
    colour: bool,
    has_status: bool,
}

impl ConsoleReporter {
    pub(super) fn new(console: &WorkerConsole, session: &Session, args: &LoopArgs) -> Self {
        let what = format!("{}/{}", session.queue, args.route);
        let has_status = WorkerConsole::has_status();
        let colour = has_status && colours_allowed();
        Self { console: console.handle(), status: Mutex::new(Status::new(what)), colour, has_status }
    }

    /// Brings the status line up to date every second, if there is one.
    pub(super) async fn tick(self: Arc<Self>) {
        if !self.has_status {
            return;
        }
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let text = self.status().text();
            self.console.status(text);
        }
    }

    /// The worker was asked to stop.
    pub(super) fn stopping(&self, stop: Stop) {
        if let Some(text) = event_text::stopping(stop, self.status().running()) {
            self.console.line(text, false);
        }
    }

    /// The worker has ended.
    pub(super) fn ended(&self, end: &End, counts: Counts) {
        self.console.status(String::new());
        self.console.line(event_text::ended(end, counts), true);
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for ConsoleReporter {
    fn hear(&self, event: &Event<'_>) {
        self.status().note(event);
        if let Some(line) = event_text::of(event, self.colour) {
            self.console.line(line.text, line.after_output);
        }
    }
}
