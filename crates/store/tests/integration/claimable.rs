//! What a transaction tells the waiters: each task once, everything at once when there are too many, and nothing when nobody
//! waits.

use taskqueue_store::claimable::Claimable;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::waiting::Hint;

/// The number in `claimable.rs`: only a bulk update can have more hints than this.
const HINTS: usize = 2_048;

fn queue() -> QueueName {
    QueueName::parse("q").unwrap()
}

fn hint(n: usize) -> Hint {
    Hint { queue: queue(), routes: Routes::default(), task: TaskId::parse(&format!("t_{n:012}")) }
}

/// How many hints there are, whether everything is to be looked at, and whether there is nothing to tell.
fn told(claimable: &Claimable) -> (usize, bool, bool) {
    (claimable.hints.len(), claimable.poll_all, claimable.is_empty())
}

#[test]
fn hints_beyond_the_bound_become_a_look_everywhere_and_none_is_lost() {
    let mut claimable = Claimable::new(true);
    assert_eq!(told(&claimable), (0, false, true));
    (0..HINTS).for_each(|n| claimable.hint(hint(n)));
    assert_eq!(told(&claimable), (HINTS, false, false));
    for n in HINTS..HINTS + 3 {
        claimable.hint(hint(n));
        assert_eq!(told(&claimable), (0, true, false));
    }
}

#[test]
fn a_queue_that_is_gone_and_a_look_everywhere_are_something_to_tell() {
    let mut claimable = Claimable::new(true);
    claimable.queue_deleted(&queue());
    assert_eq!((&claimable.deleted_queues[..], told(&claimable)), (&[queue()][..], (0, false, false)));
    let mut claimable = Claimable::new(true);
    claimable.poll_all = true;
    assert_eq!(told(&claimable), (0, true, false));
}

#[test]
fn nothing_is_collected_for_claims_when_nobody_waits() {
    let mut claimable = Claimable::new(false);
    claimable.hint(hint(1));
    claimable.queue_deleted(&queue());
    assert_eq!((&claimable.deleted_queues[..], told(&claimable)), (&[][..], (0, false, true)));
}
