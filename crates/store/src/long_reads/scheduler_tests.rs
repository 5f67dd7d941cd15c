//! The scheduler with real threads. Which read comes first is tested without threads, in `slots_tests.rs`.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;
use std::thread;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Computes until it is stopped.
fn compute(active: &ActiveRead) -> StopReason {
    loop {
        if let Err(stopped) = active.yield_if_due() {
            return stopped;
        }
    }
}

#[test]
fn no_more_reads_compute_at_a_time_than_there_are_slots() {
    let scheduler = ReadScheduler::new(2);
    let (computing, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..6 {
            let (caller, scheduled) = scheduler.add(LONG);
            let (computing, most) = (&computing, &most);
            scope.spawn(move || {
                let active = scheduled.begin().unwrap();
                for _ in 0..20 {
                    most.fetch_max(computing.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let end = Instant::now() + Duration::from_millis(2);
                    while Instant::now() < end {}
                    computing.fetch_sub(1, Ordering::SeqCst);
                    active.yield_if_due().unwrap();
                }
                drop(caller);
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(scheduler.count(), 0);
}

#[test]
fn a_read_that_waits_for_its_turn_or_computes_stops_when_its_caller_is_gone() {
    let scheduler = ReadScheduler::new(1);
    let (begun, has_begun) = channel();
    thread::scope(|scope| {
        let (computing_caller, scheduled) = scheduler.add(LONG);
        let computing = scope.spawn(move || {
            let active = scheduled.begin().unwrap();
            begun.send(()).unwrap();
            compute(&active)
        });
        has_begun.recv().unwrap();
        let (waiting_caller, scheduled) = scheduler.add(LONG);
        let waiting = scope.spawn(move || scheduled.begin().map(|active| compute(&active)));
        drop(waiting_caller);
        assert!(matches!(waiting.join().unwrap(), Err(StopReason::Abandoned) | Ok(StopReason::Abandoned)));
        drop(computing_caller);
        assert_eq!(computing.join().unwrap(), StopReason::Abandoned);
    });
    assert_eq!(scheduler.count(), 0);
}

#[test]
fn a_read_stops_at_its_deadline_wherever_it_is() {
    let scheduler = ReadScheduler::new(1);
    let short = Duration::from_millis(20);
    let (holder, scheduled) = scheduler.add(LONG);
    let held = scheduled.begin().unwrap();
    let (_caller, scheduled) = scheduler.add(short);
    assert_eq!(scheduled.begin().map(|_| ()), Err(StopReason::OutOfTime), "it waited in vain");
    drop((held, holder));
    let (_caller, scheduled) = scheduler.add(short);
    assert_eq!(compute(&scheduled.begin().unwrap()), StopReason::OutOfTime);
}

#[test]
fn a_read_that_waits_for_something_else_frees_its_slot() {
    let scheduler = ReadScheduler::new(1);
    let (_caller, scheduled) = scheduler.add(LONG);
    let first = scheduled.begin().unwrap();
    first.release_slot();
    let (_other_caller, scheduled) = scheduler.add(LONG);
    let second = scheduled.begin().unwrap();
    second.release_slot();
    first.acquire_slot().unwrap();
    first.yield_if_due().unwrap();
    first.release_slot();
    second.yield_if_due().unwrap();
    drop(second);
    assert_eq!(first.acquire_slot(), Ok(()));
}

#[test]
fn a_read_that_computed_too_long_stops() {
    let scheduler = ReadScheduler::new(1);
    let (_caller, scheduled) = scheduler.add(LONG);
    let active = scheduled.begin().unwrap();
    active.progress.lock().used = BUDGET;
    active.slice_end.store(0, Ordering::Relaxed);
    assert_eq!(active.yield_if_due(), Err(StopReason::OutOfTime));
    assert_eq!(active.stopped(), Some(StopReason::OutOfTime));
    assert_eq!(active.acquire_slot(), Err(StopReason::OutOfTime), "it does not come back");
}

#[test]
fn closing_stops_every_read_and_those_that_come() {
    let scheduler = ReadScheduler::new(1);
    let (begun, has_begun) = channel();
    thread::scope(|scope| {
        let reads: Vec<_> = (0..3)
            .map(|_| {
                let ((caller, scheduled), begun) = (scheduler.add(LONG), begun.clone());
                let read = scope.spawn(move || {
                    begun.send(()).unwrap();
                    scheduled.begin().map_or_else(|stopped| stopped, |active| compute(&active))
                });
                (caller, read)
            })
            .collect();
        (0..3).for_each(|_| has_begun.recv().unwrap());
        scheduler.close();
        for (_caller, read) in reads {
            assert_eq!(read.join().unwrap(), StopReason::Closed);
        }
    });
    let (_caller, scheduled) = scheduler.add(LONG);
    assert_eq!(scheduled.begin().map(|_| ()), Err(StopReason::Closed));
}

#[tokio::test]
async fn a_read_that_waits_for_something_else_is_interrupted_when_its_caller_is_gone() {
    let scheduler = ReadScheduler::new(1);
    let (caller, scheduled) = scheduler.add(LONG);
    let active = Arc::new(scheduled.begin().unwrap());
    active.release_slot();
    let waiting = tokio::spawn({
        let active = Arc::clone(&active);
        async move { active.interrupted().await }
    });
    drop(caller);
    waiting.await.unwrap();
    assert_eq!(active.acquire_slot(), Err(StopReason::Abandoned));
}
