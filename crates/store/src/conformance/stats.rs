//! Activity and stats: what is counted when, by whom, and for how long; what is pending, running and working now.

use taskqueue_core::limits::{OBSERVATION_SECONDS, TASK_ROUTES};
use taskqueue_core::stats::RouteFigures;
use taskqueue_core::status::WorkerStatus;

use super::prelude::*;
use crate::figures::{ROUTES_AT_ONCE, read_figures};

async fn stats(fixture: &Fixture) -> QueueStats {
    fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap()
}

/// The start in seconds after the beginning of the test, and the counts.
async fn series(fixture: &Fixture, unit: Unit) -> Vec<(i64, [u64; 7])> {
    let selection = SeriesSelection { unit, from: None, to: None };
    let series = fixture.store.activity_series(&queue("q"), selection).await.unwrap();
    let seconds = |start: Timestamp| (start.as_micros() - START.as_micros()) / 1_000_000;
    series.spans.iter().map(|(start, activity)| (seconds(*start), numbers(&activity.counts))).collect()
}

/// Everything that can happen to a task happens to one.
async fn lead_a_full_life(fixture: &Fixture) {
    fixture.create_many((1..=5).map(|id| (id, with_budget(1)))).await;
    fixture.clock.advance_seconds(2);
    fixture.claim_each(1..=4).await;
    fixture.clock.advance_seconds(10);
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(fail("q", 2, 2)).await;
    fixture.ok(unclaim("q", 3, 3)).await;
    fixture.ok(cancel("q", 3)).await;
    fixture.ok(cancel("q", 5)).await;
}

pub async fn every_event_is_counted_once_whoever_repeats_it(fixture: Fixture) {
    lead_a_full_life(&fixture).await;
    assert_eq!(numbers(&stats(&fixture).await.last_minute), [5, 4, 1, 1, 1, 0, 2]);
    fixture.ok(create("q", 1, with_budget(1))).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(cancel("q", 5)).await;
    fixture.claim(4).await;
    fixture.ok(heartbeat("q", 4, 4)).await;
    fixture.refused(fail("q", 1, 1)).await;
    let now = stats(&fixture).await;
    assert_eq!(numbers(&now.last_minute), [5, 4, 1, 1, 1, 0, 2]);
    assert_eq!([numbers(&now.last_5_minutes), numbers(&now.last_hour)], [numbers(&now.last_minute); 2]);
    fixture.pass(300).await;
    assert_eq!(numbers(&stats(&fixture).await.last_hour), [5, 4, 1, 1, 1, 1, 2], "one lease is over");
}

pub async fn waits_count_from_creation_and_runs_from_the_claim(fixture: Fixture) {
    assert_eq!((stats(&fixture).await.wait, stats(&fixture).await.run), (None, None));
    lead_a_full_life(&fixture).await;
    let QueueStats { wait, run, since, .. } = stats(&fixture).await;
    let (wait, run) = (wait.unwrap(), run.unwrap());
    assert!((1.44..2.05).contains(&wait.p50) && wait.p99 < 2.05, "{wait:?}");
    assert!((8.1..11.6).contains(&run.p50) && run.p99 < 11.6, "{run:?}");
    assert!(since <= fixture.now());
}

