//! Receives the worker's events and prints them as lines and as a status line: what runs, for how long, and how many runs have ended. How
//! they get to the terminal is in `output`. Here is also what the first, second and third stop request do, and Ctrl-Z. That stops the
//! keeper, so that the shell comes back, but never the worker: a stopped worker renews no lease, and its tasks would be lost without a
//! word.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;
use taskqueue_client::{QueueName, Route, TaskId};
use taskqueue_worker::keeper::{ActiveRuns, StopRequests, is_ignored};
use taskqueue_worker::{Counts, EndReason, Event, EventSink, RunOutcome, StopMode};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::event_text::{self, whole_seconds};
use crate::args::{LoopArgs, OnStop};
use crate::client_context::ClientContext;
use crate::notify_socket::NotifySocket;
use crate::output::{ConsoleHandle, WorkerConsole, colours_allowed, is_in_foreground};

/// The time that a shell may take to take the terminal back.
const SHELL_TIME: Duration = Duration::from_secs(2);

pub(super) struct ConsoleReporter {
    console: ConsoleHandle,
    status: Mutex<StatusLine>,
    colour: bool,
    has_status: bool,
    /// The time at which the terminal asked the worker to stop. The shell takes the terminal a moment later.
    stopped_at: Mutex<Option<Instant>>,
    notify: NotifySocket,
    /// The status that a service manager shows when the worker is up.
    serves: String,
    queue: QueueName,
    route: Route,
    slots: Vec<usize>,
    /// The runs that the keeper gives back if this process is killed.
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
            status: Mutex::new(StatusLine::new(source)),
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
            let stopped_at = self.stopped_at.lock();
            let is_for_shell = stopped_at.is_some_and(|time| time.elapsed() < SHELL_TIME);
            // In the background the terminal is the shell's.
            let may_draw = !is_for_shell && is_in_foreground(&std::io::stderr());
            self.console.status(if may_draw { self.status.lock().text() } else { String::new() });
        }
    }

    /// The terminal asked the worker to stop (Ctrl-Z), which it does not do.
    pub(super) fn terminal_stop(&self) {
        let mut stopped_at = self.stopped_at.lock();
        *stopped_at = Some(Instant::now());
        self.console.status(String::new());
        drop(stopped_at);
        self.console.line(event_text::terminal_stop(self.status.lock().running()), false);
    }

    pub(super) fn stopping(&self, stop: StopMode) {
        self.notify.stopping("stopping");
        if let Some(text) = event_text::stopping(stop, self.status.lock().running()) {
            self.console.line(text, false);
        }
    }

    pub(super) fn ended(&self, end: &EndReason, counts: Counts) {
        self.console.status(String::new());
        self.console.line(event_text::ended(end, counts), true);
    }
}

impl EventSink for ConsoleReporter {
    fn on_event(&self, event: &Event<'_>) {
        self.status.lock().update(event);
        match event {
            Event::Started { claim, .. } => self.active_runs.began(claim.task.id, claim.run_id),
            Event::Ended { run_id, .. } => self.active_runs.ended(*run_id),
            Event::Connected => self.notify.ready(&self.serves),
            Event::Idle(reason) => self.console.line(event_text::idle(reason, &self.queue, &self.route), false),
            _ => {}
        }
        if let Some(line) = event_text::of(event, self.colour) {
            self.console.line(line.text, line.after_output);
        }
    }
}

#[derive(Debug)]
pub(super) struct StatusLine {
    /// Queue and route.
    source: String,
    running: BTreeMap<usize, (TaskId, Instant)>,
    idle_since: Instant,
    succeeded: u64,
    failed: u64,
    other: u64,
    is_unreachable: bool,
}

