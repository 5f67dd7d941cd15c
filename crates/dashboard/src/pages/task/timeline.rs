//! What happened to a task, as far as it is known: the server keeps the latest run and the last error; earlier attempts are only
//! counted. Nothing is told here that could be wrong.

use std::time::Duration;

use taskqueue_core::json::{Found, lookup};
use taskqueue_core::stats::pending_since;
use taskqueue_core::task::{Lifecycle, RunEnd, Status, Task};
use taskqueue_core::time::{Timestamp, between};

use crate::show::{Moment, ahead, count, cut, duration};

/// Characters of the name of a host or of the type of an error.
const WORD_CHARS: usize = 60;
const MESSAGE_CHARS: usize = 160;

/// One line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The state whose colour it has.
    pub(super) state: &'static str,
    pub(super) what: String,
    pub(super) text: String,
    /// When, if that is known.
    pub(super) at: Option<Moment>,
    /// Whether it goes on since then: `running for 3 min`.
    pub(super) goes_on: bool,
    pub(super) note: Option<String>,
}

impl Event {
    fn new(state: Status, what: impl Into<String>, text: impl Into<String>) -> Self {
        Self { state: state.as_str(), what: what.into(), text: text.into(), at: None, goes_on: false, note: None }
    }

    fn at(self, at: Timestamp, now: Timestamp) -> Self {
        Self { at: Some(Moment::new(at, now)), ..self }
    }

    fn since(self, at: Timestamp, now: Timestamp) -> Self {
        Self { goes_on: true, ..self.at(at, now) }
    }

    fn note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }
}

/// From the first to the last.
pub(super) fn events(task: &Task, now: Timestamp) -> Vec<Event> {
    let lifecycle = &task.lifecycle;
    let mut events = vec![Event::new(Status::Pending, "created", "").at(lifecycle.created_at, now)];
    let number = run_number(task);
    events.extend(earlier(task, number, now));
    events.extend(lifecycle.started_at.map(|started_at| run(task, started_at, number, now)));
    events.extend(limit(lifecycle, now));
    events.extend(afterwards(task, now));
    let told = [Some(lifecycle.created_at), lifecycle.started_at, lifecycle.finished_at];
    if told.into_iter().flatten().all(|at| lifecycle.updated_at > at) {
        events.push(Event::new(Status::Cancelled, "changed", "").at(lifecycle.updated_at, now));
    }
    events
}

/// The number of the latest run. A requeue counts from 0 again and keeps what the latest run said.
fn run_number(task: &Task) -> Option<i64> {
    let lifecycle = &task.lifecycle;
    lifecycle.started_at?;
    if lifecycle.status == Status::Running {
        return Some(lifecycle.attempt);
    }
    if let Some(run) = &task.outcome.last_run {
        return Some(run.attempt);
    }
    let given_back = lifecycle.finished_run.is_some_and(|run| run.end == RunEnd::Unclaim);
    Some(lifecycle.attempt + i64::from(given_back)).filter(|number| *number > 0)
}

/// Attempts before the latest run: counted, and the last error if it is of one of them.
fn earlier(task: &Task, number: Option<i64>, now: Timestamp) -> Vec<Event> {
    let before = number.unwrap_or(1).saturating_sub(1);
    if before == 0 {
        return Vec::new();
    }
    // What no run caused is of no attempt.
    let of_run = task.outcome.last_error.as_ref().filter(|error| error.run_id.is_some());
    let known = of_run.filter(|error| number.is_some_and(|number| error.attempt < number));
    let unknown = u64::try_from(before).unwrap_or(0) - u64::from(known.is_some());
    let counted = (unknown > 0).then(|| {
        let text = count(unknown, if known.is_some() { "other run" } else { "run" });
        Event::new(Status::Cancelled, "earlier", text).note(Some("only counted".to_owned()))
    });
    let failed = known.map(|error| {
        let kind = cut(&error.failure.kind, WORD_CHARS).into_owned();
        Event::new(Status::Failed, format!("attempt {}", error.attempt), "failed")
            .at(error.occurred_at, now)
            .note(Some(kind))
    });
    counted.into_iter().chain(failed).collect()
}

fn run(task: &Task, started_at: Timestamp, number: Option<i64>, now: Timestamp) -> Event {
    let what = number.map_or("latest run".to_owned(), |number| format!("attempt {number}"));
    let lifecycle = &task.lifecycle;
    let Some(finished_at) = lifecycle.finished_at else {
        return Event::new(Status::Running, what, "running for").since(started_at, now).note(place(task));
    };
    let (state, words) = end(lifecycle.finished_run.map(|run| run.end));
    let text = format!("{words} after {}", duration(between(started_at, finished_at)));
    Event::new(state, what, text).at(finished_at, now).note(place(task))
}

