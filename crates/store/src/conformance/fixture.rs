//! What a test stands at: an open store, its clock, and the few things that nearly every test does with them.

use std::fmt::Display;

use taskqueue_core::limits::LEASE_SCAN_SECONDS;

use super::page_reader;
use super::prelude::*;

/// An open store and its clock.
pub struct Fixture {
    pub store: Arc<dyn Store>,
    /// The time, which only tests pass.
    pub clock: ManualClock,
}

/// When every test begins: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

impl Fixture {
    /// Opens fresh storage.
    pub async fn open(storage: &impl Storage) -> Self {
        let clock = ManualClock::new(START);
        Self { store: storage.open(clock.clone()).await, clock }
    }

    /// Opens fresh storage and creates the queue `q`.
    pub async fn with_queue(storage: &impl Storage) -> Self {
        let fixture = Self::open(storage).await;
        fixture.ok(create_queue("q")).await;
        fixture
    }

    /// The model with the queue `q`, at the clock of this store.
    pub async fn model(&self) -> Self {
        let clock = self.clock.clone();
        let model = Self { store: Arc::new(ModelStore::new(Arc::new(clock.clone()))), clock };
        model.ok(create_queue("q")).await;
        model
    }

    /// Closes the store and opens its storage again, at the same time.
    pub async fn reopen(self, storage: &impl Storage) -> Self {
        let clock = self.close().await;
        Self { store: storage.open(clock.clone()).await, clock }
    }

