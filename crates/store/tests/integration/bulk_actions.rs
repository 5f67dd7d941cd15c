//! Bulk actions on a storage that fails, is busy or is slow: what is answered, and what was done then. Time is paused.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use taskqueue_store::bulk_action::{ACTIONS, FindTasks, FoundTasks, KeyRange, act_on_tasks};
use taskqueue_store::conformance::model::variant::ModelVariant;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::write_request::WriteRequest;
use tokio::sync::Semaphore;
use tokio::time::{Instant, advance, timeout};

/// Several portions.
const TASKS: u64 = 1_000;
/// What the first one may do: a portion ends when its time is over, on a busy machine before all of its tasks are done.
const FIRST: std::ops::RangeInclusive<u64> = 1..=250;
/// Less than a portion may wait, and much more than it should take.
const SLOWNESS: Duration = Duration::from_secs(4);

/// What becomes of a portion.
#[derive(Clone, Debug)]
enum Fate {
    Done,
    DoneSlowly,
    Refused(StoreError),
    /// It is taken and never begun.
    Forgotten,
    /// It is begun, and its answer is lost.
    Lost,
}

use Fate::{Done, DoneSlowly, Forgotten, Lost, Refused};

/// A model with pending tasks, whose portions meet their fates one after the other; the last fate repeats. Finding tasks takes
/// `search`.
struct Troubled {
    model: Arc<ModelStore>,
    search: Duration,
    fates: Mutex<VecDeque<Fate>>,
    forgotten: Mutex<Vec<WriteRequest>>,
    /// How many tasks each portion was about.
    portions: Mutex<Vec<usize>>,
}

impl Troubled {
    async fn new(fates: impl IntoIterator<Item = Fate>) -> Self {
        let clock = ManualClock::new(START);
        let model = Arc::new(ModelStore::new(Arc::new(clock)));
        model.write(create_queue("q")).await.unwrap();
        model.write(create_all(0..TASKS)).await.unwrap();
        let (fates, forgotten) = (Mutex::new(fates.into_iter().collect()), Mutex::default());
        Self { model, search: Duration::ZERO, fates, forgotten, portions: Mutex::default() }
    }

    async fn slow(search: Duration, fate: Fate) -> Self {
        Self { search, ..Self::new([fate]).await }
    }

    /// Cancels everything; gives the answer, how long it took, and how many tasks are cancelled.
    async fn cancel_all(&self) -> (Result<Acted, StoreError>, Duration, u64) {
        self.cancel_all_by(&Arc::new(Semaphore::new(ACTIONS))).await
    }

    async fn cancel_all_by(&self, permits: &Arc<Semaphore>) -> (Result<Acted, StoreError>, Duration, u64) {
        let begun = Instant::now();
        let answer = act_on_tasks(self, permits, Arc::new(act_on_all("q", BulkAction::Cancel, "exists(id)"))).await;
        let took = begun.elapsed();
        (answer, took, self.model.count_tasks(&queue("q"), of_status(Status::Cancelled)).await.unwrap())
    }
}

#[async_trait]
impl FindTasks for Troubled {
    async fn find_tasks(
        &self,
        act: &Arc<ActOnTasks>,
        range: Option<KeyRange>,
        most: usize,
    ) -> Result<FoundTasks, StoreError> {
        // The time is paused: it passes when there is nothing else to do.
        if !self.search.is_zero() {
            let _ = timeout(self.search, std::future::pending::<()>()).await;
        }
        self.model.find_tasks(act, range, most).await
    }
}

#[async_trait]
impl ModelVariant for Troubled {
    fn model(&self) -> &ModelStore {
        &self.model
    }

    fn submit(&self, mut request: WriteRequest) -> Result<(), StoreError> {
        if let WriteRequest::ActOnFound(found) = &request {
            self.portions.lock().unwrap().push(found.command.tasks.len());
        }
        let mut fates = self.fates.lock().unwrap();
        let fate = if fates.len() > 1 { fates.pop_front() } else { fates.front().cloned() };
        match fate.unwrap() {
            Done => self.model.submit(request),
            DoneSlowly => {
                let model = Arc::clone(&self.model);
                tokio::spawn(async move {
                    advance(SLOWNESS).await;
                    model.submit(request)
                });
                Ok(())
            }
            Refused(error) => Err(error),
            Forgotten => {
                self.forgotten.lock().unwrap().push(request);
                Ok(())
            }
            Lost => {
                assert!(request.reply().begin());
                Ok(())
            }
        }
    }
}

fn acted(changed: u64) -> Result<Acted, StoreError> {
    Ok(Acted { matched: TASKS, changed })
}

