//! Agreement: the same random history on the model and on a backend gives the same answers, and afterwards the same
//! lists, counts and groups (I32). What a store may number as it likes (places in the pending order, keys of queues in
//! cursors) is left out of the comparison; what those numbers are for is compared through claims and pages.

use taskqueue_core::stats::QueueFigures;

use super::counts::DIMENSIONS;
use super::filters;
use super::page_reader;
use super::prelude::*;

/// An answer without what stores number as they like.
pub fn comparable(answer: Result<AnyAnswer, StoreError>) -> Result<AnyAnswer, StoreError> {
    answer.map(|answer| match answer {
        AnyAnswer::Created(CreatedTask { created, task }) => {
            AnyAnswer::Created(CreatedTask { created, task: Box::new(without_seq(*task)) })
        }
        AnyAnswer::Task(task) => AnyAnswer::Task(Box::new(without_seq(*task))),
        AnyAnswer::Claimed(Some(mut claimed)) => {
            claimed.task = without_seq(claimed.task);
            AnyAnswer::Claimed(Some(claimed))
        }
        AnyAnswer::ClaimedItems(mut items) => {
            for claimed in items.iter_mut().flatten().flatten() {
                claimed.task.lifecycle.pending_seq = 0;
            }
            AnyAnswer::ClaimedItems(items)
        }
        other => other,
    })
}

/// Which of several tasks refuses a bulk update first is left to the store.
pub(super) fn comparable_to(
    command: &AnyCommand,
    answer: Result<AnyAnswer, StoreError>,
) -> Result<AnyAnswer, StoreError> {
    match (command, answer) {
        (AnyCommand::UpdateTasks(_), Err(StoreError::Refused(refusal))) => {
            let any_row = matches!(
                refusal,
                Refusal::UpdateConflict { .. } | Refusal::NotArchivable { .. } | Refusal::TaskDataTooLarge
            );
            Err(StoreError::Refused(if any_row { Refusal::TaskDataTooLarge } else { refusal }))
        }
        (_, answer) => comparable(answer),
    }
}

/// The model and a backend at the same clock.
pub struct Pair {
    /// The backend.
    pub fixture: Fixture,
    model: Fixture,
    /// Whether the backend has the activity of before it was opened last.
    keeps_activity: bool,
}

impl Pair {
    /// The backend without queues, and a fresh model.
    pub fn new(fixture: Fixture) -> Self {
        let clock = fixture.clock.clone();
        let model = Fixture { store: Arc::new(ModelStore::new(Arc::new(clock.clone()))), clock };
        Self { fixture, model, keeps_activity: true }
    }

    /// Writes to both and compares the answers.
    pub async fn write(&self, command: impl Into<AnyCommand>) -> Result<AnyAnswer, StoreError> {
        let command = command.into();
        let expected = self.model.write(command.clone()).await;
        let answer = self.fixture.write(command.clone()).await;
        let compared = comparable_to(&command, answer.clone());
        assert_eq!(compared, comparable_to(&command, expected), "{command:?}");
        answer
    }

    /// Writes a command of several items to the backend and each item alone to the model, and compares the answers.
    pub async fn write_one_by_one(&self, command: AnyCommand) -> Result<AnyAnswer, StoreError> {
        let expected = one_by_one(&self.model, command.clone()).await;
        let answer = self.fixture.write(command.clone()).await;
        assert_eq!(comparable(answer.clone()), comparable(expected), "{command:?}");
        answer
    }

    /// Closes and opens the backend. A scan on either side makes both count outages from the same moment.
    pub async fn reopen(self, storage: &impl Storage) -> Self {
        self.write(Scan).await.unwrap();
        // As at every stop.
        save_activity(&*self.fixture.store).await.unwrap();
        let Self { fixture, model, .. } = self;
        let pair = Self { fixture: fixture.reopen(storage).await, model, keeps_activity: storage.keeps_activity() };
        pair.write(Scan).await.unwrap();
        pair
    }

    /// Compares random reads, several times. What is due is done before: on PostgreSQL stats do not know a task whose time has come
    /// until somebody has moved it to the pending order.
    pub async fn compare_reads(&self, random: &mut Random, times: usize) {
        self.write(Upkeep).await.unwrap();
        let (model, store) = (&*self.model.store, &*self.fixture.store);
        assert_eq!(store.list_queues().await, model.list_queues().await);
        for name in QUEUES.map(queue) {
            if store.count_tasks(&name, TaskSelection::default()).await.is_ok() {
                assert_kept_counts_are_right(store, name.as_str()).await;
            }
            compare_stats(model, store, &name, self.keeps_activity, random).await;
            for _ in 0..times {
                compare_tasks(model, store, &name, random).await;
                compare_workers(model, store, &name, random).await;
            }
        }
    }
}