impl StatusLine {
    pub(super) fn new(source: String) -> Self {
        let running = BTreeMap::new();
        Self { source, running, idle_since: Instant::now(), succeeded: 0, failed: 0, other: 0, is_unreachable: false }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn update(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { slot, claim } => {
                self.running.insert(*slot, (claim.task.id, Instant::now()));
            }
            Event::Ended { slot, outcome, .. } => {
                self.running.remove(slot);
                self.idle_since = Instant::now();
                match outcome {
                    RunOutcome::Succeeded => self.succeeded += 1,
                    RunOutcome::Failed { .. } => self.failed += 1,
                    _ => self.other += 1,
                }
            }
            Event::ServerUnreachable(_) => self.is_unreachable = true,
            Event::ServerReachable { .. } => self.is_unreachable = false,
            _ => {}
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = match self.running.len() {
            0 => format!("{}: idle for {}", self.source, whole_seconds(self.idle_since.elapsed())),
            _ => format!("{}: running {}", self.source, self.runs()),
        };
        text.push_str(&format!(" | {} succeeded", self.succeeded));
        for (count, word) in [(self.failed, "failed"), (self.other, "given back or revoked")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        if self.is_unreachable {
            text.push_str(" | the server does not answer");
        }
        text
    }

    /// The longest-running first.
    fn runs(&self) -> String {
        let mut runs: Vec<_> = self.running.values().collect();
        runs.sort_by_key(|(_, since)| *since);
        let runs: Vec<String> =
            runs.iter().map(|(id, since)| format!("{id} {}", whole_seconds(since.elapsed()))).collect();
        runs.join(", ")
    }
}

/// Turns stop requests into stop modes.
pub(super) fn watch_stops(
    mut requests: StopRequests,
    on_stop: OnStop,
    reporter: Arc<ConsoleReporter>,
) -> watch::Receiver<StopMode> {
    let (modes, receiver) = watch::channel(StopMode::Running);
    tokio::spawn(async move {
        loop {
            let stop = match requests.next().await {
                Some(()) => next_mode(*modes.borrow(), on_stop),
                // The keeper was killed.
                None => StopMode::Kill,
            };
            // Printed first, while the runs are still there to be counted.
            reporter.stopping(stop);
            modes.send_replace(stop);
            if stop == StopMode::Kill {
                // Keeps the channel to the worker open.
                modes.closed().await;
                return;
            }
        }
    });
    receiver
}

fn next_mode(stop: StopMode, on_stop: OnStop) -> StopMode {
    match (stop, on_stop) {
        (StopMode::Running, OnStop::Finish) => StopMode::Finish,
        (StopMode::Running, OnStop::Release) | (StopMode::Finish, _) => StopMode::Release,
        (StopMode::Release | StopMode::Kill, _) => StopMode::Kill,
    }
}

/// Says that the worker goes on, each time that its terminal asks it to stop.
pub(super) fn watch_terminal_stop(reporter: Arc<ConsoleReporter>) {
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

#[cfg(test)]
mod tests {
    use taskqueue_client::RunId;

    use super::*;

    #[test]
    fn it_shows_what_was_done_and_whether_the_server_answers() {
        let mut status = StatusLine::new("default".to_owned());
        assert_eq!(status.text(), "default: idle for 0 s | 0 succeeded");
        let task_id = TaskId::parse("t_000000000001").unwrap();
        let run_id = RunId::parse("r_000000000001").unwrap();
        for outcome in [RunOutcome::Succeeded, RunOutcome::Succeeded, RunOutcome::Released] {
            status.update(&Event::Ended { slot: 0, task_id, run_id, outcome: &outcome, took: Duration::ZERO });
        }
        assert_eq!(status.text(), "default: idle for 0 s | 2 succeeded, 1 given back or revoked");
        status.running.insert(0, (task_id, Instant::now()));
        assert_eq!(status.text(), "default: running t_000000000001 0 s | 2 succeeded, 1 given back or revoked");
        let error = taskqueue_client::Error::Protocol { status: 502, message: String::new(), from_taskqueue: false };
        status.update(&Event::ServerUnreachable(&error));
        assert!(status.text().ends_with("the server does not answer"), "{}", status.text());
    }

    #[test]
    fn each_request_goes_one_step_further() {
        let steps = |on_stop| {
            let first = next_mode(StopMode::Running, on_stop);
            let second = next_mode(first, on_stop);
            [first, second, next_mode(second, on_stop)]
        };
        assert_eq!(steps(OnStop::Finish), [StopMode::Finish, StopMode::Release, StopMode::Kill]);
        assert_eq!(steps(OnStop::Release), [StopMode::Release, StopMode::Kill, StopMode::Kill]);
    }
}
