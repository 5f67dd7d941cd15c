//! The bound on the memory of pending tasks: what there is no room for is refused before it is executed. Each queue has a share that
//! is set aside for it from its creation on, whether it uses it or not; what it has beyond that comes out of a common part. What
//! tasks take is counted elsewhere (`pending_order.rs`, `waiting_tasks.rs`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::ids::QueueName;
use taskqueue_core::lifecycle::TaskAction;
use taskqueue_store::StoreError;
use taskqueue_store::batch::fail_all;
use taskqueue_store::command::NewTask;
use taskqueue_store::transaction::QueueKey;
use taskqueue_store::write_request::WriteRequest;

use crate::pending_order::ENTRY_BYTES;
use crate::waiting_tasks::DELAYED_BYTES;
use crate::writer::{Write, Writer};

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

/// The least time between two log lines which say that the memory of pending tasks is full.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Writer {
    /// The commands of a batch that there is room for in memory, all of them together. The others are refused as busy.
    pub(crate) fn refuse_without_room(&mut self, mut batch: Vec<Write>) -> Vec<Write> {
        let (mut growth, mut all_growth) = (HashMap::<QueueKey, usize>::new(), 0);
        let refused: Vec<Write> = batch
            .extract_if(.., |write| {
                let Some(queue) = grown_queue(&write.request).and_then(|name| self.claim_index.queue(name)) else {
                    return false;
                };
                let (more, growth) = (self.growth(queue, &write.request), growth.entry(queue).or_default());
                let has_room = self.claim_index.has_room(queue, *growth + more, all_growth + more);
                if has_room {
                    *growth += more;
                    all_growth += more;
                }
                !has_room
            })
            .collect();
        if !refused.is_empty() {
            self.log_full();
            fail_all(refused, &StoreError::Busy);
        }
        batch
    }

    /// About what a command adds to the memory of a queue. Of a task that is stored already the least is taken: what it has is
    /// not known here.
    fn growth(&self, queue: QueueKey, request: &WriteRequest) -> usize {
        let new_tasks: Vec<&NewTask> = match request {
            WriteRequest::CreateTask(create) => vec![&*create.command.new],
            WriteRequest::CreateTasks(create) => {
                create.command.tasks.to_be_done().iter().map(|(_, new)| &**new).collect()
            }
            _ => return ENTRY_BYTES,
        };
        let delayed = new_tasks.iter().filter(|new| new.not_before.is_some()).count();
        let routes = new_tasks.iter().map(|new| &new.definition.routes);
        self.claim_index.growth(queue, routes) + delayed * DELAYED_BYTES
    }

    fn log_full(&mut self) {
        if self.full_logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            self.full_logged_at = Some(Instant::now());
            tracing::warn!(
                "the pending tasks of a queue use all of their memory; new tasks are refused until some are claimed or \
                 deleted"
            );
        }
    }
}

/// The queue whose pending order a command may make larger. The end of a run does not count: its task was
/// pending before.
fn grown_queue(request: &WriteRequest) -> Option<&QueueName> {
    match request {
        WriteRequest::CreateTask(create) => Some(&create.command.queue),
        WriteRequest::CreateTasks(create) => Some(&create.command.queue),
        WriteRequest::ActOnTask(act) if act.command.action == TaskAction::Requeue => Some(&act.command.queue),
        WriteRequest::ActOnFound(found) if found.command.act.action == BulkAction::Requeue => {
            Some(&found.command.act.queue)
        }
        WriteRequest::UpdateTask(update) => update.command.update.routes.as_ref().map(|_| &update.command.queue),
        WriteRequest::UpdateTasks(update) => {
            let bulk = &update.command.bulk;
            bulk.update.routes.as_ref().map(|_| &bulk.queue)
        }
        _ => None,
    }
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
