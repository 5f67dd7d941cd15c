//! An explanation is of one moment, whatever the writer does meanwhile; and it says so when it could not look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taskqueue_core::explain::{Explanation, Reason};
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::{Store, StoreExt};

use crate::{Options, SqliteStore};

/// Explanations while the writer works.
const LOOKS: usize = 300;

/// What is said of the dependency, which the file knows, and of who comes first, which the memory knows.
fn seen(Explanation { reasons, .. }: Explanation) -> (Option<Status>, u64) {
    let mut seen = (Some(Status::Succeeded), 0);
    for reason in reasons {
        match reason {
            Reason::Dependencies { unmet } => seen.0 = unmet[0].1,
            Reason::WaitingTurn { ahead } => seen.1 = ahead,
            Reason::NoWorker { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    seen
}

/// Task 2 waits for task 1, which is claimed, fails for good and is requeued again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_explanation_beside_a_busy_writer_is_never_of_two_moments() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    let store = Arc::new(SqliteStore::open(&folder.path().join("q.db"), Arc::new(clock), &Options::default()).unwrap());
    store.write(create_queue("q")).await.unwrap();
    store.write(create("q", 1, with_priority(1))).await.unwrap();
    store.write(create("q", 2, waits_for(&[1]))).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (writes, until) = (Arc::clone(&store), Arc::clone(&over));
    let writing = tokio::spawn(async move {
        let mut run = 0;
        while !until.load(Ordering::Relaxed) {
            run += 1;
            writes.write(claim("q", "default", run)).await.unwrap().unwrap();
            writes.write(fail_for_good("q", 1, run)).await.unwrap();
            writes.write(requeue("q", 1)).await.unwrap();
        }
        run
    });
    let mut states = Vec::new();
    for _ in 0..LOOKS {
        let (status, ahead) = seen(store.explain(&queue("q"), task_id(2)).await.unwrap());
        assert_eq!(ahead, u64::from(status == Some(Status::Pending)), "{status:?}");
        states.extend(status);
    }
    over.store(true, Ordering::Relaxed);
    assert!(writing.await.unwrap() > 1);
    let mut words: Vec<&str> = states.iter().map(|status| status.as_str()).collect();
    words.sort_unstable();
    words.dedup();
    assert!(words.len() > 1, "the writer did nothing meanwhile: {words:?}");
}
