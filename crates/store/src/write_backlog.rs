//! What writers have received and not begun, and which of it the next transaction takes. A command of several items waits in a
//! line of its own: single commands come first, and none of them waits for more than one transaction that is full of items
//! (docs/decisions/0039).

use std::collections::VecDeque;

use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::StoreError;
use crate::write_queue::{CAPACITY, QueuedWrite};

/// Single commands of one transaction at most. A longer one would let its first caller wait for no gain: so many share
/// the sync already that its part of each command is below a microsecond.
pub const MAX_SINGLE: usize = 256;
/// Items of one transaction, unless single commands and one other of up to as many have more: about 20 milliseconds on
/// SQLite. A command that has more itself is large: it gets a transaction of its own.
pub const MAX_ITEMS: usize = 1_024;

/// The receivers' end of a [`crate::write_queue::WriteQueue`].
pub struct WriteBacklog<S> {
    receiver: Receiver<QueuedWrite<S>>,
    single: VecDeque<QueuedWrite<S>>,
    several: VecDeque<QueuedWrite<S>>,
    /// Whether the last transaction had many items of commands of several. Single commands that came meanwhile have waited for
    /// it, and do not wait for another one like it.
    was_full: bool,
    /// Whether the last transaction had single commands that were committed before a large command. Now it is its turn.
    was_put_off: bool,
}

impl<S> WriteBacklog<S> {
    pub(crate) fn new(receiver: Receiver<QueuedWrite<S>>) -> Self {
        Self { receiver, single: VecDeque::new(), several: VecDeque::new(), was_full: false, was_put_off: false }
    }

    /// The commands of the next transaction, without waiting: none if none is there. Nothing when no more can come.
    pub fn try_next(&mut self) -> Option<Vec<QueuedWrite<S>>> {
        let is_open = self.receive();
        let next = self.take();
        (is_open || !next.is_empty()).then_some(next)
    }

    /// Waits for a command. Returns whether one came; if not, no more can come.
    pub fn blocking_wait(&mut self) -> bool {
        let received = self.receiver.blocking_recv();
        received.map(|write| self.add(write)).is_some()
    }

    /// The commands of the next transaction: none when no more can come. Cancel safe.
    pub async fn next(&mut self) -> Vec<QueuedWrite<S>> {
        loop {
            match self.try_next() {
                Some(next) if next.is_empty() => {
                    if let Some(write) = self.receiver.recv().await {
                        self.add(write);
                    }
                }
                next => return next.unwrap_or_default(),
            }
        }
    }

