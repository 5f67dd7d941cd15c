//! Receives the worker's events and prints them as lines and as a status line. How they get to the terminal is in `output`.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taskqueue_client::{QueueName, Route};
use taskqueue_worker::keeper::ActiveRuns;
use taskqueue_worker::{Counts, EndReason, Event, EventSink, StopMode};

use super::event_text;
use super::status::Status;
use crate::args::LoopArgs;
use crate::client_context::ClientContext;
use crate::notify_socket::NotifySocket;
use crate::output::{ConsoleHandle, WorkerConsole, colours_allowed, is_in_foreground};

/// How long a shell may take to take the terminal back.
const SHELL_TIME: Duration = Duration::from_secs(2);

pub(super) struct ConsoleReporter {
    console: ConsoleHandle,
    status: Mutex<Status>,
    colour: bool,
    has_status: bool,
    /// When the terminal asked the worker to stop. The shell takes the terminal a moment later.
    stopped_at: Mutex<Option<Instant>>,
    notify: NotifySocket,
    /// What a service manager shows when the worker is up.
    serves: String,
    queue: QueueName,
    route: Route,
    slots: Vec<usize>,
    /// For the keeper, which gives them back if this process is killed.
    active_runs: ActiveRuns,
}

impl ConsoleReporter {
    pub(super) fn new(
        console: &WorkerConsole,
        context: &ClientContext,
        args: &LoopArgs,
        active_runs: ActiveRuns,
    ) -> Self {
        let source = format!("{}/{}", context.queue, args.route);
        let (has_status, serves) = (WorkerConsole::has_status(), format!("claiming from {source} of {}", context.url));
        let colour = has_status && colours_allowed();
        Self {
            console: console.handle(),
            status: Mutex::new(Status::new(source)),
            colour,
            has_status,
            stopped_at: Mutex::new(None),
            notify: NotifySocket::from_environment(),
            serves,
            queue: context.queue.clone(),
            route: args.route.clone(),
            slots: args.slot_numbers(),
            active_runs,
        }
    }

    /// The first line: who claims what from where, and where its runs are.
    pub(super) fn begins(&self, run_dir: &Path) {
        self.console.line(event_text::begins(&self.serves, &self.slots, run_dir), false);
    }

    /// Updates the status line every second, if there is one.
    pub(super) async fn refresh_status(self: Arc<Self>) {
        if !self.has_status {
            return;
        }
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            // Locked until it is sent: a text that was chosen before Ctrl-Z must not come after the removal of the status line.
            let stopped_at = self.stopped_at();
            let is_for_shell = stopped_at.is_some_and(|time| time.elapsed() < SHELL_TIME);
            // In the background the terminal is the shell's.
            let may_draw = !is_for_shell && is_in_foreground(&std::io::stderr());
            self.console.status(if may_draw { self.status().text() } else { String::new() });
        }
    }

    /// The terminal asked the worker to stop (Ctrl-Z), which it does not do.
    pub(super) fn terminal_stop(&self) {
        let mut stopped_at = self.stopped_at();
        *stopped_at = Some(Instant::now());
        self.console.status(String::new());
        drop(stopped_at);
        self.console.line(event_text::terminal_stop(self.status().running()), false);
    }

    pub(super) fn stopping(&self, stop: StopMode) {
        self.notify.stopping("stopping");
        if let Some(text) = event_text::stopping(stop, self.status().running()) {
            self.console.line(text, false);
        }
    }

    pub(super) fn ended(&self, end: &EndReason, counts: Counts) {
        self.console.status(String::new());
        self.console.line(event_text::ended(end, counts), true);
    }

    fn stopped_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for ConsoleReporter {
    fn on_event(&self, event: &Event<'_>) {
        self.status().update(event);
        match event {
            Event::Started { claim, .. } => self.active_runs.began(claim.task.id, claim.run_id),
            Event::Ended { run_id, .. } => self.active_runs.ended(*run_id),
            _ => {}
        }
        if matches!(event, Event::Connected) {
            self.notify.ready(&self.serves);
        }
        if let Event::Idle(reason) = event {
            return self.console.line(event_text::idle(reason, &self.queue, &self.route), false);
        }
        if let Some(line) = event_text::of(event, self.colour) {
            self.console.line(line.text, line.after_output);
        }
    }
}
