//! The database goes away and comes back in every way it can: nothing acknowledged is lost, and service goes on at once
//! (I7, I10, L2).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use taskqueue_store::conformance::prelude::*;
use taskqueue_store_postgres::PostgresStore;
use taskqueue_test_postgres::{Cluster, Database, eventually, patient};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{MissedTickBehavior, interval};

use crate::storage::open;
use crate::storage::tables::assert_tables_are_consistent;

/// After a fault heals, the first write succeeds within this (L2 of docs/reference/invariants.md §4).
const HEALED: Duration = Duration::from_secs(5);
/// What the same takes on a new store at that moment is added so many times: a busy machine is not held against the one that heals.
const MARGIN: u32 = 3;
/// A request is answered within this, whatever happens (L3): its patience is 5 seconds, and the rest is for a busy machine.
const ANSWERED: Duration = Duration::from_secs(30);

/// Stores on one database, with the queue `q`. They connect within the time that users have, so that outages are met as theirs are.
async fn stores(url: &str, number: usize) -> Vec<Arc<PostgresStore>> {
    let mut stores = Vec::new();
    while stores.len() < number {
        stores.push(Arc::new(open(url, None).await.unwrap_or_else(|error| panic!("{error}"))));
    }
    stores[0].write(create_queue("q")).await.unwrap();
    stores
}

/// Writes, and again until it is acknowledged, a hundred times a second at most: every command here may be repeated.
async fn insist<C: Command + Clone + std::fmt::Debug>(store: &PostgresStore, command: C) -> C::Answer {
    let mut turns = interval(Duration::from_millis(10));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let begun = Instant::now();
        match store.write(command.clone()).await {
            Ok(answer) => return answer,
            Err(StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown) => {}
            Err(refused) => panic!("{command:?}: {refused}"),
        }
        assert!(begun.elapsed() < ANSWERED, "{command:?} took {:?}", begun.elapsed());
    }
}

/// Clients that create, claim and complete tasks until they are told to stop.
struct Load {
    clients: JoinSet<Vec<String>>,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
}

impl Load {
    fn start(stores: &[Arc<PostgresStore>], clients: usize) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut load = Self { clients: JoinSet::new(), stop, answers };
        for client in 0..clients {
            let store = Arc::clone(&stores[client % stores.len()]);
            let (stop, answers) = (Arc::clone(&load.stop), Arc::clone(&load.answers));
            load.clients.spawn(async move {
                let (route, mut done) = (format!("route{client}"), Vec::new());
                while !stop.load(Ordering::SeqCst) {
                    let name = format!("{client}x{}", done.len());
                    insist(&store, create("q", &name, with_routes(&[&route]))).await;
                    let Some(claimed) = insist(&store, claim("q", &route, &name)).await else {
                        panic!("the task {name} is lost");
                    };
                    assert_eq!((claimed.task.id, claimed.task.lifecycle.attempt), (task_id(&name), 1));
                    insist(&store, complete("q", &name, &name, object("{}"))).await;
                    done.push(name);
                    answers.fetch_add(1, Ordering::SeqCst);
                }
                done
            });
        }
        load
    }

    /// Waits for some more tasks to be done: the service works.
    fn goes_on(&self) {
        let before = self.answers.load(Ordering::SeqCst);
        block_in_place(|| {
            eventually("the service goes on", || self.answers.load(Ordering::SeqCst) >= before + 10);
        });
    }

    /// Stops the clients; everything that they were told is there, and nothing else.
    async fn end(self, stores: Vec<Arc<PostgresStore>>, database: &Database) {
        self.stop.store(true, Ordering::SeqCst);
        let done: Vec<String> = self.clients.join_all().await.into_iter().flatten().collect();
        for name in &done {
            let task = stores[0].get_task(&queue("q"), task_id(name)).await.unwrap();
            assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Succeeded, 1), "{task:?}");
        }
        let count = async |selection| stores[0].count_tasks(&queue("q"), selection).await.unwrap();
        let others = count(filtered("'default' in routes")).await;
        assert_eq!(count(all()).await - others, done.len() as u64);
        for store in stores {
            store.close().await;
        }
        assert_tables_are_consistent(database).await;
    }
}

