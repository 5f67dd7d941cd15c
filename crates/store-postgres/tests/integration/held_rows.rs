//! Another client has locked rows or tables of the store: only commands that need them wait, for a bounded time (I13, L3).

use std::time::Instant;

use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Database, eventually};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use crate::storage::tables::assert_tables_are_consistent;
use crate::storage::{Fresh, fresh, with_queue};

/// The end of a test that hangs. What must not wait for somebody is done while that one still holds what it has, or is answered
/// `Busy` when its own 5 seconds are over.
const MOMENT: Duration = Duration::from_secs(60);

/// A transaction of somebody else.
pub(crate) struct Stranger(Client);

impl Stranger {
    /// Says this in a transaction, and holds what it took.
    pub(crate) async fn says(database: &Database, sql: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("BEGIN; {sql}")).await.unwrap();
        Self(client)
    }

    /// Holds a task of `q`.
    async fn holds(storage: &Fresh, id: &str) -> Self {
        let id = task_id(id);
        Self::says(&storage.database, &format!("SELECT 1 FROM taskqueue.tasks WHERE id = '{id}' FOR UPDATE")).await
    }

    pub(crate) async fn lets_go(self) {
        self.0.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Waits until a transaction waits for [`RELEASE_LOCK`].
fn somebody_waits(storage: &Fresh) {
    let waits = "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted";
    eventually("somebody waits", || !storage.database.rows(waits).is_empty());
}

fn start<W: Write>(fixture: &Fixture, command: W) -> JoinHandle<Result<W::Answer, StoreError>> {
    let store = Arc::clone(&fixture.store);
    tokio::spawn(async move { command.write_to(&*store).await })
}

/// Commands that wait as long as somebody else holds a task of `q`, and change nothing meanwhile. Their answers when it is let go.
async fn answers_of_those_who_wait<W: Write>(
    (storage, fixture): (&Fresh, &Fixture),
    held: &str,
    commands: Vec<W>,
) -> Vec<W::Answer> {
    let (stranger, before) = (Stranger::holds(storage, held).await, fixture.tasks("q").await);
    let mut waiting: Vec<_> = commands.into_iter().map(|command| start(fixture, command)).collect();
    assert!(timeout(Duration::from_secs(1), &mut waiting[0]).await.is_err(), "it was answered too early");
    assert!(!waiting.iter().any(JoinHandle::is_finished), "one was answered too early");
    assert_eq!(fixture.tasks("q").await, before, "nothing has changed");
    stranger.lets_go().await;
    let mut answers = Vec::new();
    for command in waiting {
        answers.push(timeout(MOMENT, command).await.expect("at once").unwrap().unwrap());
    }
    answers
}

async fn end(storage: Fresh, fixture: Fixture) {
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_for_a_task_that_another_transaction_holds() {
    let (storage, fixture) = with_queue().await;
    fixture.create("x", Definition::default()).await;
    let answers = answers_of_those_who_wait((&storage, &fixture), "x", vec![claim("q", "default", 1)]).await;
    assert!(answers[0].is_some());
    end(storage, fixture).await;
}

/// What upkeep and claims agree on (BEGIN_RELEASE).
const RELEASE_LOCK: i64 = 7_405_302_117;

/// A task whose time has come, and one of lower priority. Nobody has moved the first one to the pending order yet.
async fn with_a_due_task(storage: &Fresh) -> Fixture {
    let fixture = Fixture::with_queue(storage).await;
    let urgent = Definition { priority: 9, ..Definition::default() };
    fixture.ok(create_later("urgent", urgent, fixture.now().plus_seconds(10))).await;
    fixture.create("other", Definition::default()).await;
    fixture.clock.advance_micros(10_000_000);
    fixture
}

/// The claim of a server does not take a task of lower priority because the upkeep of another one holds the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_for_a_server_that_moves_tasks_whose_time_has_come() {
    let storage = fresh();
    let fixture = with_a_due_task(&storage).await;
    let id = task_id("urgent");
    let hold = format!(
        "SELECT pg_advisory_xact_lock({RELEASE_LOCK}); SELECT 1 FROM taskqueue.tasks WHERE id = '{id}' FOR UPDATE"
    );
    let upkeep = Stranger::says(&storage.database, &hold).await;
    let claiming = start(&fixture, claim("q", "default", 1));
    somebody_waits(&storage);
    upkeep.lets_go().await;
    let claimed = timeout(MOMENT, claiming).await.expect("at once").unwrap().unwrap().unwrap();
    assert_eq!(claimed.task.id, id);
    end(storage, fixture).await;
}

/// The other half: an upkeep says that it moves tasks, and holds none of them when it does the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upkeep_moves_tasks_whose_time_has_come_while_claims_wait_for_it() {
    let storage = fresh();
    let fixture = with_a_due_task(&storage).await;
    let claim_of_another =
        Stranger::says(&storage.database, &format!("SELECT pg_advisory_xact_lock_shared({RELEASE_LOCK})")).await;
    let store = Arc::clone(&fixture.store);
    let upkeep = tokio::spawn(async move { upkeep(&*store).await });
    somebody_waits(&storage);
    claim_of_another.lets_go().await;
    timeout(MOMENT, upkeep).await.expect("at once").unwrap().unwrap();
    assert_eq!(fixture.claimed(claim("q", "default", 1)).await.unwrap().task.id, task_id("urgent"));
    end(storage, fixture).await;
}

