//! Long reads on their threads: threads start on demand, end when idle, and stop when the caller has gone.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::timeout;

use super::*;

/// The state of a thread, counted.
struct Own(Arc<AtomicUsize>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn reads(most: usize) -> (Arc<LongReads<Own>>, Arc<AtomicUsize>) {
    let owned = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&owned);
    let make = move || {
        count.fetch_add(1, Ordering::SeqCst);
        Own(Arc::clone(&count))
    };
    (Arc::new(LongReads::new(most, 2, make, |_| ())), owned)
}

fn until_stopped(_: &mut Own, active: &Arc<ActiveRead>) -> StopReason {
    loop {
        if let Err(stopped) = active.yield_if_due() {
            return stopped;
        }
    }
}

async fn wait_for_count(reads: &LongReads<Own>, number: usize) {
    while reads.count() != number {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_reads_end_while_long_ones_run() {
    let (reads, _) = reads(64);
    let long: Vec<_> = (0..20)
        .map(|_| {
            let reads = Arc::clone(&reads);
            tokio::spawn(async move { reads.run(until_stopped).await })
        })
        .collect();
    wait_for_count(&reads, 20).await;
    for number in 0..10 {
        assert_eq!(reads.run(move |_, active| active.yield_if_due().map(|()| number)).await, Ok(Ok(number)));
    }
    assert!(long.iter().all(|read| !read.is_finished()));
    long.iter().for_each(|read| read.abort());
    wait_for_count(&reads, 0).await;
    reads.close();
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_thread_within_five_seconds_is_told_so() {
    let (reads, owned) = reads(1);
    let mut first = Box::pin(reads.run(until_stopped));
    assert!(timeout(Duration::ZERO, &mut first).await.is_err());
    assert_eq!(reads.run(|_, _| ()).await, Err(StoreError::Busy));
    drop(first);
    tokio::time::resume();
    assert_eq!(reads.run(|_, _| 7).await, Ok(7), "the thread is there for others");
    assert_eq!(owned.load(Ordering::SeqCst), 1);
    reads.close();
    assert_eq!(owned.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn threads_are_used_again_and_a_panic_costs_only_its_own_read() {
    let (reads, owned) = reads(4);
    for _ in 0..100 {
        assert_eq!(reads.run(|_, _| 1).await, Ok(1));
    }
    assert!(owned.load(Ordering::SeqCst) <= 4, "not one for each read");
    let broken: Result<(), _> = reads.run(|_, _| panic!("a bug")).await;
    assert_eq!(broken, Err(StoreError::Unavailable));
    assert_eq!(reads.run(|_, _| 2).await, Ok(2));
    reads.close();
    assert_eq!(owned.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_stops_what_is_under_way_and_refuses_the_rest() {
    let (reads, owned) = reads(4);
    let long = {
        let reads = Arc::clone(&reads);
        tokio::spawn(async move { reads.run(until_stopped).await })
    };
    wait_for_count(&reads, 1).await;
    let closing = Arc::clone(&reads);
    tokio::task::spawn_blocking(move || closing.close()).await.unwrap();
    assert!(matches!(long.await.unwrap(), Ok(StopReason::Closed) | Err(StoreError::Unavailable)));
    assert_eq!(reads.run(|_, _| ()).await, Err(StoreError::Unavailable));
    assert_eq!(owned.load(Ordering::SeqCst), 0, "every thread has dropped its state");
}
