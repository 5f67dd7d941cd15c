//! The upkeep that a server does beside its requests: tasks whose time has come are found by waiting claims, parts follow each other
//! while there is more, never two at a time, and all of it ends with the server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_core::definition::Definition;
use taskqueue_server::Config;
use taskqueue_store::clock::Clock;
use taskqueue_store::command::{CreateTask, NewTask, UpkeepReport};
use taskqueue_store::conformance::model::ModelStore;
use taskqueue_store::conformance::model::variant::ModelVariant;
use taskqueue_store::submission::Reply;
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::{Instant, sleep_until};

use crate::support::model;
use crate::support::served::*;

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_is_answered_within_a_second_after_the_time_of_a_task_has_come() {
    let served = serve(10).await;
    let mut stream = served.send(&claim(1, WAIT)).await;
    served.await_waiting(1).await;
    let not_before = Some(served.clock.now().plus_seconds(5));
    let new = Box::new(NewTask::new(Definition::default(), not_before));
    served.store.write(CreateTask { queue: queue(), id: task_id(1), new }).await.unwrap();
    tokio::time::advance(Duration::from_secs(5)).await;
    served.await_waiting(1).await;
    served.clock.advance_seconds(5);
    let due = Instant::now();
    let (head, body) = read(&mut stream).await;
    assert_eq!(status_and_wait(&head), ("200", Some("wait=50")));
    assert!(body.contains(task_id(1).as_str()), "{body}");
    assert!(due.elapsed() <= Duration::from_secs(1), "{:?}", due.elapsed());
}

/// A store over the model whose upkeep takes 5 ms and says a few times that there is more.
struct Slow {
    model: ModelStore,
    /// When each part was begun.
    begun: Mutex<Vec<Instant>>,
    more: AtomicUsize,
    under_way: AtomicBool,
    overlapped: AtomicBool,
}

const TOOK: Duration = Duration::from_millis(5);

#[derive(Clone)]
struct SlowStore(Arc<Slow>);

impl SlowStore {
    fn new(more: usize) -> Self {
        let (under_way, overlapped) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Slow { model: model(), begun: Mutex::default(), more: more.into(), under_way, overlapped }))
    }

    fn begun(&self) -> Vec<Instant> {
        self.0.begun.lock().unwrap().clone()
    }
}

#[async_trait]
impl ModelVariant for SlowStore {
    fn model(&self) -> &ModelStore {
        &self.0.model
    }

    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        let WriteRequest::Upkeep(mut upkeep) = request else { return self.0.model.submit(request) };
        let slow = Arc::clone(&self.0);
        slow.begun.lock().unwrap().push(Instant::now());
        slow.overlapped.fetch_or(slow.under_way.swap(true, Ordering::SeqCst), Ordering::SeqCst);
        tokio::spawn(async move {
            sleep_until(Instant::now() + TOOK).await;
            slow.under_way.store(false, Ordering::SeqCst);
            let left = slow.more.load(Ordering::SeqCst);
            slow.more.store(left.saturating_sub(1), Ordering::SeqCst);
            upkeep.execute(|_| Ok(UpkeepReport { more: left > 0, ..UpkeepReport::default() })).unwrap();
            upkeep.release();
        });
        Ok(())
    }
}

/// The pauses between the beginnings of the parts of a server that runs for so long.
async fn pauses(store: &SlowStore, time: Duration) -> Vec<Duration> {
    let server = run_over(Arc::new(store.clone()), "127.0.0.1:0", Config::new(None)).await;
    sleep_until(Instant::now() + time).await;
    server.end().await;
    store.begun().windows(2).map(|two| two[1] - two[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn the_upkeep_is_done_every_quarter_of_a_second_and_ends_with_the_server() {
    let store = SlowStore::new(0);
    let pauses = pauses(&store, Duration::from_millis(2_100)).await;
    assert_eq!(pauses, [Duration::from_millis(250); 7]);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(store.begun().len(), 8, "none after the end");
}

#[tokio::test(start_paused = true)]
async fn while_there_is_more_parts_follow_each_other_and_leave_most_of_the_time_to_others() {
    let store = SlowStore::new(5);
    let pauses = pauses(&store, Duration::from_millis(1_600)).await;
    assert_eq!(pauses[..5], [TOOK * 30; 5], "a part, and a pause of 29 times its time");
    assert!(!store.0.overlapped.load(Ordering::SeqCst));
}
