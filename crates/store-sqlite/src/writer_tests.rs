//! When the claim index is published. The writer runs on the test's own thread.

use std::task::{Context, Waker};

use taskqueue_core::delta::PendingEntry;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::portions::SeveralItems;
use taskqueue_store::transaction::{TaskKey, Transaction};
use taskqueue_store::waiting::Waiter;
use taskqueue_store::write_queue::{MAX_LIGHT, WriteQueue};
use tempfile::TempDir;

use super::{Write, *};
use crate::claim_index::room::Room;
use crate::{Options, migrate, open};

/// A writer over a fresh file with the queue `q`.
fn writer() -> (Writer, TempDir) {
    writer_with(&Options::default())
}

fn writer_with(options: &Options) -> (Writer, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut ownership = Ownership::take(&folder.path().join("tasks.db")).unwrap();
    let mut connection = open::writer(ownership.path()).unwrap();
    migrate::migrate(&mut connection, ownership.path()).unwrap();
    ownership.watch_log().unwrap();
    let ownership = Arc::new(ownership);
    let checkpointer =
        Checkpointer::start(open::checkpointer(ownership.path()).unwrap(), Arc::clone(&ownership)).unwrap();
    checkpointer.watch(&mut connection).unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let builder = IndexBuilder::start(open::long_reader(ownership.path()).unwrap()).unwrap();
    let claim_index =
        ClaimIndex::new(options.history, Some(builder.requests.clone()), Room::within(options.pending_bytes));
    let threads = (checkpointer, builder);
    let mut writer = Writer::new(connection, claim_index, ownership, clock, options.outage_credit_seconds, threads);
    assert_eq!(serve(&mut writer, vec![create_queue("q")]), [Ok(true)]);
    (writer, folder)
}

/// Executes commands as the thread does.
fn execute_writes(writer: &mut Writer, writes: Vec<Write>) {
    let batch = writer.set_long_aside(writes);
    writer.with_claim_index(|writer| writer.execute(batch));
}

/// Executes a batch.
fn serve<C: Command>(writer: &mut Writer, commands: Vec<C>) -> Vec<Result<C::Answer, StoreError>> {
    let (batch, answers): (Vec<_>, Vec<_>) = commands.into_iter().map(queued).unzip();
    execute_writes(writer, batch);
    answers.into_iter().map(wait).collect()
}

/// Executes one command.
fn serve_one<C: Command>(writer: &mut Writer, command: C) -> Result<C::Answer, StoreError> {
    serve(writer, vec![command]).remove(0)
}

/// Executes a bulk update without a plan.
fn serve_bulk(writer: &mut Writer, bulk: BulkUpdate) -> Result<Updated, StoreError> {
    let (write, answer) = Write::bulk(Arc::new(bulk), None);
    execute_writes(writer, vec![write]);
    wait(answer)
}

fn shows_nothing(writer: &Writer) -> bool {
    writer.shared.published_index.finds_nothing(&claim("q", "default", 1))
}

#[test]
fn the_index_is_not_published_before_the_commit() {
    let (mut writer, _folder) = writer();
    assert!(shows_nothing(&writer));
    writer.with_claim_index(|writer| {
        let published_index = writer.shared.clone().published_index;
        let seen = writer.in_transaction(|tx| {
            tx.insert_queue(&queue("r"))?;
            Ok(published_index.finds_nothing(&claim("q", "default", 1)) || published_index.withdraw().is_some())
        });
        assert_eq!(seen, Ok(false));
        assert!(!shows_nothing(writer));
    });
    assert!(shows_nothing(&writer));
    assert!(writer.shared.published_index.finds_nothing(&claim("r", "default", 1)));
}