/// A server creates its queues when it starts, and must not fail because another one changes settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_exists_is_found_while_somebody_holds_it_alone() {
    let (storage, fixture) = with_queue().await;
    let stranger = Stranger::says(&storage.database, "SELECT 1 FROM taskqueue.queues FOR UPDATE").await;
    let created = timeout(MOMENT, fixture.write(create_queue("q"))).await.expect("at once");
    assert!(matches!(created, Ok(false)), "{created:?}");
    stranger.lets_go().await;
    end(storage, fixture).await;
}

/// I13, where a batch has read the task that somebody else holds: a creation is repeated beside the claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_for_a_held_task_that_its_batch_has_read() {
    let (storage, fixture) = with_queue().await;
    fixture.create("x", Definition::default()).await;
    let stranger = Stranger::holds(&storage, "x").await;
    let (mut claims, mut replays) = (Vec::new(), Vec::new());
    for run in 0..30 {
        replays.push(start(&fixture, create("q", "x", Definition::default())));
        claims.push(start(&fixture, claim("q", "default", run)));
    }
    for replay in replays {
        assert!(matches!(replay.await.unwrap(), Ok(CreatedTask { created: false, .. })));
    }
    assert!(!claims.iter().any(JoinHandle::is_finished), "a claim found nothing though something was pending");
    stranger.lets_go().await;
    let mut taken = 0;
    for claim in claims {
        taken += usize::from(claim.await.unwrap().unwrap().is_some());
    }
    assert_eq!(taken, 1);
    end(storage, fixture).await;
}

/// I13 for claims of several: none of them is told that there is nothing, and none of them has taken anything yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_several_wait_as_a_whole_for_a_task_that_another_transaction_holds() {
    let (storage, fixture) = with_queue().await;
    fixture.ok(create_all(["x", "y", "z"])).await;
    let stranger = Stranger::holds(&storage, "y").await;
    let enough = fixture.ok(claim_all([1])).await;
    assert!(matches!(&enough[..], [Ok(Some(_))]), "what is there is enough: {enough:?}");
    stranger.lets_go().await;
    let items = answers_of_those_who_wait((&storage, &fixture), "y", vec![claim_all([2, 3, 4])]).await.remove(0);
    let ids: Vec<_> = items.iter().map(|item| item.as_ref().unwrap().as_ref().map(|claimed| claimed.task.id)).collect();
    assert_eq!(ids, [Some(task_id("y")), Some(task_id("z")), None]);
    end(storage, fixture).await;
}

