//! Settings of a queue at several servers: limits hold exactly, a change of settings counts for all claims once it is acknowledged, a
//! free place wakes claims at the other server, and upkeep is shared.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use taskqueue_store::conformance::prelude::*;
use taskqueue_store::conformance::settings::whatever_opens_wakes_claims_at;
use taskqueue_test_postgres::Database;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::Servers;

const MAX_RUNNING: u64 = 5;
const OF_ROUTE_B: u64 = 2;

fn limited(max_running: u64, of_b: u64) -> SettingsPatch {
    let route_limits = RouteLimitsPatch::Merge([(route("b"), Some(of_b))].into());
    SettingsPatch { max_running: Some(Some(max_running)), route_limits, ..SettingsPatch::default() }
}

fn paused(paused: bool) -> SettingsPatch {
    SettingsPatch { paused: Some(paused), ..SettingsPatch::default() }
}

/// How many tasks are running, and how many of them were claimed for the route `b`.
const RUNNING: &str =
    "SELECT count(*), count(*) FILTER (WHERE last_route = 'b') FROM taskqueue.tasks WHERE status = 'running'";

/// Read past the stores in one snapshot.
fn running(database: &Database) -> (u64, u64) {
    let rows = database.rows(RUNNING);
    let number = |column: usize| rows[0][column].as_deref().unwrap().parse().unwrap();
    (number(0), number(1))
}

/// Reads the same in a loop, and gives the highest numbers that it has seen.
async fn read_highest(url: String, done: Arc<AtomicBool>, reads: Arc<AtomicUsize>) -> (u64, u64) {
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut highest = (0, 0);
    while !done.load(Ordering::Relaxed) {
        let row = client.query_one(RUNNING, &[]).await.unwrap();
        let number = |column: usize| row.get::<_, i64>(column) as u64;
        highest = (highest.0.max(number(0)), highest.1.max(number(1)));
        reads.fetch_add(1, Ordering::Relaxed);
    }
    highest
}