/// The answer of a command of several items, from that of each.
async fn one_by_one(store: &Fixture, command: AnyCommand) -> Result<AnyAnswer, StoreError> {
    match command {
        AnyCommand::CreateTasks(CreateTasks { queue, tasks }) => {
            let mut items = Vec::new();
            for (id, new) in tasks.iter().cloned() {
                let created = store.write(CreateTask { queue: queue.clone(), id, new }).await;
                items.push(item(created.map(|created| created.created))?);
            }
            Ok(AnyAnswer::CreatedItems(items))
        }
        AnyCommand::ClaimTasks(command) => {
            let mut items = Vec::new();
            for (place, run_id) in command.run_ids.iter().copied().enumerate() {
                let (queue, route, worker) = (command.queue.clone(), command.route.clone(), command.worker_of(place));
                let claimed = item(store.write(Claim { queue, route, run_id, worker }).await)?;
                items.push(claimed.map_err(StoreError::from));
            }
            Ok(AnyAnswer::ClaimedItems(items))
        }
        AnyCommand::ReportRuns(ReportRuns { queue, reports }) => {
            let mut items = Vec::new();
            for report in reports.iter().cloned() {
                let lease = |answer| if let AnyAnswer::Lease(until) = answer { Some(until) } else { None };
                items.push(item(store.write(AnyCommand::of_item(queue.clone(), report)).await.map(lease))?);
            }
            Ok(AnyAnswer::ReportedItems(items))
        }
        other => panic!("a command of one item: {other:?}"),
    }
}

/// What an item answers. A missing queue refuses the whole command.
fn item<A>(answer: Result<A, StoreError>) -> Result<Result<A, Refusal>, StoreError> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(StoreError::Refused(missing @ Refusal::QueueNotFound { .. })) => Err(missing.into()),
        Err(StoreError::Refused(refusal)) => Ok(Err(refusal)),
        Err(error) => panic!("{error}"),
    }
}

async fn compare_tasks(model: &dyn Store, store: &dyn Store, name: &QueueName, random: &mut Random) {
    let (selection, order) = (filters::selection(random), filters::order(random));
    let limit = random.pick(&[1, 2, 3, 5, 100]);
    let wanted = TaskQuery { selection: selection.clone(), order, limit, after: None, max_bytes: PAGE_BYTES };
    let listed = page_reader::pages(store, name, wanted.clone()).await;
    assert_eq!(listed, page_reader::pages(model, name, wanted.clone()).await, "{wanted:?}");
    // What no list shows: runs, and how they ended.
    for task in listed.into_iter().flatten().flatten() {
        let (ours, theirs) = (store.get_task(name, task.id).await, model.get_task(name, task.id).await);
        assert_eq!(ours.map(without_seq), theirs.map(without_seq));
        compare_output(model, store, (name, task.id), random).await;
        assert_eq!(store.explain(name, task.id).await, model.explain(name, task.id).await, "{}", task.id);
    }
    assert_eq!(store.queue_settings(name).await, model.queue_settings(name).await);
    let counted = store.count_tasks(name, selection.clone()).await;
    assert_eq!(counted, model.count_tasks(name, selection.clone()).await, "{selection:?}");
    let dimensions = random.pick(&DIMENSIONS).to_vec();
    let query = TaskGroupQuery { selection, dimensions, limit: 1000, after: None };
    let grouped = store.group_tasks(name, query.clone()).await;
    assert_eq!(grouped, model.group_tasks(name, query.clone()).await, "{query:?}");
}

async fn compare_output(model: &dyn Store, store: &dyn Store, (name, id): (&QueueName, TaskId), random: &mut Random) {
    let offsets = [0, 1, 2, 5, 17, 60, 250, 999_999, 1_000_003, i64::MAX as u64 - 5, i64::MAX as u64, u64::MAX];
    let (offset, most_bytes) = (random.pick(&offsets), random.pick(&[0, 1, 7, 1_000, 1_000, 1_000]));
    let read = store.read_output(name, id, offset, most_bytes).await;
    assert_eq!(read, model.read_output(name, id, offset, most_bytes).await, "{id} {offset} {most_bytes}");
}

/// The figures of a queue, if there is one, with what its pending tasks wait for.
async fn with_parts(store: &dyn Store, name: &QueueName) -> Result<Option<QueueFigures>, StoreError> {
    let queues = store.list_queue_keys().await?;
    let keys: Vec<QueueKey> = queues.into_iter().filter(|(_, known)| known == name).map(|(key, _)| key).collect();
    let figures = store.figures(&keys, &RouteSelection::NONE, PendingDetail::ByState).await?;
    Ok(figures.queues.into_iter().next().map(|(_, figures)| figures))
}