pub async fn figures_are_of_tasks_and_workers_by_route(fixture: Fixture) {
    fixture.create(1, with_routes(&["a", "b"])).await;
    fixture.clock.advance_seconds(5);
    fixture.create(2, with_routes(&["b"])).await;
    fixture.create(3, with_routes(&["c"])).await;
    fixture.claimed(claim("q", "c", 3)).await.unwrap();
    fixture.create(4, with_routes(&["d"])).await;
    fixture.ok(cancel("q", 4)).await;
    fixture.ok(observe("q", 1, "b", WorkerStatus::Idle)).await;
    fixture.ok(observe("q", 2, "b", WorkerStatus::Busy)).await;
    fixture.ok(observe("q", 3, "z", WorkerStatus::Busy)).await;
    let QueueStats { figures, now, .. } = stats(&fixture).await;
    assert_eq!(Status::ALL.map(|status| figures.tasks(status)), [2, 1, 0, 0, 1]);
    assert_eq!((now, figures.oldest_pending()), (fixture.now(), Some(START)));
    let route = |pending, running, oldest: Option<i64>, workers_idle, workers_busy| {
        let oldest_pending = oldest.map(|seconds| START.plus_seconds(seconds));
        RouteFigures { pending, running, oldest_pending, workers_idle, workers_busy, ..RouteFigures::default() }
    };
    let expected = [
        ("a", route(1, 0, Some(0), 0, 0)),
        ("b", route(2, 0, Some(0), 1, 1)),
        ("c", route(0, 1, None, 0, 0)),
        ("z", route(0, 0, None, 0, 1)),
    ];
    let routes: Vec<_> = figures.routes().map(|(name, figures)| (name, *figures)).collect();
    assert_eq!(routes, expected);
    let keys = fixture.store.list_queue_keys().await.unwrap();
    let [(key, name)] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!(name, &queue("q"));
    let asked = fixture.store.figures(&[*key], &ALL_ROUTES, PendingDetail::Number).await.unwrap();
    assert_eq!((asked.now, asked.looked_at), (now, 1));
    assert_eq!(asked.queues, [(*key, figures)], "the figures of several queues are those of each");
}

/// What is not asked for is not told: neither other queues nor routes beyond those that were selected.
pub async fn figures_are_of_the_queues_and_routes_that_were_asked_for(fixture: Fixture) {
    for name in ["a", "b", "c"] {
        fixture.ok(create_queue(name)).await;
        fixture.ok(create(name, 1, with_routes(&["r1", "r2", "r3"]))).await;
        fixture.ok(observe(name, 1, "r1", WorkerStatus::Idle)).await;
    }
    let keys: Vec<QueueKey> =
        fixture.store.list_queue_keys().await.unwrap().into_iter().skip(1).map(|(key, _)| key).collect();
    let unknown = QueueKey(keys[2].0 + 1_000);
    let most_starving = RouteSelection::StarvingFirst { most: 1, find: "".into() };
    let asked =
        fixture.store.figures(&[keys[2], unknown, keys[0]], &most_starving, PendingDetail::Number).await.unwrap();
    assert_eq!(asked.looked_at, 3);
    let told: Vec<QueueKey> = asked.queues.iter().map(|(key, _)| *key).collect();
    assert_eq!(told, [keys[2], keys[0]], "in the order in which they were asked for");
    for (_, figures) in asked.queues {
        let routes: Vec<_> = figures.routes().map(|(name, route)| (name, route.oldest_pending)).collect();
        assert_eq!(routes, [("r2", Some(START))]);
        assert_eq!((figures.route_count(), figures.starving_count(), figures.workers()), (3, 2, [1, 0]));
        assert_eq!((figures.tasks(Status::Pending), figures.left_out.sum.pending), (1, 2));
    }
    let none = fixture.store.figures(&[], &ALL_ROUTES, PendingDetail::Number).await.unwrap();
    assert_eq!((none.now, none.queues), (fixture.now(), vec![]));
}

