//! Bulk updates with other writes between their plan and their write: the answer and the tasks are those of an update that
//! is done as a whole at the time of the write (I15, I16).

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::agreement::comparable_to;
use super::prelude::*;
use crate::bulk::{Gate, REDECIDED};

/// A gate that holds the first bulk update that comes, until it is opened.
#[derive(Clone, Default)]
pub(super) struct Held {
    pub(super) passed: Arc<AtomicBool>,
    pub(super) reached: Arc<Notify>,
    pub(super) opened: Arc<Notify>,
}

impl Held {
    pub(super) fn gate(&self) -> Gate {
        let held = self.clone();
        Gate::until(FOUND_AT_ONCE, move || {
            let held = held.clone();
            Box::pin(async move {
                if !held.passed.swap(true, Ordering::SeqCst) {
                    held.reached.notify_one();
                    held.opened.notified().await;
                }
            })
        })
    }
}

/// The answer of a bulk update or action that was begun.
type Answering<A> = JoinHandle<Result<A, StoreError>>;

/// A store with the queue `q`, whose next bulk update or portion of a bulk action is held before it is written.
pub(super) struct GatedBench {
    pub(super) fixture: Fixture,
    pub(super) held: Held,
}

impl GatedBench {
    pub(super) fn new(fixture: Fixture) -> Self {
        Self { fixture, held: Held::default() }
    }

    /// Begins a bulk update or action; it has its plan or its tasks when this is over.
    pub(super) async fn begin<W: Write>(&self, bulk: W) -> Answering<W::Answer> {
        self.held.passed.store(false, Ordering::SeqCst);
        let store = Arc::clone(&self.fixture.store);
        let writing = tokio::spawn(self.held.gate().around(async move { bulk.write_to(&*store).await }));
        self.held.reached.notified().await;
        writing
    }

    /// Lets it do one portion.
    pub(super) async fn one_portion(&self) {
        self.held.passed.store(false, Ordering::SeqCst);
        self.held.opened.notify_one();
        self.held.reached.notified().await;
    }

    /// Lets it go on to its end.
    pub(super) async fn end<A>(&self, writing: Answering<A>) -> Result<A, StoreError> {
        self.held.opened.notify_one();
        writing.await.unwrap()
    }

    /// What a bulk update or action answers that others come in between of.
    pub(super) async fn answer<B: Write, W: Write>(
        &self,
        bulk: B,
        between: impl IntoIterator<Item = W>,
    ) -> Result<B::Answer, StoreError> {
        let writing = self.begin(bulk).await;
        for command in between {
            self.fixture.ok(command).await;
        }
        self.end(writing).await
    }

    async fn priorities(&self) -> Vec<(String, i64)> {
        let tasks = self.fixture.tasks("q").await.into_iter();
        tasks
            .map(|task| (task.id.as_str().trim_start_matches(['t', '_', '0']).to_owned(), task.definition.priority))
            .collect()
    }
}

fn updated(matched: u64, updated: u64) -> Result<Updated, StoreError> {
    Ok(Updated { matched, updated })
}

fn priorities<const N: usize>(expected: [(&str, i64); N]) -> Vec<(String, i64)> {
    expected.map(|(id, priority)| (id.to_owned(), priority)).to_vec()
}

