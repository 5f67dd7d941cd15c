//! Worker observations: seen until they expire, bound to a route, apart from all tasks (I33).

use super::concurrency::together;
use super::page_reader;
use super::prelude::*;

async fn workers(fixture: &Fixture, in_queue: &str, filter: Option<&str>) -> Vec<Observation> {
    let query = ObservationQuery { filter: filter.map(observation_filter), limit: 1000, after: None };
    let page = fixture.store.list_workers(&queue(in_queue), query).await.unwrap();
    let count = fixture.store.count_workers(&queue(in_queue), filter.map(observation_filter)).await.unwrap();
    assert_eq!((page.items.len() as u64, page.next), (count, None));
    page.items
}

pub async fn a_report_is_seen_until_it_expires(fixture: Fixture) {
    let metadata = object(r#"{"gpu":1}"#);
    let report = Report { task_id: Some(task_id(7)), metadata, ..worker_report("a", WorkerStatus::Idle) };
    let command = ReportWorker { queue: queue("q"), id: worker_id(1), report: report.clone() };
    fixture.ok(command).await;
    let (last_seen_at, expires_at) = (fixture.now(), fixture.now().plus_seconds(300));
    let expected =
        Observation { id: worker_id(1), queue: queue("q"), report, telemetry: None, last_seen_at, expires_at };
    assert_eq!(workers(&fixture, "q", None).await, [expected]);
    fixture.clock.advance_micros(299_999_999);
    assert_eq!(workers(&fixture, "q", None).await.len(), 1);
    fixture.clock.advance_micros(1);
    assert_eq!(workers(&fixture, "q", None).await, [], "also before a scan removes it");
    fixture.ok(observe("q", 1, "b", WorkerStatus::Busy)).await;
    assert_eq!(workers(&fixture, "q", None).await[0].last_seen_at, fixture.now());
}

pub async fn the_route_of_a_current_observation_cannot_change(fixture: Fixture) {
    fixture.ok(observe("q", 1, "a", WorkerStatus::Idle)).await;
    let before = workers(&fixture, "q", None).await;
    let conflict = Refusal::WorkerRouteConflict { worker_id: worker_id(1) };
    fixture.clock.advance_micros(299_999_999);
    assert_eq!(fixture.refused(observe("q", 1, "A", WorkerStatus::Idle)).await, conflict);
    assert_eq!(workers(&fixture, "q", None).await, before);
    fixture.clock.advance_micros(1);
    fixture.ok(observe("q", 1, "b", WorkerStatus::Idle)).await;
    assert_eq!(fixture.refused(observe("q", 1, "a", WorkerStatus::Idle)).await, conflict);
    fixture.ok(withdraw("q", 1)).await;
    fixture.ok(observe("q", 1, "a", WorkerStatus::Busy)).await;
    assert_eq!(workers(&fixture, "q", None).await[0].report.status, WorkerStatus::Busy);
}

pub async fn observations_are_per_queue_and_withdrawn_by_id(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.ok(observe("q", 1, "a", WorkerStatus::Idle)).await;
    fixture.ok(observe("other", 1, "b", WorkerStatus::Idle)).await;
    fixture.ok(withdraw("q", 1)).await;
    // Withdrawing a worker that is not there is done already.
    fixture.ok(withdraw("q", 1)).await;
    assert_eq!(workers(&fixture, "q", None).await, []);
    assert_eq!(workers(&fixture, "other", None).await.len(), 1);
}

async fn populate(fixture: &Fixture) {
    for id in [5, 1, 9, 3, 7, 2, 8, 4, 6, 0] {
        let status = if id % 3 == 0 { WorkerStatus::Busy } else { WorkerStatus::Idle };
        let for_route = ["a", "b", "C"][id % 2 + id / 9];
        fixture.ok(observe("q", id, for_route, status)).await;
    }
}

pub async fn observations_are_listed_filtered_counted_and_grouped(fixture: Fixture) {
    populate(&fixture).await;
    let ids = |found: Vec<Observation>| found.into_iter().map(|one| one.id).collect::<Vec<_>>();
    let expected = |ids: &[u32]| ids.iter().map(worker_id).collect::<Vec<_>>();
    let cases: [(Option<&str>, &[u32]); 5] = [
        (None, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (Some("status == 'busy'"), &[0, 3, 6, 9]),
        (Some("route == 'C' or id < 'w_000000000002'"), &[0, 1, 9]),
        (Some("task_id == None and queue == 'q' and route != 'a'"), &[1, 3, 5, 7, 9]),
        (Some("missing(id)"), &[]),
    ];
    for (filter, found) in cases {
        assert_eq!(ids(workers(&fixture, "q", filter).await), expected(found), "{filter:?}");
    }
    let (by_route, by_status) = (WorkerDimension::Route, WorkerDimension::Status);
    let page = async |dimensions: Vec<WorkerDimension>, filter: Option<&str>, limit: u16| {
        let selection = filter.map(observation_filter);
        let query = ObservationGroupQuery { selection, dimensions, limit, after: None };
        fixture.store.group_workers(&queue("q"), query).await.unwrap()
    };
    for (limit, shown, ends) in [(1, 1, false), (2, 2, true)] {
        let page = page(vec![by_status], None, limit).await;
        let seen = (page.count, page.groups.len(), page.next.is_none());
        assert_eq!(seen, (10, shown, ends), "a full page may be the last");
    }
    let grouped = async |dimensions: Vec<WorkerDimension>, filter: Option<&str>| {
        let page = page(dimensions, filter, 100).await;
        (page.count, page.groups.into_iter().map(|group| (group.key.join(" "), group.count)).collect::<Vec<_>>())
    };
    let groups = |groups: &[(&str, u64)]| groups.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(grouped(vec![by_route], None).await, (10, groups(&[("C", 1), ("a", 5), ("b", 4)])));
    assert_eq!(grouped(vec![by_status], None).await, (10, groups(&[("busy", 4), ("idle", 6)])));
    let both = groups(&[("C busy", 1), ("a busy", 2), ("b busy", 1)]);
    assert_eq!(grouped(vec![by_route, by_status], Some("status == 'busy'")).await, (4, both));
    let both = groups(&[("busy C", 1), ("busy a", 2), ("busy b", 1)]);
    assert_eq!(grouped(vec![by_status, by_route], Some("status == 'busy'")).await, (4, both));
    fixture.clock.advance_seconds(300);
    assert_eq!(grouped(vec![by_route], None).await, (0, vec![]));
}

pub async fn pages_of_observations_join_without_gap(fixture: Fixture) {
    populate(&fixture).await;
    // Then more than a backend reads at a time.
    let many: Vec<_> = (10..300).map(|id| observe("q", id, "a", WorkerStatus::Idle)).collect();
    for (more, limits) in [(vec![], &[1, 3, 9, 10, 11][..]), (many, &[270, 1000])] {
        let added = together(&[Arc::clone(&fixture.store)], more).await;
        assert!(added.iter().all(Result::is_ok), "{added:?}");
        let (whole, in_queue) = (workers(&fixture, "q", None).await, queue("q"));
        assert_eq!(whole.len(), 10 + added.len());
        for limit in limits.iter().copied() {
            let query = |after| ObservationQuery { filter: None, limit, after };
            let pages = page_reader::join(async |after| fixture.store.list_workers(&in_queue, query(after)).await);
            let pages = pages.await.unwrap();
            assert!(pages.iter().all(|page| page.len() <= usize::from(limit)));
            assert_eq!(pages.concat(), whole);
        }
    }
}

pub async fn the_scan_drops_expired_observations(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.ok(observe("q", 1, "a", WorkerStatus::Idle)).await;
    fixture.ok(observe("other", 1, "a", WorkerStatus::Idle)).await;
    fixture.clock.advance_seconds(1);
    fixture.ok(observe("q", 2, "a", WorkerStatus::Idle)).await;
    fixture.clock.advance_seconds(299);
    assert_eq!(fixture.scan().await.expired_observations, 2);
    assert_eq!(fixture.scan().await.expired_observations, 0);
    assert_eq!(workers(&fixture, "q", None).await.len(), 1);
    fixture.clock.advance_seconds(1);
    assert_eq!(fixture.scan().await.expired_observations, 1);
}

pub async fn observations_never_touch_tasks(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    let before = fixture.get(1).await;
    let report = Report { task_id: Some(task_id(1)), ..worker_report("default", WorkerStatus::Busy) };
    fixture.ok(ReportWorker { queue: queue("q"), id: worker_id(1), report }).await;
    fixture.ok(withdraw("q", 1)).await;
    assert_eq!(fixture.get(1).await, before);
}
