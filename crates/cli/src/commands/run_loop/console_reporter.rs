//! The lines that `taskqueue loop` prints: it receives the worker's events and prints them as lines, which contain neither args nor results, and as
//! a status line: what runs, for how long, and how many runs have ended. How they get to the terminal is in `output`. Here is also what the first,
//! second and third stop request do, and Ctrl-Z. That stops the keeper, so that the shell comes back, but never the worker: a stopped worker
//! renews no lease, and its tasks would be lost without a word.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use parking_lot::Mutex;
use rustix::process::Signal;
use taskqueue_client::{Code, Error, ErrorCode, QueueName, Route, TaskId};
use taskqueue_core::words;
use taskqueue_worker::keeper::{ActiveRuns, StopRequests, is_ignored};
use taskqueue_worker::{Counts, EndReason, Event, EventSink, IdleReason, RunOutcome, StopMode};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::args::{LoopArgs, OnStop};
use crate::config::ClientContext;
use crate::files::absolute;
use crate::output::{ConsoleHandle, WorkerConsole, colours_allowed, escape, is_in_foreground};
use crate::server_process::NotifySocket;

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
        self.console.line(begins(&self.serves, &self.slots, run_dir), false);
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
        self.console.line(terminal_stop(self.status.lock().running()), false);
    }

    pub(super) fn stopping(&self, stop: StopMode) {
        self.notify.stopping("stopping");
        if let Some(text) = stopping(stop, self.status.lock().running()) {
            self.console.line(text, false);
        }
    }

    pub(super) fn ended(&self, end: &EndReason, counts: Counts) {
        self.console.status(String::new());
        self.console.line(ended(end, counts), true);
    }
}