#[tokio::test(start_paused = true)]
async fn a_failure_before_the_first_portion_is_told_as_it_is() {
    for error in [StoreError::Unavailable, StoreError::Broken("a bug")] {
        let store = Troubled::new([Refused(error.clone())]).await;
        assert_eq!(store.cancel_all().await, (Err(error), Duration::ZERO, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_between_two_portions_says_that_a_part_may_be_done_and_repeating_does_the_rest() {
    for fate in [Refused(StoreError::Unavailable), Refused(StoreError::OutcomeUnknown), Lost] {
        let store = Troubled::new([Done, fate.clone(), Done]).await;
        let (answer, _, first) = store.cancel_all().await;
        assert_eq!(answer, Err(StoreError::PartlyDone), "{fate:?}");
        assert!(FIRST.contains(&first), "{fate:?}: {first}");
        let (answer, _, cancelled) = store.cancel_all().await;
        let rest = TASKS - first;
        assert_eq!((answer, cancelled), (Ok(Acted { matched: rest, changed: rest }), TASKS), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_portion_whose_outcome_is_not_known_may_be_a_part() {
    let store = Troubled::new([Lost]).await;
    assert_eq!(store.cancel_all().await.0, Err(StoreError::PartlyDone));
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_first_portion_does_not_begin_in_five_seconds_is_busy_and_never_done() {
    for fate in [Refused(StoreError::Busy), Forgotten] {
        let store = Troubled::new([fate.clone()]).await;
        let (answer, took, cancelled) = store.cancel_all().await;
        assert_eq!((answer, cancelled), (Err(StoreError::Busy), 0), "{fate:?}");
        assert!((5_000..5_050).contains(&took.as_millis()), "{fate:?}: {took:?}");
        for request in store.forgotten.lock().unwrap().iter_mut() {
            assert!(!request.reply().begin(), "it can begin later");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_portion_that_stays_busy_ends_the_action_after_25_seconds_with_what_was_done() {
    for fate in [Refused(StoreError::Busy), Forgotten] {
        let store = Troubled::new([Done, fate.clone()]).await;
        let (answer, took, cancelled) = store.cancel_all().await;
        assert_eq!(answer, acted(cancelled), "{fate:?}");
        assert!(FIRST.contains(&cancelled), "{fate:?}: {cancelled}");
        assert!((25_000..25_200).contains(&took.as_millis()), "{fate:?}: {took:?}");
        for request in store.forgotten.lock().unwrap().iter_mut() {
            assert!(!request.reply().begin(), "it can begin later");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_portion_that_was_busy_is_tried_again_and_no_task_is_left_out() {
    let busy = std::iter::repeat_n(Refused(StoreError::Busy), 40);
    let store = Troubled::new(busy.clone().chain([Done]).chain(busy).chain([Forgotten, Done])).await;
    let (answer, _, cancelled) = store.cancel_all().await;
    assert_eq!((answer, cancelled), (acted(TASKS), TASKS));
}

#[tokio::test(start_paused = true)]
async fn no_portion_begins_after_25_seconds_and_the_last_one_is_counted() {
    let store = Troubled::new([DoneSlowly]).await;
    let (answer, took, cancelled) = store.cancel_all().await;
    // Each is half as large as the one before, down to 100: seven of them begin. On a busy machine some of their tasks are left.
    assert_eq!(*store.portions.lock().unwrap(), [250, 125, 100, 100, 100, 100, 100]);
    assert_eq!(answer, acted(cancelled));
    assert!((7..=875).contains(&cancelled), "{cancelled}");
    assert!((28_000..28_050).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_search_takes_too_long_is_busy_and_does_nothing() {
    for seconds in [21, 24, 26] {
        let store = Troubled::slow(Duration::from_secs(seconds), Done).await;
        let (answer, took, cancelled) = store.cancel_all().await;
        assert_eq!((answer, took.as_secs(), cancelled), (Err(StoreError::Busy), 20, 0), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_search_is_slow_still_changes_tasks() {
    let (answer, _, cancelled) = Troubled::slow(Duration::from_secs(19), Done).await.cancel_all().await;
    assert_eq!((answer, cancelled), (acted(TASKS), TASKS));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_turn_counts_as_search() {
    let store = Troubled::slow(Duration::from_secs(17), Done).await;
    let first = Troubled::slow(Duration::from_secs(4), Done).await;
    let permits = Arc::new(Semaphore::new(ACTIONS));
    let (_, _, (answer, took, cancelled)) =
        tokio::join!(first.cancel_all_by(&permits), first.cancel_all_by(&permits), store.cancel_all_by(&permits));
    assert_eq!((answer, took.as_secs(), cancelled), (Err(StoreError::Busy), 20, 0));
}

#[tokio::test(start_paused = true)]
async fn an_action_that_was_busy_until_its_time_was_over_is_not_answered_as_done() {
    let store = Troubled::slow(Duration::from_millis(19_999), Refused(StoreError::Busy)).await;
    let (answer, took, _) = store.cancel_all().await;
    assert_eq!(answer, Err(StoreError::Busy));
    assert!(took < Duration::from_millis(25_100), "{took:?}");
}
