//! Which queue may have more pending tasks in memory. Each queue has a share that is set aside for it from its creation on,
//! whether it uses it or not; what it has beyond that comes out of a common part. What tasks take is counted elsewhere
//! (`pending_order.rs`, `waiting_tasks.rs`).

use std::collections::HashMap;

use taskqueue_store::transaction::QueueKey;

/// The part of the memory that is set aside for shares.
const SHARES_PART: usize = 4;
/// The part of what is left of it that a new queue gets. So early queues have the most, none ever loses its share, and who
/// creates a thousand queues takes only from those that are created later.
const NEW_QUEUE_PART: usize = 128;

pub(crate) struct Room {
    most_bytes: usize,
    shares: HashMap<QueueKey, usize>,
    /// The memory that is left for the shares of new queues.
    unshared_bytes: usize,
}

/// The memory that is in use, with what is to be added.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryUse {
    pub(super) queue_bytes: usize,
    pub(super) all_bytes: usize,
}

impl Room {
    pub(crate) fn within(most_bytes: usize) -> Self {
        Self { most_bytes, shares: HashMap::new(), unshared_bytes: most_bytes / SHARES_PART }
    }

    /// Returns as much room without any queue.
    pub(super) fn emptied(&self) -> Self {
        Self::within(self.most_bytes)
    }

    pub(super) fn add_queue(&mut self, queue: QueueKey) {
        let share = self.unshared_bytes / NEW_QUEUE_PART;
        self.unshared_bytes -= share;
        self.unshared_bytes += self.shares.insert(queue, share).unwrap_or(0);
    }

    pub(super) fn remove_queue(&mut self, queue: QueueKey) {
        self.unshared_bytes += self.shares.remove(&queue).unwrap_or(0);
    }

    pub(super) fn has_room(&self, queue: QueueKey, used: MemoryUse) -> bool {
        has_room(used, self.shares.get(&queue).copied().unwrap_or(0), self.most_bytes)
    }
}

/// Without a limit.
impl Default for Room {
    fn default() -> Self {
        Self::within(usize::MAX)
    }
}

/// Returns whether a queue may use so much: its share at any time, and more as long as the common part is not used up and the queue
/// has not more than three times what is free of it. So all queues together stay within `most_bytes`, and one that grows without
/// end leaves room also in the common part.
fn has_room(MemoryUse { queue_bytes, all_bytes }: MemoryUse, share_bytes: usize, most_bytes: usize) -> bool {
    let free = (most_bytes - most_bytes / SHARES_PART).saturating_sub(all_bytes);
    queue_bytes <= share_bytes.max(free.saturating_mul(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_its_share_whatever_others_use_and_more_only_of_what_all_have() {
        // Of 1,000 bytes 750 are common. The bytes of the queue, of all queues, and whether they may be that many.
        for (queue_bytes, all_bytes, expected) in [
            (0, 0, true),
            (562, 562, true),
            (563, 563, false),
            (300, 650, true),
            (303, 650, false),
            (11, 745, true),
            (11, 746, true),
            (18, 745, false),
            (11, 750, false),
            (10, 750, true),
            (10, 1_000, true),
            (11, 1_000, false),
            // What is stored already is loaded, however much it is.
            (10, 5_000, true),
            (2_000, 5_000, false),
        ] {
            let used = MemoryUse { queue_bytes, all_bytes };
            assert_eq!(has_room(used, 10, 1_000), expected, "{used:?}");
        }
        let unlimited = MemoryUse { queue_bytes: 1 << 40, all_bytes: 1 << 50 };
        assert!(has_room(unlimited, 0, usize::MAX));
        assert!(!has_room(MemoryUse { queue_bytes: 1, all_bytes: 1 }, 0, 0));
    }

    #[test]
    fn thousands_of_new_queues_take_nothing_of_the_share_of_an_older_one() {
        let mut room = Room::within(1 << 20);
        (0..10_000).for_each(|queue| room.add_queue(QueueKey(queue)));
        let (first, sum) = (room.shares[&QueueKey(0)], room.shares.values().sum::<usize>());
        assert_eq!(first, (1 << 18) / NEW_QUEUE_PART);
        assert_eq!(sum + room.unshared_bytes, 1 << 18, "no more than was set aside");
        assert!((1..100).all(|queue| room.shares[&QueueKey(queue)] > first / 3), "a hundred have much");
        (1..10_000).for_each(|queue| room.remove_queue(QueueKey(queue)));
        assert_eq!(room.unshared_bytes, (1 << 18) - first, "who comes later gets it");
        room.add_queue(QueueKey(0));
        assert_eq!(room.shares.values().sum::<usize>() + room.unshared_bytes, 1 << 18);
    }
}
