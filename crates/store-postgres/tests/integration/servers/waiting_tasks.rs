//! Tasks that wait for a time or for others, at several servers (docs/decisions/0063): none is lost, whoever comes first, none is
//! claimed too early, and whoever waits for one is told.

use futures_util::future::{join, join3};
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::conformance::waiting::{got, waiter_at};
use taskqueue_test_postgres::eventually;
use tokio::task::JoinSet;

use super::races::{HeldTable, stop_batch, warm_writers};
use super::{Servers, claimed};
use crate::held_rows::Stranger;

/// How many tasks of the route `default` claims of all servers get.
async fn claim_everything(servers: &Servers, tasks: usize) -> usize {
    let claims = (0..tasks + 20).map(|run| claim("q", "default", format!("c{run}")));
    servers.together(claims.collect()).await.iter().filter_map(claimed).count()
}

/// No transaction of the test has waited for another one in a circle.
fn assert_no_deadlocks(servers: &Servers) {
    let database = &servers.storage.database;
    let counted = "SELECT deadlocks, xact_commit > 20 FROM pg_stat_database WHERE datname = current_database()";
    eventually("the database has counted", || database.rows(counted)[0][1].as_deref() == Some("t"));
    assert_eq!(database.rows(counted)[0][0].as_deref(), Some("0"));
}

/// A running task of its own route.
async fn parent(servers: &Servers, id: usize) {
    servers.fixture.create(id, with_routes(&["parents"])).await;
    servers.fixture.claimed(claim("q", "parents", id)).await.expect("a task");
}

/// Creations that only take time.
fn others(round: usize) -> impl Iterator<Item = AnyCommand> {
    (0..round % 5).map(move |n| create("q", format!("o{round}o{n}"), with_routes(&["other"])).into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_is_created_while_its_parent_succeeds_at_another_server_is_not_lost() {
    let servers = Servers::open(2).await;
    for round in 0..60 {
        let id = round * 10;
        parent(&servers, id).await;
        let mut commands: Vec<AnyCommand> = others(round).collect();
        commands.push(complete("q", id, id, object("{}")).into());
        commands.extend((1..=4).map(|n| AnyCommand::from(create("q", id + n, waits_for(&[id])))));
        let first = round % commands.len();
        commands.rotate_left(first);
        servers.all_succeed(commands).await;
    }
    servers.fixture.upkeep().await;
    assert_eq!(claim_everything(&servers, 240).await, 240);
    assert_no_deadlocks(&servers);
    servers.end().await;
}

/// There is no row of the parent that both could hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_is_created_before_its_parent_which_another_server_creates_and_ends_is_not_lost() {
    let servers = Servers::open(2).await;
    for round in 0..40 {
        let id = round * 10;
        let mut creations = JoinSet::new();
        for n in 1..=4 {
            let store = Arc::clone(&servers.stores[1]);
            creations.spawn(async move { store.write(create("q", id + n, waits_for(&[id]))).await.unwrap() });
        }
        parent(&servers, id).await;
        servers.fixture.ok(complete("q", id, id, object("{}"))).await;
        creations.join_all().await;
    }
    servers.fixture.upkeep().await;
    assert_eq!(claim_everything(&servers, 160).await, 160);
    assert_no_deadlocks(&servers);
    servers.end().await;
}

/// The same, with certainty: the parent is created and ends while the creation of the child is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_whose_parent_came_and_succeeded_while_it_was_created_is_released_by_the_upkeep() {
    let servers = Servers::open(2).await;
    let database = &servers.storage.database;
    let notes = HeldTable::keep(database, "dependencies").await;
    let creation = servers.begin(1, create("q", 2, waits_for(&[1])));
    notes.stops(1);
    parent(&servers, 1).await;
    servers.fixture.ok(complete("q", 1, 1, object("{}"))).await;
    notes.let_go().await;
    // A slow machine may have tried it again, and found the parent.
    assert!(creation.await.unwrap().task.lifecycle.unmet <= 1);
    servers.fixture.upkeep().await;
    assert_eq!(claim_everything(&servers, 1).await, 1);
    assert!(servers.storage.database.rows("SELECT 1 FROM taskqueue.unsettled").is_empty());
    servers.end().await;
}

/// A task is created and cancelled in one transaction. Its child, which has not seen it, is looked at before that is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_of_a_task_that_was_cancelled_when_it_was_created_at_another_server_is_cancelled_too() {
    let servers = Servers::open(2).await;
    servers.fixture.create(1, Definition::default()).await;
    servers.fixture.ok(cancel("q", 1)).await;
    let unsuccessful = HeldTable::keep(&servers.storage.database, "unsuccessful").await;
    let creation = servers.begin(1, create("q", 2, cancelled_with(&[1])));
    unsuccessful.stops(1);
    servers.fixture.create(3, cancelled_with(&[2])).await;
    servers.fixture.upkeep().await;
    assert_eq!(servers.fixture.status(3).await, Status::Pending);
    unsuccessful.let_go().await;
    creation.await.unwrap();
    servers.fixture.upkeep().await;
    assert_eq!(servers.fixture.status(3).await, Status::Cancelled);
    assert!(servers.storage.database.rows("SELECT 1 FROM taskqueue.unsettled").is_empty());
    servers.end().await;
}

