//! Which commands the next transaction takes.

use tokio::sync::mpsc::{Sender, channel};

use super::*;
use crate::command::CreateTasks;
use crate::conformance::commands::*;
use crate::conformance::queued::queued;
use crate::write_queue::CAPACITY;
use taskqueue_core::definition::Definition;

type Write = QueuedWrite<()>;

/// A backlog to which commands come while others are taken out of it.
struct Line {
    sender: Sender<Write>,
    backlog: WriteBacklog<()>,
}

impl Line {
    fn new() -> Self {
        let (sender, receiver) = channel(CAPACITY + 2);
        Self { sender, backlog: WriteBacklog::new(receiver) }
    }

    fn send(&self, write: Write) {
        self.sender.try_send(write).unwrap_or_else(|_| panic!("no room"));
    }

    /// The items of the commands of the next transaction.
    fn next(&mut self) -> Vec<usize> {
        self.backlog.try_next().unwrap().iter().map(|write| write.items).collect()
    }
}

fn several(items: usize) -> Write {
    queued(create_all(0..items)).0
}

fn single() -> Write {
    queued(heartbeat("q", 1, 1)).0
}

fn backlog(writes: impl IntoIterator<Item = Write>) -> WriteBacklog<()> {
    let line = Line::new();
    writes.into_iter().for_each(|write| line.send(write));
    line.backlog
}

/// The items of the commands of each transaction.
fn transactions(backlog: &mut WriteBacklog<()>) -> Vec<Vec<usize>> {
    let next = std::iter::from_fn(|| backlog.try_next());
    next.map(|writes| writes.iter().map(|write| write.items).collect()).collect()
}

#[test]
fn single_commands_share_a_transaction_and_commands_of_several_items_fill_it() {
    let mut writes: Vec<Write> = (0..12).map(|_| several(100)).collect();
    writes.extend([single(), single()]);
    let first = [vec![1, 1], vec![100; 10]].concat();
    assert_eq!(transactions(&mut backlog(writes)), [first, vec![100; 2]]);
    let singles = (0..600).map(|_| single());
    assert_eq!(transactions(&mut backlog(singles)), [vec![1; 256], vec![1; 256], vec![1; 88]]);
}

#[test]
fn a_command_that_is_larger_than_a_transaction_is_not_divided() {
    let large = Definition { args: object_of_bytes(1_000_000), ..Definition::default() };
    let new = |n| (task_id(n), Box::new(large.clone().into()));
    let write = queued(CreateTasks { queue: queue("q"), tasks: (0..16).map(new).collect() }).0;
    let items = write.items;
    assert!(items > 3 * MAX_ITEMS, "{items}: bytes count");
    let writes = [several(24), several(1_000), write, several(5), single()];
    assert_eq!(transactions(&mut backlog(writes)), [vec![1, 24], vec![1_000], vec![items], vec![5]]);
    let singles = (0..5).map(|n| queued(create("q", n, large.clone())).0);
    assert_eq!(transactions(&mut backlog(singles)), [vec![245; 4], vec![245]], "of single commands too");
}

#[test]
fn a_full_transaction_is_followed_by_the_single_commands_that_came_meanwhile() {
    let mut line = Line::new();
    (0..50).for_each(|_| line.send(several(1_000)));
    assert_eq!(line.next(), [1_000]);
    line.send(single());
    assert_eq!(line.next(), [1]);
    line.send(single());
    assert_eq!(line.next(), [1, 1_000], "however many single commands come, others get their turn");
    line.send(single());
    assert_eq!(line.next(), [1]);
    assert_eq!(line.next(), [1_000]);
    (0..300).for_each(|_| line.send(single()));
    line.send(several(100));
    assert_eq!(line.next(), [1; 256]);
    assert_eq!(line.next(), [vec![1; 44], vec![1_000]].concat());
}

#[test]
fn single_commands_do_not_share_the_transaction_of_a_large_command() {
    let mut line = Line::new();
    let names: Vec<String> = (0..256).map(|n| format!("r{n}")).collect();
    let new = |n: usize| (task_id(n), Box::new(with_routes(&names).into()));
    let large = || queued(CreateTasks { queue: queue("q"), tasks: (0..100).map(new).collect() }).0;
    assert_eq!(large().items, 1_700, "routes count");
    (0..3).for_each(|_| line.send(large()));
    line.send(single());
    assert_eq!(line.next(), [1], "it is committed before");
    line.send(single());
    assert_eq!(line.next(), [1_700], "the turn of the large one, whatever else comes");
    line.send(several(10));
    assert_eq!(line.next(), [1]);
    line.send(single());
    assert_eq!(line.next(), [1_700]);
    assert_eq!(line.next(), [1]);
    assert_eq!(line.next(), [1_700]);
    assert_eq!(line.next(), [10]);
}

#[test]
fn small_commands_of_several_items_share_a_transaction_with_single_ones_at_any_time() {
    let mut line = Line::new();
    (0..30).for_each(|_| line.send(several(100)));
    assert_eq!(line.next(), [100; 10]);
    line.send(single());
    assert_eq!(line.next(), [1, 100, 100]);
}

