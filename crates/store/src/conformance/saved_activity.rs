//! Activity outlives a store, but not a move to another storage (docs/decisions/0059): apart from `durability.rs`, which moves pass,
//! too.

use super::prelude::*;

pub async fn activity_survives_and_is_added_to(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create(1, with_priority(0)).await;
    save_activity(&*fixture.store).await.unwrap();
    let since = fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap().since;
    fixture.clock.advance_seconds(1);
    let fixture = fixture.reopen(storage).await;
    fixture.create(2, with_priority(0)).await;
    save_activity(&*fixture.store).await.unwrap();
    save_activity(&*fixture.store).await.unwrap();
    fixture.create(3, with_priority(0)).await;
    let stats = fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap();
    assert_eq!(stats.last_minute.of(Event::Created), 3, "saved by both and not saved");
    assert_eq!(stats.since, since);
}
