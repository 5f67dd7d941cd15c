//! Commands of several items that weigh more than one transaction takes: the answers are those of one command, and a failure in the
//! middle says that a part may be done.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use taskqueue_store::conformance::model::variant::ModelVariant;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::portions::write_items;
use taskqueue_store::write_request::WriteRequest;

/// A model that counts the commands that it is given. They fail as it is said, one after the other; the rest is done.
struct Counted {
    model: Arc<ModelStore>,
    commands: Mutex<Vec<usize>>,
    failures: Mutex<VecDeque<Option<StoreError>>>,
}

impl Counted {
    async fn new(failures: impl IntoIterator<Item = Option<StoreError>>) -> Self {
        let clock = ManualClock::new(START);
        let model = Arc::new(ModelStore::new(Arc::new(clock)));
        model.write(create_queue("q")).await.unwrap();
        Self { model, commands: Mutex::default(), failures: Mutex::new(failures.into_iter().collect()) }
    }

    /// The items of each command since the last call.
    fn commands(&self) -> Vec<usize> {
        std::mem::take(&mut self.commands.lock().unwrap())
    }
}

#[async_trait]
impl ModelVariant for Counted {
    fn model(&self) -> &ModelStore {
        &self.model
    }

    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        self.commands.lock().unwrap().push(request.items());
        match self.failures.lock().unwrap().pop_front().flatten() {
            Some(error) => Err(error),
            None => self.model.submit(request),
        }
    }
}

/// So many tasks of which a transaction takes four.
fn heavy_tasks(count: usize) -> CreateTasks {
    let large = Definition { args: object_of_bytes(1_000_000), ..Definition::default() };
    let tasks = (0..count).map(|id| (task_id(id), Box::new(large.clone().into()))).collect();
    CreateTasks { queue: queue("q"), tasks }
}

#[tokio::test]
async fn a_batch_that_fits_into_one_transaction_is_one_command() {
    let store = Counted::new([]).await;
    assert_eq!(write_items(&store, create_all(0..1_000), None).await, Ok(vec![Ok(true); 1_000]));
    assert_eq!(write_items(&store, create_all(0..0), None).await, Ok(vec![]));
    assert_eq!(store.commands(), [1_000, 0]);
}

#[tokio::test]
async fn a_heavy_batch_is_written_in_portions_that_each_fit_into_a_transaction() {
    let store = Counted::new([]).await;
    assert_eq!(write_items(&store, heavy_tasks(9), None).await, Ok(vec![Ok(true); 9]));
    assert_eq!(store.commands(), [4 * 245, 4 * 245, 245]);
    assert_eq!(write_items(&store, heavy_tasks(9), None).await, Ok(vec![Ok(false); 9]), "repeated");
}

#[tokio::test(start_paused = true)]
async fn one_batch_at_a_time_is_written_in_many_portions_and_others_do_not_wait_for_it() {
    let store = Counted::new([]).await;
    let turn = store.parts().portions.try_acquire().unwrap();
    assert_eq!(write_items(&store, heavy_tasks(33), None).await, Err(StoreError::Busy));
    assert_eq!(store.commands(), [], "nothing of it was begun");
    assert_eq!(write_items(&store, heavy_tasks(32), None).await, Ok(vec![Ok(true); 32]));
    let (written, ()) = tokio::join!(write_items(&store, heavy_tasks(33), None), async { drop(turn) });
    assert_eq!(written.unwrap().len(), 33);
}

#[tokio::test]
async fn a_failure_of_the_first_portion_is_told_as_it_is_and_nothing_is_done() {
    for error in [StoreError::Busy, StoreError::Unavailable, StoreError::OutcomeUnknown] {
        let store = Counted::new([Some(error.clone())]).await;
        assert_eq!(write_items(&store, heavy_tasks(9), None).await, Err(error));
        assert_eq!(store.count_tasks(&queue("q"), of_status(Status::Pending)).await, Ok(0));
    }
}

#[tokio::test]
async fn a_failure_of_a_later_portion_says_that_a_part_may_be_done_and_repeating_does_the_rest() {
    for error in [StoreError::Unavailable, StoreError::OutcomeUnknown] {
        let store = Counted::new([None, Some(error)]).await;
        assert_eq!(write_items(&store, heavy_tasks(9), None).await, Err(StoreError::PartlyDone));
        let again = [vec![Ok(false); 4], vec![Ok(true); 5]].concat();
        assert_eq!(write_items(&store, heavy_tasks(9), None).await, Ok(again));
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_portion_that_finds_the_storage_busy_is_tried_again_until_the_time_is_over() {
    let store = Counted::new([None, Some(StoreError::Busy), Some(StoreError::Busy)]).await;
    assert_eq!(write_items(&store, heavy_tasks(9), None).await, Ok(vec![Ok(true); 9]));
    let always = std::iter::once(None).chain(std::iter::repeat_n(Some(StoreError::Busy), 10_000));
    let store = Counted::new(always).await;
    assert_eq!(write_items(&store, heavy_tasks(9), None).await, Err(StoreError::PartlyDone));
}

#[tokio::test]
async fn a_queue_that_is_deleted_between_two_portions_is_missing_for_all() {
    let gone = Refusal::QueueNotFound { queue: queue("q") };
    let store = Counted::new([None, Some(StoreError::Refused(gone.clone()))]).await;
    assert_eq!(write_items(&store, heavy_tasks(9), None).await, Err(StoreError::Refused(gone)));
}

#[tokio::test]
async fn reports_of_tasks_that_wait_for_many_are_done_as_far_as_a_transaction_has_room() {
    let store = Counted::new([]).await;
    let (waited_for, waiting): (Vec<usize>, Vec<usize>) = ((0..1_000).collect(), (1_000..1_006).collect());
    store.write(create_all(&waited_for)).await.unwrap();
    store.write(claim_all(&waited_for)).await.unwrap();
    let done = waited_for.iter().map(|id| complete("q", id, id, object("{}")).into());
    store.write(report_all(done)).await.unwrap();
    for id in &waiting {
        store.write(create("q", id, cancelled_with(&waited_for))).await.unwrap();
    }
    store.write(claim_all(&waiting)).await.unwrap();
    store.write(delete("q", 1)).await.unwrap();
    store.commands();
    let failed = report_all(waiting.iter().map(|id| fail("q", id, id).into()));
    assert_eq!(write_items(&store, failed, None).await, Ok(vec![Ok(None); 6]));
    assert_eq!(store.commands(), [6, 1], "five were done, then there was no more room");
    let cancelled = store.count_tasks(&queue("q"), of_status(Status::Cancelled)).await;
    assert_eq!(cancelled, Ok(6), "what they waited for was deleted while they ran");
}