#[test]
fn a_repeated_creation_uses_up_no_task_key() {
    let (mut writer, _folder) = writer();
    let last_key = |writer: &mut Writer| {
        let mut last_key = 0;
        writer.with_claim_index(|writer| last_key = writer.claim_index.history.last_key);
        last_key
    };
    let creation = create("q", 1, Definition::default());
    assert!(serve_one(&mut writer, creation.clone()).is_ok());
    assert_eq!(last_key(&mut writer), 1);
    for _ in 0..3 {
        assert!(serve_one(&mut writer, creation.clone()).is_ok());
    }
    assert_eq!(last_key(&mut writer), 1);
}

#[test]
fn empty_claims_that_reach_the_writer_need_no_transaction() {
    let (mut writer, folder) = writer();
    // Whoever holds the file lets every transaction fail.
    let stranger = Connection::open(folder.path().join("tasks.db")).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claims = (1..=3).map(|run| claim("q", "default", run)).collect();
    assert_eq!(serve(&mut writer, claims), [Ok(None), Ok(None), Ok(None)]);
    assert_eq!(serve_one(&mut writer, claim_all([1, 2])), Ok(vec![Ok(None), Ok(None)]));
}

#[test]
fn after_a_panic_and_after_a_transaction_that_was_given_up_others_see_what_the_file_holds() {
    for (panics, expected) in [(true, StoreError::Unavailable), (false, StoreError::Busy)] {
        let (mut writer, _folder) = writer();
        writer.with_claim_index(|writer| {
            let undone = writer.in_transaction::<()>(|tx| {
                tx.insert_queue(&queue("r"))?;
                assert!(!panics, "a bug in a rule");
                Err(StoreError::Busy)
            });
            assert_eq!(undone, Err(expected));
            assert!(panics || writer.failed_at.is_none(), "the storage works");
        });
        assert!(shows_nothing(&writer));
        assert!(!writer.shared.published_index.finds_nothing(&claim("r", "default", 1)), "there is no such queue");
        assert_eq!(serve(&mut writer, vec![create_queue("r")]), [Ok(true)]);
        assert!(writer.shared.published_index.finds_nothing(&claim("r", "default", 1)));
    }
}

#[test]
fn a_panic_outside_of_a_transaction_withdraws_the_index() {
    let (mut writer, _folder) = writer();
    let published_index = writer.shared.clone().published_index;
    let panicked = catch_unwind(AssertUnwindSafe(|| writer.with_claim_index(|_| panic!("the end of the thread"))));
    assert!(panicked.is_err());
    assert!(!published_index.finds_nothing(&claim("q", "default", 1)) && published_index.withdraw().is_none());
}

#[test]
fn the_index_of_a_storage_that_failed_is_not_published_until_it_was_opened_again() {
    let (mut writer, _folder) = writer();
    writer.with_claim_index(Writer::fail);
    assert!(!shows_nothing(&writer));
    assert_eq!(serve(&mut writer, vec![claim("q", "default", 1)]), [Err(StoreError::Unavailable)]);
    assert!(!shows_nothing(&writer));
    writer.with_claim_index(Writer::reopen);
    assert!(shows_nothing(&writer));
}

/// So a disk that has room again, for example, is found out by the first write after that (L2 of docs/reference/invariants.md §4).
#[test]
fn a_storage_that_failed_a_second_ago_is_tried_again_by_the_next_write_and_not_by_each() {
    let (mut writer, _folder) = writer();
    writer.with_claim_index(Writer::fail);
    // However long this takes, it failed just now.
    writer.failed_at = Some(Instant::now() + Duration::from_secs(3_600));
    assert_eq!(serve(&mut writer, vec![create_queue("r")]), [Err(StoreError::Unavailable)]);
    writer.failed_at = Instant::now().checked_sub(Duration::from_secs(1));
    assert_eq!(serve(&mut writer, vec![create_queue("r")]), [Ok(true)]);
}

