//! The bound on the memory of pending tasks: new tasks are refused when the pending order of a queue uses all of it.

use std::time::{Duration, Instant};

use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::ids::QueueName;
use taskqueue_core::lifecycle::TaskAction;
use taskqueue_store::StoreError;
use taskqueue_store::batch::fail_all;
use taskqueue_store::write_request::WriteRequest;

use super::{Write, Writer};

/// At least what one route of a pending task takes (`pending_order.rs`).
const ROUTE_ENTRY_BYTES: usize = 64;
/// How often it is logged at most that a pending order is full.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Writer {
    /// The commands of a batch that there is room for in memory. The others are refused as busy.
    pub(super) fn refuse_without_room(&mut self, mut batch: Vec<Write>) -> Vec<Write> {
        let refused: Vec<Write> = batch.extract_if(.., |write| self.has_no_room_for(&write.request)).collect();
        if !refused.is_empty() {
            self.log_full();
            fail_all(refused, &StoreError::Busy);
        }
        batch
    }

    /// Whether a command would enlarge a pending order that already uses all of its memory. Tasks that are already
    /// pending stay.
    fn has_no_room_for(&self, request: &WriteRequest) -> bool {
        grown_queue(request).and_then(|queue| self.claim_index.queue(queue)).is_some_and(|queue| {
            let most_bytes = self.pending_bytes.saturating_sub(further_bytes(request));
            !self.claim_index.may_grow(queue, most_bytes)
        })
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

/// About what a command of several items adds to the pending order. A single one is too small to count.
fn further_bytes(request: &WriteRequest) -> usize {
    let WriteRequest::CreateTasks(create) = request else { return 0 };
    let routes = create.command.tasks.iter().map(|(_, new)| new.definition.routes.iter().count());
    routes.sum::<usize>() * ROUTE_ENTRY_BYTES
}

/// The queue whose pending order a command may make larger. The end of a run does not count: its task was
/// pending before.
fn grown_queue(request: &WriteRequest) -> Option<&QueueName> {
    match request {
        WriteRequest::CreateTask(create) => Some(&create.command.queue),
        WriteRequest::CreateTasks(create) => Some(&create.command.queue),
        WriteRequest::ActOnTask(act) if act.command.action == TaskAction::Requeue => Some(&act.command.queue),
        WriteRequest::ActOnFound(found) if found.command.act().action == BulkAction::Requeue => {
            Some(&found.command.act().queue)
        }
        WriteRequest::UpdateTask(update) => update.command.update.routes.as_ref().map(|_| &update.command.queue),
        WriteRequest::UpdateTasks(update) => {
            let bulk = update.command.bulk();
            bulk.update.routes.as_ref().map(|_| &bulk.queue)
        }
        _ => None,
    }
}
