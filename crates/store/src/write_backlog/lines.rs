//! Commands that wait in lines, one for each queue. The lines take turns: after each command it is the next queue's.

use std::collections::{HashMap, VecDeque};

use taskqueue_core::ids::QueueName;

use crate::write_queue::{CAPACITY, QueuedWrite};

/// Commands of one queue that may wait, so that others find room. When the last of them has its turn, its caller has left long ago.
const LINE_CAPACITY: usize = CAPACITY / 4;

pub(super) struct Lines<S> {
    /// The queues that have a line, the next one first.
    turns: VecDeque<Option<QueueName>>,
    /// None of them is empty.
    lines: HashMap<Option<QueueName>, VecDeque<QueuedWrite<S>>>,
    count: usize,
}

impl<S> Default for Lines<S> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), lines: HashMap::new(), count: 0 }
    }
}

impl<S> Lines<S> {
    /// Gives the command back if there is no room for it.
    pub(super) fn push_back(&mut self, write: QueuedWrite<S>) -> Option<QueuedWrite<S>> {
        let queue = write.request.queue().cloned();
        let waiting = self.lines.get(&queue).map_or(0, VecDeque::len);
        if self.count == CAPACITY || waiting == LINE_CAPACITY {
            return Some(write);
        }
        let line = self.lines.entry(queue.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(queue);
        }
        line.push_back(write);
        self.count += 1;
        None
    }

    /// Puts a command before the others of its queue, whose turn is the next one if it had no others.
    pub(super) fn push_front(&mut self, write: QueuedWrite<S>) {
        let queue = write.request.queue().cloned();
        let line = self.lines.entry(queue.clone()).or_default();
        if line.is_empty() {
            self.turns.push_front(queue);
        }
        line.push_front(write);
        self.count += 1;
    }

    pub(super) fn front(&self) -> Option<&QueuedWrite<S>> {
        self.lines.get(self.turns.front()?)?.front()
    }

    /// Takes the command whose turn it is, if it fulfils the condition.
    pub(super) fn pop_front_if(
        &mut self,
        condition: impl FnOnce(&mut QueuedWrite<S>) -> bool,
    ) -> Option<QueuedWrite<S>> {
        let line = self.lines.get_mut(self.turns.front()?)?;
        let write = line.pop_front_if(condition)?;
        self.count -= 1;
        let queue = self.turns.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&queue);
        } else {
            self.turns.push_back(queue);
        }
        Some(write)
    }
}
