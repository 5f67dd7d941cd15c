//! Waiting claims: everything that makes a task claimable wakes one waiting claim, and none is forgotten.

use std::collections::BTreeSet;
use std::future::pending;

use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::timeout;

use super::prelude::*;
use crate::waiting;

/// Longer than any machine needs; a wake-up that is lost ends here.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so.
pub(super) async fn until(what: &str, reached: impl Fn() -> bool) {
    let reached = async {
        while !reached() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// What a wait ends with.
pub(super) async fn ended<T>(waiting: JoinHandle<T>) -> T {
    timeout(PATIENCE, waiting).await.expect("a wake-up was lost").unwrap()
}

/// The id of the task that was waited for.
pub type Waited = Result<Option<String>, StoreError>;

/// Waits for ever for a task; gives its id.
async fn wait(store: Arc<dyn Store>, for_route: &str, run: usize) -> Waited {
    let waiter = store.waiters().register(&queue("q"), &route(for_route), usize::MAX);
    let Some(waiter) = waiter else { return Ok(None) };
    let look = || store.write(claim("q", for_route, run));
    let claimed = waiting::claim(waiter, look, pending()).await?;
    Ok(claimed.map(|claimed| claimed.task.id.to_string()))
}

/// Begins to wait at a store for a task of `q`.
pub fn waiter_at(store: &Arc<dyn Store>, for_route: &'static str, run: usize) -> JoinHandle<Waited> {
    tokio::spawn(wait(Arc::clone(store), for_route, run))
}

pub(super) fn waiter(fixture: &Fixture, for_route: &'static str, run: usize) -> JoinHandle<Waited> {
    waiter_at(&fixture.store, for_route, run)
}

pub(super) async fn resting(fixture: &Fixture, count: usize) {
    resting_at(&fixture.store, count).await;
}

/// Waits until so many claims rest at a store.
pub async fn resting_at(store: &Arc<dyn Store>, count: usize) {
    let resting = || store.waiters().waiting_routes().iter().map(|(_, _, resting)| resting).sum::<usize>();
    until("as many rest", || resting() == count).await;
}

/// The id of the task that a waiter must get.
pub async fn got(waiter: JoinHandle<Waited>) -> String {
    ended(waiter).await.unwrap().expect("a task")
}

/// A task that only `route` can have, running as run 1000 + `n`.
async fn running(fixture: &Fixture, n: usize, route: &str) {
    fixture.create(n, with_routes(&[route])).await;
    fixture.claimed(claim("q", route, 1000 + n)).await.expect("a task");
}

pub async fn everything_that_makes_a_task_claimable_wakes(fixture: Fixture) {
    const CAUSES: [&[&str]; 2] = [
        &["creation", "fail", "unclaim", "requeue", "requeue of a running one after cancel"],
        &["update", "bulk update", "bulk requeue", "late report", "expiry"],
    ];
    for (n, cause) in CAUSES.concat().into_iter().enumerate() {
        match cause {
            "creation" => {}
            "update" | "bulk update" => drop(fixture.create(n, with_routes(&["elsewhere"])).await),
            "requeue" | "bulk requeue" => {
                fixture.create(n, with_routes(&[ROUTES[n]])).await;
                fixture.ok(cancel("q", n)).await;
            }
            _ => running(&fixture, n, ROUTES[n]).await,
        }
        let waiting = waiter(&fixture, ROUTES[n], n);
        resting(&fixture, 1).await;
        match cause {
            "creation" => drop(fixture.create(n, with_routes(&[ROUTES[n], "elsewhere"])).await),
            "fail" => fixture.ok(fail("q", n, 1000 + n)).await,
            "unclaim" => fixture.ok(unclaim("q", n, 1000 + n)).await,
            "update" => drop(fixture.ok(update("q", n, to_routes(&[ROUTES[n]]))).await),
            "bulk update" => {
                let only = format!("id == '{}'", task_id(n));
                fixture.ok(update_all("q", &only, to_routes(&[ROUTES[n], "elsewhere"]))).await;
            }
            "bulk requeue" => {
                let only = format!("id == '{}'", task_id(n));
                fixture.ok(act_on_all("q", BulkAction::Requeue, &only)).await;
            }
            "late report" => {
                fixture.pass(295).await;
                // Between two scans.
                fixture.clock.advance_seconds(6);
                fixture.refused(heartbeat("q", n, 1000 + n)).await;
            }
            "expiry" => assert_eq!(fixture.pass(300).await.expired_runs, 1),
            _ => {
                if cause != "requeue" {
                    fixture.ok(cancel("q", n)).await;
                }
                fixture.ok(requeue("q", n)).await;
            }
        }
        assert_eq!(got(waiting).await, task_id(n).to_string(), "{cause}");
        fixture.ok(cancel("q", n)).await;
    }
}

const ROUTES: [&str; 10] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"];

pub async fn deleting_the_queue_wakes_its_waiters(fixture: Fixture) {
    let waiters = [waiter(&fixture, "default", 1), waiter(&fixture, "default", 2), waiter(&fixture, "other", 3)];
    resting(&fixture, 3).await;
    fixture.ok(delete_queue("q", false)).await;
    for waiter in waiters {
        let refused = ended(waiter).await;
        assert_eq!(refused, Err(StoreError::Refused(Refusal::QueueNotFound { queue: queue("q") })));
    }
    assert!(fixture.store.waiters().is_empty());
}

pub async fn a_used_run_id_is_refused_at_once(fixture: Fixture) {
    running(&fixture, 1, "default").await;
    fixture.ok(unclaim("q", 1, 1001)).await;
    fixture.ok(cancel("q", 1)).await;
    let refused = ended(waiter(&fixture, "default", 1001)).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::StaleRun { run_id: run_id(1001) })));
}