pub async fn what_is_claimed_between_plan_and_write_is_left_out(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.ok(create_all(["a", "b", "c"])).await;
    let between =
        commands![claim("q", "default", 1), claim("q", "default", 2), complete("q", "b", 2, object(r#"{"r":1}"#))];
    let writing = gated.begin(update_all("q", "exists(id)", to_priority(5))).await;
    for command in between {
        gated.fixture.ok(command).await;
    }
    let running = gated.fixture.get("a").await;
    assert_eq!(gated.end(writing).await, updated(2, 2));
    assert_eq!(gated.fixture.get("a").await, running, "a running task is untouched and excluded");
    let done = gated.fixture.get("b").await;
    assert_eq!((done.lifecycle.status, done.definition.priority), (Status::Succeeded, 5));
    assert_eq!(done.outcome.result, object(r#"{"r":1}"#), "what was saved in between is kept");
    assert_eq!(gated.fixture.claim(3).await.task.id, task_id("c"));
}

pub async fn what_is_changed_created_or_deleted_between_plan_and_write_is_judged_as_it_is_then(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    for (id, name) in [("a", "m"), ("b", "m"), ("c", "n"), ("d", "m"), ("e", "m"), ("gone", "m"), ("again", "m")] {
        gated.fixture.create(id, named(name)).await;
    }
    gated.fixture.ok(update("q", "e", to_priority(5))).await;
    let renamed = |name: &str| Update { name: Some(Some(name.into())), ..Update::default() };
    let between = commands![
        update("q", "a", renamed("n")),
        update("q", "c", renamed("m")),
        update("q", "d", to_priority(5)),
        update("q", "e", to_priority(6)),
        update("q", "b", Update { metadata: Some(object(r#"{"k":"v"}"#)), ..Update::default() }),
        delete("q", "gone"),
        delete("q", "again"),
        create("q", "again", named("m")),
        create("q", "new", named("m")),
        create("q", "other", named("n")),
        create_queue("r"),
        create("r", "f", named("m"))
    ];
    let answer = gated.answer(update_all("q", "name == 'm'", to_priority(5)), between).await;
    assert_eq!(answer, updated(6, 5), "d has the value already, a matches no more");
    let expected = [("a", 0), ("b", 5), ("c", 5), ("d", 5), ("e", 5), ("new", 5), ("again", 5), ("other", 0)];
    assert_eq!(gated.priorities().await, priorities(expected));
    assert_eq!(gated.fixture.get("b").await.definition.metadata, object(r#"{"k":"v"}"#));
    assert_eq!(gated.fixture.store.get_task(&queue("r"), task_id("f")).await.unwrap().definition.priority, 0);
}

pub async fn a_patch_is_merged_into_what_is_there_at_the_time_of_the_write(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    let with_args = |args: &str| Definition { args: object(args), ..named("m") };
    gated.fixture.create_many(["a", "b", "c", "d"].map(|id| (id, with_args(r#"{"k":1,"n":1}"#)))).await;
    let to_args = |args: &str| Update { args: Some(object(args)), ..Update::default() };
    let between = commands![
        update("q", "a", to_args(r#"{"n":2}"#)),
        update("q", "b", to_args(r#"{"k":{"l":3},"n":1}"#)),
        delete("q", "c"),
        create("q", "e", with_args(r#"{"k":[],"new":true}"#))
    ];
    let patch = Update { args_patch: Some(object(r#"{"k":{"l":3}}"#)), ..Update::default() };
    let answer = gated.answer(update_all("q", "name == 'm'", patch), between).await;
    assert_eq!(answer, updated(4, 3), "b has the value already");
    let expected = [
        ("a", r#"{"k":{"l":3},"n":2}"#),
        ("b", r#"{"k":{"l":3},"n":1}"#),
        ("d", r#"{"k":{"l":3},"n":1}"#),
        ("e", r#"{"k":{"l":3},"new":true}"#),
    ];
    for (id, args) in expected {
        assert_eq!(gated.fixture.get(id).await.definition.args, object(args), "{id}");
    }
}

pub async fn a_refusal_that_arises_between_plan_and_write_leaves_every_task_untouched(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create_many(["a", "b", "c"].map(|id| (id, with_budget(3)))).await;
    let writing =
        gated.begin(update_all("q", "exists(id)", Update { routes: Some(routes(&["x"])), ..to_budget(1) })).await;
    gated.fixture.claim(1).await;
    gated.fixture.ok(fail("q", "a", 1)).await;
    let before = gated.fixture.tasks("q").await;
    let answer = gated.end(writing).await;
    assert!(matches!(answer, Err(StoreError::Refused(Refusal::UpdateConflict { attempt: 1, .. }))), "{answer:?}");
    assert_eq!(gated.fixture.tasks("q").await, before);
    assert_eq!(gated.fixture.claimed(claim("q", "x", 2)).await, None);
}

pub async fn a_queue_that_is_deleted_between_plan_and_write_is_not_found(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create("a", Definition::default()).await;
    let gone = DeleteQueue { queue: queue("q"), cascade: true };
    let answer = gated.answer(update_all("q", "exists(id)", to_priority(5)), [gone]).await;
    assert_eq!(answer, Err(StoreError::Refused(Refusal::QueueNotFound { queue: queue("q") })));
}

pub async fn a_queue_that_is_made_again_between_plan_and_write_is_judged_anew(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create("a", Definition::default()).await;
    gated.fixture.create("b", Definition::default()).await;
    let gone = DeleteQueue { queue: queue("q"), cascade: true };
    let between = commands![gone, create_queue("q"), create("q", "a", named("new"))];
    let answer = gated.answer(update_all("q", "exists(id)", to_priority(5)), between).await;
    assert_eq!(answer, updated(1, 1));
    assert_eq!(gated.priorities().await, priorities([("a", 5)]));
}

pub async fn more_changes_than_a_write_decides_again_are_judged_all_the_same(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    let many = 2 * REDECIDED;
    gated.fixture.create_many((0..many).map(|id| (format!("old{id}"), named("m")))).await;
    let deleted = (0..REDECIDED).map(|id| AnyCommand::from(delete("q", format!("old{id}"))));
    let created =
        (0..many).map(|id| create("q", format!("new{id}"), named(if id % 2 == 0 { "m" } else { "n" })).into());
    let answer = gated.answer(update_all("q", "name == 'm'", to_priority(5)), deleted.chain(created)).await;
    assert_eq!(answer, updated(many as u64, many as u64));
    let tasks = gated.fixture.tasks("q").await;
    let is_right = |task: &taskqueue_core::task::Task| {
        (task.definition.priority == 5) == (task.definition.name.as_deref() == Some("m"))
    };
    assert!(tasks.len() == 3 * REDECIDED && tasks.iter().all(is_right));
}

pub async fn what_is_written_has_the_time_of_the_write(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create("a", Definition::default()).await;
    let writing = gated.begin(update_all("q", "exists(id)", to_priority(5))).await;
    gated.fixture.clock.advance_seconds(3);
    gated.fixture.create("b", Definition::default()).await;
    gated.fixture.clock.advance_seconds(3);
    assert_eq!(gated.end(writing).await, updated(2, 2));
    for id in ["a", "b"] {
        assert_eq!(gated.fixture.get(id).await.lifecycle.updated_at, gated.fixture.now(), "{id}");
    }
}

pub async fn a_caller_that_leaves_between_plan_and_write_has_done_nothing(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create("a", Definition::default()).await;
    let writing = gated.begin(update_all("q", "exists(id)", to_priority(5))).await;
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    gated.held.opened.notify_one();
    // This update runs after the aborted one, so it would see its effects.
    assert_eq!(gated.fixture.ok(update_all("q", "exists(id)", to_budget(7))).await, Updated { matched: 1, updated: 1 });
    assert_eq!(gated.fixture.get("a").await.definition.priority, 0);
}

/// The model gives the expected result: there the bulk update is done as a whole, after the writes in between.
pub async fn random_writes_between_plan_and_write_give_the_same_as_before_it(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    let model = gated.fixture.model().await;
    let mut generator = Generator::new(17);
    // Bulk actions are not held.
    gated.held.passed.store(true, Ordering::SeqCst);
    let mut held = 0;
    for _ in 0..60 {
        for _ in 0..12 {
            if let Step::Write(command) = generator.step() {
                both(&gated.fixture, &model, &mut generator, &command).await;
            }
        }
        let in_queue = generator.queue();
        let bulk = Arc::new(generator.bulk_update(in_queue));
        let command = AnyCommand::UpdateTasks(Arc::clone(&bulk));
        gated.held.passed.store(false, Ordering::SeqCst);
        let store = Arc::clone(&gated.fixture.store);
        let gate = gated.held.gate();
        let mut writing = tokio::spawn(gate.around(async move { store.update_tasks(bulk).await }));
        let answered = tokio::select! {
            answer = &mut writing => Some(answer.unwrap()),
            () = gated.held.reached.notified() => None,
        };
        let answer = match answered {
            // Refused, or nothing to change: as of the snapshot.
            Some(answer) => answer,
            None => {
                held += 1;
                for _ in 0..8 {
                    if let Step::Write(between) = generator.step()
                        && !matches!(between, AnyCommand::UpdateTasks(_))
                    {
                        both(&gated.fixture, &model, &mut generator, &between).await;
                    }
                }
                gated.end(writing).await
            }
        };
        gated.held.passed.store(true, Ordering::SeqCst);
        let expected = model.write(command.clone()).await;
        let answer = comparable_to(&command, answer.map(AnyAnswer::Updated));
        assert_eq!(answer, comparable_to(&command, expected), "{command:?}");
        compare(&gated.fixture, &model).await;
    }
    assert!(held > 10, "only {held} were held");
}

async fn both(fixture: &Fixture, model: &Fixture, generator: &mut Generator, command: &AnyCommand) {
    let (answer, expected) = (fixture.write(command.clone()).await, model.write(command.clone()).await);
    generator.learn(command, &answer);
    assert_eq!(comparable_to(command, answer), comparable_to(command, expected), "{command:?}");
}

async fn compare(fixture: &Fixture, model: &Fixture) {
    for name in QUEUES.map(queue) {
        if model.store.count_tasks(&name, all()).await.is_err() {
            continue;
        }
        let (ours, theirs) = (fixture.tasks(name.as_str()).await, model.tasks(name.as_str()).await);
        let plain = |tasks: Vec<taskqueue_core::task::Task>| tasks.into_iter().map(without_seq).collect::<Vec<_>>();
        assert_eq!(plain(ours), plain(theirs));
    }
}

pub async fn other_commands_are_done_while_bulk_updates_are_planned(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create("a", Definition::default()).await;
    let writing = gated.begin(update_all("q", "exists(id)", to_priority(5))).await;
    gated.fixture.create("b", Definition::default()).await;
    gated.fixture.claim(1).await;
    gated.fixture.ok(heartbeat("q", "a", 1)).await;
    assert_eq!(gated.end(writing).await, updated(1, 1));
    assert_eq!(gated.priorities().await, priorities([("a", 0), ("b", 5)]));
}

/// Takes the 5 seconds that a command waits until it begins.
pub async fn a_bulk_update_that_waits_for_too_long_is_busy_and_never_done(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    gated.fixture.create("a", Definition::default()).await;
    // One has a plan at a time.
    let first = gated.begin(update_all("q", "exists(id)", to_budget(7))).await;
    let second = gated.fixture.write(update_all("q", "exists(id)", to_priority(9))).await;
    assert_eq!(second, Err(StoreError::Busy));
    assert_eq!(gated.end(first).await, updated(1, 1));
    // This one comes behind whatever would be left of it.
    gated.fixture.ok(update_all("q", "exists(id)", to_budget(9))).await;
    assert_eq!(gated.fixture.get("a").await.definition.priority, 0);
}
