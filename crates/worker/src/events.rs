//! What a worker tells of itself while it runs. It never prints: whoever starts it listens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taskqueue_client::{Claim, Error, RunId, TaskId};

/// How a run ended for its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server has its result.
    Succeeded,
    /// The server has its failure: its type and message.
    Failed {
        /// The type of the error.
        kind: Arc<str>,
        /// Its message.
        message: Arc<str>,
    },
    /// It was given back.
    Released,
    /// This worker could not run it, for this reason, and gave it back.
    Unable(String),
    /// The server had ended the run (cancelled, expired, or somebody else has it), for this reason.
    Revoked(String),
    /// The worker left before the server took its end. It is kept where there is a run directory.
    Undelivered,
}

/// Something worth telling.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A run begins.
    Started {
        /// The slot that runs it.
        slot: usize,
        /// The task and its run.
        claim: &'a Claim,
    },
    /// A run ended and, where that was possible, its end was reported.
    Ended {
        /// The slot that ran it.
        slot: usize,
        /// The task.
        task_id: TaskId,
        /// The run.
        run_id: RunId,
        ending: &'a Ending,
        /// From its beginning to the answer to its report.
        took: Duration,
    },
    /// Calls began to fail. They are repeated; nothing that runs is stopped.
    OutOfContact(&'a Error),
    /// Calls succeed again.
    InContact,
    /// No heartbeat got through for as long as the lease lasts. The run goes on; the server decides about it.
    LeaseInDoubt {
        /// The slot that runs it.
        slot: usize,
        /// The task.
        task_id: TaskId,
    },
    /// A report that an earlier worker left was delivered, or refused for the reason given.
    LeftOver {
        /// The task.
        task_id: TaskId,
        /// Why it was refused.
        refused: Option<&'a str>,
    },
    /// Something about a run, or about the worker's own files, that is good to know.
    Note {
        /// The task, if it is about one.
        task_id: Option<TaskId>,
        /// What it is.
        text: &'a str,
    },
}

/// Hears what a worker tells. Called from the worker's tasks, so it must not take long.
pub trait Listener: Send + Sync + 'static {
    /// Hears one thing.
    fn hear(&self, event: &Event<'_>);
}

/// Hears nothing.
impl Listener for () {
    fn hear(&self, _: &Event<'_>) {}
}

/// Whether calls get through, told once per change however many runs notice it.
#[derive(Default)]
pub(crate) struct Contact {
    is_lost: AtomicBool,
}

impl Contact {
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self, listener: &dyn Listener, error: &Error) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            listener.hear(&Event::OutOfContact(error));
        }
    }

    pub(crate) fn made(&self, listener: &dyn Listener) {
        if self.is_lost.load(Ordering::Relaxed) && self.is_lost.swap(false, Ordering::Relaxed) {
            listener.hear(&Event::InContact);
        }
    }
}
