//! Receives the worker's events and prints them as lines and as a status line. How they get to the terminal is in `output`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taskqueue_worker::{Counts, EndReason, Event, EventSink, StopMode};

use super::event_text;
use super::status::Status;
use super::terminal_stop::is_in_foreground;
use crate::args::LoopArgs;
use crate::client_context::ClientContext;
use crate::output::{ConsoleHandle, WorkerConsole, colours_allowed};

/// How long a shell may take to take the terminal back.
const SHELL_TIME: Duration = Duration::from_secs(2);

pub(super) struct ConsoleReporter {
    console: ConsoleHandle,
    status: Mutex<Status>,
    colour: bool,
    has_status: bool,
    /// When the terminal asked the worker to stop. The shell takes the terminal a moment later.
    stopped_at: Mutex<Option<Instant>>,
}

impl ConsoleReporter {
    pub(super) fn new(console: &WorkerConsole, context: &ClientContext, args: &LoopArgs) -> Self {
        let source = format!("{}/{}", context.queue, args.route);
        let has_status = WorkerConsole::has_status();
        let colour = has_status && colours_allowed();
        Self {
            console: console.handle(),
            status: Mutex::new(Status::new(source)),
            colour,
            has_status,
            stopped_at: Mutex::new(None),
        }
    }

    /// Updates the status line every second, if there is one.
    pub(super) async fn refresh_status(self: Arc<Self>) {
        if !self.has_status {
            return;
        }
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let text = if self.has_terminal() { self.status().text() } else { String::new() };
            self.console.status(text);
        }
    }

    /// Whether the status line may be drawn. In the background the terminal is the shell's.
    fn has_terminal(&self) -> bool {
        let stopped_at = *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner);
        stopped_at.is_none_or(|time| time.elapsed() >= SHELL_TIME) && is_in_foreground()
    }

    /// The terminal asked the worker to stop (Ctrl-Z), which it does not do.
    pub(super) fn terminal_stop(&self) {
        *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.console.status(String::new());
        self.console.line(event_text::terminal_stop(self.status().running()), false);
    }

    pub(super) fn stopping(&self, stop: StopMode) {
        if let Some(text) = event_text::stopping(stop, self.status().running()) {
            self.console.line(text, false);
        }
    }

    pub(super) fn ended(&self, end: &EndReason, counts: Counts) {
        self.console.status(String::new());
        self.console.line(event_text::ended(end, counts), true);
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for ConsoleReporter {
    fn on_event(&self, event: &Event<'_>) {
        self.status().update(event);
        if let Some(line) = event_text::of(event, self.colour) {
            self.console.line(line.text, line.after_output);
        }
    }
}
