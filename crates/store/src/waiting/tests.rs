//! Waiting claims and held heartbeats over stores that fail, in paused time.

use std::future::pending;
use std::ops::ControlFlow::{Break, Continue};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::*;
use crate::command::Claimed;
use crate::conformance::ManualClock;
use crate::conformance::commands::heartbeat as heartbeat_command;
use crate::conformance::commands::{cancel, claim as claim_command, create, create_queue, queue, route, run_id};
use crate::conformance::model::ModelStore;
use crate::{StoreError, StoreExt};
use taskqueue_core::definition::Definition;
use taskqueue_core::task::{FinishedRun, RunEnd};
use taskqueue_core::time::Timestamp;

const MOST: usize = 2;

async fn store() -> Arc<ModelStore> {
    let store = Arc::new(ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000)))));
    store.write(create_queue("q")).await.unwrap();
    store
}

fn register(store: &ModelStore) -> Option<Waiter> {
    store.waiters().register(&queue("q"), &route("default"), MOST)
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_its_time_is_over_and_not_before() {
    let store = store().await;
    let begun = Instant::now();
    let waiter = register(&store).unwrap();
    let over = sleep_until(begun + Duration::from_secs(60));
    let answer = claim(waiter, || store.write(claim_command("q", "default", 1)), over).await;
    assert_eq!((answer, begun.elapsed().as_secs()), (Ok(None), 60));
    assert!(store.waiters().is_empty());
}

#[tokio::test]
async fn there_is_room_for_so_many_and_no_more() {
    let store = store().await;
    let waiters = [register(&store).unwrap(), register(&store).unwrap()];
    assert!(register(&store).is_none());
    assert_eq!(store.waiters().len(), 2);
    drop(waiters);
    assert!(store.waiters().is_empty() && register(&store).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_woken_waiter_outlasts_an_outage_and_keeps_its_hint() {
    let (store, failures) = (store().await, Arc::new(AtomicUsize::new(0)));
    let patient = |run| {
        let (store, failures) = (Arc::clone(&store), Arc::clone(&failures));
        let waiter = register(&store).unwrap();
        let over = sleep_until(Instant::now() + Duration::from_secs(30));
        let look = move || {
            let fails = failures.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            let store = Arc::clone(&store);
            async move { if fails { Err(StoreError::Busy) } else { store.write(claim_command("q", "default", run)).await } }
        };
        tokio::spawn(claim(waiter, look, over))
    };
    let (first, second) = (patient(1), patient(2));
    while store.waiters().waiting_routes().first().is_none_or(|line| line.2 != 2) {
        tokio::task::yield_now().await;
    }
    failures.store(3, Ordering::SeqCst);
    store.write(create("q", 1, Definition::default())).await.unwrap();
    assert!(matches!(first.await.unwrap(), Ok(Some(_))));
    assert_eq!(failures.load(Ordering::SeqCst), 0, "only the woken one asked, three times in vain");
    failures.store(usize::MAX, Ordering::SeqCst);
    store.write(create("q", 2, Definition::default())).await.unwrap();
    assert_eq!(second.await.unwrap(), Err(StoreError::Busy), "an outage that lasts is told when the time is over");
}

#[tokio::test(start_paused = true)]
async fn a_wait_whose_end_comes_together_with_a_wake_up_still_ends() {
    let store = store().await;
    for run in 0..50 {
        let waiter = register(&store).unwrap();
        let over = sleep_until(Instant::now() + Duration::from_secs(1));
        let waiting = {
            let store = Arc::clone(&store);
            tokio::spawn(async move { claim(waiter, || store.write(claim_command("q", "default", run)), over).await })
        };
        while store.waiters().waiting_routes().first().is_none_or(|line| line.2 != 1) {
            tokio::task::yield_now().await;
        }
        // Woken in vain at the very moment at which the time is over.
        tokio::time::advance(Duration::from_secs(1)).await;
        store.waiters().wake_for_route(&queue("q"), &route("default"), 1);
        assert_eq!(waiting.await.unwrap(), Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn who_always_comes_too_late_does_not_wait_longer_than_it_wanted() {
    let store = store().await;
    let (begun, waiter) = (Instant::now(), register(&store).unwrap());
    let look = || async {
        sleep_until(Instant::now() + Duration::from_millis(10)).await;
        store.waiters().wake_for_route(&queue("q"), &route("default"), 1);
        Ok(None::<Box<Claimed>>)
    };
    let over = sleep_until(begun + Duration::from_secs(1));
    let answer = timeout(Duration::from_secs(60), claim(waiter, look, over)).await;
    assert_eq!((answer, begun.elapsed().as_secs()), (Ok(Ok(None)), 1));
}

#[tokio::test(start_paused = true)]
async fn whose_wait_is_over_when_it_is_woken_takes_nothing_and_passes_the_task_on() {
    let store = store().await;
    let (gone, over) = oneshot::channel::<()>();
    let patient = |run, over: Pin<Box<dyn Future<Output = ()> + Send>>| {
        let (store, waiter) = (Arc::clone(&store), register(&store).unwrap());
        tokio::spawn(async move { claim(waiter, || store.write(claim_command("q", "default", run)), over).await })
    };
    let first = patient(1, Box::pin(async { drop(over.await) }));
    let second = patient(2, Box::pin(pending()));
    while store.waiters().waiting_routes().first().is_none_or(|line| line.2 != 2) {
        tokio::task::yield_now().await;
    }
    gone.send(()).unwrap();
    store.write(create("q", 1, Definition::default())).await.unwrap();
    assert_eq!(first.await.unwrap(), Ok(None));
    assert!(matches!(second.await.unwrap(), Ok(Some(_))));
}

#[tokio::test]
async fn claims_heartbeats_and_reads_of_output_share_the_room() {
    let store = store().await;
    let waiters = store.waiters();
    let (claim, heartbeat) = (register(&store).unwrap(), waiters.watch(run_id(1), MOST).unwrap());
    assert!(register(&store).is_none() && waiters.watch(run_id(2), MOST).is_none());
    assert!(waiters.has_claims() && waiters.has_heartbeats());
    drop(claim);
    let output = waiters.watch_output(run_id(1), MOST).unwrap();
    assert!(register(&store).is_none() && waiters.watch_output(run_id(2), MOST).is_none());
    assert_eq!((waiters.counts(), waiters.len(), waiters.is_empty()), ([0, 1, 1], 2, false));
    assert_eq!((waiters.watched_outputs(), waiters.watched_runs()), (vec![run_id(1)], vec![run_id(1)]));
    drop(heartbeat);
    assert!(!waiters.has_claims() && !waiters.has_heartbeats());
    assert_eq!(waiters.counts(), [0, 0, 1], "they wait for a commit, too");
    drop(output);
    assert_eq!((waiters.counts(), waiters.is_empty()), ([0, 0, 0], true));
}

#[tokio::test]
async fn output_wakes_those_who_read_it_and_an_end_wakes_all() {
    let store = store().await;
    let waiters = store.waiters();
    let heartbeat = waiters.watch(run_id(1), 9).unwrap();
    let output = waiters.watch_output(run_id(1), 9).unwrap();
    let other = waiters.watch_output(run_id(2), 9).unwrap();
    let woken = || [&heartbeat, &output, &other].map(Watcher::take_wake_up);
    let mut printed = Claimable::new(false);
    printed.printed_runs.push(run_id(1));
    waiters.wake(&printed);
    assert_eq!(woken(), [false, true, false]);
    waiters.output_added(run_id(2));
    assert_eq!(woken(), [false, false, true]);
    waiters.run_ended(run_id(1));
    assert_eq!(woken(), [true, true, false]);
    let mut ended = Claimable::new(false);
    ended.run_ended(FinishedRun { run_id: run_id(1), end: RunEnd::Cancel });
    waiters.wake(&ended);
    assert_eq!(woken(), [true, true, false]);
    waiters.wake_unless(|run| run == run_id(1));
    assert_eq!(woken(), [false, false, true]);
    waiters.close();
    assert_eq!(woken(), [true; 3]);
}

/// How many of a thousand attempts run at a time, and who finished in which order.
#[derive(Default)]
struct Attempts {
    now: AtomicUsize,
    most: AtomicUsize,
    finished: Mutex<Vec<usize>>,
}

impl Attempts {
    async fn run(&self, n: usize) {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep_until(Instant::now() + Duration::from_millis(10)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.finished.lock().push(n);
    }
}

/// Waits with `n` for the output of run 1, for so long. The first read finds nothing; the next ones are counted.
async fn follow(waiters: Arc<Waiters>, attempts: Arc<Attempts>, n: usize, millis: u64) -> bool {
    let (watcher, mut is_first) = (waiters.watch_output(run_id(1), usize::MAX).unwrap(), true);
    let read = || {
        let (attempts, was_first) = (Arc::clone(&attempts), std::mem::take(&mut is_first));
        async move {
            if was_first {
                return Ok(Continue(()));
            }
            attempts.run(n).await;
            Ok(Break(()))
        }
    };
    let over = sleep_until(Instant::now() + Duration::from_millis(millis));
    let turn = waiters.output_turn().await;
    output(watcher, turn, read, over).await.unwrap().is_break()
}

/// Wakes `readers` that wait for so long at once.
async fn wake_together(readers: usize, millis: u64) -> (Arc<Attempts>, Vec<JoinHandle<bool>>, Arc<Waiters>) {
    let (waiters, attempts) = (Arc::<Waiters>::default(), Arc::<Attempts>::default());
    let follow = |n| tokio::spawn(follow(Arc::clone(&waiters), Arc::clone(&attempts), n, millis));
    let followers = (0..readers).map(follow).collect();
    while waiters.len() < readers {
        tokio::task::yield_now().await;
    }
    waiters.output_added(run_id(1));
    (attempts, followers, waiters)
}

#[tokio::test(start_paused = true)]
async fn of_many_that_are_woken_together_some_go_on_at_a_time_and_all_in_order() {
    // Also those whose time is over while they are in line: that there is output was noted before.
    for (millis, in_order) in [(60_000, true), (100, false)] {
        let (attempts, followers, _) = wake_together(1_000, millis).await;
        for follower in followers {
            assert!(follower.await.unwrap());
        }
        assert_eq!(attempts.most.load(Ordering::SeqCst), attempts::AT_A_TIME);
        assert!(!in_order || attempts.finished.lock().is_sorted());
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_line_is_answered_when_the_server_stops() {
    let (attempts, followers, waiters) = wake_together(1_000, 60_000).await;
    while attempts.now.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    waiters.close();
    let mut answered = 0;
    for follower in followers {
        answered += usize::from(follower.await.unwrap());
    }
    assert_eq!(answered, attempts::AT_A_TIME, "who was reading");
}

#[tokio::test(start_paused = true)]
async fn a_held_heartbeat_outlasts_an_outage_and_tells_one_that_lasts() {
    for (outage_seconds, expected) in [(5, None), (90, Some(StoreError::Busy))] {
        let store = store().await;
        store.write(create("q", 1, Definition::default())).await.unwrap();
        store.write(claim_command("q", "default", 1)).await.unwrap();
        let (begun, watcher) = (Instant::now(), store.waiters().watch(run_id(1), MOST).unwrap());
        let renew = || async {
            let since = begun.elapsed();
            match since.as_secs() {
                // Behind the first renewal the storage fails, and the run is cancelled in that time.
                0 if since.is_zero() => {
                    let renewed = store.write(heartbeat_command("q", 1, 1)).await;
                    store.write(cancel("q", 1)).await.unwrap();
                    tokio::time::advance(Duration::from_millis(1)).await;
                    renewed
                }
                seconds if seconds < outage_seconds => Err(StoreError::Busy),
                _ => store.write(heartbeat_command("q", 1, 1)).await,
            }
        };
        let held = heartbeat(watcher, renew, sleep_until(begun + Duration::from_secs(60))).await;
        match expected {
            None => assert!(matches!(held, Err(StoreError::Refused(_))), "{held:?}"),
            Some(failure) => assert_eq!((held, begun.elapsed().as_secs()), (Err(failure), 60)),
        }
    }
}

#[tokio::test]
async fn an_end_that_is_noted_before_the_time_is_over_is_told() {
    let store = store().await;
    store.write(create("q", 1, Definition::default())).await.unwrap();
    store.write(claim_command("q", "default", 1)).await.unwrap();
    let watcher = store.waiters().watch(run_id(1), MOST).unwrap();
    let over = async { drop(store.write(cancel("q", 1)).await.unwrap()) };
    let held = heartbeat(watcher, || store.write(heartbeat_command("q", 1, 1)), over).await;
    assert!(matches!(held, Err(StoreError::Refused(_))), "{held:?}");
    assert!(store.waiters().is_empty());
}