/// Two writers, each with a part of what there is, must not wait for each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_of_several_wait_as_a_whole_for_a_task_that_another_transaction_holds() {
    let (storage, fixture) = with_queue().await;
    let ids = ["x", "y", "z"];
    fixture.ok(create_all(ids)).await;
    fixture.ok(claim_all(ids)).await;
    let says = ids.map(|id| RunItem::from(progress(id, id, r#"{"step":1}"#)));
    let ends = ids.map(|id| RunItem::from(complete("q", id, id, object("{}"))));
    for reports in [says, ends.clone()] {
        let (stranger, before) = (Stranger::holds(&storage, "z").await, fixture.tasks("q").await);
        let mut reporting = start(&fixture, report_all(reports));
        assert!(timeout(Duration::from_millis(500), &mut reporting).await.is_err(), "it was answered too early");
        assert_eq!(fixture.tasks("q").await, before, "nothing was reported");
        // Others go on, of the same tasks too.
        assert!(timeout(MOMENT, fixture.write(heartbeat("q", "x", "x"))).await.expect("at once").is_ok());
        stranger.lets_go().await;
        let items = timeout(MOMENT, reporting).await.expect("at once").unwrap().unwrap();
        assert_eq!(items, [Ok(None), Ok(None), Ok(None)]);
    }
    assert!(fixture.tasks("q").await.iter().all(|task| task.outcome.progress.is_some()));
    assert_eq!(fixture.ok(report_all(ends)).await, [Ok(None), Ok(None), Ok(None)]);
    assert_eq!(fixture.count_by_status().await, [0, 0, 3, 0, 0]);
    end(storage, fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_and_output_wait_for_a_task_that_another_transaction_holds() {
    let (storage, fixture) = with_queue().await;
    fixture.create_running("x", Definition::default()).await;
    fixture.ok(print("x", "x", 0, "one ")).await;
    let waiting = commands![progress("x", "x", r#"{"step":1}"#), print("x", "x", 4, "two")];
    answers_of_those_who_wait((&storage, &fixture), "x", waiting).await;
    let output = fixture.store.read_output(&queue("q"), task_id("x"), 0, 1_000).await.unwrap();
    assert_eq!(output.text, "one two");
    end(storage, fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_several_that_want_more_than_there_is_share_it_soon() {
    let (storage, fixture) = with_queue().await;
    for round in 0..10 {
        fixture.ok(create_all((0..30).map(|n| format!("{round}x{n}")))).await;
        let claims: Vec<_> =
            (0..8).map(|n| start(&fixture, claim_all((0..50).map(|run| format!("{round}x{n}x{run}"))))).collect();
        let mut claimed = 0;
        for claim in claims {
            let items = timeout(MOMENT, claim).await.expect("soon").unwrap().unwrap();
            claimed += items.iter().flatten().flatten().count();
        }
        assert_eq!(claimed, 30);
    }
    end(storage, fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_commands_on_a_held_task_suffer_and_not_for_long() {
    let (storage, fixture) = with_queue().await;
    fixture.create("x", with_routes(&["held"])).await;
    let stranger = Stranger::holds(&storage, "x").await;
    let begun = Instant::now();
    let suffering =
        commands![claim("q", "held", "held"), update("q", "x", to_priority(1)), cancel("q", "x"), delete("q", "x")];
    let suffering: Vec<_> = suffering.into_iter().map(|command| start(&fixture, command)).collect();
    for n in 0..30 {
        let others = async {
            fixture.create_running(n, Definition::default()).await;
            fixture.ok(complete("q", n, n, object("{}"))).await;
        };
        timeout(MOMENT, others).await.expect("others are not held up");
        assert!(n > 0 || !suffering.iter().any(JoinHandle::is_finished), "others had to wait for them");
    }
    // While the task is still held: they do not wait for it to be let go.
    for command in suffering {
        assert_eq!(timeout(MOMENT, command).await.expect("not for long").unwrap(), Err(StoreError::Busy));
    }
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    stranger.lets_go().await;
    assert_eq!(fixture.status("x").await, Status::Pending, "what was answered busy was not done");
    end(storage, fixture).await;
}

/// L1: the leases of others end in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_task_keeps_no_other_lease_from_ending() {
    let (storage, fixture) = with_queue().await;
    fixture.scan().await;
    for id in ["x", "y", "z"] {
        fixture.create_running(id, Definition::default()).await;
    }
    fixture.pass(295).await;
    fixture.clock.advance_seconds(5);
    let stranger = Stranger::holds(&storage, "x").await;
    let scanned = timeout(MOMENT, fixture.scan()).await.expect("a scan does not wait for one task");
    assert_eq!(scanned, Scanned { expired_runs: 2, ..Scanned::default() });
    stranger.lets_go().await;
    assert_eq!(fixture.scan().await.expired_runs, 1);
    end(storage, fixture).await;
}

/// L2: after an outage, one held task does not keep the service from going on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_task_does_not_prolong_an_outage() {
    let (storage, fixture) = with_queue().await;
    fixture.scan().await;
    for id in ["x", "y"] {
        fixture.create_running(id, Definition::default()).await;
    }
    fixture.clock.advance_seconds(290);
    let stranger = Stranger::holds(&storage, "x").await;
    let writing = timeout(MOMENT, fixture.create("z", Definition::default()));
    writing.await.expect("others are not held up");
    fixture.pass(20).await;
    assert_eq!(fixture.status("y").await, Status::Running, "it has its credit");
    stranger.lets_go().await;
    end(storage, fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_others_hold_for_a_moment_gets_its_credit_too() {
    let (storage, fixture) = with_queue().await;
    fixture.scan().await;
    fixture.create_running("x", Definition::default()).await;
    fixture.clock.advance_seconds(299);
    let stranger = Stranger::holds(&storage, "x").await;
    let scanning = start(&fixture, Scan);
    stranger.lets_go().await;
    assert_eq!(scanning.await.unwrap(), Ok(Scanned { credited_runs: 1, ..Scanned::default() }));
    end(storage, fixture).await;
}

/// A scan may end a thousand runs in its transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_lease_scan() {
    let (storage, fixture) = with_queue().await;
    let stranger = Stranger::says(&storage.database, "SELECT 1 FROM taskqueue.clock FOR UPDATE").await;
    // As many as there are writers of any kind.
    let scans: Vec<_> = (0..5).map(|_| start(&fixture, Scan)).collect();
    let waits = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("a scan waits for the clock", || !storage.database.rows(waits).is_empty());
    fixture.create("x", Definition::default()).await;
    assert!(scans.iter().all(|scan| !scan.is_finished()), "none was given up meanwhile");
    stranger.lets_go().await;
    for scan in scans {
        assert!(scan.await.unwrap().is_ok());
    }
    end(storage, fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_somebody_holds_is_waited_for_in_bounded_time() {
    let (storage, fixture) = with_queue().await;
    fixture.create("x", Definition::default()).await;
    fixture.get("x").await;
    let stranger = Stranger::says(&storage.database, "LOCK TABLE taskqueue.tasks IN ACCESS EXCLUSIVE MODE").await;
    let waiting: Vec<_> = (0..40).map(|n| start(&fixture, create("q", n, Definition::default()))).collect();
    let name = queue("q");
    let reading = fixture.store.get_task(&name, task_id("x"));
    // While the table is still held: nobody waits for it to be let go.
    assert_eq!(timeout(MOMENT, reading).await.expect("not for long"), Err(StoreError::Busy));
    for command in waiting {
        assert_eq!(timeout(MOMENT, command).await.expect("not for long").unwrap(), Err(StoreError::Busy));
    }
    stranger.lets_go().await;
    // It would be answered busy if it took 5 seconds.
    fixture.create("y", Definition::default()).await;
    end(storage, fixture).await;
}

/// A command that fails does not affect the others of its batch, and has changed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_answered_with_a_failure_is_not_done() {
    let (storage, fixture) = with_queue().await;
    storage.database.admin(
        "CREATE FUNCTION taskqueue.refuse() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''not this one''; END';
        CREATE TRIGGER refuse BEFORE INSERT ON taskqueue.tasks FOR EACH ROW WHEN (NEW.name = 'bad')
            EXECUTE FUNCTION taskqueue.refuse()",
    );
    for bad in [1, 5] {
        let (mut bads, mut goods) = (Vec::new(), Vec::new());
        for n in 0..40 {
            if n % 8 == 0 && n / 8 < bad {
                bads.push(start(&fixture, create("q", format!("{bad}bad{n}"), named("bad"))));
            }
            goods.push((n, start(&fixture, create("q", format!("{bad}x{n}"), Definition::default()))));
        }
        for command in bads {
            assert_eq!(command.await.unwrap(), Err(StoreError::Unavailable));
        }
        for (n, command) in goods {
            let answer = command.await.unwrap();
            let kept = fixture.store.get_task(&queue("q"), task_id(format!("{bad}x{n}"))).await.is_ok();
            assert_eq!(answer.is_ok(), kept, "{answer:?}");
            assert!(answer.is_ok() || bad > 1, "one bad command spoiled another: {answer:?}");
        }
    }
    end(storage, fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_command_undoes_its_batch_and_the_others_are_done_one_by_one() {
    let (storage, fixture) = with_queue().await;
    fixture.create("x", with_routes(&["broken"])).await;
    // A task without its definition: it is picked for a claim and cannot be loaded.
    storage.database.admin("DELETE FROM taskqueue.definitions");
    let claims: Vec<_> = (0..5).map(|run| start(&fixture, claim("q", "broken", run))).collect();
    let creations: Vec<_> = (0..30).map(|id| start(&fixture, create("q", id, Definition::default()))).collect();
    for claim in claims {
        let answer = claim.await.unwrap();
        assert!(matches!(answer, Err(StoreError::Broken(_))), "{answer:?}");
    }
    for creation in creations {
        assert!(creation.await.unwrap().unwrap().created);
    }
    let status = storage.database.rows("SELECT DISTINCT status FROM taskqueue.tasks");
    assert_eq!(status, [[Some("pending".to_owned())]], "nothing of a broken command was kept");
}

/// How many rows of activity a queue has.
fn activity_rows(storage: &Fresh, queue: &str) -> usize {
    let of_queue = format!("(SELECT queue_key FROM taskqueue.queues WHERE name = '{queue}')");
    storage.database.rows(&format!("SELECT 1 FROM taskqueue.activity WHERE queue_key = {of_queue}")).len()
}

/// A bulk update has a queue for itself: what was counted for it is saved when it is done, that of other queues at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_activity_of_a_queue_that_another_transaction_holds_is_saved_later_and_that_of_others_now() {
    let (storage, fixture) = with_queue().await;
    fixture.ok(create_queue("other")).await;
    fixture.create(1, Definition::default()).await;
    fixture.ok(create("other", 1, Definition::default())).await;
    let stranger =
        Stranger::says(&storage.database, "SELECT 1 FROM taskqueue.queues WHERE name = 'q' FOR UPDATE").await;
    let store = Arc::clone(&fixture.store);
    let saving = tokio::spawn(async move { save_activity(&*store).await });
    eventually("the other queue's rows are saved", || activity_rows(&storage, "other") == 2);
    assert_eq!((activity_rows(&storage, "q"), saving.is_finished()), (0, false));
    let created = timeout(MOMENT, fixture.ok(create("other", 2, Definition::default()))).await;
    assert!(created.expect("nobody waits for activity").created);
    stranger.lets_go().await;
    assert_eq!(timeout(MOMENT, saving).await.expect("at once").unwrap(), Ok(()));
    assert_eq!(activity_rows(&storage, "q"), 2);
    end(storage, fixture).await;
}

/// Whoever has a queue for itself, as a bulk update has, reads tasks without locking them and writes what it has decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_tasks_of_a_queue_that_another_transaction_holds_are_deleted_later_and_those_of_others_now() {
    let storage = fresh();
    let fixture = Fixture::open(&storage).await;
    let retention = Retention { cancelled_seconds: Some(1), ..Retention::default() };
    for name in ["other", "q"] {
        fixture.ok(CreateQueue { queue: queue(name), retention }).await;
        fixture.ok(create(name, 1, Definition::default())).await;
        fixture.ok(cancel(name, 1)).await;
    }
    fixture.clock.advance_seconds(1);
    let stranger =
        Stranger::says(&storage.database, "SELECT 1 FROM taskqueue.queues WHERE name = 'q' FOR UPDATE").await;
    timeout(MOMENT, fixture.upkeep()).await.expect("nobody waits for a queue");
    assert_eq!((fixture.tasks("q").await.len(), fixture.tasks("other").await.len()), (1, 0));
    stranger.lets_go().await;
    fixture.upkeep().await;
    assert_eq!(fixture.tasks("q").await.len(), 0);
    end(storage, fixture).await;
}

/// Old rows are removed some at a time, by whoever comes first; nobody waits for those that another transaction holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_activity_is_forgotten_around_rows_that_another_transaction_holds() {
    let (storage, fixture) = with_queue().await;
    let other = storage.try_open(&fixture.clock).await.unwrap();
    storage.database.admin(
        "INSERT INTO taskqueue.activity SELECT queue_key, 60, n::bigint * 60000000, 1, ''
        FROM taskqueue.queues, generate_series(1, 7000) AS n",
    );
    let left = || activity_rows(&storage, "q");
    let rows = "SELECT 1 FROM taskqueue.activity WHERE start_at <= 600000000 FOR UPDATE";
    let stranger = Stranger::says(&storage.database, rows).await;
    save_activity(&*fixture.store).await.unwrap();
    assert_eq!(left(), 5_000, "so many at a time");
    let together = async { tokio::join!(save_activity(&*fixture.store), save_activity(&other)) };
    assert_eq!(timeout(MOMENT, together).await.expect("nobody waits"), (Ok(()), Ok(())));
    assert!((1_000..=3_000).contains(&left()), "{} are left", left());
    for _ in 0..2 {
        save_activity(&other).await.unwrap();
    }
    assert_eq!(left(), 10, "those that somebody holds");
    stranger.lets_go().await;
    save_activity(&other).await.unwrap();
    assert_eq!(left(), 0);
    other.close().await;
    end(storage, fixture).await;
}