#[test]
fn a_batch_of_large_answers_is_committed_in_parts_and_every_command_is_answered() {
    let (mut writer, _folder) = writer();
    let large = Definition { args: object_of_bytes(1_000_000), ..Definition::default() };
    for n in 0..40 {
        assert!(serve(&mut writer, vec![create("q", n, large.clone())])[0].is_ok());
    }
    let committed = |writer: &Writer| -> i64 {
        writer
            .connection
            .query_row("SELECT count(*) FROM tasks WHERE status = 'running'", [], |row| row.get(0))
            .unwrap()
    };
    let (mut batch, answered): (Vec<_>, Vec<_>) = (0..40).map(|n| queued(claim("q", "default", n))).unzip();
    // Seventeen answers are more than 16 MiB.
    writer.with_claim_index(|writer| {
        let done = writer.transact(&mut batch).unwrap();
        assert!((16..20).contains(&done), "{done} answers in one transaction");
        assert_eq!(committed(writer), done as i64);
        writer.left = batch.split_off(done);
        while !writer.left.is_empty() {
            let left = std::mem::take(&mut writer.left);
            writer.execute(left);
        }
    });
    assert_eq!(committed(&writer), 40);
    // Those of the first transaction are released by its caller, which is this test.
    assert!(answered.into_iter().skip(20).all(|answer| matches!(wait(answer), Ok(Some(_)))));
}

#[test]
fn a_queue_that_fills_the_memory_of_pending_tasks_is_refused_more_and_the_others_are_not() {
    let (mut writer, _folder) = writer_with(&Options { pending_bytes: 20_000, ..Options::default() });
    serve(&mut writer, vec![create_queue("other")]);
    let mut taken = 0;
    while serve(&mut writer, vec![create("q", taken, Definition::default())])[0].is_ok() {
        taken += 1;
        assert!(taken < 1_000, "a full queue takes tasks");
    }
    assert!(taken > 100, "{taken}");
    // Nothing that would make it larger, but everything else, and everything in another queue.
    assert_eq!(serve_one(&mut writer, requeue("q", 0)), Err(StoreError::Busy));
    assert_eq!(serve_one(&mut writer, update("q", 0, to_routes(&["x", "y"]))), Err(StoreError::Busy));
    let bulk = update_all("q", "priority == 0", to_routes(&["x"]));
    assert_eq!(serve_bulk(&mut writer, bulk), Err(StoreError::Busy));
    assert!(serve_one(&mut writer, update("q", 0, to_priority(3))).is_ok());
    assert!(serve_one(&mut writer, create("other", 0, Definition::default())).is_ok());
    assert_eq!(serve_one(&mut writer, create_all([1_001])), Err(StoreError::Busy));
    let many = CreateTasks { queue: queue("other"), ..create_all(1..1_000) };
    assert_eq!(serve_one(&mut writer, many), Err(StoreError::Busy), "more than there is room for, together");
    assert!(serve_one(&mut writer, claim("q", "default", 1)).is_ok());
    // A task that comes back is taken, however full it is.
    assert!(serve(&mut writer, vec![unclaim("q", 0, 1)])[0].is_ok());
    for n in 0..taken / 2 {
        assert!(serve(&mut writer, vec![delete("q", n)])[0].is_ok());
    }
    assert!(serve(&mut writer, vec![create("q", taken, Definition::default())])[0].is_ok());
}

#[test]
fn queues_that_fill_the_memory_of_pending_tasks_leave_each_other_queue_its_share() {
    let (mut writer, _folder) = writer_with(&Options { pending_bytes: 1_000_000, ..Options::default() });
    let in_queue = |name: &str, tasks: std::ops::Range<usize>| CreateTasks { queue: queue(name), ..create_all(tasks) };
    // One is there before the attack, one is created afterwards.
    let attackers: Vec<String> = (0..40).map(|n| format!("exp-{n}")).collect();
    for name in attackers.iter().map(String::as_str).chain(["late"]) {
        assert_eq!(serve_one(&mut writer, create_queue(name)), Ok(true));
        let mut taken = 0;
        for portion in [1_000, 100, 10, 1] {
            while name != "late" && serve_one(&mut writer, in_queue(name, taken..taken + portion)).is_ok() {
                taken += portion;
            }
        }
    }
    for name in ["q", "late"] {
        assert!(serve_one(&mut writer, in_queue(name, 0..15)).is_ok(), "{name}");
        let created = serve(&mut writer, (15..20).map(|n| create(name, n, Definition::default())).collect());
        assert!(created.into_iter().all(|created| created.is_ok()));
        assert_eq!(serve_one(&mut writer, in_queue(name, 20..1_000)), Err(StoreError::Busy), "more than its share");
        let one_by_one: Vec<_> = (20..1_000).map(|n| create(name, n, Definition::default())).collect();
        let created = serve(&mut writer, one_by_one).into_iter().filter(Result::is_ok).count();
        assert!((1..20).contains(&created), "{created} of a batch, which is counted as a whole");
    }
}