    /// Receives until there are enough single commands. Returns whether more can come.
    fn receive(&mut self) -> bool {
        while self.single.len() < MAX_SINGLE {
            match self.receiver.try_recv() {
                Ok(write) => self.add(write),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn add(&mut self, write: QueuedWrite<S>) {
        if !write.request.has_several_items() {
            self.single.push_back(write);
        } else if self.several.len() < CAPACITY {
            self.several.push_back(write);
        } else {
            write.fail(StoreError::Busy);
        }
    }

    fn take(&mut self) -> Vec<QueuedWrite<S>> {
        let was_put_off = std::mem::take(&mut self.was_put_off);
        if (was_put_off || self.single.is_empty())
            && let Some(large) = self.several.pop_front_if(|write| write.items > MAX_ITEMS)
        {
            self.was_full = true;
            return vec![large];
        }
        let (mut next, mut items) = (Vec::new(), 0);
        let fits = |items, more| items == 0 || items + more <= MAX_ITEMS;
        while next.len() < MAX_SINGLE
            && let Some(write) = self.single.pop_front_if(|write| fits(items, write.items))
        {
            items += write.items;
            next.push(write);
        }
        if self.several.front().is_some_and(|write| write.items > MAX_ITEMS) {
            (self.was_put_off, self.was_full) = (true, false);
            return next;
        }
        let is_pressed = self.was_full && items > 0;
        let (most, single_items) = (if is_pressed { MAX_SINGLE } else { MAX_ITEMS }, items);
        let fits = |items, more| items + more <= most || items == single_items && !is_pressed;
        while let Some(write) = self.several.pop_front_if(|write| fits(items, write.items)) {
            items += write.items;
            next.push(write);
        }
        self.was_full = items - single_items > MAX_SINGLE;
        next
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::command::{Command, CreateTasks, Heartbeat};
    use crate::conformance::commands::*;
    use crate::submission::{PendingAnswer, Submission};
    use taskqueue_core::definition::Definition;

    type Write = QueuedWrite<()>;

    fn queued<C: Command>(command: C) -> (Write, PendingAnswer<C::Answer>) {
        let (submission, answer) = Submission::new(command);
        (Write::new(C::into_request(submission)), answer)
    }

    fn several(items: usize) -> Write {
        queued(create_all(0..items)).0
    }

    fn single() -> Write {
        queued(heartbeat("q", 1, 1)).0
    }

    fn backlog(writes: impl IntoIterator<Item = Write>) -> WriteBacklog<()> {
        let (sender, receiver) = channel(CAPACITY);
        writes.into_iter().for_each(|write| sender.try_send(write).unwrap_or_else(|_| panic!("no room")));
        WriteBacklog::new(receiver)
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
        let writes = [several(24), several(1_000), write, several(1), single()];
        assert_eq!(transactions(&mut backlog(writes)), [vec![1, 24], vec![1_000], vec![items], vec![1]]);
        let singles = (0..5).map(|n| queued(create("q", n, large.clone())).0);
        assert_eq!(transactions(&mut backlog(singles)), [vec![245; 4], vec![245]], "of single commands too");
    }

    #[test]
    fn a_full_transaction_is_followed_by_the_single_commands_that_came_meanwhile() {
        let (sender, receiver) = channel(CAPACITY);
        let send = |write: Write| sender.try_send(write).unwrap_or_else(|_| panic!("no room"));
        let mut backlog = WriteBacklog::new(receiver);
        let items = |next: Option<Vec<Write>>| next.unwrap().iter().map(|write| write.items).collect::<Vec<_>>();
        (0..50).for_each(|_| send(several(1_000)));
        assert_eq!(items(backlog.try_next()), [1_000]);
        send(single());
        assert_eq!(items(backlog.try_next()), [1]);
        send(single());
        assert_eq!(items(backlog.try_next()), [1, 1_000], "however many single commands come, others get their turn");
        send(single());
        assert_eq!(items(backlog.try_next()), [1]);
        assert_eq!(items(backlog.try_next()), [1_000]);
        (0..300).for_each(|_| send(single()));
        send(several(100));
        assert_eq!(items(backlog.try_next()), [1; 256]);
        assert_eq!(items(backlog.try_next()), [vec![1; 44], vec![1_000]].concat());
    }

    #[test]
    fn single_commands_do_not_share_the_transaction_of_a_large_command() {
        let (sender, receiver) = channel(CAPACITY);
        let send = |write: Write| sender.try_send(write).unwrap_or_else(|_| panic!("no room"));
        let mut backlog = WriteBacklog::new(receiver);
        let items = |next: Option<Vec<Write>>| next.unwrap().iter().map(|write| write.items).collect::<Vec<_>>();
        let names: Vec<String> = (0..256).map(|n| format!("r{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let new = |n: usize| (task_id(n), Box::new(with_routes(&names).into()));
        let large = || queued(CreateTasks { queue: queue("q"), tasks: (0..100).map(new).collect() }).0;
        assert_eq!(large().items, 1_700, "routes count");
        (0..3).for_each(|_| send(large()));
        send(single());
        assert_eq!(items(backlog.try_next()), [1], "it is committed before");
        send(single());
        assert_eq!(items(backlog.try_next()), [1_700], "the turn of the large one, whatever else comes");
        send(several(10));
        assert_eq!(items(backlog.try_next()), [1]);
        send(single());
        assert_eq!(items(backlog.try_next()), [1_700]);
        assert_eq!(items(backlog.try_next()), [1]);
        assert_eq!(items(backlog.try_next()), [1_700]);
        assert_eq!(items(backlog.try_next()), [10]);
    }

    #[test]
    fn small_commands_of_several_items_share_a_transaction_with_single_ones_at_any_time() {
        let (sender, receiver) = channel(CAPACITY);
        let send = |write: Write| sender.try_send(write).unwrap_or_else(|_| panic!("no room"));
        let mut backlog = WriteBacklog::new(receiver);
        (0..30).for_each(|_| send(several(100)));
        let items = |next: Option<Vec<Write>>| next.unwrap().iter().map(|write| write.items).collect::<Vec<_>>();
        assert_eq!(items(backlog.try_next()), [100; 10]);
        send(single());
        assert_eq!(items(backlog.try_next()), [1, 100, 100]);
    }

    #[tokio::test]
    async fn more_commands_of_several_items_than_may_wait_are_busy_and_single_ones_are_not() {
        let (sender, receiver) = channel(CAPACITY + 2);
        let send = |write: Write| sender.try_send(write).unwrap_or_else(|_| panic!("no room"));
        let mut backlog = WriteBacklog::new(receiver);
        (0..CAPACITY).for_each(|_| send(several(1)));
        let (write, refused) = queued(create_all([1]));
        send(write);
        send(queued::<Heartbeat>(heartbeat("q", 1, 1)).0);
        let next = backlog.next().await;
        assert!(!next[0].request.has_several_items() && next.len() == MAX_ITEMS);
        assert_eq!(refused.wait().await, Err(StoreError::Busy));
        drop(sender);
        let mut left = CAPACITY + 1 - next.len();
        while left > 0 {
            left -= backlog.next().await.len();
        }
        assert!(backlog.next().await.is_empty() && backlog.try_next().is_none());
    }
}