    /// Closes the store and gives its clock back.
    pub async fn close(self) -> ManualClock {
        self.store.close().await;
        self.clock
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes, with any result.
    pub async fn write<W: Write>(&self, command: W) -> Result<W::Answer, StoreError> {
        command.write_to(&*self.store).await
    }

    /// Writes what must succeed.
    pub async fn ok<W: Write>(&self, command: W) -> W::Answer {
        let text = format!("{command:?}");
        self.write(command).await.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Writes what must be refused.
    pub async fn refused(&self, command: impl Write) -> Refusal {
        let text = format!("{command:?}");
        match self.write(command).await {
            Err(StoreError::Refused(refusal)) => refusal,
            other => panic!("{text} gave {other:?}"),
        }
    }

    /// Creates a task in `q`.
    pub async fn create(&self, id: impl Display, definition: Definition) -> Task {
        let CreatedTask { created, task } = self.ok(create("q", id, definition)).await;
        assert!(created, "the task exists: {task:?}");
        *task
    }

    /// Creates tasks in `q`, many of them at a time.
    pub async fn create_many(&self, tasks: impl IntoIterator<Item = (impl Display, Definition)>) {
        let new = |(id, definition): (_, Definition)| (task_id(id), Box::new(NewTask::from(definition)));
        for portion in tasks.into_iter().map(new).collect::<Vec<_>>().chunks(500) {
            let tasks = portion.iter().cloned().collect();
            let created = self.ok(CreateTasks { queue: queue("q"), tasks }).await;
            assert!(created.iter().all(|created| *created == Ok(true)), "{created:?}");
        }
    }

    /// Makes a task of every kind in `q`: 1 is pending, 2 is running and has printed, 3 has succeeded, 4 has failed, 5 was cancelled, 6 is
    /// pending after two runs that were given back, 7 was deleted after a run. And there is a worker.
    pub async fn fill_with_every_kind(&self) {
        for id in 1..=7 {
            let (args, routes) = (object(r#"{"a":1,"b":2}"#), routes(&["a", &format!("for-{id}")]));
            self.create(id, Definition { args, routes, ..with_budget(3) }).await;
        }
        for id in [2, 3, 4, 6, 7] {
            self.clock.advance_seconds(1);
            self.claimed(claim("q", &format!("for-{id}"), id)).await.unwrap();
        }
        self.clock.advance_seconds(1);
        let steps = commands![
            print(2, 2, 0, "what it prints"),
            progress(2, 2, r#"{"step":1}"#),
            complete("q", 3, 3, object(r#"{"r":1}"#)),
            fail_for_good("q", 4, 4),
            cancel("q", 5),
            unclaim("q", 6, 6),
            claim("q", "for-6", 66),
            unclaim("q", 6, 66),
            unclaim("q", 7, 7),
            delete("q", 7),
            observe("q", 1, "for-1", WorkerStatus::Idle)
        ];
        for step in steps {
            self.ok(step).await;
        }
    }

    /// Creates a task in `q`, and claims it by the run of its name. Nothing else may come before it.
    pub async fn create_running(&self, id: impl Display, definition: Definition) -> Claimed {
        self.create(&id, definition).await;
        let claimed = self.claim(&id).await;
        assert_eq!(claimed.task.id, task_id(&id), "another task came first");
        claimed
    }

    /// Writes what answers with a task.
    pub async fn task_of(&self, command: impl Write<Answer = Box<Task>>) -> Task {
        *self.ok(command).await
    }

    /// Claims in `q` for the default route what must be there.
    pub async fn claim(&self, run: impl Display) -> Claimed {
        self.claimed(claim("q", "default", run)).await.unwrap_or_else(|| panic!("there was nothing to claim"))
    }

    /// Claims in `q` for the default route by each of these runs what must be there.
    pub async fn claim_each(&self, runs: impl IntoIterator<Item = impl Display>) {
        for run in runs {
            self.claim(run).await;
        }
    }

    /// What a claim gets, if anything.
    pub async fn claimed(&self, command: Claim) -> Option<Claimed> {
        self.ok(command).await.map(|claimed| *claimed)
    }

    /// A task of `q` as it is now.
    pub async fn get(&self, id: impl Display) -> Task {
        self.store.get_task(&queue("q"), task_id(id)).await.unwrap()
    }

    /// The status of a task of `q`.
    pub async fn status(&self, id: impl Display) -> Status {
        self.get(id).await.lifecycle.status
    }

    /// Scans the leases.
    pub async fn scan(&self) -> Scanned {
        self.ok(Scan).await
    }

    /// Everything that is due.
    pub async fn upkeep(&self) {
        upkeep(&*self.store).await.unwrap();
    }

    /// Passes time as a living server does, with a scan every five seconds. What the scans did, in all.
    pub async fn pass(&self, seconds: i64) -> Scanned {
        let (mut left, mut sum) = (seconds, Scanned::default());
        while left > 0 {
            let step = left.min(LEASE_SCAN_SECONDS);
            self.clock.advance_seconds(step);
            left -= step;
            let scanned = self.scan().await;
            sum.expired_runs += scanned.expired_runs;
            sum.credited_runs += scanned.credited_runs;
            sum.expired_observations += scanned.expired_observations;
        }
        sum
    }

    /// One page.
    pub async fn page(
        &self,
        in_queue: &str,
        selection: &TaskSelection,
        order: TaskOrder,
        limit: u16,
        after: Option<Position>,
    ) -> Page<Task> {
        let query = TaskQuery { selection: selection.clone(), order, limit, after, max_bytes: PAGE_BYTES };
        page_reader::list(&*self.store, &queue(in_queue), query).await.unwrap()
    }

    /// All pages, one after the other.
    pub async fn walk(&self, in_queue: &str, selection: &TaskSelection, order: TaskOrder, limit: u16) -> Vec<Task> {
        let query = TaskQuery { selection: selection.clone(), order, limit, after: None, max_bytes: PAGE_BYTES };
        let pages = page_reader::pages(&*self.store, &queue(in_queue), query).await.unwrap();
        assert!(pages.iter().all(|page| page.len() <= usize::from(limit)));
        pages.concat()
    }

    /// All tasks of a queue by id, archived ones too, with their runs, without their places in the pending order: stores number those as
    /// they like.
    pub async fn tasks(&self, in_queue: &str) -> Vec<Task> {
        self.placed_tasks(in_queue).await.into_iter().map(without_seq).collect()
    }

    /// The same with their places.
    pub async fn placed_tasks(&self, in_queue: &str) -> Vec<Task> {
        let every = TaskSelection { include_archived: true, ..all() };
        let get = |listed: Task| {
            let store = Arc::clone(&self.store);
            tokio::spawn(async move { store.get_task(&listed.queue, listed.id).await })
        };
        // All of them are on the way at the same time.
        let gets: Vec<_> = self.walk(in_queue, &every, BY_ID, 1000).await.into_iter().map(get).collect();
        let mut tasks = Vec::new();
        for get in gets {
            tasks.push(get.await.unwrap().unwrap());
        }
        tasks
    }

    /// How many tasks of `q` are selected.
    pub async fn count(&self, selection: TaskSelection) -> u64 {
        self.store.count_tasks(&queue("q"), selection).await.unwrap()
    }

    /// How many tasks of `q` have each status, in the order of [`Status::ALL`].
    pub async fn count_by_status(&self) -> [u64; 5] {
        let mut counts = [0; 5];
        for (count, status) in counts.iter_mut().zip(Status::ALL) {
            *count = self.count(of_status(status)).await;
        }
        counts
    }

    /// One page of groups of `q`.
    pub async fn groups(&self, selection: TaskSelection, dimensions: &[TaskDimension], limit: u16) -> GroupPage {
        let query = TaskGroupQuery { selection, dimensions: dimensions.to_vec(), limit, after: None };
        self.store.group_tasks(&queue("q"), query).await.unwrap()
    }
}

/// The task without its place in the pending order.
pub fn without_seq(task: Task) -> Task {
    Task { lifecycle: Lifecycle { pending_seq: 0, ..task.lifecycle }, ..task }
}

/// What a client can see of a task: not its run, not its place. The id of a run that is over is seen in `last_run`.
pub fn visible(task: &Task) -> Task {
    let last_run = task.outcome.last_run.as_ref().filter(|_| task.lifecycle.run.is_none());
    let finished_run = task.lifecycle.finished_run.filter(|_| last_run.is_some());
    let finished_run = finished_run.map(|run| page_reader::shown_run(run.run_id));
    let lifecycle = Lifecycle { pending_seq: 0, run: None, finished_run, unmet: 0, ..task.lifecycle.clone() };
    Task { lifecycle, ..task.clone() }
}
