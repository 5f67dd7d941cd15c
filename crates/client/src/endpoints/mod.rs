//! The endpoints, one method of the client each, in the contract's order. The constants
//! `AFTER_...` say what to do when the outcome of a call is unknown.

mod batches;
mod discovery;
mod output;
mod queues;
mod runs;
mod stats;
mod tasks;
mod workers;

pub use batches::{BatchClaimRequest, CreateOutcome};
pub use output::OutputAnswer;
pub use runs::{ClaimAnswer, ClaimRequest, HeartbeatAnswer};

use taskqueue_core::ids::{QueueName, TaskId};

/// A path of a queue. Names hold nothing that a URL would have to encode (docs/reference/http-api.md §1.2).
fn of_queue(template: &str, queue: &QueueName) -> String {
    template.replace("{queue}", queue.as_str())
}

/// A path of a task.
fn of_task(template: &str, queue: &QueueName, id: TaskId) -> String {
    of_queue(template, queue).replace("{task_id}", id.as_str())
}
