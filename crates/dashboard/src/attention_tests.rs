//! Cases of what needs attention.

use std::future::{pending, ready};

use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::stats::RouteSelection;
use taskqueue_core::status::Status;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn counts(succeeded: u64, failed: u64, expired: u64) -> Counts {
    let mut counts = Counts::default();
    counts.add(Event::Succeeded, succeeded);
    counts.add(Event::Failed, failed);
    counts.add(Event::Expired, expired);
    counts
}

fn sight(figures: &QueueFigures) -> QueueSight<'_> {
    QueueSight { queue: "q", figures, now: at(100), last_hour: Some(Counts::default()), newest: NewestTasks::default() }
}

fn paused(figures: &QueueFigures) -> QueueFigures {
    let mut figures = figures.clone();
    figures.settings = QueueSettings { paused: true, ..QueueSettings::default() };
    figures
}

#[test]
fn each_starving_route_is_told_with_how_long_its_oldest_task_waits() {
    let mut figures = QueueFigures::default();
    figures.add_tasks(["a", "b"], Status::Pending, 2);
    figures.add_tasks(["c"], Status::Pending, 5);
    figures.add_pending_since("a", at(40));
    figures.add_workers("b", WorkerStatus::Busy, 1);
    let starving = |route: &str, pending, oldest: Option<u64>| Concern::Starving {
        queue: "q".to_owned(),
        route: route.to_owned(),
        pending,
        oldest: oldest.map(Duration::from_secs),
    };
    let expected = [starving("a", 2, Some(60)), starving("c", 5, None)];
    assert_eq!(of_queue(&sight(&figures)), expected);
    figures.keep(&RouteSelection::StarvingFirst { most: 1, find: "".into() });
    assert_eq!((of_queue(&sight(&figures)), untold(&figures)), (expected[..1].to_vec(), 1));
    let paused = paused(&figures);
    assert_eq!((of_queue(&sight(&paused)), untold(&paused)), (vec![], 0));
    let without_activity = QueueSight { last_hour: None, ..sight(&figures) };
    assert_eq!(of_queue(&without_activity), expected[..1], "routes are known in any case");
}

#[test]
fn a_queue_fails_if_some_runs_and_not_too_few_of_all_did() {
    type Case<'a> = (&'a [(u64, u64, u64)], bool);
    let cases: [Case<'_>; 2] = [
        (&[(0, 0, 0), (0, 2, 0), (28, 3, 0), (1_000_000, 99_999, 0)], false),
        (&[(0, 3, 0), (27, 3, 0), (20, 3, 7)], true),
    ];
    for (ended, expected) in cases {
        for &(succeeded, failed, expired) in ended {
            assert_eq!(is_failing(&counts(succeeded, failed, expired)), expected, "{succeeded} {failed} {expired}");
        }
    }
}

#[test]
fn a_failing_queue_is_told_with_what_its_newest_failures_share() {
    type Failures = &'static [(&'static str, &'static str)];
    type Case = (Failures, Option<&'static str>, Option<(&'static str, usize)>);
    let cases: [Case; 7] = [
        (&[], None, None),
        (&[("oom", "a")], None, Some(("oom", 1))),
        (&[("oom", "a"), ("nan", "a")], Some("a"), None),
        (&[("nan", "a"), ("oom", "b"), ("oom", "a")], None, Some(("oom", 2))),
        (&[("oom", "a"), ("oom", "a")], Some("a"), Some(("oom", 2))),
        (&[("b", "x"), ("a", "x"), ("b", "x"), ("a", "y")], None, Some(("a", 2))),
        (&[("", ""), ("", "")], None, None),
    ];
    let figures = QueueFigures::default();
    for (tasks, route, message) in cases {
        let failure = |(message, route): &(&str, &str)| Failure {
            message: (*message).to_owned(),
            route: (!route.is_empty()).then(|| (*route).to_owned()),
        };
        let newest = NewestTasks { failures: tasks.iter().map(failure).collect(), attempts: Vec::new() };
        let told = of_queue(&QueueSight { last_hour: Some(counts(11, 9, 0)), newest, ..sight(&figures) });
        let newest = FailurePattern {
            looked_at: tasks.len(),
            route: route.map(str::to_owned),
            message: message.map(|(message, times)| (message.to_owned(), times)),
        };
        let expected = [Concern::Failing { queue: "q".to_owned(), now: at(100), failed: 9, ended: 20, newest }];
        assert_eq!(told, expected, "{tasks:?}");
    }
}

#[test]
fn runs_that_nobody_heard_of_any_more_are_told() {
    let figures = QueueFigures::default();
    let told = of_queue(&QueueSight { last_hour: Some(counts(50, 0, 2)), ..sight(&figures) });
    assert_eq!(told, [Concern::Lost { queue: "q".to_owned(), expired: 2 }]);
}

#[test]
fn a_task_is_near_its_last_attempt_only_if_it_was_tried() {
    let cases: [(&[(i64, i64)], usize); 6] = [
        (&[], 0),
        (&[(0, 1), (0, 3)], 0),
        (&[(1, 3)], 0),
        (&[(2, 3)], 1),
        (&[(3, 3), (1, 2), (1, 1), (0, 1)], 3),
        (&[(5, i64::MIN)], 1),
    ];
    let figures = QueueFigures::default();
    for (attempts, expected) in cases {
        let newest = NewestTasks { failures: Vec::new(), attempts: attempts.to_vec() };
        let told = of_queue(&QueueSight { newest, ..sight(&figures) });
        let concern = Concern::LastAttempt { queue: "q".to_owned(), tasks: expected, looked_at: attempts.len() };
        assert_eq!(told, if expected > 0 { vec![concern] } else { vec![] }, "{attempts:?}");
    }
}

