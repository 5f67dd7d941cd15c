//! What several servers count together (docs/decisions/0059): each sees what all have done, and none waits for another.
use taskqueue_store::conformance::prelude::*;

use super::Servers;

async fn stats(store: &Arc<dyn Store>, queue: &QueueName) -> QueueStats {
    store.queue_stats(queue, &ALL_ROUTES).await.unwrap()
}

async fn series(store: &Arc<dyn Store>) -> Vec<[u64; 7]> {
    let selection = SeriesSelection { unit: Unit::Hour, from: None, to: None };
    let series = store.activity_series(&queue("q"), selection).await.unwrap();
    series.spans.iter().map(|(_, activity)| numbers(&activity.counts)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_server_counted_is_in_the_stats_of_all_once_it_is_saved() {
    let servers = Servers::open(3).await;
    let [first, second, third] = &servers.stores[..] else { panic!("three servers") };
    for id in 0..4 {
        first.write(create("q", id, Definition::default())).await.unwrap();
    }
    for (id, run) in [(0, 0), (1, 1), (2, 2)] {
        assert_eq!(second.write(claim("q", "default", run)).await.unwrap().unwrap().task.id, task_id(id));
    }
    third.write(complete("q", 0, 0, object("{}"))).await.unwrap();
    third.write(fail("q", 1, 1)).await.unwrap();
    assert_eq!(numbers(&stats(first, &queue("q")).await.last_minute), [4, 0, 0, 0, 0, 0, 0], "its own at once");
    // Saved twice by one of them.
    for store in [first, second, second, third] {
        save_activity(&**store).await.unwrap();
    }
    let all = stats(first, &queue("q")).await;
    assert_eq!(numbers(&all.last_minute), [4, 3, 1, 1, 0, 0, 0]);
    assert!(all.wait.is_some() && all.run.is_some(), "{all:?}");
    for store in [second, third] {
        assert_eq!(stats(store, &queue("q")).await, all);
        assert_eq!(series(store).await, [[4, 3, 1, 1, 0, 0, 0]]);
    }
    servers.end().await;
}

/// What a process has counted is in its rows even if it ends without a word; what another one counts stays apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_lost_takes_only_with_it_what_it_had_not_saved() {
    let mut servers = Servers::open(2).await;
    let lost = servers.stores.pop().unwrap();
    lost.write(create("q", 1, Definition::default())).await.unwrap();
    save_activity(&*lost).await.unwrap();
    lost.write(create("q", 2, Definition::default())).await.unwrap();
    lost.close().await;
    servers.fixture.create(3, Definition::default()).await;
    save_activity(&*servers.fixture.store).await.unwrap();
    assert_eq!(series(&servers.fixture.store).await, [[2, 0, 0, 0, 0, 0, 0]]);
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_may_be_deleted_while_another_server_saves_its_activity() {
    let servers = Servers::open(3).await;
    for round in 0..25 {
        servers.fixture.ok(create_queue("x")).await;
        let creations = (0..6).map(|n| create("x", format!("{round}x{n}"), Definition::default()));
        servers.together(creations.collect()).await;
        let [first, second, third] = [0, 1, 2].map(|server| Arc::clone(&servers.stores[server]));
        let (deleted, saved, saved_too) =
            tokio::join!(first.write(delete_queue("x", true)), save_activity(&*second), save_activity(&*third));
        assert_eq!((deleted, saved, saved_too), (Ok(()), Ok(()), Ok(())), "round {round}");
        let gone = StoreError::from(Refusal::QueueNotFound { queue: queue("x") });
        assert_eq!(second.queue_stats(&queue("x"), &ALL_ROUTES).await, Err(gone));
    }
    // What the first server counted is of queues that are gone.
    save_activity(&*servers.stores[0]).await.unwrap();
    assert!(servers.storage.database.rows("SELECT 1 FROM taskqueue.activity").is_empty());
    servers.end().await;
}

/// The size is measured in the background: the first answer may not have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_the_tables_is_soon_among_the_figures() {
    let servers = Servers::open(1).await;
    let measured = async {
        loop {
            let figures = servers.stores[0].figures(&[], &ALL_ROUTES, PendingDetail::Number).await.unwrap();
            if let Some(bytes) = figures.database_bytes {
                return bytes;
            }
        }
    };
    let bytes = tokio::time::timeout(Duration::from_secs(20), measured).await.expect("it is measured");
    let told = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'taskqueue'::regnamespace";
    let told: u64 = servers.storage.database.rows(told)[0][0].as_deref().unwrap().parse().unwrap();
    assert!((told / 2..=told).contains(&bytes), "{bytes} of {told}");
    servers.end().await;
}
