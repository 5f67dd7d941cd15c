//! Turns between real threads. Who comes first is tested without threads, in `slots_tests.rs`.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;
use std::thread;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Computes until it is stopped.
fn compute(turn: &Turn) -> Stopped {
    loop {
        if let Err(stopped) = turn.pause() {
            return stopped;
        }
    }
}

#[test]
fn no_more_reads_compute_at_a_time_than_there_are_places() {
    let turns = Turns::new(2);
    let (computing, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..6 {
            let (caller, ready) = turns.read(LONG);
            let (computing, most) = (&computing, &most);
            scope.spawn(move || {
                let turn = ready.begin().unwrap();
                for _ in 0..20 {
                    most.fetch_max(computing.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let end = Instant::now() + Duration::from_millis(2);
                    while Instant::now() < end {}
                    computing.fetch_sub(1, Ordering::SeqCst);
                    turn.pause().unwrap();
                }
                drop(caller);
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(turns.under_way(), 0);
}

#[test]
fn a_read_that_waits_for_its_turn_or_computes_stops_when_its_caller_is_gone() {
    let turns = Turns::new(1);
    let (begun, has_begun) = channel();
    thread::scope(|scope| {
        let (computing_caller, ready) = turns.read(LONG);
        let computing = scope.spawn(move || {
            let turn = ready.begin().unwrap();
            begun.send(()).unwrap();
            compute(&turn)
        });
        has_begun.recv().unwrap();
        let (waiting_caller, ready) = turns.read(LONG);
        let waiting = scope.spawn(move || ready.begin().map(|turn| compute(&turn)));
        drop(waiting_caller);
        assert!(matches!(waiting.join().unwrap(), Err(Stopped::Abandoned) | Ok(Stopped::Abandoned)));
        drop(computing_caller);
        assert_eq!(computing.join().unwrap(), Stopped::Abandoned);
    });
    assert_eq!(turns.under_way(), 0);
}

#[test]
fn a_read_stops_at_its_deadline_wherever_it_is() {
    let turns = Turns::new(1);
    let short = Duration::from_millis(20);
    let (holder, ready) = turns.read(LONG);
    let held = ready.begin().unwrap();
    let (_caller, ready) = turns.read(short);
    assert_eq!(ready.begin().map(|_| ()), Err(Stopped::OutOfTime), "it waited in vain");
    drop((held, holder));
    let (_caller, ready) = turns.read(short);
    assert_eq!(compute(&ready.begin().unwrap()), Stopped::OutOfTime);
}

#[test]
fn a_read_that_waits_for_something_else_leaves_its_place() {
    let turns = Turns::new(1);
    let (_caller, ready) = turns.read(LONG);
    let first = ready.begin().unwrap();
    first.release();
    let (_other_caller, ready) = turns.read(LONG);
    let second = ready.begin().unwrap();
    second.release();
    first.resume().unwrap();
    first.pause().unwrap();
    first.release();
    second.pause().unwrap();
    drop(second);
    assert_eq!(first.resume(), Ok(()));
}

#[test]
fn a_read_that_computed_too_long_stops() {
    let turns = Turns::new(1);
    let (_caller, ready) = turns.read(LONG);
    let turn = ready.begin().unwrap();
    turn.progress().used = BUDGET;
    turn.slice_end.store(0, Ordering::Relaxed);
    assert_eq!(turn.pause(), Err(Stopped::OutOfTime));
    assert_eq!(turn.stopped(), Some(Stopped::OutOfTime));
    assert_eq!(turn.resume(), Err(Stopped::OutOfTime), "it does not come back");
}

#[test]
fn closing_stops_every_read_and_those_that_come() {
    let turns = Turns::new(1);
    let (begun, has_begun) = channel();
    thread::scope(|scope| {
        let reads: Vec<_> = (0..3)
            .map(|_| {
                let ((caller, ready), begun) = (turns.read(LONG), begun.clone());
                let read = scope.spawn(move || {
                    begun.send(()).unwrap();
                    ready.begin().map_or_else(|stopped| stopped, |turn| compute(&turn))
                });
                (caller, read)
            })
            .collect();
        (0..3).for_each(|_| has_begun.recv().unwrap());
        turns.close();
        for (_caller, read) in reads {
            assert_eq!(read.join().unwrap(), Stopped::Closed);
        }
    });
    let (_caller, ready) = turns.read(LONG);
    assert_eq!(ready.begin().map(|_| ()), Err(Stopped::Closed));
}

#[tokio::test]
async fn a_read_that_waits_for_something_else_hears_that_its_caller_is_gone() {
    let turns = Turns::new(1);
    let (caller, ready) = turns.read(LONG);
    let turn = Arc::new(ready.begin().unwrap());
    turn.release();
    let waiting = tokio::spawn({
        let turn = Arc::clone(&turn);
        async move { turn.interrupted().await }
    });
    drop(caller);
    waiting.await.unwrap();
    assert_eq!(turn.resume(), Err(Stopped::Abandoned));
}
