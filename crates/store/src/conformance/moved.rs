//! What runs said and printed, before and after a move to another database; and what is not moved: what was counted, and the secret
//! of the installation.

use super::prelude::*;
use crate::transfer::{CHUNK_BYTES, Source};

/// The bytes that are kept of a task here.
const KEPT: usize = 200_000;
/// Texts of a full output.
const TEXTS: u64 = 5;

fn large() -> String {
    "0123456789abcdef".repeat(4_096)
}

/// Three running tasks: with a full output, with gaps and progress, with empty progress; and a worker with telemetry.
pub async fn say_and_print(fixture: &Fixture) {
    for id in 1..=3 {
        fixture.create_running(id, Definition::default()).await;
    }
    let large = large();
    for n in 0..TEXTS {
        let printed = print(1, 1, n * large.len() as u64, &large);
        fixture.ok(AddOutput { most_bytes: KEPT, ..printed }).await;
    }
    fixture.ok(print(2, 2, 3, "é behind a gap\0")).await;
    fixture.ok(print(2, 2, 100, "behind another one")).await;
    fixture.ok(progress(2, 2, r#"{"step":2}"#)).await;
    fixture.ok(progress(3, 3, "{}")).await;
    fixture.ok(observe("q", 1, "default", WorkerStatus::Busy)).await;
    fixture.ok(measure(1, r#"{"cpu":1.5}"#)).await;
    save_activity(&*fixture.store).await.unwrap();
}

/// Everything is there but the activity and the secret, and the next output follows and pushes out what is too much.
pub async fn assert_moved(from: &impl Store, to: &impl Store) {
    let (before, after) = (
        from.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap(),
        to.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap(),
    );
    assert_eq!(after.figures, before.figures);
    assert_eq!((before.last_hour.of(Event::Created), after.last_hour), (3, Counts::default()));
    assert_ne!(to.parts().secret, from.parts().secret);
    let (q, query) = (queue("q"), ObservationQuery { filter: None, limit: 9, after: None });
    assert_eq!(to.list_workers(&q, query.clone()).await, from.list_workers(&q, query).await);
    for id in (1..=3).map(task_id) {
        assert_eq!(to.get_task(&q, id).await, from.get_task(&q, id).await);
        for offset in [0, 4, 50, 130_000, 200_000] {
            let moved = to.read_output(&q, id, offset, KEPT).await;
            assert_eq!(moved, from.read_output(&q, id, offset, KEPT).await, "{id} {offset}");
            assert_eq!(moved.is_ok(), id != task_id(3));
        }
    }
    let end = TEXTS * large().len() as u64;
    to.write(AddOutput { most_bytes: KEPT, ..print(1, 1, end, "the end") }).await.unwrap();
    let read = to.read_output(&q, task_id(1), 0, KEPT).await.unwrap();
    assert_eq!((read.start, read.end()), (end + 7 - KEPT as u64, end + 7));
    assert!(read.text.ends_with("cdefthe end"));
}

/// Three tasks, of which two fill a chunk with their output.
pub async fn print_much(fixture: &Fixture) {
    let large = large();
    for id in 1..=3 {
        fixture.create_running(id, Definition::default()).await;
        for n in 0..(CHUNK_BYTES / large.len() / 2) as u64 {
            let printed = print(id, id, n * large.len() as u64, &large);
            fixture.ok(AddOutput { most_bytes: CHUNK_BYTES, ..printed }).await;
        }
    }
}

pub async fn assert_small_chunks(source: &mut impl Source) {
    let first = source.tasks(None).await.unwrap();
    assert_eq!(first.tasks.len(), 2);
    let second = source.tasks(first.last_key).await.unwrap();
    assert_eq!(second.tasks.len(), 1);
    assert_eq!(second.tasks[0].output.as_ref().unwrap().byte_count(), CHUNK_BYTES / 2);
}