/// More routes than a store holds at a time. All are counted, and as many are told as were asked for.
pub async fn a_queue_may_have_more_routes_than_are_held_at_a_time(fixture: Fixture) {
    fixture.ok(create_queue("small")).await;
    fixture.ok(create("small", 1, with_routes(&["r"]))).await;
    // More than SQLite's bounded reads pass over.
    let tasks = 4 * ROUTES_AT_ONCE / TASK_ROUTES + 1;
    // Tasks that follow each other have routes from one end of the alphabet to the other.
    for task in 0..tasks {
        let names: Vec<String> = (0..TASK_ROUTES).map(|n| format!("r{n:03}-{task:03}")).collect();
        fixture.create(task, with_routes(&names)).await;
    }
    let all = (tasks * TASK_ROUTES) as u64;
    fixture.ok(observe("q", 1, "r000-000", WorkerStatus::Busy)).await;
    let keys: Vec<QueueKey> = fixture.store.list_queue_keys().await.unwrap().into_iter().map(|(key, _)| key).collect();
    let besides = ["r255-001".into()].into();
    let cases = [
        (RouteSelection::StarvingFirst { most: 2, find: "".into() }, vec!["r000-001", "r000-002"]),
        (RouteSelection::StarvingFirst { most: 1, find: "255-".into() }, vec!["r255-000"]),
        (RouteSelection::ByName { most: 1, besides }, vec!["r000-000", "r255-001"]),
    ];
    for (selection, expected) in cases {
        let (mut told, mut read) = (Vec::new(), Vec::new());
        let pending = PendingDetail::Number;
        read_figures(&*fixture.store, &keys, &selection, pending, |figures| read.extend(figures.queues)).await.unwrap();
        assert_eq!(read.iter().map(|(key, _)| *key).collect::<Vec<_>>(), keys, "each queue once, in order");
        let figures = &read[0].1;
        told.extend(figures.routes().map(|(route, _)| route));
        assert_eq!(told, expected, "{selection:?}");
        assert_eq!((figures.route_count(), figures.starving_count(), figures.workers()), (all, all - 1, [0, 1]));
        assert_eq!(figures.tasks(Status::Pending), tasks as u64);
        let pending = figures.routes().map(|(_, route)| route.pending).sum::<u64>() + figures.left_out.sum.pending;
        assert_eq!((pending, read[1].1.route_count()), (all, 1));
    }
}

pub async fn minutes_are_kept_for_a_day_and_hours_for_a_year(fixture: Fixture) {
    fixture.create(1, with_priority(0)).await;
    save_activity(&*fixture.store).await.unwrap();
    fixture.clock.advance_seconds(61);
    fixture.create(2, with_priority(0)).await;
    let one = [1, 0, 0, 0, 0, 0, 0];
    assert_eq!(series(&fixture, Unit::Minute).await, [(0, one), (60, one)]);
    assert_eq!(series(&fixture, Unit::Hour).await, [(0, [2, 0, 0, 0, 0, 0, 0])]);
    fixture.clock.advance_seconds(86_400);
    save_activity(&*fixture.store).await.unwrap();
    assert_eq!(series(&fixture, Unit::Minute).await, [(60, one)]);
    assert_eq!(series(&fixture, Unit::Hour).await, [(0, [2, 0, 0, 0, 0, 0, 0])], "hours go on");
    assert_eq!(numbers(&stats(&fixture).await.last_hour), [0; 7]);
    fixture.clock.advance_seconds(366 * 86_400);
    save_activity(&*fixture.store).await.unwrap();
    assert_eq!((series(&fixture, Unit::Minute).await, series(&fixture, Unit::Hour).await), (vec![], vec![]));
}

pub async fn a_series_holds_the_spans_that_were_asked_for(fixture: Fixture) {
    for task in 0..4 {
        fixture.create(task, with_priority(0)).await;
        save_activity(&*fixture.store).await.unwrap();
        fixture.clock.advance_seconds(60);
    }
    let at = |seconds| Some(START.plus_seconds(seconds));
    let cases = [(at(60), at(180), vec![60, 120]), (at(61), at(181), vec![60, 120, 180]), (at(500), None, vec![])];
    for (from, to, expected) in cases {
        let selection = SeriesSelection { unit: Unit::Minute, from, to };
        let series = fixture.store.activity_series(&queue("q"), selection).await.unwrap();
        let starts: Vec<_> = series.spans.iter().map(|(start, _)| *start).collect();
        assert_eq!(starts, expected.into_iter().map(|seconds| START.plus_seconds(seconds)).collect::<Vec<_>>());
    }
}

