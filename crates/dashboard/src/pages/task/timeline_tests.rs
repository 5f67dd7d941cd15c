use std::sync::Arc;

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::{self, Claimant, RunReport, TaskAction};
use taskqueue_core::task::{Failure, LastError};

use super::*;
use crate::selected::tests::task;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).plus_seconds(seconds)
}

/// A task to which things happen by the rules.
struct Life(Task);

impl Life {
    fn new() -> Self {
        Self(task(Definition::default(), Lifecycle::created(at(0), 1)))
    }

    fn change(mut self, change: lifecycle::Change) -> Self {
        change.apply_to_outcome(&mut self.0.outcome);
        self.0.lifecycle = change.lifecycle;
        self
    }

    fn claim(self, seconds: i64) -> Self {
        let (route, worker) =
            (Route::parse("a100").unwrap(), JsonObject::from_canonical(r#"{"host":"gpu-3","slot":1}"#));
        let claimant = Claimant { route: &route, run_id: run_id(), worker: Some(&worker) };
        let claimed = lifecycle::claim(&self.0.head(), &self.0.outcome, claimant, at(seconds)).unwrap();
        self.change(claimed.change)
    }

    fn report(self, report: RunReport, seconds: i64) -> Self {
        let change = lifecycle::report_run(&self.0.head(), run_id(), &report, at(seconds), 2).unwrap().unwrap();
        self.change(change)
    }

    fn fail(self, seconds: i64) -> Self {
        let failure = Failure { kind: Arc::from("ExitCode"), message: Arc::from("1"), traceback: None };
        self.report(RunReport::Fail { failure, retry: true, retry_after: None }, seconds)
    }

    fn act(self, action: TaskAction, seconds: i64) -> Self {
        let change = lifecycle::act(&self.0.head(), action, at(seconds), 3).unwrap().unwrap();
        self.change(change)
    }

    fn told(&self, seconds: i64) -> Vec<String> {
        let line = |event: &Event| {
            let age = event.at.filter(|_| event.goes_on).map_or(String::new(), |at| format!(" {}", at.age()));
            let parts = [&event.what, &format!("{}{age}", event.text), event.note.as_ref().unwrap_or(&String::new())]
                .map(String::as_str)
                .join(" | ");
            format!("{}: {parts}", event.state)
        };
        events(&self.0, at(seconds)).iter().map(line).collect()
    }
}

fn run_id() -> RunId {
    RunId::parse("r_abcdefghijkl").unwrap()
}

const PLACE: &str = "gpu-3, slot 1, route a100";

#[test]
fn a_task_that_waits_says_since_when() {
    let life = Life::new();
    assert_eq!(life.told(41), ["pending: created |  | ", "pending: now | waiting for 41 s | "]);
    assert_eq!(waited(&life.0, at(41)), Some(Duration::from_secs(41)));
    assert_eq!(ran(&life.0, at(41)), None);
}

#[test]
fn a_run_says_where_it_is_and_how_it_ended() {
    let running = Life::new().claim(10);
    assert_eq!(running.told(40)[1], format!("running: attempt 1 | running for 30 s | {PLACE}"));
    let expected = (Some(Duration::from_secs(10)), Some(Duration::from_secs(30)));
    assert_eq!((waited(&running.0, at(40)), ran(&running.0, at(40))), expected);
    let ended = running.report(RunReport::Complete { result: JsonObject::empty() }, 70);
    assert_eq!(ended.told(99)[1..], [format!("succeeded: attempt 1 | succeeded after 1 min | {PLACE}")]);
}

#[test]
fn of_earlier_attempts_only_the_last_error_is_known_and_the_others_are_counted() {
    let third = Life::new().claim(10).fail(20).claim(30).fail(40).claim(55);
    let told = third.told(60);
    assert_eq!(told[1], "cancelled: earlier | 1 other run | only counted");
    assert_eq!(told[2], "failed: attempt 2 | failed | ExitCode");
    assert_eq!(told[3], format!("running: attempt 3 | running for 5 s | {PLACE}"));
    assert_eq!(waited(&third.0, at(60)), Some(Duration::from_secs(15)), "since the failure before");
}

#[test]
fn a_run_that_was_given_back_is_not_charged_and_not_called_a_failure() {
    let back = Life::new().claim(10).report(RunReport::Unclaim { delay: None }, 20);
    let told = back.told(50);
    let expected = [
        format!("pending: attempt 1 | given back after 10 s | {PLACE}"),
        "pending: now | waiting for 30 s | ".to_owned(),
    ];
    assert_eq!(told[1..], expected);
}

#[test]
fn a_requeue_and_a_cancellation_are_told() {
    let failed = Life::new().claim(10).fail(20);
    let requeued = failed.act(TaskAction::Requeue, 30);
    let expected = ["pending: requeued | attempts count from 0 again | ", "pending: now | waiting for 5 s | "];
    assert_eq!(requeued.told(35)[2..4], expected);
    let cancelled = Life::new().act(TaskAction::Cancel, 5);
    assert_eq!(cancelled.told(9)[1], "cancelled: cancelled | while it was waiting | ");
    let stopped = Life::new().claim(10).act(TaskAction::Cancel, 15);
    assert_eq!(stopped.told(20)[1..], [format!("cancelled: attempt 1 | cancelled after 5.0 s | {PLACE}")]);
}

fn last(task: &Task, seconds: i64) -> Vec<(String, String, Option<String>)> {
    let events = events(task, at(seconds)).into_iter().rev().take(2);
    events.map(|event| (event.what, event.text, event.note)).collect()
}

#[test]
fn a_delay_is_told_until_it_is_over() {
    let mut life = Life::new();
    life.0.lifecycle.not_before = Some(at(600));
    let delayed = &last(&life.0, 60)[1];
    assert_eq!((delayed.0.as_str(), delayed.2.as_deref()), ("delayed", Some("in 9 min")));
    assert!(delayed.1.starts_with("until 20"), "{delayed:?}");
    assert_eq!(last(&life.0, 601)[1], ("delayed".to_owned(), "is over".to_owned(), None));
}

#[test]
fn a_run_tells_how_much_time_it_has_left() {
    let mut life = Life::new().claim(0);
    assert_ne!(last(&life.0, 1)[0].0, "time limit");
    if let Some(run) = &mut life.0.lifecycle.run {
        run.times_out_at = Some(at(120));
    }
    assert_eq!((last(&life.0, 60)[0].0.as_str(), last(&life.0, 60)[0].1.as_str()), ("time limit", "in 1 min"));
    assert_eq!(last(&life.0, 121)[0].1, "is over");
}

#[test]
fn a_task_that_a_dependency_cancelled_says_which() {
    let mut life = Life::new();
    life.0.lifecycle.status = Status::Cancelled;
    let failure = Failure { kind: "DependencyFailed".into(), message: "the task t_x failed".into(), traceback: None };
    life.0.outcome.last_error = Some(LastError { failure, occurred_at: at(5), attempt: 0, run_id: None });
    assert!(last(&life.0, 60).iter().any(|event| event.2.as_deref() == Some("the task t_x failed")));
}