/// Claims again and again through one of the stores, and ends most of the runs in one way or another. What it does not end expires.
async fn work(stores: Arc<Vec<RwLock<Arc<dyn Store>>>>, worker: usize, claims: usize) {
    let mut random = Random::new(worker as u64);
    for number in 0..claims {
        let store = Arc::clone(&*stores[(worker + number) % stores.len()].read().await);
        let (run, of_route) = (format!("{worker}x{number}"), random.pick(&["a", "b"]));
        let claimed: Option<Box<Claimed>> = match store.write(claim("q", of_route, &run)).await {
            Ok(claimed) => claimed,
            // The store is being closed, or the other claims were always first.
            Err(StoreError::Unavailable | StoreError::Busy) => None,
            Err(error) => panic!("{error:?}"),
        };
        let Some(claimed) = claimed else { continue };
        let id = claimed.task.id.as_str()[2..].to_owned();
        let ended = match random.pick(&[0, 1, 2, 3, 4]) {
            0 => store.write(fail("q", &id, &run)).await,
            1 => store.write(unclaim("q", &id, &run)).await,
            2 => continue,
            _ => store.write(complete("q", &id, &run, object("{}"))).await,
        };
        assert!(!matches!(ended, Err(StoreError::Broken(_))), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn limits_hold_exactly_at_two_servers_while_runs_end_and_expire_and_a_server_is_restarted() {
    let servers = Servers::open(2).await;
    for ids in [0..200_usize, 200..400] {
        servers.fixture.ok(create_all(ids)).await;
    }
    servers.fixture.ok(update_all("q", "priority == 0", to_routes(&["a", "b"]))).await;
    servers.fixture.ok(change_settings("q", limited(MAX_RUNNING, OF_ROUTE_B))).await;
    let stores: Arc<Vec<_>> = Arc::new(servers.stores.iter().map(|store| RwLock::new(Arc::clone(store))).collect());

    let (done, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let highest = tokio::spawn(read_highest(servers.storage.database.url(), Arc::clone(&done), Arc::clone(&reads)));
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        workers.spawn(work(Arc::clone(&stores), worker, 80));
    }
    let disturb = async {
        for round in 0..4 {
            let seen = reads.load(Ordering::Relaxed);
            while reads.load(Ordering::Relaxed) < seen + 100 {
                tokio::task::yield_now().await;
            }
            // What was not ended expires now.
            servers.fixture.pass(300).await;
            if round % 2 == 0 {
                let mut store = stores[1].write().await;
                store.close().await;
                *store = servers.storage.open(servers.fixture.clock.clone()).await;
            }
        }
    };
    tokio::join!(disturb, async { while workers.join_next().await.transpose().unwrap().is_some() {} });
    done.store(true, Ordering::Relaxed);
    let highest = highest.await.unwrap();
    assert!(reads.load(Ordering::Relaxed) > 400, "the reader has seen little");
    assert_eq!(highest, (MAX_RUNNING, OF_ROUTE_B), "reached, and never exceeded");

    // No room is lost: as many as before can run when all runs are over.
    servers.fixture.pass(300).await;
    let claims = (0..10).map(|run| claim("q", "a", format!("last{run}")));
    let answers = servers.together(claims.collect()).await;
    let claimed = answers.iter().filter(|answer| matches!(answer, Ok(Some(_)))).count();
    assert_eq!(claimed as u64, MAX_RUNNING);
    stores[1].read().await.close().await;
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_claim_with_the_old_settings_ends_after_the_new_ones_were_acknowledged_by_another_server() {
    let servers = Servers::open(2).await;
    for round in 0..12 {
        servers.fixture.ok(create_all((0..40).map(|id| format!("{round}x{id}")))).await;
        let mut claims = JoinSet::new();
        for run in 0..60 {
            let store = Arc::clone(&servers.stores[1]);
            claims.spawn(async move { store.write(claim("q", "default", format!("{round}x{run}"))).await });
        }
        let changed = if round % 2 == 0 { paused(true) } else { limited(0, 0) };
        servers.fixture.ok(change_settings("q", changed)).await;
        let acknowledged = running(&servers.storage.database);
        while claims.join_next().await.is_some() {}
        assert_eq!(running(&servers.storage.database), acknowledged, "round {round}");
        let open = SettingsPatch { max_running: Some(None), ..limited(0, 0) };
        let open = SettingsPatch { paused: Some(false), route_limits: RouteLimitsPatch::Clear, ..open };
        servers.fixture.ok(change_settings("q", open)).await;
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_opens_a_queue_wakes_a_claim_that_waits_at_the_other_server() {
    let servers = Servers::open(2).await;
    whatever_opens_wakes_claims_at(&servers.fixture, &servers.stores[1]).await;
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_share_the_deletion_of_ended_tasks_and_none_deletes_what_another_one_has() {
    const MANY: usize = 700;
    let servers = Servers::open(2).await;
    servers.fixture.ok(create_all(0..MANY)).await;
    servers.fixture.ok(claim_all(0..MANY)).await;
    servers.fixture.ok(report_all((0..MANY).map(|id| complete("q", id, id, object("{}")).into()))).await;
    let retention = RetentionPatch { succeeded_seconds: Some(Some(1)), ..RetentionPatch::default() };
    servers.fixture.ok(change_settings("q", SettingsPatch { retention, ..SettingsPatch::default() })).await;
    servers.fixture.clock.advance_seconds(2);
    let mut deleted = 0;
    // Each is a portion of it, or nothing, if the other server is at it.
    for _ in 0..200 {
        for upkept in servers.together(vec![Upkeep, Upkeep]).await {
            deleted += upkept.unwrap().deleted;
        }
        if deleted >= MANY as u64 {
            break;
        }
    }
    assert_eq!(deleted, MANY as u64, "each of them once");
    assert_eq!(servers.fixture.count(of_status(Status::Succeeded)).await, 0);
    let noted = servers.storage.database.rows("SELECT * FROM taskqueue.ended");
    assert!(noted.is_empty(), "{noted:?}");
    servers.end().await;
}