/// A creation that is heavy by what it waits for, and not by its items.
fn waiting_task(of: &str, id: usize) -> Write {
    let ids: Vec<usize> = (0..1_000).collect();
    queued(create(of, id, waits_for(&ids))).0
}

#[test]
fn light_commands_wait_for_no_more_than_one_transaction_of_heavy_single_ones() {
    let mut line = Line::new();
    (0..32).for_each(|id| line.send(waiting_task("q", id)));
    line.send(single());
    assert_eq!(line.next(), [1, 251, 251, 251, 251]);
    line.send(single());
    assert_eq!(line.next(), [1, 251], "it has waited for one that was full, and waits for a quarter of one");
    assert_eq!(line.next(), [251; 4]);
}

#[test]
fn heavy_commands_of_different_queues_take_turns() {
    let busy = (0..100).map(|id| waiting_task("busy", id));
    let mut backlog = backlog(busy.chain([waiting_task("other", 1), waiting_task("third", 1)]));
    let queues = |next: Option<Vec<Write>>| -> Vec<String> {
        next.unwrap().iter().map(|write| write.request.queue().unwrap().to_string()).collect()
    };
    assert_eq!(queues(backlog.try_next()), ["busy", "other", "third", "busy"]);
    assert_eq!(queues(backlog.try_next()), ["busy"; 4]);
}

#[test]
fn what_may_turn_out_to_be_heavy_waits_with_what_is() {
    let requeue = || queued(requeue("q", 1)).0;
    let writes = [requeue(), queued(delete("q", 1)).0, single()];
    let mut backlog = backlog(writes);
    let next = backlog.try_next().unwrap();
    assert!(matches!(next[0].request, crate::write_request::WriteRequest::Heartbeat(_)) && next.len() == 3);
}

#[test]
fn what_a_transaction_was_too_full_for_comes_next_and_can_be_withdrawn_meanwhile() {
    let (write, answer) = queued(create_all(0..500));
    let mut backlog = backlog([write, several(700)]);
    let mut next = backlog.try_next().unwrap();
    assert!(next[0].request.reply().begin());
    next.iter_mut().for_each(Write::leave);
    backlog.put_back(next);
    next = backlog.try_next().unwrap();
    assert_eq!(next.iter().map(|write| write.items).collect::<Vec<_>>(), [500]);
    drop(answer);
    assert!(!next[0].request.reply().begin(), "its caller has left");
}

#[test]
fn queues_whose_commands_were_left_keep_their_turns() {
    let queues = ["a", "b", "c", "d", "e", "f"];
    let mut backlog = backlog(queues.into_iter().map(|of| queued(delete(of, 1)).0));
    let mut ran = Vec::new();
    for _ in 0..3 {
        let mut next = backlog.try_next().unwrap();
        let mut left = next.split_off(2);
        ran.extend(next.iter().map(|write| write.request.queue().unwrap().to_string()));
        left.iter_mut().for_each(Write::leave);
        backlog.put_back(left);
    }
    assert_eq!(ran, queues);
}

/// Also if others are left beside it, again and again: each of them may fill a transaction.
#[test]
fn what_was_left_comes_before_what_came_later_the_light_first_and_then_the_oldest() {
    let write = |write: Write, was_left: bool| Write { was_left, ..write };
    let requeued = |was_left: bool| write(queued(requeue("other", 1)).0, was_left);
    let (older, claims) = (requeued(true), write(queued(claim("q", "default", 1)).0, true));
    let (newer, fresh) = (requeued(true), requeued(false));
    let light = write(queued(heartbeat("q", 1, 1)).0, true);
    let mut batch = vec![fresh, claims, newer, older, light];
    let queued_at = [4, 3, 1, 2, 0].map(|at: usize| batch[at].queued_at);
    crate::batch::sort(&mut batch, crate::batch::ClaimOrder::Last);
    assert!(batch.iter().map(|write| write.queued_at).eq(queued_at));
    // So it is also when they come back to the backlog in between.
    let mut backlog = backlog([]);
    backlog.put_back(batch);
    let mut next = backlog.try_next().unwrap();
    crate::batch::sort(&mut next, crate::batch::ClaimOrder::Last);
    assert!(next.iter().map(|write| write.queued_at).eq(queued_at));
}

#[tokio::test]
async fn more_heavy_commands_than_may_wait_are_busy_and_those_of_other_queues_and_light_ones_are_not() {
    let line = Line::new();
    (0..CAPACITY / 4).for_each(|_| line.send(several(5)));
    let (write, refused) = queued(create_all(0..5));
    line.send(write);
    let other = CreateTasks { queue: queue("other"), ..create_all(0..5) };
    line.send(queued(other).0);
    line.send(queued(heartbeat("q", 1, 1)).0);
    let Line { sender, mut backlog } = line;
    let next = backlog.next().await;
    assert!(next[0].is_light() && next[2].request.queue() == Some(&queue("other")));
    assert_eq!(refused.wait().await, Err(StoreError::Busy));
    drop(sender);
    let mut left = CAPACITY / 4 + 2 - next.len();
    while left > 0 {
        left -= backlog.next().await.len();
    }
    assert!(backlog.next().await.is_empty() && backlog.try_next().is_none());
}