#[test]
fn a_batch_of_several_portions_is_refused_at_the_first_one_if_all_of_them_have_no_room() {
    let (mut writer, _folder) = writer_with(&Options { pending_bytes: 2_000_000, ..Options::default() });
    let names: Vec<String> = (0..256).map(|n| format!("r{n}")).collect();
    let wide = with_routes(&names);
    let tasks =
        |count: usize| (0..count).map(|n| create("q", n, wide.clone())).map(|task| (task.id, task.new)).collect();
    let many = CreateTasks { queue: queue("q"), tasks: tasks(200) };
    let first = many.portion(0);
    assert!(first.tasks.len() < 200);
    assert_eq!(serve_one(&mut writer, first.clone()), Err(StoreError::Busy));
    let alone = CreateTasks { queue: queue("q"), tasks: tasks(first.tasks.len()) };
    assert!(serve_one(&mut writer, alone).is_ok());
}

#[test]
fn a_bulk_update_of_routes_that_would_fill_the_memory_is_undone() {
    let (mut writer, _folder) = writer_with(&Options { pending_bytes: 50_000, ..Options::default() });
    for n in 0..100 {
        assert!(serve(&mut writer, vec![create("q", n, Definition::default())])[0].is_ok());
    }
    let names: Vec<String> = (0..256).map(|n| format!("r{n}")).collect();
    let wide = to_routes(&names);
    assert_eq!(serve_bulk(&mut writer, update_all("q", "priority == 0", wide)), Err(StoreError::Busy));
    assert_eq!(serve(&mut writer, vec![claim("q", "r0", 1)]), [Ok(None)], "nothing has the new routes");
    assert!(matches!(serve(&mut writer, vec![claim("q", "default", 2)])[..], [Ok(Some(_))]));
}

