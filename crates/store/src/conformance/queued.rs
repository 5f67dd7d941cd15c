//! Commands as they stand in the queue of a writer, for tests that are the writer.

use tokio::runtime::Builder;

use super::prelude::*;
use crate::submission::{PendingAnswer, Submission};
use crate::write_queue::QueuedWrite;

/// A command in the queue, and what its caller waits for.
pub fn queued<S, C: Command>(command: C) -> (QueuedWrite<S>, PendingAnswer<C::Answer>) {
    let (submission, answer) = Submission::new(command);
    (QueuedWrite::new(C::into_request(submission)), answer)
}

/// Waits for an answer on this thread.
pub fn wait<A>(answer: PendingAnswer<A>) -> Result<A, StoreError> {
    Builder::new_current_thread().enable_time().build().unwrap().block_on(answer.wait())
}
