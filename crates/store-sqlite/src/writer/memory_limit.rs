//! The bound on the memory of pending tasks: what there is no room for is refused before it is executed. Who has room is decided in
//! `claim_index/room.rs`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use taskqueue_core::lifecycle::TaskAction;
use taskqueue_core::{BulkAction, QueueName};
use taskqueue_store::batch::fail_all;
use taskqueue_store::command::NewTask;
use taskqueue_store::{QueueKey, StoreError, WriteRequest};

use super::{Write, Writer};
use crate::pending_order::ENTRY_BYTES;
use crate::waiting_tasks::DELAYED_BYTES;

/// The least time between two log lines which say that the memory of pending tasks is full.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Writer {
    /// The commands of a batch that there is room for in memory, all of them together. The others are refused as busy.
    pub(super) fn refuse_without_room(&mut self, mut batch: Vec<Write>) -> Vec<Write> {
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
