//! Where a page of observations ends: a next page is promised exactly when there is something for it.

use taskqueue_core::ids::WorkerId;
use taskqueue_core::observation::Telemetry;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::reading::WorkerRead;

fn observation(n: usize) -> Observation {
    let route = Route::parse("default").unwrap();
    let at = Timestamp::from_micros(0);
    Observation {
        id: WorkerId::parse(&format!("w_{n:012}")).unwrap(),
        queue: QueueName::parse("q").unwrap(),
        report: Report { route, status: WorkerStatus::Idle, task_id: None, metadata: JsonObject::empty() },
        telemetry: None,
        last_seen_at: at,
        expires_at: at,
    }
}

fn page_of_observations(
    mut observations: impl Iterator<Item = Observation>,
    limit: u16,
    queue: QueueKey,
) -> Page<Observation> {
    let (read, page) = WorkerRead::page(ObservationQuery { filter: None, limit, after: None });
    let mut visit = read.begin(queue).unwrap();
    let more = observations.any(|observation| !visit.visit(observation));
    visit.finish(more);
    page.take().unwrap()
}

#[test]
fn a_page_ends_early_when_its_metadata_and_telemetry_are_large() {
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(PAGE_BYTES / 5));
    let telemetry = Some(Telemetry { value: JsonObject::from_canonical(&text), updated_at: Timestamp::from_micros(0) });
    let large = |n: usize| Observation { telemetry: telemetry.clone(), ..observation(n) };
    let page = page_of_observations((0..9).map(large), 100, QueueKey(7));
    assert_eq!((page.items.len(), page.next.is_some()), (4, true));
    let page = page_of_observations((0..4).map(large), 100, QueueKey(7));
    assert_eq!((page.items.len(), page.next), (4, None));
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(PAGE_BYTES));
    let mut larger_than_a_page = observation(0);
    larger_than_a_page.report.metadata = JsonObject::from_canonical(&text);
    let page = page_of_observations([larger_than_a_page, observation(1)].into_iter(), 100, QueueKey(7));
    assert_eq!((page.items.len(), page.next.is_some()), (1, true), "a page is never empty while there is something");
}

#[test]
fn a_page_that_is_exactly_full_is_the_last_one() {
    let queue = QueueKey(7);
    for (there, shown, next) in [(0, 0, None), (2, 2, None), (3, 3, None), (4, 3, Some(2)), (9, 3, Some(2))] {
        let page = page_of_observations((0..there).map(observation), 3, queue);
        assert_eq!(page.items.len(), shown, "{there}");
        let (next_page, _) = WorkerRead::page(ObservationQuery { filter: None, limit: 3, after: page.next });
        assert_eq!(next_page.begin(queue).unwrap().after, next.map(|n| observation(n).id), "{there}");
    }
}