pub async fn a_queue_that_is_created_again_has_no_activity(fixture: Fixture) {
    fixture.create(1, with_priority(0)).await;
    save_activity(&*fixture.store).await.unwrap();
    fixture.create(2, with_priority(0)).await;
    fixture.ok(delete_queue("q", true)).await;
    let not_found = StoreError::from(Refusal::QueueNotFound { queue: queue("q") });
    assert_eq!(fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap_err(), not_found);
    let selection = SeriesSelection { unit: Unit::Hour, from: None, to: None };
    assert_eq!(fixture.store.activity_series(&queue("q"), selection).await.unwrap_err(), not_found);
    save_activity(&*fixture.store).await.unwrap();
    fixture.ok(create_queue("q")).await;
    assert_eq!(numbers(&stats(&fixture).await.last_hour), [0; 7]);
    assert_eq!(series(&fixture, Unit::Hour).await, []);
}

/// What is known of the oldest pending task of each route, in seconds after the beginning of the test.
async fn oldest(fixture: &Fixture) -> Vec<(String, i64)> {
    let figures = stats(fixture).await.figures;
    let seconds = |since: Timestamp| (since.as_micros() - START.as_micros()) / 1_000_000;
    let known = |(route, of_route): (&str, &RouteFigures)| {
        of_route.oldest_pending.map(|since| (route.to_owned(), seconds(since)))
    };
    figures.routes().filter_map(known).collect()
}

pub async fn the_oldest_pending_task_is_another_one_after_any_change(fixture: Fixture) {
    let known =
        |routes: &[(&str, i64)]| routes.iter().map(|(name, since)| ((*name).to_owned(), *since)).collect::<Vec<_>>();
    for (seconds, task, names) in [(0, 1, &["x"][..]), (10, 2, &["x"]), (20, 3, &["x", "y"])] {
        fixture.clock.advance_seconds(seconds - (fixture.now().as_micros() - START.as_micros()) / 1_000_000);
        fixture.create(task, with_routes(names)).await;
    }
    assert_eq!(oldest(&fixture).await, known(&[("x", 0), ("y", 20)]));
    fixture.ok(update("q", 1, to_routes(&["y"]))).await;
    assert_eq!(oldest(&fixture).await, known(&[("x", 10), ("y", 0)]));
    fixture.ok(update("q", 3, to_priority(9))).await;
    assert_eq!(oldest(&fixture).await, known(&[("x", 10), ("y", 0)]), "whatever comes first");
    fixture.ok(act_on_all("q", BulkAction::Delete, &format!("id == '{}'", task_id(1)))).await;
    assert_eq!(oldest(&fixture).await, known(&[("x", 10), ("y", 20)]));
    fixture.ok(cancel("q", 2)).await;
    fixture.clock.advance_seconds(10);
    fixture.ok(requeue("q", 2)).await;
    assert_eq!(oldest(&fixture).await, known(&[("x", 20), ("y", 20)]), "it goes to the back");
    fixture.claimed(claim("q", "y", 1)).await.unwrap();
    assert_eq!(oldest(&fixture).await, known(&[("x", 10)]), "it has never been run");
    fixture.clock.advance_seconds(10);
    fixture.ok(unclaim("q", 3, 1)).await;
    fixture.ok(cancel("q", 2)).await;
    assert_eq!(oldest(&fixture).await, known(&[("x", 40), ("y", 40)]), "since it came back");
    fixture.clock.advance_seconds(10);
    fixture.ok(update("q", 3, to_budget(7))).await;
    assert_eq!(oldest(&fixture).await, known(&[("x", 50), ("y", 50)]), "since its last change");
    fixture.ok(delete("q", 3)).await;
    assert_eq!(oldest(&fixture).await, []);
}

fn paused(paused: bool) -> SettingsPatch {
    SettingsPatch { paused: Some(paused), ..SettingsPatch::default() }
}

