//! A command on its way to the writer, with its plan if it is a bulk update.

use taskqueue_store::command::Command;
use taskqueue_store::submission::{Handed, Outcome};

use crate::bulk::PlannedWrite;

/// A command and where its answer goes.
pub(crate) struct Request {
    pub(crate) command: Command,
    /// For a bulk update: what was decided beside the writer.
    pub(crate) plan: Option<PlannedWrite>,
    pub(crate) handed: Handed,
}

impl Request {
    /// Whether the time of a bulk update is over before it is written: beginning would only cost the others.
    pub(crate) fn is_late(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.limit.is_over())
    }

    /// Answers it.
    pub(crate) fn release(self, answer: Outcome) {
        self.handed.answer(answer);
    }
}
