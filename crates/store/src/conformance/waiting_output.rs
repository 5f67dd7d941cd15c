//! Reads of output that wait: whatever is printed ends them, and so does the end of the run. Nothing is missed, though reads do
//! not pass through the writer.

use std::future::pending;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{JoinHandle, yield_now};

use super::prelude::*;
use super::run_ends::{CAUSES, end_run, take_out};
use super::waiting::{ended, until};
use crate::waiting;

/// The bytes that are kept of a task here.
const KEPT: usize = 1_000;

type Read = Result<Output, StoreError>;

/// Task `n`, running as run `n`, which has printed `abc`.
async fn printing(fixture: &Fixture, n: usize) {
    fixture.create_running(n, with_budget(100)).await;
    fixture.ok(print(n, n, 0, "abc")).await;
}

/// Reads the output of task `n` behind `offset`, and waits until there is some or the run is over, as the server does. Counts the
/// reads: a backend may wake them more often than needed.
fn follow(fixture: &Fixture, n: usize, offset: u64, reads: &Arc<AtomicUsize>) -> JoinHandle<Read> {
    let (store, reads) = (Arc::clone(&fixture.store), Arc::clone(reads));
    tokio::spawn(async move {
        let read = async || {
            let output = store.read_output(&queue("q"), task_id(n), offset, KEPT).await;
            reads.fetch_add(1, Ordering::SeqCst);
            output
        };
        let first = read().await?;
        if !first.text.is_empty() || first.ended {
            return Ok(first);
        }
        let watcher = store.waiters().watch_output(first.run_id, usize::MAX).unwrap();
        let attempt = || async {
            let output = read().await?;
            Ok(if !output.text.is_empty() || output.ended { Break(output) } else { Continue(output) })
        };
        let (Break(output) | Continue(output)) =
            waiting::output(watcher, store.waiters().output_turn().await, attempt, pending()).await?;
        Ok(output)
    })
}

async fn has_read(reads: &AtomicUsize, count: usize) {
    until("the output is read", || reads.load(Ordering::SeqCst) >= count).await;
}

/// What a read gave: the offset of the text, the text, and whether the run is over.
async fn got(read: JoinHandle<Read>) -> (u64, String, bool) {
    let output = ended(read).await.unwrap();
    (output.start, output.text, output.ended)
}

fn text(start: u64, text: &str, ended: bool) -> (u64, String, bool) {
    (start, text.to_owned(), ended)
}

pub async fn what_a_run_prints_reaches_all_who_wait_for_it_and_no_others(fixture: Fixture) {
    for n in [1, 2] {
        printing(&fixture, n).await;
    }
    let reads = Arc::default();
    let all: Vec<_> = (0..20).map(|_| follow(&fixture, 1, 3, &reads)).collect();
    let other = follow(&fixture, 2, 3, &reads);
    has_read(&reads, 42).await;
    // Neither what is there already nor progress is something new.
    fixture.ok(print(1, 1, 1, "bc")).await;
    fixture.ok(progress(1, 1, r#"{"step":1}"#)).await;
    fixture.ok(print(1, 1, 3, "d")).await;
    for read in all {
        assert_eq!(got(read).await, text(3, "d", false));
    }
    assert_eq!(fixture.store.waiters().len(), 1);
    fixture.ok(print(2, 2, 3, "e")).await;
    assert_eq!(got(other).await, text(3, "e", false));
    assert!(fixture.store.waiters().is_empty());
}

pub async fn everything_that_ends_a_run_ends_the_wait_for_its_output(fixture: Fixture) {
    for (n, (cause, _)) in CAUSES.into_iter().enumerate() {
        printing(&fixture, n).await;
        let reads = Arc::default();
        let both = [follow(&fixture, n, 3, &reads), follow(&fixture, n, 9, &reads)];
        has_read(&reads, 4).await;
        end_run(&fixture, n, cause).await;
        for read in both {
            assert_eq!(got(read).await, text(3, "", true), "{cause}");
        }
        assert!(fixture.store.waiters().is_empty());
        take_out(&fixture, n, cause).await;
    }
}

pub async fn a_task_without_output_is_not_waited_for(fixture: Fixture) {
    fixture.create_running(1, with_budget(1)).await;
    let refused = ended(follow(&fixture, 1, 0, &Arc::default())).await;
    assert_eq!(refused, Err(StoreError::Refused(Refusal::OutputNotFound { task_id: task_id(1) })));
    fixture.store.waiters().close();
    assert!(fixture.store.waiters().watch_output(run_id(1), usize::MAX).is_none(), "a stop refuses new ones");
}

pub async fn output_at_any_moment_reaches_a_read_that_is_about_to_wait(fixture: Fixture) {
    printing(&fixture, 1).await;
    for n in 0..100 {
        let read = follow(&fixture, 1, 3 + n, &Arc::default());
        for _ in 0..n % 20 {
            yield_now().await;
        }
        fixture.ok(print(1, 1, 3 + n, "x")).await;
        assert_eq!(got(read).await, text(3 + n, "x", false), "{n}");
    }
    assert!(fixture.store.waiters().is_empty());
}

pub async fn an_end_at_any_moment_reaches_a_read_that_is_about_to_wait(fixture: Fixture) {
    for n in 0..60 {
        printing(&fixture, n).await;
        let read = follow(&fixture, n, 3, &Arc::default());
        for _ in 0..n % 20 {
            yield_now().await;
        }
        fixture.ok(cancel("q", n)).await;
        assert_eq!(got(read).await, text(3, "", true), "{n}");
    }
    assert!(fixture.store.waiters().is_empty());
}