/// How many pending tasks are claimable, delayed, blocked and paused.
async fn by_state(fixture: &Fixture) -> [u64; 4] {
    let keys = fixture.store.list_queue_keys().await.unwrap();
    let asked = fixture.store.figures(&[keys[0].0], &ALL_ROUTES, PendingDetail::ByState).await.unwrap();
    asked.queues[0].1.pending_by_state().unwrap()
}

pub async fn pending_tasks_are_counted_by_what_they_wait_for(fixture: Fixture) {
    assert_eq!(by_state(&fixture).await, [0; 4]);
    let later = START.plus_seconds(60);
    fixture.create(1, with_routes(&["a", "b"])).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.create(3, waits_for(&[1, 9])).await;
    fixture.ok(create_later(4, with_routes(&["a"]), later)).await;
    fixture.ok(create_later(5, waits_for(&[1]), later)).await;
    assert_eq!(by_state(&fixture).await, [1, 1, 3, 0], "what waits for a task and a time waits for the task first");
    fixture.claimed(claim("q", "a", 1)).await.unwrap();
    assert_eq!(by_state(&fixture).await, [0, 1, 3, 0], "a running task is not pending");
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(by_state(&fixture).await, [1, 2, 1, 0]);
    fixture.ok(change_settings("q", paused(true))).await;
    assert_eq!(by_state(&fixture).await, [0, 2, 1, 1], "nothing but the pause keeps it from being claimed");
    fixture.ok(change_settings("q", paused(false))).await;
    fixture.clock.advance_seconds(60);
    assert_eq!(by_state(&fixture).await, [3, 0, 1, 0], "a claim would find them now");
    fixture.upkeep().await;
    assert_eq!(by_state(&fixture).await, [3, 0, 1, 0], "and it does after the upkeep");
    fixture.ok(cancel("q", 3)).await;
    assert_eq!(by_state(&fixture).await, [3, 0, 0, 0]);
    fixture.ok(requeue("q", 3)).await;
    assert_eq!(by_state(&fixture).await, [3, 0, 1, 0]);
    assert_eq!(stats(&fixture).await.figures.pending_by_state(), None, "nobody asked");
}

pub async fn figures_have_the_settings_of_their_queue(fixture: Fixture) {
    fixture.create(1, with_routes(&["a"])).await;
    let limits = RouteLimitsPatch::Merge([(route("a"), Some(2))].into());
    let patch = SettingsPatch { max_running: Some(Some(7)), route_limits: limits, ..paused(true) };
    for patch in [SettingsPatch::default(), patch, paused(false)] {
        fixture.ok(change_settings("q", patch)).await;
        let settings = fixture.store.queue_settings(&queue("q")).await.unwrap();
        let QueueStats { figures, .. } = stats(&fixture).await;
        assert_eq!(figures.settings, settings);
        let claimable = if settings.paused { None } else { Some(START) };
        assert_eq!((figures.oldest_pending(), figures.oldest_claimable("a")), (Some(START), claimable));
        let keys = fixture.store.list_queue_keys().await.unwrap();
        let asked = fixture.store.figures(&[keys[0].0], &ALL_ROUTES, PendingDetail::Number).await.unwrap();
        assert_eq!(asked.queues, [(keys[0].0, figures)]);
    }
}

pub async fn an_observation_that_has_expired_is_no_worker(fixture: Fixture) {
    fixture.ok(observe("q", 1, "a", WorkerStatus::Idle)).await;
    fixture.clock.advance_seconds(OBSERVATION_SECONDS - 1);
    fixture.ok(observe("q", 2, "a", WorkerStatus::Busy)).await;
    let workers = |stats: QueueStats| {
        stats.figures.routes().map(|(_, route)| (route.workers_idle, route.workers_busy)).collect::<Vec<_>>()
    };
    assert_eq!(workers(stats(&fixture).await), [(1, 1)]);
    fixture.clock.advance_seconds(1);
    assert_eq!(workers(stats(&fixture).await), [(0, 1)]);
    fixture.ok(withdraw("q", 2)).await;
    assert_eq!(workers(stats(&fixture).await), []);
}