impl EventSink for ConsoleReporter {
    fn on_event(&self, event: &Event<'_>) {
        self.status.lock().update(event);
        match event {
            Event::Started { claim, .. } => self.active_runs.began(claim.task.id, claim.run_id),
            Event::Ended { run_id, .. } => self.active_runs.ended(*run_id),
            Event::Connected => self.notify.ready(&self.serves),
            Event::Idle(reason) => self.console.line(idle(reason, &self.queue, &self.route), false),
            _ => {}
        }
        if let Some(line) = line_of(event, self.colour) {
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
    ended: Counts,
    is_unreachable: bool,
}

impl StatusLine {
    pub(super) fn new(source: String) -> Self {
        let running = BTreeMap::new();
        Self { source, running, idle_since: Instant::now(), ended: Counts::default(), is_unreachable: false }
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
                self.ended.add(outcome);
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
        let Counts { succeeded, failed, released, revoked, undelivered } = self.ended;
        text.push_str(&format!(" | {succeeded} succeeded"));
        for (count, word) in [(failed, "failed"), (released + revoked + undelivered, "given back or revoked")] {
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

/// The number of routes with tasks for others that are named.
const ROUTES_SHOWN: usize = 5;

#[derive(Debug, PartialEq, Eq)]
struct Line {
    text: String,
    /// True if the output of the run has to be printed first.
    after_output: bool,
}

fn line_of(event: &Event<'_>, colour: bool) -> Option<Line> {
    let mut after_output = false;
    let text = match event {
        Event::Started { claim, .. } => {
            let task = &claim.task;
            let name = task.name.as_deref().map(|name| format!(" {}", escape(name))).unwrap_or_default();
            let budget = format!("attempt {} of {}", task.attempt, task.max_attempts);
            format!("{} {}{name} ({budget})", word("started", AnsiColor::Cyan, colour), task.id)
        }
        Event::Ended { task_id, outcome, took, .. } => {
            after_output = true;
            let (verb, tone, why) = describe(outcome);
            let why = why.map(|why| format!(": {}", escape(&why))).unwrap_or_default();
            format!("{} {task_id} after {}{why}", word(verb, tone, colour), duration(*took))
        }
        Event::ServerUnreachable(error) => {
            let (what, why) = outage(error);
            format!("warning: {what}; running tasks continue and are reported later: {}", escape(&why))
        }
        Event::ServerReachable { took } => format!("the server answers again, after {}", duration(*took)),
        Event::LeaseInDoubt { task_id, .. } => {
            format!(
                "warning: no heartbeat of {task_id} succeeded for five minutes; it continues until the server answers"
            )
        }
        Event::EarlierReport { task_id, refused: None } => {
            format!("reported {task_id}, which an earlier worker had run")
        }
        Event::EarlierReport { task_id, refused: Some(why) } => {
            format!("warning: {task_id}, which an earlier worker had run, was refused: {}", escape(why))
        }
        Event::LowDisk { run_dir, available_bytes, total_bytes } => format!(
            "warning: the disk of the run directory {} is nearly full: {} of {} are free; delete old folders there, or let \
             --keep-runs do that",
            escape(&run_dir.to_string_lossy()),
            words::bytes(*available_bytes),
            words::bytes(*total_bytes)
        ),
        Event::OutputNotSent { task_id, bytes } => {
            after_output = true;
            // The log may have reached its limit.
            format!(
                "note: {task_id}: {} of its output did not get to the server; see its output.log",
                words::count(*bytes, "byte")
            )
        }
        Event::SlowedDown { failures, pause, task_id } => format!(
            "warning: {failures} failures in a row (a task that fails again counts once), so this worker claims again in {}; see \
             one of the tasks: taskqueue task get {task_id}",
            whole_seconds(*pause)
        ),
        Event::Paused(time) => format!(
            "warning: this worker was stopped for {} and sent no heartbeats; tasks whose leases have ended meanwhile are revoked",
            duration(*time)
        ),
        Event::Note { task_id: Some(task_id), text } => {
            after_output = true;
            format!("note: {task_id}: {}", escape(text))
        }
        Event::Note { task_id: None, text } => format!("note: {}", escape(text)),
        _ => return None,
    };
    Some(Line { text, after_output })
}

/// Returns what is out of order, and how it shows. What became of the one call that found it is of no interest here: it is repeated.
fn outage(error: &Error) -> (&'static str, String) {
    let error = error.origin();
    match error {
        Error::Api { code: Code::Known(code @ (ErrorCode::DatabaseBusy | ErrorCode::DatabaseUnavailable)), .. } => {
            ("the server answers, but its database does not", code.as_str().to_owned())
        }
        Error::Protocol { message, .. } if error.is_proxy_without_server() => {
            ("a proxy does not reach the server", message.clone())
        }
        Error::Api { .. } | Error::Protocol { .. } => ("the server does not work", error.to_string()),
        _ => ("the server cannot be reached", error.to_string()),
    }
}

fn describe(outcome: &RunOutcome) -> (&'static str, AnsiColor, Option<String>) {
    match outcome {
        RunOutcome::Succeeded => ("succeeded", AnsiColor::Green, None),
        RunOutcome::Failed { kind, message } => ("failed", AnsiColor::Red, Some(format!("{kind}: {message}"))),
        RunOutcome::Released => ("released", AnsiColor::Yellow, None),
        RunOutcome::CannotRun(why) => ("released", AnsiColor::Red, Some(why.clone())),
        RunOutcome::Revoked(why) => ("revoked", AnsiColor::Yellow, Some(why.clone())),
        RunOutcome::Undelivered => {
            ("undelivered", AnsiColor::Red, Some("its report is stored in the run directory".to_owned()))
        }
    }
}

/// The first line of a worker. `serves` says what it claims from where.
fn begins(serves: &str, slots: &[usize], run_dir: &Path) -> String {
    let slots = if let [slot] = slots { format!("slot {slot}") } else { format!("{} slots", slots.len()) };
    let folder = absolute(run_dir).to_string_lossy().into_owned();
    format!("worker {}: {serves} with {slots}; runs are in {}", std::process::id(), escape(&folder))
}

/// Returns why the worker has nothing to do.
fn idle(reason: &IdleReason, queue: &QueueName, route: &Route) -> String {
    let tasks = |count: u64| words::count(count, "task");
    let held = |count: u64, why: &str| format!("{} for route {route} cannot be claimed yet; {why}", tasks(count));
    let settings = format!("see taskqueue queue settings {queue}");
    let why = match reason {
        IdleReason::NoTask => format!("no task waits for route {route} of queue {queue}"),
        IdleReason::Untold => {
            format!("got no task for route {route} of queue {queue}; this token (or server) does not tell why")
        }
        IdleReason::OtherRoutes(routes) => match routes.as_slice() {
            [(other, count)] => {
                let verb = if *count == 1 { "waits" } else { "wait" };
                format!("{} {verb} for route {other}, this worker serves {route}", tasks(*count))
            }
            _ => format!("tasks wait for {}; this worker serves {route}", other_routes(routes)),
        },
        IdleReason::QueuePaused => {
            format!("queue {queue} is paused; this lets it go on: taskqueue queue resume {queue}")
        }
        IdleReason::QueueAtLimit(limit) => {
            format!("queue {queue} runs as many tasks as its limit allows ({limit}); {settings}")
        }
        IdleReason::RouteAtLimit => format!("route {route} runs as many tasks as its limit allows; {settings}"),
        IdleReason::Delayed(count, until) => held(*count, &format!("one is delayed until {until}")),
        IdleReason::Dependencies(count) => held(*count, "one waits for other tasks"),
        IdleReason::Held(count) => held(*count, "taskqueue task explain ID says why"),
    };
    format!("idle: {why}")
}

/// Some routes with the number of their tasks, the first of many.
fn other_routes(routes: &[(String, u64)]) -> String {
    let shown: Vec<String> =
        routes.iter().take(ROUTES_SHOWN).map(|(route, count)| format!("{route} ({count})")).collect();
    let more = routes.len().saturating_sub(ROUTES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("other routes: {}{more}", shown.join(", "))
}

/// The line about a stop request.
fn stopping(stop: StopMode, running: usize) -> Option<String> {
    Some(match (stop, running) {
        (StopMode::Running, _) => return None,
        (_, 0) => "stopping".to_owned(),
        (StopMode::Finish, _) => {
            format!("stopping: {running} running may finish; a second request gives them back, a third kills them")
        }
        (StopMode::Release, _) => {
            format!("stopping: {running} running are stopped and given back; another request kills them")
        }
        (StopMode::Kill, _) => format!("stopping: {running} running are killed"),
    })
}

/// The line about Ctrl-Z.
fn terminal_stop(running: usize) -> String {
    let rest = "fg shows it again, Ctrl-C there stops it";
    match running {
        0 => format!("Ctrl-Z does not stop this worker: it continues in the background; {rest}"),
        _ => format!(
            "Ctrl-Z does not stop this worker: it continues in the background and renews the leases of {running} running; {rest}"
        ),
    }
}

fn ended(end: &EndReason, counts: Counts) -> String {
    let why = match end {
        EndReason::Stopped => "stopped",
        EndReason::Idle => "nothing to do",
        EndReason::ServerUnreachable => "the server was not reached",
        EndReason::MaxTasks => "--max-tasks reached",
        EndReason::FailureGuard { .. } => "too many failures in a row",
        EndReason::Misfit { .. } => "the command does not fit its first task",
        EndReason::Refused(_) => "refused by the server",
        EndReason::InternalError(_) => "internal error",
    };
    let mut parts = vec![format!("{} succeeded", counts.succeeded), format!("{} failed", counts.failed)];
    let others = [("released", counts.released), ("revoked", counts.revoked), ("undelivered", counts.undelivered)];
    parts.extend(others.iter().filter(|(_, count)| *count > 0).map(|(word, count)| format!("{count} {word}")));
    format!("ended ({why}): {}", parts.join(", "))
}

/// The longer the duration, the less precise.
fn duration(took: Duration) -> String {
    let whole = took.as_secs();
    match whole {
        0..=9 => format!("{:.2} s", took.as_secs_f64()),
        10..=119 => format!("{:.1} s", took.as_secs_f64()),
        120..=7199 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Without fractions of a second.
fn whole_seconds(time: Duration) -> String {
    if time.as_secs() < 120 { format!("{} s", time.as_secs()) } else { duration(time) }
}

fn word(word: &str, tone: AnsiColor, colour: bool) -> String {
    if !colour {
        return word.to_owned();
    }
    let style = Style::new().fg_color(Some(tone.into())).bold();
    format!("{style}{word}{style:#}")
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

    #[test]
    fn output_that_was_not_sent_is_told_with_the_place_of_all_of_it() {
        let task_id = taskqueue_client::TaskId::parse("t_000000000001").unwrap();
        let line = line_of(&Event::OutputNotSent { task_id, bytes: 8 }, false).unwrap();
        let expected = "note: t_000000000001: 8 bytes of its output did not get to the server; see its output.log";
        assert_eq!((line.text.as_str(), line.after_output), (expected, true));
        let late = line_of(&Event::EarlierReport { task_id, refused: Some("stale_run") }, false).unwrap();
        let expected = "warning: t_000000000001, which an earlier worker had run, was refused: stale_run";
        assert_eq!(late.text, expected);
    }

    #[test]
    fn long_durations_are_less_precise() {
        let texts = [40, 9_990, 10_000, 119_900, 120_000, 7_199_000, 7_200_000, 90_061_000]
            .map(|millis| duration(Duration::from_millis(millis)));
        let expected =
            ["0.04 s", "9.99 s", "10.0 s", "119.9 s", "2 min 0 s", "119 min 59 s", "2 h 0 min", "25 h 1 min"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn an_outage_is_told_without_the_call_that_found_it() {
        let api = |status, code: &str| {
            let message = "the storage does not work now and nothing was done".to_owned();
            let details = taskqueue_client::JsonObject::empty();
            Error::Api { status, code: code.into(), message, details, retry_after: None }
        };
        let unknown =
            |cause| Error::OutcomeUnknown { call: "claim a task", advice: "ask again", cause: Box::new(cause) };
        let line = |error| line_of(&Event::ServerUnreachable(&error), false).unwrap().text;
        let rest = "running tasks continue and are reported later";
        for error in [api(503, "database_unavailable"), unknown(api(503, "database_unavailable"))] {
            let expected = "warning: the server answers, but its database does not";
            assert_eq!(line(error), format!("{expected}; {rest}: database_unavailable"));
        }
        let lost = Error::Transport { message: "connection refused".to_owned(), may_have_arrived: true };
        let expected = format!("warning: the server cannot be reached; {rest}: connection refused");
        assert_eq!(line(unknown(lost)), expected);
        let answer = |status| Error::Protocol { status, message: "why".to_owned(), from_taskqueue: false };
        let expected = format!("warning: a proxy does not reach the server; {rest}: why");
        assert_eq!(line(answer(502)), expected);
        assert_eq!(line(unknown(answer(502))), expected);
        assert!(line(answer(500)).starts_with("warning: the server does not work; "));
        let back = Event::ServerReachable { took: Duration::from_secs(130) };
        assert_eq!(line_of(&back, false).unwrap().text, "the server answers again, after 2 min 10 s");
    }

    #[test]
    fn an_idle_worker_says_why() {
        let (queue, route) = (QueueName::parse("q").unwrap(), Route::parse("default").unwrap());
        let others = |routes: &[(&str, u64)]| {
            IdleReason::OtherRoutes(routes.iter().map(|(route, count)| ((*route).to_owned(), *count)).collect())
        };
        for (reason, expected) in [
            (IdleReason::NoTask, "idle: no task waits for route default of queue q"),
            (
                IdleReason::Untold,
                "idle: got no task for route default of queue q; this token (or server) does not tell why",
            ),
            (others(&[("gpu", 5)]), "idle: 5 tasks wait for route gpu, this worker serves default"),
            (others(&[("gpu", 1)]), "idle: 1 task waits for route gpu, this worker serves default"),
            (
                others(&[("a", 1), ("b", 2), ("c", 1), ("d", 1), ("e", 1), ("f", 1)]),
                "idle: tasks wait for other routes: a (1), b (2), c (1), d (1), e (1) and 1 more; this worker serves default",
            ),
            (IdleReason::QueuePaused, "idle: queue q is paused; this lets it go on: taskqueue queue resume q"),
        ] {
            assert_eq!(idle(&reason, &queue, &route), expected);
        }
    }

    #[test]
    fn without_runs_the_line_does_not_mention_them() {
        let texts = [StopMode::Finish, StopMode::Release, StopMode::Kill].map(|stop| stopping(stop, 0).unwrap());
        assert_eq!(texts, ["stopping"; 3]);
    }

    #[test]
    fn the_summary_leaves_out_what_did_not_happen() {
        let counts = Counts { succeeded: 3, ..Counts::default() };
        assert_eq!(ended(&EndReason::Idle, counts), "ended (nothing to do): 3 succeeded, 0 failed");
        let counts = Counts { revoked: 2, ..counts };
        assert_eq!(ended(&EndReason::Stopped, counts), "ended (stopped): 3 succeeded, 0 failed, 2 revoked");
    }

    #[test]
    fn lines_are_plain_where_colours_are_not_welcome() {
        let outcome = RunOutcome::Failed { kind: "ExitCode".into(), message: "exit\u{1b}[2J code 3".into() };
        let task_id = taskqueue_client::TaskId::parse("t_000000000001").unwrap();
        let run_id = taskqueue_client::RunId::parse("r_000000000001").unwrap();
        let event = Event::Ended { slot: 0, task_id, run_id, outcome: &outcome, took: Duration::from_millis(1500) };
        let line = line_of(&event, false).unwrap();
        assert!(line.after_output);
        assert!(line.text.starts_with("failed t_000000000001 after 1.50 s: ExitCode: exit"), "{}", line.text);
        assert!(!line.text.contains('\u{1b}'), "{}", line.text);
        assert!(line_of(&event, true).unwrap().text.contains('\u{1b}'));
    }
}
