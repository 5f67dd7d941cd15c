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
    assert_eq!(reads.run(|_, _| ()).await, Err(StoreError::Unavailable));
}
