//! The bound on the memory of pending tasks: a queue whose pending order takes as much as it may is refused more.

use std::time::{Duration, Instant};

use taskqueue_core::ids::QueueName;
use taskqueue_core::lifecycle::Action;
use taskqueue_store::StoreError;
use taskqueue_store::command::Command;

use super::Writer;
use crate::request::Request;

/// The log is not told again before this that a pending order is full.
const TELL_AGAIN: Duration = Duration::from_secs(60);

impl Writer {
    /// Those of a batch that there is room for in memory. The others are refused as busy.
    pub(super) fn with_room(&mut self, mut batch: Vec<Request>) -> Vec<Request> {
        let refused: Vec<Request> = batch.extract_if(.., |request| self.has_no_room_for(&request.command)).collect();
        if !refused.is_empty() {
            self.tell_full();
            refused.into_iter().for_each(|request| request.release(Err(StoreError::Busy)));
        }
        batch
    }

    /// Whether a command would make a pending order larger that takes as much memory as it may. What is there already
    /// stays, however much it is.
    fn has_no_room_for(&self, command: &Command) -> bool {
        grown_queue(command)
            .and_then(|queue| self.claim_index.queue(queue))
            .is_some_and(|queue| !self.claim_index.may_grow(queue, self.pending_bytes))
    }

    fn tell_full(&mut self) {
        if self.told_full_at.is_none_or(|at| at.elapsed() >= TELL_AGAIN) {
            self.told_full_at = Some(Instant::now());
            tracing::warn!(
                "the pending tasks of a queue take all the memory they may; it takes no more until some are gone"
            );
        }
    }
}

/// The queue whose pending order a command may make larger. Not that of a task that comes back from a run: it was taken
/// before.
fn grown_queue(command: &Command) -> Option<&QueueName> {
    match command {
        Command::CreateTask { queue, .. } | Command::Act { queue, action: Action::Requeue, .. } => Some(queue),
        Command::UpdateTask { queue, update, .. } => update.routes.as_ref().map(|_| queue),
        Command::UpdateTasks(bulk) => bulk.update.routes.as_ref().map(|_| &bulk.queue),
        _ => None,
    }
}
