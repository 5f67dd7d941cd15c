//! Tests of the sentences that say why a task is pending.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::Route;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::task::Lifecycle;

use super::*;
use crate::selected::tests;

const NOW: Timestamp = Timestamp::from_micros(0);

fn routes() -> Vec<Route> {
    vec![Route::parse("a").unwrap(), Route::parse("b").unwrap()]
}

fn task(status: Status) -> Task {
    let definition = Definition { routes: Routes::new(routes()).unwrap(), ..Definition::default() };
    tests::task(definition, Lifecycle { status, ..Lifecycle::created(NOW, 1) })
}

fn texts(waiting: &Waiting) -> Vec<&str> {
    waiting.reasons.iter().map(|sentence| sentence.text.as_str()).collect()
}

fn told(reasons: Vec<Reason>) -> Waiting {
    let claimable = reasons.iter().all(|reason| matches!(reason, Reason::NoWorker { .. } | Reason::WaitingTurn { .. }));
    let mut figures = QueueFigures::default();
    figures.add_workers("a", WorkerStatus::Idle, 1);
    Waiting::of(&task(Status::Pending), Some(&Explanation { claimable, reasons }), &figures, "http://h:1", NOW).unwrap()
}

#[test]
fn the_reason_follows_from_the_workers_of_its_routes() {
    use WorkerStatus::{Busy, Idle};
    type Workers = &'static [(&'static str, WorkerStatus, u64)];
    let cases: [(Workers, &str, bool); 5] = [
        (&[], "No worker is there for its routes (a, b)", true),
        (&[("c", Idle, 9)], "No worker is there", true),
        (&[("a", Busy, 1)], "The worker for its routes is busy", false),
        (&[("a", Busy, 1), ("b", Busy, 3), ("c", Idle, 1)], "All 4 workers for its routes are busy", false),
        (&[("a", Busy, 1), ("b", Idle, 1)], "A worker for its routes is idle", false),
    ];
    for (workers, reason, is_starving) in cases {
        let mut figures = QueueFigures::default();
        workers.iter().for_each(|(route, status, count)| figures.add_workers(route, *status, *count));
        let waiting = Waiting::of(&task(Status::Pending), None, &figures, "http://h:1", NOW).unwrap();
        assert!(texts(&waiting)[0].starts_with(reason), "{waiting:?}");
        assert_eq!(waiting.is_starving(), is_starving);
    }
}

#[test]
fn every_reason_is_a_sentence_and_nobody_is_said_to_take_what_cannot_be_claimed() {
    let id = |n: usize| TaskId::parse(&format!("t_{n:012}")).unwrap();
    let unmet = vec![(id(1), Some(Status::Running)), (id(2), Some(Status::Failed)), (id(3), None)];
    let until = NOW.plus_seconds(540);
    let cases = [
        (Reason::QueuePaused, "The queue is paused."),
        (Reason::QueueAtLimit { max_running: 1 }, "As many tasks of the queue are running as may be: 1."),
        (Reason::RouteAtLimit { routes: routes() }, "As many tasks are running as may be claimed for a, b."),
        (
            Reason::DependencyCycle { tasks: vec![] },
            "It waits for itself: it is not claimed until its dependencies are changed.",
        ),
        (
            Reason::Dependencies { unmet },
            "3 tasks that it waits for have not succeeded (1 failed or cancelled, 1 missing).",
        ),
        (Reason::NotBefore { until }, "It cannot be claimed before 1970-01-01T00:09:00.000000Z, in 9 min."),
    ];
    for (reason, text) in cases {
        let waiting = told(vec![reason]);
        assert_eq!(texts(&waiting), [text]);
        assert!(!waiting.is_starving());
    }
    let paused = told(vec![Reason::QueuePaused, Reason::NoWorker { routes: routes() }]);
    assert!(texts(&paused)[1].starts_with("No worker is there") && !paused.is_starving(), "{paused:?}");
    assert_eq!(paused.reasons[0].link, Some(("/ui/queues/q/settings".to_owned(), "Settings")));
}

#[test]
fn who_comes_first_is_counted_as_far_as_it_is_known() {
    assert_eq!(texts(&told(vec![]))[0], "A worker for its routes is idle: it should take the task in a moment.");
    let cases = [(1, "1 task comes first."), (7, "7 tasks come first."), (1_000, "1000 tasks or more come first.")];
    for (ahead, text) in cases {
        assert_eq!(texts(&told(vec![Reason::WaitingTurn { ahead }]))[0], text);
    }
    let alone = told(vec![Reason::NoWorker { routes: routes() }]);
    assert!(alone.is_starving() && texts(&alone)[0].starts_with("No worker is there"), "{alone:?}");
}

#[test]
fn a_task_that_does_not_wait_has_no_reason() {
    for status in [Status::Running, Status::Succeeded, Status::Failed, Status::Cancelled] {
        assert_eq!(Waiting::of(&task(status), None, &QueueFigures::default(), "http://h:1", NOW), None);
    }
}

#[test]
fn how_many_are_not_shown_is_said_as_far_as_it_is_known() {
    let cases = [
        (0, None),
        (100, None),
        (101, Some("and 1 more")),
        (1_000, Some("and 900 more")),
        (1_001, Some("and more than 900 more")),
    ];
    for (found, text) in cases {
        assert_eq!(more_relatives(found, 1_000).as_deref(), text, "{found}");
    }
}
