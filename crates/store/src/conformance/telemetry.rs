//! What workers measure: part of an observation, which it neither begins nor prolongs.

use taskqueue_core::observation::Telemetry;

use super::prelude::*;

/// The observation of worker 1.
async fn observed(fixture: &Fixture) -> Option<Observation> {
    let query = ObservationQuery { filter: None, limit: 10, after: None };
    let page = fixture.store.list_workers(&queue("q"), query).await.unwrap();
    page.items.into_iter().find(|observation| observation.id == worker_id(1))
}

pub async fn telemetry_of_a_worker_that_is_not_observed_is_refused(fixture: Fixture) {
    let not_found = Refusal::WorkerNotFound { queue: queue("q"), worker_id: worker_id(1) };
    assert_eq!(fixture.refused(measure(1, "{}")).await, not_found);
    fixture.ok(create_queue("other")).await;
    fixture.ok(observe("other", 1, "a", WorkerStatus::Idle)).await;
    assert_eq!(fixture.refused(measure(1, "{}")).await, not_found, "in another queue");
    fixture.ok(observe("q", 1, "a", WorkerStatus::Idle)).await;
    fixture.ok(withdraw("q", 1)).await;
    assert_eq!(fixture.refused(measure(1, "{}")).await, not_found, "not any more");
    assert_eq!(observed(&fixture).await, None);
}

pub async fn telemetry_is_shown_and_prolongs_nothing(fixture: Fixture) {
    fixture.ok(observe("q", 1, "a", WorkerStatus::Busy)).await;
    let before = observed(&fixture).await.unwrap();
    for value in [r#"{"cpu":1.5}"#, r#"{"gpus":[{"memory":1}],"nul":"\u0000"}"#, "{}"] {
        fixture.clock.advance_seconds(99);
        fixture.ok(measure(1, value)).await;
        let telemetry = Telemetry { value: object(value), updated_at: fixture.now() };
        assert_eq!(observed(&fixture).await, Some(Observation { telemetry: Some(telemetry), ..before.clone() }));
    }
    fixture.clock.advance_seconds(3);
    assert_eq!(observed(&fixture).await, None);
    let not_found = Refusal::WorkerNotFound { queue: queue("q"), worker_id: worker_id(1) };
    assert_eq!(fixture.refused(measure(1, "{}")).await, not_found, "before a scan has removed it");
    fixture.scan().await;
    assert_eq!(fixture.refused(measure(1, "{}")).await, not_found);
}

pub async fn a_report_keeps_telemetry_and_an_expired_observation_has_none_left(fixture: Fixture) {
    fixture.ok(observe("q", 1, "a", WorkerStatus::Idle)).await;
    fixture.ok(measure(1, r#"{"cpu":1}"#)).await;
    let telemetry = observed(&fixture).await.unwrap().telemetry;
    fixture.clock.advance_seconds(299);
    fixture.ok(observe("q", 1, "a", WorkerStatus::Busy)).await;
    let after = observed(&fixture).await.unwrap();
    assert_eq!((after.telemetry, after.last_seen_at), (telemetry, fixture.now()));
    fixture.clock.advance_seconds(300);
    fixture.ok(observe("q", 1, "a", WorkerStatus::Busy)).await;
    assert_eq!(observed(&fixture).await.unwrap().telemetry, None, "it is seen anew");
    fixture.ok(measure(1, r#"{"cpu":2}"#)).await;
    fixture.ok(withdraw("q", 1)).await;
    fixture.ok(observe("q", 1, "a", WorkerStatus::Busy)).await;
    assert_eq!(observed(&fixture).await.unwrap().telemetry, None, "after it went away");
}