#[test]
fn of_the_server_is_told_what_fails_what_is_full_and_what_is_risked() {
    let process = |queued_writes| ProcessFigures { queued_writes, queue_capacity: 10, ..ProcessFigures::default() };
    let host =
        |waiting, waiting_limit| HostFigures { waiting: [waiting, 1, 0], waiting_limit, ..HostFigures::default() };
    let cases = [
        (Some(vec![]), process(0), host(98, 100), vec![]),
        (None, process(0), host(98, 100), vec![Concern::StorageFails]),
        (Some(vec![]), process(5), host(98, 100), vec![]),
        (Some(vec![]), process(6), host(98, 100), vec![Concern::WritesPileUp { queued: 6, capacity: 10 }]),
        (Some(vec![]), ProcessFigures::default(), host(98, 100), vec![]),
        (Some(vec![]), process(0), host(99, 100), vec![Concern::WaitingIsFull { limit: 100 }]),
        (Some(vec![]), process(0), host(0, 0), vec![]),
        (Some(vec!["r".to_owned()]), process(0), host(98, 100), vec![Concern::Risk("r".to_owned())]),
    ];
    for (risks, process, host, expected) in cases {
        assert_eq!(of_server(risks, &process, &host), expected, "{process:?} {host:?}");
    }
}

#[test]
fn a_pause_is_no_alarm_however_long_tasks_wait() {
    let mut figures = QueueFigures::default();
    figures.add_tasks(["a"], Status::Pending, 2);
    figures.add_pending_since("a", at(0));
    let later = |figures: &QueueFigures| of_queue(&QueueSight { now: at(1_000_000), ..sight(figures) });
    assert_eq!(later(&paused(&figures)), []);
    assert!(matches!(later(&figures).as_slice(), [Concern::Starving { .. }]));
}

#[test]
fn routes_that_were_not_looked_at_alarm_only_beside_one_that_misses_a_worker() {
    let mut figures = QueueFigures::default();
    figures.add_tasks(["a", "b"], Status::Pending, 1);
    figures.keep(&RouteSelection::NONE);
    assert_eq!((of_queue(&sight(&figures)), untold(&figures), misses_worker(&figures)), (vec![], 0, false));
    figures.add_tasks(["c"], Status::Pending, 1);
    assert_eq!((of_queue(&sight(&figures)).len(), untold(&figures), misses_worker(&figures)), (1, 2, true));
}

#[test]
fn what_waits_is_served_if_somebody_is_there_and_no_route_misses_a_worker() {
    let figures = |workers: &[&str], running: &[&str]| {
        let mut figures = QueueFigures::default();
        figures.add_tasks(["a"], Status::Pending, 1);
        workers.iter().for_each(|route| figures.add_workers(route, WorkerStatus::Idle, 1));
        running.iter().for_each(|route| figures.add_tasks([*route], Status::Running, 1));
        figures
    };
    let cases: [(&[&str], &[&str], bool); 5] =
        [(&[], &[], false), (&["a"], &[], true), (&["b"], &[], false), (&[], &["a"], true), (&[], &["b"], false)];
    for (workers, running, expected) in cases {
        assert_eq!(is_served(&figures(workers, running)), expected, "{workers:?} {running:?}");
    }
    assert!(!is_served(&QueueFigures::default()), "nobody is there");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_takes_too_long_shows_what_was_seen_before_and_not_for_ever() {
    let looks = NewestTasksSeen::default();
    let seen = NewestTasks { attempts: vec![(1, 2)], ..NewestTasks::default() };
    let slow = |millis| async move {
        let wait = Duration::from_millis(millis);
        tokio::time::interval_at(tokio::time::Instant::now() + wait, wait).tick().await;
        Some(NewestTasks { attempts: vec![(1, 2)], ..NewestTasks::default() })
    };
    assert_eq!(looks.look("q", slow(800)).await, seen, "nothing is known, so it waits");
    assert_eq!(looks.look("q", pending()).await, seen);
    assert_eq!(looks.look("q", ready(None)).await, seen);
    assert_eq!(looks.look("other", pending()).await, NewestTasks::default());
    let expected = NewestTasks::default();
    assert_eq!(looks.look("q", ready(Some(NewestTasks::default()))).await, expected, "what is new counts");
    assert_eq!(looks.look("q", slow(1)).await, seen);
    tokio::time::advance(KEPT_FOR).await;
    assert_eq!(looks.look("q", pending()).await, NewestTasks::default());
}

#[tokio::test(start_paused = true)]
async fn no_more_queues_are_remembered_than_fit_and_old_ones_make_room() {
    let looks = NewestTasksSeen::default();
    let seen = || NewestTasks { attempts: vec![(1, 2)], ..NewestTasks::default() };
    for n in 0..=QUEUES_REMEMBERED {
        looks.look(&format!("q{n}"), ready(Some(seen()))).await;
    }
    assert_eq!(looks.last(&format!("q{QUEUES_REMEMBERED}")), None);
    tokio::time::advance(KEPT_FOR).await;
    looks.look("new", ready(Some(seen()))).await;
    assert_eq!(looks.last("new"), Some(seen()));
}