/// A bulk update may have its queue for itself for many seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_that_were_left_are_released_while_somebody_holds_the_queue_of_older_ones() {
    let servers = Servers::open(2).await;
    let fixture = &servers.fixture;
    fixture.ok(create_queue("other")).await;
    for name in ["q", "other"] {
        fixture.ok(create(name, 1, with_routes(&["parents"]))).await;
        fixture.claimed(claim(name, "parents", name)).await.expect("a task");
        fixture.ok(create(name, 2, waits_for(&[1]))).await;
        let held = format!("SELECT 1 FROM taskqueue.tasks WHERE id = '{}' FOR UPDATE", task_id(2));
        let holder = Stranger::says(&servers.storage.database, &held).await;
        fixture.ok(complete(name, 1, name, object("{}"))).await;
        holder.lets_go().await;
    }
    let left = || servers.storage.database.rows("SELECT 1 FROM taskqueue.unsettled").len();
    assert_eq!(left(), 2);
    let bulk_update =
        Stranger::says(&servers.storage.database, "SELECT 1 FROM taskqueue.queues WHERE name = 'q' FOR UPDATE").await;
    fixture.upkeep().await;
    assert!(fixture.claimed(claim("other", "default", 2)).await.is_some());
    bulk_update.lets_go().await;
    fixture.upkeep().await;
    assert!(fixture.claimed(claim("q", "default", 3)).await.is_some());
    assert_eq!(left(), 0);
    servers.end().await;
}

/// A missing dependency is looked at again once, and nothing becomes of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_that_is_still_missing_is_no_deleted_one() {
    let servers = Servers::open(2).await;
    servers.fixture.create(2, cancelled_with(&[1])).await;
    servers.fixture.create(4, cancelled_with(&[3])).await;
    servers.fixture.create(3, with_routes(&["parents"])).await;
    servers.fixture.upkeep().await;
    assert!(servers.storage.database.rows("SELECT 1 FROM taskqueue.unsettled").is_empty());
    assert_eq!((servers.fixture.status(2).await, servers.fixture.status(4).await), (Status::Pending, Status::Pending));
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_are_cancelled_with_others_are_so_whichever_server_they_are_created_at() {
    let servers = Servers::open(2).await;
    for round in 0..40 {
        let id = round * 10;
        servers.fixture.create(id, with_routes(&["parents"])).await;
        let mut commands: Vec<AnyCommand> = others(round).collect();
        commands.push(cancel("q", id).into());
        // Each waits for the one before.
        commands.extend((1..=4).map(|n| AnyCommand::from(create("q", id + n, cancelled_with(&[id + n - 1])))));
        let first = round % commands.len();
        commands.rotate_left(first);
        servers.all_succeed(commands).await;
    }
    servers.fixture.upkeep().await;
    for id in (0..40).flat_map(|round| (0..=4).map(move |n| round * 10 + n)) {
        assert_eq!(servers.fixture.status(id).await, Status::Cancelled, "{id}");
    }
    assert_no_deadlocks(&servers);
    servers.end().await;
}

/// Two parents of the same children end at two servers at once: each holds some of the children.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_whose_parents_end_at_two_servers_at_once_are_all_released() {
    let servers = Servers::open(2).await;
    for round in 0..20 {
        let id = round * 20;
        parent(&servers, id).await;
        parent(&servers, id + 1).await;
        servers.together((2..12).map(|n| create("q", id + n, waits_for(&[id, id + 1]))).collect()).await;
        let ends = [id, id + 1].map(|id| AnyCommand::from(complete("q", id, id, object("{}"))));
        servers.all_succeed(others(round).chain(ends).collect()).await;
    }
    servers.fixture.upkeep().await;
    assert_eq!(claim_everything(&servers, 200).await, 200);
    assert_no_deadlocks(&servers);
    servers.end().await;
}

/// A batch has read that a task waits for one that it completes, when another server updates what that task waits for; then it
/// comes to hold the task by another way, and what it has read is no longer true.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_waits_for_something_else_by_now_is_not_released() {
    let servers = Servers::open(2).await;
    for id in [1, 2] {
        parent(&servers, id).await;
    }
    servers.fixture.create(3, cancelled_with(&[1])).await;
    servers.fixture.create(4, waits_for(&[2, 3])).await;
    warm_writers(&servers).await;
    let notes = HeldTable::keep(&servers.storage.database, "dependencies").await;
    let change = Update { dependencies: Some(dependencies(&[3])), ..Update::default() };
    let update = servers.begin(1, update("q", 4, change));
    notes.stops(1);

    let store = &*servers.stores[0];
    let ends = [fail_for_good("q", 1, 1).into(), complete("q", 2, 2, object("{}")).into()];
    let mut batch = Box::pin(join(
        report_all(ends).write_to(store),
        observe("q", 1, "default", WorkerStatus::Idle).write_to(store),
    ));
    let observations = stop_batch(&servers, &mut batch).await;
    notes.let_go().await;
    assert_eq!(update.await.unwrap().lifecycle.unmet, 1);
    observations.let_go().await;
    let (ended, observed) = batch.await;
    assert_eq!((ended, observed.is_ok()), (Ok(vec![Ok(None), Ok(None)]), true));
    servers.fixture.upkeep().await;
    let expected = (Status::Cancelled, Status::Pending);
    assert_eq!((servers.fixture.status(3).await, servers.fixture.status(4).await), expected);
    assert_eq!(claim_everything(&servers, 0).await, 0, "what it waits for was cancelled");
    servers.end().await;
}

