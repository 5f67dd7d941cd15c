//! What a worker does, in lines for people: one when a run begins, one when it ends, and one for everything else that a
//! person who looks in a week later wants to find. No arguments and no results: those may be confidential.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use taskqueue_worker::{Counts, End, Ending, Event, Stop};

use crate::output::escape;

/// One line, and whether the output of the run that it is about comes before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) after_output: bool,
}

/// The line about an event.
pub(super) fn of(event: &Event<'_>, colour: bool) -> Option<Line> {
    let mut after_output = false;
    let text = match event {
        Event::Started { claim, .. } => {
            let task = &claim.task;
            let name = task.name.as_deref().map(|name| format!(" {}", escape(name))).unwrap_or_default();
            let budget = format!("attempt {} of {}", task.attempt, task.max_attempts);
            format!("{} {}{name} ({budget})", word("started", AnsiColor::Cyan, colour), task.id)
        }
        Event::Ended { task_id, ending, took, .. } => {
            after_output = true;
            let (verb, tone, why) = told(ending);
            let why = why.map(|why| format!(": {}", escape(&why))).unwrap_or_default();
            format!("{} {task_id} after {}{why}", word(verb, tone, colour), seconds(*took))
        }
        Event::OutOfContact(error) => {
            let said = escape(&error.to_string()).into_owned();
            format!("warning: the server cannot be asked; running tasks go on and are reported later: {said}")
        }
        Event::InContact => "the server answers again".to_owned(),
        Event::LeaseInDoubt { task_id, .. } => {
            format!(
                "warning: no heartbeat of {task_id} got through for five minutes; it goes on until the server decides"
            )
        }
        Event::LeftOver { task_id, refused: None } => format!("reported {task_id}, which an earlier worker had run"),
        Event::LeftOver { task_id, refused: Some(why) } => {
            format!("warning: {task_id}, which an earlier worker had run, was refused: {}", escape(why))
        }
        Event::Note { task_id: Some(task_id), text } => {
            after_output = true;
            format!("note: {task_id}: {}", escape(text))
        }
        Event::Note { task_id: None, text } => format!("note: {}", escape(text)),
        _ => return None,
    };
    Some(Line { text, after_output })
}

fn told(ending: &Ending) -> (&'static str, AnsiColor, Option<String>) {
    match ending {
        Ending::Succeeded => ("succeeded", AnsiColor::Green, None),
        Ending::Failed { kind, message } => ("failed", AnsiColor::Red, Some(format!("{kind}: {message}"))),
        Ending::Released => ("released", AnsiColor::Yellow, None),
        Ending::Unable(why) => ("released", AnsiColor::Red, Some(why.clone())),
        Ending::Revoked(why) => ("revoked", AnsiColor::Yellow, Some(why.clone())),
        Ending::Undelivered => ("undelivered", AnsiColor::Red, Some("its end waits in the run directory".to_owned())),
    }
}

/// What a request to stop does.
pub(super) fn stopping(stop: Stop, running: usize) -> Option<String> {
    Some(match (stop, running) {
        (Stop::Go, _) => return None,
        (_, 0) => "stopping".to_owned(),
        (Stop::Finish, _) => {
            format!("stopping: {running} running may finish; a second time gives back, a third time kills")
        }
        (Stop::Release, _) => format!("stopping: {running} running are stopped and given back; once more kills"),
        (Stop::Kill, _) => format!("stopping: {running} running are killed"),
    })
}

/// What the worker did in all.
pub(super) fn ended(end: &End, counts: Counts) -> String {
    let why = match end {
        End::Stopped => "stopped",
        End::Idle => "nothing to do",
        End::OutOfContact => "the server was not reached",
        End::MaxTasks => "enough tasks",
        End::Guard(_) => "too many failures in a row",
        End::Refused(_) => "refused by the server",
        End::Broken(_) => "broken",
    };
    let mut told = vec![format!("{} succeeded", counts.succeeded), format!("{} failed", counts.failed)];
    let others = [("released", counts.released), ("revoked", counts.revoked), ("undelivered", counts.undelivered)];
    told.extend(others.iter().filter(|(_, count)| *count > 0).map(|(word, count)| format!("{count} {word}")));
    format!("ended ({why}): {}", told.join(", "))
}

/// A span with the precision that its length deserves.
pub(super) fn seconds(took: Duration) -> String {
    let whole = took.as_secs();
    match whole {
        0..=9 => format!("{:.2} s", took.as_secs_f64()),
        10..=119 => format!("{:.1} s", took.as_secs_f64()),
        120..=7199 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
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
    fn spans_are_as_precise_as_they_deserve() {
        let told = [40, 9_990, 10_000, 119_900, 120_000, 7_199_000, 7_200_000, 90_061_000]
            .map(|millis| seconds(Duration::from_millis(millis)));
        assert_eq!(
            told,
            ["0.04 s", "9.99 s", "10.0 s", "119.9 s", "2 min 0 s", "119 min 59 s", "2 h 0 min", "25 h 1 min"]
        );
    }

    #[test]
    fn a_worker_without_runs_promises_nothing_about_them() {
        let told = [Stop::Finish, Stop::Release, Stop::Kill].map(|stop| stopping(stop, 0).unwrap());
        assert_eq!(told, ["stopping"; 3]);
    }

    #[test]
    fn the_summary_leaves_out_what_did_not_happen() {
        let counts = Counts { succeeded: 3, ..Counts::default() };
        assert_eq!(ended(&End::Idle, counts), "ended (nothing to do): 3 succeeded, 0 failed");
        let counts = Counts { revoked: 2, ..counts };
        assert_eq!(ended(&End::Stopped, counts), "ended (stopped): 3 succeeded, 0 failed, 2 revoked");
    }

    #[test]
    fn lines_are_plain_where_colours_are_not_welcome() {
        let why = Ending::Failed { kind: "ExitCode".into(), message: "exit\u{1b}[2J code 3".into() };
        let task_id = taskqueue_client::TaskId::parse("t_000000000001").unwrap();
        let run_id = taskqueue_client::RunId::parse("r_000000000001").unwrap();
        let event = Event::Ended { slot: 0, task_id, run_id, ending: &why, took: Duration::from_millis(1500) };
        let line = of(&event, false).unwrap();
        assert!(line.after_output);
        assert!(line.text.starts_with("failed t_000000000001 after 1.50 s: ExitCode: exit"), "{}", line.text);
        assert!(!line.text.contains('\u{1b}'), "{}", line.text);
        assert!(of(&event, true).unwrap().text.contains('\u{1b}'));
    }
}
