//! The events of a worker as lines of text. They contain neither args nor results, which may be confidential.

use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use taskqueue_client::{Code, Error, ErrorCode, QueueName, Route};
use taskqueue_core::words;
use taskqueue_worker::{Counts, EndReason, Event, IdleReason, RunOutcome, StopMode};

use crate::files::absolute;
use crate::output::escape;

/// The number of routes with tasks for others that are named.
const ROUTES_SHOWN: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    /// True if the output of the run has to be printed first.
    pub(super) after_output: bool,
}

pub(super) fn of(event: &Event<'_>, colour: bool) -> Option<Line> {
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
pub(super) fn begins(serves: &str, slots: &[usize], run_dir: &Path) -> String {
    let slots = match slots {
        [slot] => format!("slot {slot}"),
        _ => format!("{} slots", slots.len()),
    };
    let folder = absolute(run_dir).to_string_lossy().into_owned();
    format!("worker {}: {serves} with {slots}; runs are in {}", std::process::id(), escape(&folder))
}

/// Returns why the worker has nothing to do.
pub(super) fn idle(reason: &IdleReason, queue: &QueueName, route: &Route) -> String {
    let tasks = |count: u64| words::count(count, "task");
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
            format!(
                "queue {queue} runs as many tasks as its limit allows ({limit}); see taskqueue queue settings {queue}"
            )
        }
        IdleReason::RouteAtLimit => {
            format!("route {route} runs as many tasks as its limit allows; see taskqueue queue settings {queue}")
        }
        IdleReason::Delayed(count, until) => {
            format!("{} for route {route} cannot be claimed yet; one is delayed until {until}", tasks(*count))
        }
        IdleReason::Dependencies(count) => {
            format!("{} for route {route} cannot be claimed yet; one waits for other tasks", tasks(*count))
        }
        IdleReason::Held(count) => {
            format!("{} for route {route} cannot be claimed yet; taskqueue task explain ID says why", tasks(*count))
        }
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
pub(super) fn stopping(stop: StopMode, running: usize) -> Option<String> {
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
pub(super) fn terminal_stop(running: usize) -> String {
    let rest = "fg shows it again, Ctrl-C there stops it";
    match running {
        0 => format!("Ctrl-Z does not stop this worker: it continues in the background; {rest}"),
        _ => format!(
            "Ctrl-Z does not stop this worker: it continues in the background and renews the leases of {running} running; {rest}"
        ),
    }
}

pub(super) fn ended(end: &EndReason, counts: Counts) -> String {
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
pub(super) fn duration(took: Duration) -> String {
    let whole = took.as_secs();
    match whole {
        0..=9 => format!("{:.2} s", took.as_secs_f64()),
        10..=119 => format!("{:.1} s", took.as_secs_f64()),
        120..=7199 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Without fractions of a second.
pub(super) fn whole_seconds(time: Duration) -> String {
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
    use super::*;

    #[test]
    fn output_that_was_not_sent_is_told_with_the_place_of_all_of_it() {
        let task_id = taskqueue_client::TaskId::parse("t_000000000001").unwrap();
        let line = of(&Event::OutputNotSent { task_id, bytes: 8 }, false).unwrap();
        let expected = "note: t_000000000001: 8 bytes of its output did not get to the server; see its output.log";
        assert_eq!((line.text.as_str(), line.after_output), (expected, true));
        let late = of(&Event::EarlierReport { task_id, refused: Some("stale_run") }, false).unwrap();
        let expected = "warning: t_000000000001, which an earlier worker had run, was refused: stale_run";
        assert_eq!(late.text, expected);
    }

    #[test]
    fn long_durations_are_less_precise() {
        let texts = [40, 9_990, 10_000, 119_900, 120_000, 7_199_000, 7_200_000, 90_061_000]
            .map(|millis| duration(Duration::from_millis(millis)));
        assert_eq!(
            texts,
            ["0.04 s", "9.99 s", "10.0 s", "119.9 s", "2 min 0 s", "119 min 59 s", "2 h 0 min", "25 h 1 min"]
        );
    }

    #[test]
    fn an_outage_is_told_without_the_call_that_found_it() {
        let api = |status, code: &str| Error::Api {
            status,
            code: code.into(),
            message: "the storage does not work now and nothing was done".to_owned(),
            details: taskqueue_client::JsonObject::empty(),
            retry_after: None,
        };
        let unknown =
            |cause| Error::OutcomeUnknown { call: "claim a task", advice: "ask again", cause: Box::new(cause) };
        let line = |error| of(&Event::ServerUnreachable(&error), false).unwrap().text;
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
        assert_eq!(of(&back, false).unwrap().text, "the server answers again, after 2 min 10 s");
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
        let line = of(&event, false).unwrap();
        assert!(line.after_output);
        assert!(line.text.starts_with("failed t_000000000001 after 1.50 s: ExitCode: exit"), "{}", line.text);
        assert!(!line.text.contains('\u{1b}'), "{}", line.text);
        assert!(of(&event, true).unwrap().text.contains('\u{1b}'));
    }
}