/// What is going on and, where activity is kept, what happened, but not since when that is known.
async fn compare_stats(
    model: &dyn Store,
    store: &dyn Store,
    name: &QueueName,
    keeps_activity: bool,
    random: &mut Random,
) {
    let starving = |most| RouteSelection::StarvingFirst { most, find: "".into() };
    let routes = random.pick(&[RouteSelection::NONE, RouteSelection::first(1), starving(1), starving(2)]);
    let figures = |stats: Result<QueueStats, StoreError>| stats.map(|stats| stats.figures);
    let expected = figures(model.queue_stats(name, &routes).await);
    assert_eq!(figures(store.queue_stats(name, &routes).await), expected, "{} {routes:?}", store.parts().kind);
    assert_eq!(with_parts(store, name).await, with_parts(model, name).await, "{}", store.parts().kind);
    if !keeps_activity {
        return;
    }
    let stats = |stats: Result<QueueStats, StoreError>| stats.map(|stats| QueueStats { since: stats.now, ..stats });
    assert_eq!(stats(store.queue_stats(name, &ALL_ROUTES).await), stats(model.queue_stats(name, &ALL_ROUTES).await));
    for unit in Unit::ALL {
        let selection = SeriesSelection { unit, from: None, to: None };
        let spans = |series: Result<ActivitySeries, StoreError>| series.map(|series| series.spans);
        let found = spans(store.activity_series(name, selection).await);
        assert_eq!(found, spans(model.activity_series(name, selection).await), "{unit:?}");
    }
}

async fn compare_workers(model: &dyn Store, store: &dyn Store, name: &QueueName, random: &mut Random) {
    let filter = filters::workers(random);
    let query = ObservationQuery { filter: filter.clone(), limit: random.pick(&[1, 2, 100]), after: None };
    let items = |page: Result<Page<_>, StoreError>| page.map(|page| (page.items, page.next.is_some()));
    let listed = items(store.list_workers(name, query.clone()).await);
    assert_eq!(listed, items(model.list_workers(name, query.clone()).await), "{query:?}");
    assert_eq!(store.count_workers(name, filter.clone()).await, model.count_workers(name, filter.clone()).await);
    let dimensions =
        random.pick(&[vec![WorkerDimension::Route], vec![WorkerDimension::Status, WorkerDimension::Route]]);
    let query = ObservationGroupQuery { selection: filter, dimensions, limit: random.pick(&[1, 100]), after: None };
    let groups = |page: Result<GroupPage, StoreError>| page.map(|page| (page.count, page.groups, page.next.is_some()));
    let grouped = groups(store.group_workers(name, query.clone()).await);
    assert_eq!(grouped, groups(model.group_workers(name, query.clone()).await), "{query:?}");
}

/// Names the seed of a history that fails.
struct Seed(u64);

impl Drop for Seed {
    #[allow(clippy::print_stderr, reason = "the only way to say which history failed, and only when one does")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the history of seed {} failed", self.0);
        }
    }
}

/// Lets a random history happen to both stores, comparing every answer, and compares reads now and then and at the end.
/// `reopens` says whether the storage can be opened again. Gives the backend back, still open.
pub async fn agree(storage: &impl Storage, seed: u64, steps: usize, reopens: bool) -> Fixture {
    let _seed = Seed(seed);
    let mut generator = Generator::new(seed);
    let mut pair = Pair::new(Fixture::open(storage).await);
    pair.write(create_queue(QUEUES[0])).await.unwrap();
    pair.write(create_queue(QUEUES[1])).await.unwrap();
    for step in 0..steps {
        match generator.step() {
            Step::Write(command) => {
                let answer = pair.write(command.clone()).await;
                generator.learn(&command, &answer);
            }
            Step::Pass(micros) => pair.fixture.clock.advance_micros(micros),
            Step::Live(seconds) => {
                for passed in (0..seconds).step_by(5) {
                    pair.fixture.clock.advance_seconds((seconds - passed).min(5));
                    pair.write(Scan).await.unwrap();
                }
            }
            Step::Reopen if reopens => pair = pair.reopen(storage).await,
            Step::Reopen => {}
        }
        if step % 50 == 49 {
            pair.compare_reads(generator.random(), 1).await;
        }
    }
    pair.compare_reads(generator.random(), 20).await;
    pair.fixture
}

/// Random tasks with random documents, then many random filters over them: the same tasks everywhere.
pub async fn agree_on_filters(storage: &impl Storage, seed: u64, filters: usize) {
    let _seed = Seed(seed);
    let pair = Pair::new(Fixture::open(storage).await);
    pair.write(create_queue(QUEUES[0])).await.unwrap();
    let mut generator = Generator::new(seed);
    for _ in 0..150 {
        let Step::Write(command) = generator.step() else { continue };
        if !matches!(command, AnyCommand::DeleteQueue(_) | AnyCommand::CreateQueue(_)) {
            let answer = pair.write(command.clone()).await;
            generator.learn(&command, &answer);
        }
    }
    let (model, store, name) = (&*pair.model.store, &*pair.fixture.store, queue(QUEUES[0]));
    for _ in 0..filters {
        compare_tasks(model, store, &name, generator.random()).await;
    }
}
