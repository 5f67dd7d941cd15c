//! Claims that find nothing, from many threads at once: a caller whose creation was acknowledged finds the task, a waiting
//! claim gets one, and a storage error is never answered with "no task".

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};

use rusqlite::Connection;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::waiting;
use taskqueue_store_sqlite::{Options, SqliteStore};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::storage::{fresh, with_queue};

/// Pairs of threads, and how many tasks each of them makes.
const PAIRS: usize = 3;
const ROUNDS: usize = 300;
/// How often a wait meets a creation.
const CROSSINGS: usize = 2_000;
/// Longer than any machine needs; a wake-up that is lost ends here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store and a thread of its own to call it from.
struct Caller {
    store: Arc<dyn Store>,
    runtime: tokio::runtime::Runtime,
}

impl Caller {
    fn new(fixture: &Fixture) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { store: Arc::clone(&fixture.store), runtime }
    }

    fn ok<C: Command>(&self, command: C) -> C::Answer {
        self.runtime.block_on(self.store.write(command)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether a claim in `q` got a task.
    fn claims(&self, route: &str, run: impl std::fmt::Display) -> bool {
        self.ok(claim("q", route, run)).is_some()
    }
}

/// Two threads with a route of their own: one makes a task claimable and, when that was answered, tells the other, who
/// must find it, and then nothing more.
fn pair<'scope>(scope: &'scope Scope<'scope, '_>, fixture: &Fixture, pair: usize) -> ScopedJoinHandle<'scope, ()> {
    let (maker, claimer) = (Caller::new(fixture), Caller::new(fixture));
    let (tell, told) = mpsc::sync_channel::<(usize, &str)>(0);
    let (taken, took) = mpsc::sync_channel::<()>(0);
    let name = move |what: &str, n: usize| format!("{what}{pair}x{n}");
    scope.spawn(move || {
        for n in 0..ROUNDS {
            maker.ok(create("q", name("t", n), with_routes(&[&name("route", 0)])));
            tell.send((n, "a")).unwrap();
            took.recv().unwrap();
            maker.ok(unclaim("q", name("t", n), name("a", n)));
            tell.send((n, "b")).unwrap();
            took.recv().unwrap();
            maker.ok(complete("q", name("t", n), name("b", n), object("{}")));
        }
    });
    scope.spawn(move || {
        for (n, run) in told {
            assert!(claimer.claims(&name("route", 0), name(run, n)), "task {n} of pair {pair} is there");
            assert!(!claimer.claims(&name("route", 0), name("c", n)), "there is no other");
            taken.send(()).unwrap();
        }
    })
}

#[tokio::test]
async fn a_caller_whose_creation_was_acknowledged_finds_the_task() {
    let (_folder, fixture) = with_queue().await;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let caller = Caller::new(&fixture);
                while !over.load(Ordering::Relaxed) {
                    assert!(!caller.claims("nothing", "poll"));
                }
            });
        }
        let pairs: Vec<_> = (0..PAIRS).map(|n| pair(scope, &fixture, n)).collect();
        let ended: Vec<_> = pairs.into_iter().map(ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(fixture.count_by_status().await, [0, 0, (PAIRS * ROUNDS) as u64, 0, 0]);
}

/// The wait and the creation begin at the same moment, on two threads, again and again.
#[tokio::test]
async fn a_claim_that_waits_misses_no_task_however_they_cross() {
    let (_folder, fixture) = with_queue().await;
    let (begin, begun) = mpsc::sync_channel::<usize>(0);
    std::thread::scope(|scope| {
        let maker = Caller::new(&fixture);
        scope.spawn(move || begun.iter().for_each(|n| drop(maker.ok(create("q", n, Definition::default())))));
        let Caller { store, runtime } = Caller::new(&fixture);
        scope.spawn(move || {
            for n in 0..CROSSINGS {
                begin.send(n).unwrap();
                let waiter = store.waiters().register(&queue("q"), &route("default"), usize::MAX).unwrap();
                let look = || store.write(claim("q", "default", n));
                let waited = async { timeout(PATIENCE, waiting::claim(waiter, look, pending())).await };
                let answer = runtime.block_on(waited).expect("a wake-up was lost");
                assert!(matches!(answer, Ok(Some(_))), "{answer:?}");
            }
        });
    });
}

/// A row that was changed behind the store's back: the claim index offers a task that cannot be claimed, and the batch is
/// undone.
#[tokio::test]
async fn after_a_batch_that_broke_claims_are_answered_by_what_the_file_holds() {
    let (folder, fixture) = with_queue().await;
    fixture.create(1, Definition::default()).await;
    let stranger = Connection::open(folder.file()).unwrap();
    stranger.execute_batch("UPDATE tasks SET status = 'cancelled'").unwrap();
    let broken = StoreError::Broken("a task that is not pending was offered to a claim");
    assert_eq!(fixture.write(claim("q", "default", 1)).await, Err(broken));
    assert_eq!(fixture.claimed(claim("q", "default", 2)).await, None);
    fixture.create(2, Definition::default()).await;
    assert_eq!(fixture.claim(3).await.task.id, task_id(2));
}

/// A clock that can break.
struct Brittle(ManualClock, AtomicBool);

impl Clock for Brittle {
    fn now(&self) -> Timestamp {
        assert!(!self.1.load(Ordering::SeqCst), "the clock is broken");
        self.0.now()
    }

    fn start_after(&self, latest: Timestamp) {
        self.0.start_after(latest);
    }
}

#[tokio::test]
async fn a_store_whose_writer_panicked_never_says_that_there_is_nothing() {
    let folder = fresh();
    let clock = Arc::new(Brittle(ManualClock::new(Timestamp::from_micros(1_000_000)), AtomicBool::new(false)));
    let store = SqliteStore::open(&folder.file(), Arc::<Brittle>::clone(&clock), &Options::default()).unwrap();
    store.write(create_queue("q")).await.unwrap();
    assert_eq!(store.write(claim("q", "default", 1)).await, Ok(None));
    clock.1.store(true, Ordering::SeqCst);
    assert_eq!(store.write(create("q", 1, Definition::default())).await, Err(StoreError::Unavailable));
    clock.1.store(false, Ordering::SeqCst);
    for run in 0..3 {
        assert_eq!(store.write(claim("q", "default", run)).await, Err(StoreError::Unavailable));
    }
}
