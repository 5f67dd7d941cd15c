//! The scheduling rule in simulated time: no read waits long for reads that have computed much.

use std::collections::HashMap;
use std::time::Duration;

use super::{Slots, time_slice};

const MS: Duration = Duration::from_millis(1);

/// A read of the simulation.
#[derive(Clone, Copy)]
struct Read {
    arrives: Duration,
    needs: Duration,
}

/// Simulates reads; returns how long each took from its arrival to its end.
fn simulate(slots: usize, reads: &[Read]) -> Vec<Duration> {
    let mut slots = Slots::new(slots);
    let (mut used, mut took) = (vec![Duration::ZERO; reads.len()], vec![Duration::ZERO; reads.len()]);
    // When the slice of each computing read ends.
    let mut computing: HashMap<usize, Duration> = HashMap::new();
    let mut arrivals: Vec<usize> = (0..reads.len()).collect();
    arrivals.sort_by_key(|read| std::cmp::Reverse(reads[*read].arrives));
    let until = |now: Duration, read: usize, used: &[Duration]| {
        now + time_slice(used[read]).min(reads[read].needs - used[read])
    };
    loop {
        let end = computing.iter().min_by_key(|(read, end)| (**end, **read)).map(|(read, end)| (*end, *read));
        let arrival = arrivals.last().map(|read| reads[*read].arrives);
        let Some(now) = end.map(|(end, _)| end).into_iter().chain(arrival).min() else { return took };
        if arrival == Some(now) {
            let read = arrivals.pop().unwrap();
            if slots.acquire(used[read], read).is_none() {
                computing.insert(read, until(now, read, &used));
            }
            continue;
        }
        let (_, read) = end.unwrap();
        let computed = time_slice(used[read]).min(reads[read].needs - used[read]);
        used[read] += computed;
        computing.remove(&read);
        let done = used[read] == reads[read].needs;
        let next = if done {
            took[read] = now - reads[read].arrives;
            slots.release()
        } else if slots.must_yield(used[read]) {
            let next = slots.release();
            assert!(slots.acquire(used[read], read).is_some(), "its slot is taken");
            next
        } else {
            Some(read)
        };
        if let Some(next) = next {
            computing.insert(next, until(now, next, &used));
        }
    }
}

#[test]
fn a_short_read_never_waits_50_ms_behind_long_ones() {
    for places in [1, 2, 8] {
        for long in [1, 8, 64, 500] {
            let mut reads = vec![Read { arrives: Duration::ZERO, needs: 1000 * MS }; long];
            // One after the other, at any moment of the slices of the others.
            reads.extend((0..20).map(|n| Read { arrives: 600 * MS + n * 37 * MS + n * MS / 7, needs: MS / 2 }));
            for took in &simulate(places, &reads)[long..] {
                assert!(*took <= 6 * MS, "{took:?} with {places} places and {long} long reads");
            }
        }
    }
}

#[test]
fn many_short_reads_at_once_share_the_wait() {
    let mut reads = vec![Read { arrives: Duration::ZERO, needs: 1000 * MS }; 64];
    reads.extend(vec![Read { arrives: 500 * MS, needs: MS / 2 }; 64]);
    let took = simulate(2, &reads);
    assert!(took[64..].iter().all(|took| *took < 50 * MS), "{took:?}");
}

#[test]
fn reads_of_the_same_length_end_together_and_no_time_is_lost() {
    let reads = vec![Read { arrives: Duration::ZERO, needs: 200 * MS }; 10];
    let took = simulate(2, &reads);
    assert_eq!(took.iter().max(), Some(&(1000 * MS)), "two places work all the time");
    assert!(took.iter().min().unwrap() >= &(900 * MS), "nobody is preferred: {took:?}");
}

#[test]
fn a_read_alone_is_never_interrupted() {
    assert_eq!(simulate(1, &[Read { arrives: MS, needs: 777 * MS }]), [777 * MS]);
}

#[test]
fn the_slices_grow_from_one_to_five_milliseconds() {
    let slices: Vec<u128> = [0, 1, 2, 4, 8, 10_000].map(|used| time_slice(used * MS).as_millis()).into();
    assert_eq!(slices, [1, 1, 2, 4, 5, 5]);
}

#[test]
fn a_place_goes_to_the_one_who_has_used_the_least_and_then_to_who_came_first() {
    let mut slots = Slots::new(1);
    assert_eq!(slots.acquire(Duration::ZERO, "first"), None);
    for (used, name) in [(3, "c"), (1, "a"), (2, "b"), (1, "aa")] {
        assert!(slots.acquire(used * MS, name).is_some());
    }
    assert_eq!(std::iter::from_fn(|| slots.release()).collect::<Vec<_>>(), ["a", "aa", "b", "c"]);
    assert_eq!(slots.acquire(Duration::ZERO, "again"), None, "the place is free again");
}

#[test]
fn who_withdraws_is_not_called_and_who_was_called_cannot_withdraw() {
    let mut slots = Slots::new(1);
    slots.acquire(Duration::ZERO, "first");
    let (gone, called) = (slots.acquire(MS, "gone").unwrap(), slots.acquire(MS, "called").unwrap());
    assert!(slots.cancel(gone));
    assert_eq!(slots.release(), Some("called"));
    assert!(!slots.cancel(called));
    assert_eq!(slots.waiting().count(), 0);
}