/// A write and a read succeed; gives how long that takes.
async fn works(store: &PostgresStore, name: &str) -> Duration {
    let begun = Instant::now();
    insist(store, create("q", name, Definition::default())).await;
    store.get_task(&queue("q"), task_id(name)).await.unwrap();
    begun.elapsed()
}

/// The first write succeeds in time.
async fn assert_heals(store: &PostgresStore, database: &Database, name: &str) {
    let healed = works(store, name).await;
    let begun = Instant::now();
    let new = open(&patient(&database.url()), None).await.unwrap_or_else(|error| panic!("{error}"));
    works(&new, &format!("{name}new")).await;
    let expected = begun.elapsed();
    new.close().await;
    assert!(healed < HEALED + MARGIN * expected, "healed after {healed:?} only; a new one takes {expected:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_connections_lose_nothing() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let stores = stores(&database.url(), 2).await;
    let load = Load::start(&stores, 4);
    for round in 0..6 {
        load.goes_on();
        assert!(block_in_place(|| cluster.terminate_backends(&database)) > 0);
        for (n, store) in stores.iter().enumerate() {
            assert_heals(store, &database, &format!("r{round}x{n}")).await;
        }
    }
    load.goes_on();
    load.end(stores, &database).await;
}

/// A read whose connection was ended is done again: nobody notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_store_does_not_notice_that_its_connections_were_ended() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let stores = stores(&database.url(), 1).await;
    for round in 0..3 {
        stores[0].write(create("q", round, Definition::default())).await.unwrap();
        stores[0].get_task(&queue("q"), task_id(round)).await.unwrap();
        assert!(block_in_place(|| cluster.terminate_backends(&database)) > 0);
    }
    stores[0].get_task(&queue("q"), task_id(0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_and_a_crash_of_the_database_lose_nothing() {
    let cluster = Cluster::private();
    let database = cluster.database();
    let stores = stores(&database.url(), 2).await;
    let load = Load::start(&stores, 4);
    for (round, end) in [Cluster::stop, Cluster::crash, Cluster::crash].into_iter().enumerate() {
        load.goes_on();
        block_in_place(|| end(&cluster));
        let begun = Instant::now();
        let away = stores[0].write(create("q", "away", Definition::default())).await;
        assert!(matches!(away, Err(StoreError::Unavailable | StoreError::Busy)), "{away:?}");
        let away = stores[0].get_task(&queue("q"), task_id("away")).await;
        assert!(matches!(away, Err(StoreError::Unavailable | StoreError::Busy)), "{away:?}");
        assert!(stores[0].check().await.is_err());
        assert!(begun.elapsed() < ANSWERED, "{:?}", begun.elapsed());
        block_in_place(|| cluster.start());
        for (n, store) in stores.iter().enumerate() {
            assert_heals(store, &database, &format!("r{round}x{n}")).await;
        }
    }
    load.goes_on();
    load.end(stores, &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_clients_are_busy_until_there_is_room() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let url = database.password_url("secret");
    let role = format!("{}_owner", database.name());
    let stores = stores(&url, 1).await;
    let store = &stores[0];
    store.write(create("q", 1, Definition::default())).await.unwrap();
    block_in_place(|| {
        database.admin(&format!("ALTER ROLE {role} CONNECTION LIMIT 0"));
        cluster.terminate_backends(&database);
    });
    assert_eq!(store.write(create("q", 2, Definition::default())).await, Err(StoreError::Busy));
    assert_eq!(store.get_task(&queue("q"), task_id(1)).await, Err(StoreError::Busy));
    block_in_place(|| database.admin(&format!("ALTER ROLE {role} CONNECTION LIMIT -1")));
    assert_heals(store, &database, "x").await;
    assert!(store.get_task(&queue("q"), task_id(2)).await.is_err(), "what was answered busy was not done");
    store.close().await;
}
