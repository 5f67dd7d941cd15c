//! Heartbeats that are held while their run goes on: whatever ends the run ends them, and no end is missed.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use super::prelude::*;
use super::run_ends::{CAUSES, end_run, take_out};
use super::waiting::{PATIENCE, ended, until};
use crate::waiting;

type Held = Result<Timestamp, StoreError>;

/// Holds a heartbeat of run `n` for task `n` until `time_over`, and counts its renewals.
fn hold(
    fixture: &Fixture,
    n: usize,
    renewals: &Arc<AtomicUsize>,
    time_over: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<Held> {
    let (store, renewals) = (Arc::clone(&fixture.store), Arc::clone(renewals));
    let watcher = store.waiters().watch(run_id(n), usize::MAX).unwrap();
    tokio::spawn(async move {
        let renew = || {
            let renewal = store.write(heartbeat("q", n, n));
            let renewals = &renewals;
            async move {
                let renewed = renewal.await;
                renewals.fetch_add(1, Ordering::SeqCst);
                renewed
            }
        };
        waiting::heartbeat(watcher, renew, time_over).await
    })
}

pub(super) fn held(fixture: &Fixture, n: usize, renewals: &Arc<AtomicUsize>) -> JoinHandle<Held> {
    hold(fixture, n, renewals, pending())
}

async fn renewed(renewals: &AtomicUsize, count: usize) {
    until("the leases are renewed", || renewals.load(Ordering::SeqCst) == count).await;
}

fn finalized(end: RunEnd) -> Held {
    Err(StoreError::Refused(Refusal::RunFinalized { end }))
}

pub async fn everything_that_ends_a_run_ends_its_held_heartbeats(fixture: Fixture) {
    for (n, (cause, end)) in CAUSES.into_iter().enumerate() {
        fixture.create_running(n, Definition::default()).await;
        let renewals = Arc::default();
        let both = [held(&fixture, n, &renewals), held(&fixture, n, &renewals)];
        renewed(&renewals, 2).await;
        end_run(&fixture, n, cause).await;
        for held in both {
            assert_eq!(ended(held).await, finalized(end), "{cause}");
        }
        assert!(fixture.store.waiters().is_empty());
        take_out(&fixture, n, cause).await;
    }
}

pub async fn a_lease_is_renewed_before_it_is_held_and_told_as_it_was_renewed(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    fixture.pass(10).await;
    let (renewals, (over, time_over)) = (Arc::default(), oneshot::channel::<()>());
    let held = hold(&fixture, 1, &renewals, async { drop(time_over.await) });
    renewed(&renewals, 1).await;
    let lease_expires_at = fixture.now().plus_seconds(LEASE_SECONDS);
    assert_eq!(fixture.get(1).await.lifecycle.run.unwrap().lease_expires_at, lease_expires_at, "durable while held");
    fixture.pass(20).await;
    drop(over);
    assert_eq!(ended(held).await, Ok(lease_expires_at));
    assert_eq!(renewals.load(Ordering::SeqCst), 1);
    assert!(fixture.store.waiters().is_empty());
}

pub async fn a_heartbeat_that_is_refused_is_not_held(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.create(2, Definition::default()).await;
    let renewals = Arc::default();
    assert_eq!(ended(held(&fixture, 1, &renewals)).await, finalized(RunEnd::Complete));
    let stale = Err(StoreError::Refused(Refusal::StaleRun { run_id: run_id(2) }));
    assert_eq!(ended(held(&fixture, 2, &renewals)).await, stale);
    let missing = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(3) };
    assert_eq!(ended(held(&fixture, 3, &renewals)).await, Err(StoreError::Refused(missing)));
    assert!(fixture.store.waiters().is_empty());
}

pub async fn the_end_of_one_run_wakes_no_other(fixture: Fixture) {
    const MANY: usize = 50;
    for n in 0..MANY {
        fixture.create_running(n, Definition::default()).await;
    }
    let renewals = Arc::default();
    let mut all: Vec<_> = (0..MANY).map(|n| held(&fixture, n, &renewals)).collect();
    renewed(&renewals, MANY).await;
    fixture.ok(cancel("q", 7)).await;
    assert_eq!(ended(all.remove(7)).await, finalized(RunEnd::Cancel));
    assert_eq!((fixture.store.waiters().len(), renewals.load(Ordering::SeqCst)), (MANY - 1, MANY + 1));
    // Who leaves is forgotten.
    all.pop().unwrap().abort();
    until("it has left", || fixture.store.waiters().len() == MANY - 2).await;
    fixture.store.waiters().close();
    for held in all {
        assert!(ended(held).await.is_ok(), "a stop tells the lease");
    }
    assert!(fixture.store.waiters().watch(run_id(1), usize::MAX).is_none());
}

pub async fn an_end_during_the_renewal_is_not_missed(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    let watcher = fixture.store.waiters().watch(run_id(1), usize::MAX).unwrap();
    let renew = || async {
        let renewed = fixture.write(heartbeat("q", 1, 1)).await;
        // The answer of the renewal is on its way.
        fixture.ok(cancel("q", 1)).await;
        renewed
    };
    let held = timeout(PATIENCE, waiting::heartbeat(watcher, renew, pending())).await;
    assert_eq!(held.expect("the end of the run was missed"), finalized(RunEnd::Cancel));
}

pub async fn an_end_at_any_moment_reaches_a_heartbeat_that_is_about_to_be_held(fixture: Fixture) {
    for n in 0..100 {
        fixture.create_running(n, Definition::default()).await;
        let held = held(&fixture, n, &Arc::default());
        for _ in 0..n % 20 {
            yield_now().await;
        }
        fixture.ok(cancel("q", n)).await;
        assert_eq!(ended(held).await, finalized(RunEnd::Cancel), "{n}");
    }
    assert!(fixture.store.waiters().is_empty());
}
