//! Bulk actions whose tasks are found slowly: they get on, or say that nothing was done. Time is paused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{ObservationQuery, Page, TaskQuery, TaskSelection};
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;
use taskqueue_store::bulk::Gate;
use taskqueue_store::bulk_action::{BulkActions, FOUND_MAX, FindTasks, FoundTasks, KeyRange};
use taskqueue_store::clock::ManualClock;
use taskqueue_store::command::{ActOnTasks, Acted, BulkUpdate, Output, Updated};
use taskqueue_store::conformance::commands::*;
use taskqueue_store::model::ModelStore;
use taskqueue_store::page::{WriteTask, WrittenTasks};
use taskqueue_store::waiting::Waiters;
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::{Instant, timeout};

const TASKS: u64 = 1_000;

/// A model that finds tasks slowly, and whose writer may be busy.
struct Slow {
    model: ModelStore,
    search: Duration,
    is_busy: bool,
}

impl Slow {
    async fn new(search: Duration, is_busy: bool) -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
        let model = ModelStore::new(Arc::new(clock));
        model.write(create_queue("q")).await.unwrap();
        model.write(create_all(0..TASKS)).await.unwrap();
        Self { model, search, is_busy }
    }

    async fn cancel_all(&self, actions: &BulkActions) -> Result<Acted, StoreError> {
        actions.run(self, Arc::new(act_on_all("q", BulkAction::Cancel, "exists(id)"))).await
    }

    async fn cancelled(&self) -> u64 {
        self.model.count_tasks(&queue("q"), of_status(Status::Cancelled)).await.unwrap()
    }
}

#[async_trait]
impl FindTasks for Slow {
    async fn find_tasks(
        &self,
        act: &Arc<ActOnTasks>,
        range: Option<KeyRange>,
        most: usize,
    ) -> Result<FoundTasks, StoreError> {
        // The time is paused: it passes when there is nothing else to do.
        let _ = timeout(self.search, std::future::pending::<()>()).await;
        self.model.find_tasks(act, range, most).await
    }
}

/// A bulk action needs nothing but `submit`.
#[async_trait]
impl Store for Slow {
    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        if self.is_busy { Err(StoreError::Busy) } else { self.model.submit(request) }
    }
    async fn count_tasks(&self, _: &QueueName, _: TaskSelection) -> Result<u64, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn update_tasks(&self, _: Arc<BulkUpdate>) -> Result<Updated, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn act_on_tasks(&self, _: Arc<ActOnTasks>) -> Result<Acted, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn list_queues(&self) -> Result<Vec<QueueName>, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn get_task(&self, _: &QueueName, _: TaskId) -> Result<Task, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn read_output(&self, _: &QueueName, _: TaskId, _: u64, _: usize) -> Result<Output, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn list_tasks(&self, _: &QueueName, _: TaskQuery, _: WriteTask) -> Result<WrittenTasks, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn group_tasks(&self, _: &QueueName, _: TaskGroupQuery) -> Result<GroupPage, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn list_workers(&self, _: &QueueName, _: ObservationQuery) -> Result<Page<Observation>, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn count_workers(&self, _: &QueueName, _: Option<ObservationFilter>) -> Result<u64, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn group_workers(&self, _: &QueueName, _: ObservationGroupQuery) -> Result<GroupPage, StoreError> {
        Err(StoreError::Unavailable)
    }
    fn waiters(&self) -> &Arc<Waiters> {
        self.model.waiters()
    }
    async fn check(&self) -> Result<Vec<String>, StoreError> {
        Err(StoreError::Unavailable)
    }
    async fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_search_takes_too_long_is_busy_and_does_nothing() {
    for seconds in [21, 24, 26] {
        let store = Slow::new(Duration::from_secs(seconds), false).await;
        let begun = Instant::now();
        assert_eq!(
            store.cancel_all(&BulkActions::new(Gate::default(), FOUND_MAX)).await,
            Err(StoreError::Busy),
            "{seconds}"
        );
        assert_eq!((begun.elapsed().as_secs(), store.cancelled().await), (20, 0), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_search_is_slow_still_changes_tasks() {
    let store = Slow::new(Duration::from_secs(19), false).await;
    let answer = store.cancel_all(&BulkActions::new(Gate::default(), FOUND_MAX)).await;
    assert_eq!((answer, store.cancelled().await), (Ok(Acted { matched: TASKS, changed: TASKS }), TASKS));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_turn_counts_as_search() {
    let (store, first) =
        (Slow::new(Duration::from_secs(17), false).await, Slow::new(Duration::from_secs(4), false).await);
    let (actions, begun) = (BulkActions::new(Gate::default(), FOUND_MAX), Instant::now());
    let (_, _, answer) =
        tokio::join!(first.cancel_all(&actions), first.cancel_all(&actions), store.cancel_all(&actions));
    assert_eq!((answer, begun.elapsed().as_secs(), store.cancelled().await), (Err(StoreError::Busy), 20, 0));
}

#[tokio::test(start_paused = true)]
async fn an_action_that_was_busy_until_its_time_was_over_is_not_answered_as_done() {
    let store = Slow::new(Duration::from_millis(19_999), true).await;
    let begun = Instant::now();
    assert_eq!(store.cancel_all(&BulkActions::new(Gate::default(), FOUND_MAX)).await, Err(StoreError::Busy));
    assert!(begun.elapsed() < Duration::from_millis(25_100), "{:?}", begun.elapsed());
}
