//! Which tasks others may wait for, in memory: the end of a task that nobody waits for reads no pair of the file. It is never
//! wrong in saying that nobody does.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use rusqlite::{Connection, Result};
use taskqueue_core::TaskId;
use taskqueue_store::QueueKey;

use crate::bloom_filter::BloomFilter;
use crate::queries::{CONTINUE, each_row};
use crate::{rows, statements as sql};

/// Tasks that are waited for: 1.25 MB, which only databases have in which tasks wait for others. A start reads this many pairs at
/// most, some tenths of a second. Where there are more, or were since the start, every end of a task looks into the file.
const TASKS_MAX: usize = 1_000_000;

pub(crate) struct Awaited {
    /// Queues in which a task waits for another one, or did.
    queues: HashSet<QueueKey>,
    /// Nothing before the first one, and once there were too many.
    filter: Option<BloomFilter>,
    /// The number of tasks that the filter still takes.
    left: usize,
    /// Clients choose ids: they must not know which ones look alike here.
    hasher: RandomState,
}

impl Default for Awaited {
    fn default() -> Self {
        Self::with_room(TASKS_MAX)
    }
}

impl Awaited {
    fn with_room(left: usize) -> Self {
        Self { queues: HashSet::new(), filter: None, left, hasher: RandomState::new() }
    }

    /// Adds what the tasks of these queues wait for. Reads as many pairs as there is room for, and one of each queue.
    pub(super) fn load(&mut self, connection: &Connection, queues: impl Iterator<Item = QueueKey>) -> Result<()> {
        let mut pairs_left = self.left;
        for queue in queues {
            let limit = i64::try_from(pairs_left).unwrap_or(i64::MAX).saturating_add(1);
            each_row(connection, &sql::LIST_AWAITED, [queue.0, limit], |row| {
                self.add(queue, rows::dependency(row)?);
                match pairs_left.checked_sub(1) {
                    Some(left) => pairs_left = left,
                    None => self.ask_the_file(),
                }
                Ok(CONTINUE)
            })?;
        }
        Ok(())
    }

    fn ask_the_file(&mut self) {
        (self.filter, self.left) = (None, 0);
    }

    /// A task of the queue waits for this one.
    pub(crate) fn add(&mut self, queue: QueueKey, dependency: TaskId) {
        self.queues.insert(queue);
        if self.left == 0 {
            return self.ask_the_file();
        }
        let hash = self.hash(queue, dependency);
        if self.filter.is_none() {
            self.filter = BloomFilter::new(self.left, usize::MAX);
        }
        if let Some(filter) = self.filter.as_mut().filter(|filter| !filter.may_hold(hash)) {
            filter.add(hash);
            self.left -= 1;
        }
    }

    /// Returns whether a task may wait for this one. False only if none does.
    pub(crate) fn may_hold(&self, queue: QueueKey, dependency: TaskId) -> bool {
        let is_asked = self.queues.contains(&queue);
        is_asked && self.filter.as_ref().is_none_or(|filter| filter.may_hold(self.hash(queue, dependency)))
    }

    pub(crate) fn remove_queue(&mut self, queue: QueueKey) {
        self.queues.remove(&queue);
    }

    fn hash(&self, queue: QueueKey, dependency: TaskId) -> u64 {
        self.hasher.hash_one((queue.0, dependency))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params;

    use super::*;

    fn id(n: usize) -> TaskId {
        TaskId::parse(&format!("t_{n:0>12}")).unwrap()
    }

    const QUEUE: QueueKey = QueueKey(1);

    #[test]
    fn a_task_that_is_waited_for_is_never_passed_over() {
        let mut awaited = Awaited::with_room(1_000);
        assert!(!awaited.may_hold(QUEUE, id(1)), "nobody waits");
        (0..500).for_each(|n| awaited.add(QUEUE, id(n)));
        assert!((0..500).all(|n| awaited.may_hold(QUEUE, id(n))));
        let asked = (500..10_500).filter(|n| awaited.may_hold(QUEUE, id(*n))).count();
        assert!(asked < 300, "{asked} of 10,000 others are looked for");
        assert!(!awaited.may_hold(QueueKey(2), id(1)), "another queue");
        // Dependents of one task are many, and take room once.
        (0..10_000).for_each(|_| awaited.add(QUEUE, id(1)));
        assert!(awaited.filter.is_some());
    }

    #[test]
    fn with_more_tasks_than_there_is_room_for_each_is_looked_for() {
        let mut awaited = Awaited::with_room(10);
        (0..1_000).for_each(|n| awaited.add(QUEUE, id(n)));
        assert!((0..2_000).all(|n| awaited.may_hold(QUEUE, id(n))));
        assert!(!awaited.may_hold(QueueKey(2), id(1)));
    }

    #[test]
    fn what_the_file_holds_is_known_after_a_start_however_much_it_is() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE dependencies (queue_key, dependency)").unwrap();
        let queue_of = |n: usize| QueueKey(i64::try_from(n / 10).unwrap());
        for n in 0..30 {
            let (queue, id) = (queue_of(n), id(n));
            connection.execute("INSERT INTO dependencies VALUES (?1, ?2)", params![queue.0, id.as_str()]).unwrap();
        }
        for (room, asks_the_file) in [(5, true), (15, true), (29, true), (30, false), (1_000, false)] {
            let mut awaited = Awaited::with_room(room);
            awaited.load(&connection, (0..4).map(QueueKey)).unwrap();
            for n in 0..30 {
                assert!(awaited.may_hold(queue_of(n), id(n)), "{n} of {room}");
            }
            assert!(!awaited.may_hold(QueueKey(3), id(1)));
            assert_eq!(awaited.filter.is_none(), asks_the_file, "{room}");
        }
    }
}