fn end(end: Option<RunEnd>) -> (Status, &'static str) {
    match end {
        Some(RunEnd::Complete) => (Status::Succeeded, "succeeded"),
        Some(RunEnd::Fail) => (Status::Failed, "failed"),
        Some(RunEnd::Unclaim) => (Status::Pending, "given back"),
        Some(RunEnd::Cancel) => (Status::Cancelled, "cancelled"),
        Some(RunEnd::HeartbeatExpired) => (Status::Failed, "worker lost"),
        Some(RunEnd::Timeout) => (Status::Failed, "ran too long"),
        None => (Status::Cancelled, "ended"),
    }
}

/// Returns where the latest run was, and for which route: `gpu-3, slot 1, route a100`.
fn place(task: &Task) -> Option<String> {
    let worker = task.outcome.last_run.as_ref().map_or("{}", |run| run.worker.as_str());
    let host = match lookup(worker, &["host"]) {
        Some(Found::Str(host)) => Some(cut(&host.to_text(), WORD_CHARS).into_owned()),
        _ => None,
    };
    let slot = if let Some(Found::Int(slot)) = lookup(worker, &["slot"]) { Some(format!("slot {slot}")) } else { None };
    let route = task.lifecycle.last_route.as_ref().map(|route| format!("route {}", cut(route.as_str(), WORD_CHARS)));
    let parts: Vec<String> = [host, slot, route].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns when the run that is active is ended, if its time is limited.
fn limit(lifecycle: &Lifecycle, now: Timestamp) -> Option<Event> {
    let times_out_at = lifecycle.run.as_ref()?.times_out_at?;
    let text = if times_out_at > now { ahead(now, times_out_at) } else { "is over".to_owned() };
    Some(Event::new(Status::Running, "time limit", text).note(Some(times_out_at.to_string())))
}

/// Before when a task is not claimed.
fn delay(lifecycle: &Lifecycle, now: Timestamp) -> Option<Event> {
    let not_before = lifecycle.not_before?;
    let text = if not_before > now { format!("until {not_before}") } else { "is over".to_owned() };
    let note = (not_before > now).then(|| ahead(now, not_before));
    Some(Event::new(Status::Pending, "delayed", text).note(note))
}

/// The dependency because of which a task was cancelled.
fn failed_dependency(task: &Task) -> Option<String> {
    let error = task.outcome.last_error.as_ref().filter(|error| error.run_id.is_none())?;
    Some(cut(&error.failure.message, MESSAGE_CHARS).into_owned())
}

/// Returns what followed the latest run.
fn afterwards(task: &Task, now: Timestamp) -> Vec<Event> {
    let lifecycle = &task.lifecycle;
    let was_given_back = lifecycle.finished_run.is_some_and(|run| run.end == RunEnd::Unclaim);
    match lifecycle.status {
        Status::Pending => {
            let is_over = lifecycle.attempt == 0 && lifecycle.finished_run.is_some() && !was_given_back;
            let requeued = is_over.then(|| Event::new(Status::Pending, "requeued", "attempts count from 0 again"));
            let since = pending_since(lifecycle);
            let waits = Event::new(Status::Pending, "now", "waiting for").since(since, now);
            requeued.into_iter().chain(delay(lifecycle, now)).chain([waits]).collect()
        }
        Status::Cancelled if lifecycle.finished_run.is_none_or(|run| run.end != RunEnd::Cancel) => {
            vec![Event::new(Status::Cancelled, "cancelled", "while it was waiting").note(failed_dependency(task))]
        }
        _ => Vec::new(),
    }
}

/// Returns how long the task waited for its latest claim, or waits now; nothing if that is not known.
pub(super) fn waited(task: &Task, now: Timestamp) -> Option<Duration> {
    let lifecycle = &task.lifecycle;
    if lifecycle.status == Status::Pending {
        return Some(between(pending_since(lifecycle), now));
    }
    let (started_at, number) = (lifecycle.started_at?, run_number(task)?);
    let since = if number == 1 {
        Some(lifecycle.created_at)
    } else {
        task.outcome.last_error.as_ref().filter(|error| error.attempt == number - 1).map(|error| error.occurred_at)
    };
    since.map(|since| between(since, started_at))
}

/// Returns how long the latest run took, or has taken so far.
pub(super) fn ran(task: &Task, now: Timestamp) -> Option<Duration> {
    let started_at = task.lifecycle.started_at?;
    Some(between(started_at, task.lifecycle.finished_at.unwrap_or(now)))
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