pub async fn waiters_are_served_in_their_order_and_tasks_in_theirs(fixture: Fixture) {
    let mut waiters = Vec::new();
    for run in 0..6 {
        waiters.push(waiter(&fixture, "default", run));
        resting(&fixture, run + 1).await;
    }
    for (n, waiter) in waiters.into_iter().enumerate() {
        fixture.create(n, with_priority(i64::try_from(n).unwrap())).await;
        assert_eq!(got(waiter).await, task_id(n).to_string(), "first come, first served");
    }
    // Nobody waits: what comes now is taken by priority, then in its order.
    for (n, priority) in [(10, 0), (11, 5), (12, 5), (13, 1)] {
        fixture.create(n, with_priority(priority)).await;
    }
    for (run, n) in [(20, 11), (21, 12), (22, 13), (23, 10)] {
        assert_eq!(got(waiter(&fixture, "default", run)).await, task_id(n).to_string());
    }
    assert!(fixture.store.waiters().is_empty());
}

pub async fn who_left_takes_nothing_and_the_next_one_is_woken(fixture: Fixture) {
    let (leaving, staying) = (waiter(&fixture, "default", 1), waiter(&fixture, "default", 2));
    resting(&fixture, 2).await;
    leaving.abort();
    assert!(leaving.await.is_err());
    fixture.create(1, Definition::default()).await;
    assert_eq!(got(staying).await, task_id(1).to_string());
    let late = waiter(&fixture, "default", 3);
    resting(&fixture, 1).await;
    late.abort();
    assert!(late.await.is_err());
    fixture.create(2, Definition::default()).await;
    assert_eq!(fixture.status(2).await, taskqueue_core::task::Status::Pending);
}

pub async fn who_got_a_task_elsewhere_passes_the_wake_up_on(fixture: Fixture) {
    let first = waiter(&fixture, "default", 1);
    resting(&fixture, 1).await;
    let second = waiter(&fixture, "default", 2);
    resting(&fixture, 2).await;
    // The run of the first one takes a task of another route meanwhile.
    fixture.create(1, with_routes(&["other"])).await;
    fixture.claimed(claim("q", "other", 1)).await.expect("a task");
    fixture.create(2, Definition::default()).await;
    assert_eq!(got(second).await, task_id(2).to_string());
    let refused = ended(first).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::RunIdConflict { run_id: run_id(1) })));
}

pub async fn a_task_with_two_routes_reaches_whoever_is_left(fixture: Fixture) {
    for n in 0..20 {
        let (a, b) = (waiter(&fixture, "a", 100 + n), waiter(&fixture, "b", 200 + n));
        resting(&fixture, 2).await;
        // The hint of the first one goes to `a`, which takes the second one if it is there in time. Then the first one is
        // still there for `b`.
        let (both, only) = (10 + 2 * n, 11 + 2 * n);
        let urgent = Definition { routes: routes(&["a"]), ..with_priority(1) };
        let (first, second) = tokio::join!(
            fixture.write(create("q", both, with_routes(&["a", "b"]))),
            fixture.write(create("q", only, urgent))
        );
        assert!(first.is_ok() && second.is_ok());
        let left = if got(a).await == task_id(both).to_string() {
            fixture.create(500 + n, with_routes(&["b"])).await;
            fixture.ok(cancel("q", only)).await;
            500 + n
        } else {
            both
        };
        assert_eq!(got(b).await, task_id(left).to_string());
    }
}

pub async fn a_stop_ends_all_waits(fixture: Fixture) {
    let waiters: Vec<_> = (0..20).map(|run| waiter(&fixture, "default", run)).collect();
    resting(&fixture, 20).await;
    fixture.store.waiters().close();
    for waiter in waiters {
        assert_eq!(ended(waiter).await, Ok(None));
    }
    assert_eq!(ended(waiter(&fixture, "default", 99)).await, Ok(None), "nobody is taken any more");
}

pub async fn a_thousand_waiters_and_a_thousand_creations_in_random_order(fixture: Fixture) {
    const MANY: usize = 1_000;
    let mut random = Random::new(13);
    // Each route has as many waiters as tasks that only it can have.
    let mut steps: Vec<(bool, usize)> = (0..MANY).flat_map(|n| [(true, n), (false, n)]).collect();
    for last in (1..steps.len()).rev() {
        steps.swap(last, random.below(last + 1));
    }
    let (mut waiters, mut creations) = (JoinSet::new(), JoinSet::new());
    for (waits, n) in steps {
        let (store, route) = (Arc::clone(&fixture.store), ROUTES[n % 7]);
        if waits {
            waiters.spawn(async move { wait(store, route, n).await });
        } else {
            let create = create("q", n, Definition { routes: routes(&[route]), ..with_priority((n % 3) as i64) });
            creations.spawn(async move { store.write(create).await });
        }
        if random.percent(30) {
            yield_now().await;
        }
    }
    let created = timeout(PATIENCE, creations.join_all()).await.unwrap();
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    let waited = timeout(PATIENCE, waiters.join_all()).await.expect("none is left waiting");
    let ids: BTreeSet<String> = waited.into_iter().map(|got| got.unwrap().expect("a task")).collect();
    assert_eq!(ids.len(), MANY, "each task went to exactly one waiter");
    assert_eq!(fixture.count_by_status().await, [0, MANY as u64, 0, 0, 0]);
    assert!(fixture.store.waiters().is_empty());
}