/// A batch creates a task that is cancelled at once, and with it a child that the batch has only read. When it looked who waits for
/// that child, another server was about to create one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_grandchild_that_is_created_while_its_parent_is_created_again_is_cancelled_with_it() {
    let servers = Servers::open(2).await;
    servers.fixture.create(1, with_routes(&["parents"])).await;
    servers.fixture.ok(cancel("q", 1)).await;
    servers.fixture.create(3, cancelled_with(&[2])).await;
    warm_writers(&servers).await;
    let notes = HeldTable::keep(&servers.storage.database, "dependencies").await;
    let creation = servers.begin(1, create("q", 4, cancelled_with(&[3])));
    notes.stops(1);

    let store = &*servers.stores[0];
    let tasks = [(2, cancelled_with(&[1])), (3, cancelled_with(&[2]))];
    let tasks = tasks.into_iter().map(|(id, definition)| (task_id(id), Box::new(definition.into()))).collect();
    let both = CreateTasks { queue: queue("q"), tasks };
    let mut batch =
        Box::pin(join(both.write_to(store), observe("q", 1, "default", WorkerStatus::Idle).write_to(store)));
    let observations = stop_batch(&servers, &mut batch).await;
    notes.let_go().await;
    creation.await.unwrap();
    observations.let_go().await;
    let (created, observed) = batch.await;
    assert_eq!((created.map(|items| items.len()), observed.is_ok()), (Ok(2), true));
    servers.fixture.upkeep().await;
    for id in 2..=4 {
        assert_eq!(servers.fixture.status(id).await, Status::Cancelled, "{id}");
    }
    servers.end().await;
}

/// A batch has looked who waits for a delayed task before it could lock it. It gets it for a claim, when another server that held it is
/// done with the creation of a child, and cancels it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_is_created_just_before_its_parent_is_claimed_and_cancelled_is_cancelled_with_it() {
    for others_wait in [false, true] {
        let servers = Servers::open(2).await;
        if others_wait {
            servers.fixture.create(9, waits_for(&[8])).await;
        }
        servers.fixture.ok(create_later(1, Definition::default(), servers.fixture.now().plus_seconds(10))).await;
        warm_writers(&servers).await;
        servers.fixture.clock.advance_seconds(10);
        let notes = HeldTable::keep(&servers.storage.database, "dependencies").await;
        let creation = servers.begin(1, create("q", 2, cancelled_with(&[1])));
        notes.stops(1);

        let store = &*servers.stores[0];
        let mut batch = Box::pin(join3(
            claim("q", "default", 1).write_to(store),
            cancel("q", 1).write_to(store),
            observe("q", 1, "default", WorkerStatus::Idle).write_to(store),
        ));
        let observations = stop_batch(&servers, &mut batch).await;
        notes.let_go().await;
        creation.await.unwrap();
        observations.let_go().await;
        let (claimed, cancelled, observed) = batch.await;
        assert_eq!(claimed.unwrap().map(|claimed| claimed.task.id), Some(task_id(1)));
        assert_eq!((cancelled.is_ok(), observed.is_ok()), (true, true));
        servers.fixture.upkeep().await;
        assert_eq!(servers.fixture.status(2).await, Status::Cancelled, "others wait: {others_wait}");
        servers.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn delayed_tasks_are_claimed_once_each_and_none_too_early() {
    let servers = Servers::open(3).await;
    let due = servers.fixture.now().plus_seconds(10);
    servers.together((0..100).map(|id| create_later(id, Definition::default(), due)).collect()).await;
    servers.fixture.clock.advance_seconds(9);
    assert_eq!(claim_everything(&servers, 0).await, 0);
    servers.fixture.clock.advance_seconds(1);
    let answers = servers.together((0..120).map(|run| claim("q", "default", run)).collect()).await;
    let mut ids: Vec<_> = answers.iter().filter_map(claimed).map(|claimed| claimed.task.id.to_string()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100, "nobody went away empty-handed while something was due");
    servers.end().await;
}

/// The other server moves them, and is not told which claims wait where.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_whose_time_has_come_wakes_a_claim_at_another_server() {
    let servers = Servers::open(2).await;
    let waiting = waiter_at(&servers.stores[1], "default", 1);
    servers.fixture.ok(create_later(1, Definition::default(), servers.fixture.now().plus_seconds(10))).await;
    servers.fixture.clock.advance_seconds(10);
    servers.fixture.upkeep().await;
    assert_eq!(got(waiting).await, task_id(1).to_string());
    servers.end().await;
}