/// A transaction keeps 2,048 hints; with more of them everything is looked at.
#[test]
fn what_asks_for_a_look_everywhere_wakes_whoever_waits_for_what_is_pending() {
    let (mut writer, _folder) = writer();
    let waiters = writer.shared.clone().waiters;
    let mut resting = waiters.register(&queue("q"), &route("default"), 1).unwrap();
    resting.park();
    let is_woken = |resting: &mut Waiter| std::pin::pin!(resting.woken()).poll(&mut noop()).is_ready();
    let mut everywhere = Claimable::new(true);
    everywhere.poll_all = true;
    writer.with_claim_index(|writer| writer.wake(&everywhere));
    assert!(!is_woken(&mut resting), "nothing is pending");
    assert!(matches!(serve(&mut writer, vec![create("q", 1, with_routes(&["other"]))])[..], [Ok(_)]));
    writer.with_claim_index(|writer| writer.wake(&everywhere));
    assert!(!is_woken(&mut resting), "nothing that it waits for");
    writer.with_claim_index(|writer| {
        let key = writer.claim_index.queue(&queue("q")).unwrap();
        let routes = &routes(&["default"]);
        let entry = PendingEntry { routes, priority: 0, pending_seq: 9, not_before: None, blocked: false };
        writer.claim_index.add_pending(key, TaskKey(9), entry, Timestamp::default());
        writer.wake(&everywhere);
    });
    assert!(is_woken(&mut resting));
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// However many long commands wait, everybody else is served between two of them.
#[test]
fn one_long_command_comes_between_two_batches() {
    let (mut writer, _folder) = writer();
    let (requests, mut backlog) = WriteQueue::new();
    let send = |write: Write| requests.submit(write).unwrap();
    let long = ["a", "b", "c"].map(|name| queued(delete_queue(name, true))).map(|(write, answer)| {
        send(write);
        answer
    });
    let (write, first) = queued(create_queue("x"));
    send(write);
    let served = |writer: &mut Writer, backlog: &mut _| {
        let batch = writer.next_batch(backlog).unwrap();
        let ordinary = batch.len();
        writer.with_claim_index(|writer| writer.execute(batch));
        (ordinary, writer.long_writes.len())
    };
    assert_eq!(served(&mut writer, &mut backlog), (1, 2));
    let (write, second) = queued(create_queue("y"));
    send(write);
    assert_eq!(served(&mut writer, &mut backlog), (1, 1));
    assert_eq!(served(&mut writer, &mut backlog), (0, 0));
    assert!(wait(first).is_ok() && wait(second).is_ok());
    for refused in long {
        assert!(matches!(wait(refused), Err(StoreError::Refused(_))));
    }
}

#[test]
fn a_command_that_was_withdrawn_is_not_done() {
    let (mut writer, _folder) = writer();
    let (write, answer) = queued(create_queue("r"));
    drop(answer);
    execute_writes(&mut writer, vec![write]);
    assert_eq!(writer.connection.query_row("SELECT count(*) FROM queues", [], |row| row.get(0)), Ok(1));
}

/// Returns what the connection that writes does at a commit: 2 is FULL, a sync before the answer.
fn synchronous(connection: &Connection) -> i64 {
    connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
}

#[test]
fn the_writer_syncs_every_commit_also_after_it_was_opened_again() {
    let (mut writer, folder) = writer();
    assert_eq!(synchronous(&writer.connection), 2);
    writer.with_claim_index(Writer::fail);
    writer.with_claim_index(Writer::reopen);
    assert_eq!(writer.failed_at, None);
    assert_eq!(synchronous(&writer.connection), 2);
    assert_eq!(synchronous(&open::checkpointer(&folder.path().join("tasks.db")).unwrap()), 2);
}

#[test]
fn a_broken_command_undoes_its_batch_and_the_others_are_done_one_by_one() {
    let (mut writer, _folder) = writer();
    for task in 1..=4 {
        assert!(serve_one(&mut writer, create("q", task, Definition::default())).unwrap().created);
    }
    // A task without its definition: it is found and cannot be loaded.
    let of_tasks =
        "DELETE FROM definitions WHERE task_key IN (SELECT task_key FROM tasks WHERE id <= 't_000000000003')";
    assert_eq!(writer.connection.execute(of_tasks, []), Ok(3));
    let (creation, created) = queued(create_queue("r"));
    let (broken, answers): (Vec<_>, Vec<_>) = (1..=3).map(|task| queued(update("q", task, to_priority(9)))).unzip();
    let (last, updated) = queued(update("q", 4, to_priority(9)));
    let mut batch = vec![creation];
    batch.extend(broken);
    batch.push(last);
    writer.with_claim_index(|writer| {
        assert!(matches!(writer.transact(&mut batch), Err(StoreError::Broken(_))));
        let queues = writer.connection.query_row("SELECT count(*) FROM queues", [], |row| row.get(0));
        assert_eq!(queues, Ok(1), "nothing of the batch was kept");
        assert!(writer.failed_at.is_none(), "the storage works");
    });
    execute_writes(&mut writer, batch);
    assert_eq!(wait(created), Ok(true));
    for answer in answers {
        assert!(matches!(wait(answer), Err(StoreError::Broken(_))));
    }
    assert_eq!(wait(updated).unwrap().definition.priority, 9, "although some others were broken");
}

#[test]
fn what_was_undone_is_counted_when_it_is_done_again_and_not_before() {
    let (mut writer, _folder) = writer();
    let created = |writer: &Writer| -> u64 {
        writer.shared.activity.totals().queues.values().map(|activity| activity.counts.of(Event::Created)).sum()
    };
    assert!(serve_one(&mut writer, create("q", 1, Definition::default())).unwrap().created);
    assert_eq!((writer.connection.execute("DELETE FROM definitions", []), created(&writer)), (Ok(1), 1));
    let (first, _first) = queued(create("q", 2, Definition::default()));
    let (broken, _broken) = queued(update("q", 1, to_priority(9)));
    let (last, _last) = queued(create("q", 3, Definition::default()));
    let mut batch = vec![first, broken, last];
    writer.with_claim_index(|writer| {
        assert!(matches!(writer.transact(&mut batch), Err(StoreError::Broken(_))));
        assert_eq!(created(writer), 1);
    });
    execute_writes(&mut writer, batch);
    assert_eq!(created(&writer), 3, "one by one");
}

#[test]
fn after_some_broken_commands_the_rest_of_their_batch_is_refused() {
    let (mut writer, _folder) = writer();
    assert!(serve_one(&mut writer, create("q", 1, Definition::default())).unwrap().created);
    assert_eq!(writer.connection.execute("DELETE FROM definitions", []), Ok(1));
    let (batch, answers): (Vec<_>, Vec<_>) = (1..=100).map(|_| queued(update("q", 1, to_priority(9)))).unzip();
    execute_writes(&mut writer, batch);
    let answers: Vec<_> = answers.into_iter().map(wait).collect();
    let broken = answers.iter().filter(|answer| matches!(answer, Err(StoreError::Broken(_)))).count();
    assert_eq!(broken as u32, MAX_BROKEN + 2, "two failures are needed to blame the storage");
    assert!(answers[broken..].iter().all(|answer| *answer == Err(StoreError::Unavailable)));
    assert_eq!(serve(&mut writer, vec![create_queue("r")]), [Ok(true)]);
}

/// Without it the log would grow as long as there are writes: the thread alone never finds all of it copied.
#[test]
fn the_log_is_begun_anew_while_writes_go_on() {
    let (mut writer, _folder) = writer();
    let begun = Instant::now();
    let (mut largest, mut number) = (0, 0);
    loop {
        let definition = Definition { args: object_of_bytes(1_000_000), ..Definition::default() };
        serve_one(&mut writer, create("q", number, definition)).unwrap();
        let pages = writer.checkpointer.log_pages();
        if pages < largest {
            break;
        }
        (largest, number) = (pages, number + 1);
        assert!(begun.elapsed().as_secs() < 60, "the log has {pages} pages");
    }
    assert!(largest >= 8_192, "the log was copied when it had only {largest} pages");
}

#[test]
fn a_writer_that_is_never_idle_purges_deleted_queues_all_the_same() {
    let (mut writer, folder) = writer();
    assert!(serve_one(&mut writer, create_all(0..1_000)).is_ok());
    assert!(serve_one(&mut writer, delete_queue("q", true)).is_ok());
    // All are there when it begins, and no more can come: it is never idle.
    let (requests, backlog) = WriteQueue::new();
    let answers: Vec<_> = (0..MAX_LIGHT * BATCHES_PER_PURGE + 1)
        .map(|_| {
            let (write, answer) = queued(heartbeat("q", 1, 1));
            requests.submit(write).unwrap();
            answer
        })
        .collect();
    requests.close();
    writer.run(backlog);
    assert!(answers.into_iter().all(|answer| matches!(wait(answer), Err(StoreError::Refused(_)))));
    let file = Connection::open(folder.path().join("tasks.db")).unwrap();
    let left = file.query_row("SELECT count(*) FROM tasks", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(left, 1_000 - PURGE);
}
