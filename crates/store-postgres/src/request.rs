//! A command on its way through a writer: with its plan if it is a bulk update, and with what is needed to try it again.

use std::time::{Duration, Instant};

use taskqueue_store::bulk::planned;
use taskqueue_store::command::Command;
use taskqueue_store::submission::{Handed, Outcome, TURN_LIMIT};

use crate::bulk::PlannedWrite;

/// How long before the end of its turn a command whose task others hold is tried for the last time.
const LAST_TRY: Duration = Duration::from_millis(200);

/// A command and where its answer goes.
pub(crate) struct Request {
    pub(crate) command: Command,
    /// For a bulk update: what was decided beside the writer.
    pub(crate) plan: Option<PlannedWrite>,
    pub(crate) handed: Handed,
    /// How often it was put back because others held its task.
    pub(crate) tries: u32,
    pub(crate) due: Instant,
    pub(crate) until: Instant,
}

impl Request {
    /// A command that comes now.
    pub(crate) fn new(command: Command, handed: Handed) -> Self {
        let now = Instant::now();
        Self { command, plan: None, handed, tries: 0, due: now, until: now + (TURN_LIMIT - LAST_TRY) }
    }

    /// The same with a plan.
    pub(crate) fn with_plan(self, plan: PlannedWrite) -> Self {
        Self { plan: Some(plan), ..self }
    }

    /// Whether it can be long: it looks at or changes everything in a queue.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self.command, Command::UpdateTasks(_) | Command::DeleteQueue { .. })
    }

    /// Whether it is a bulk update.
    pub(crate) fn is_bulk_update(&self) -> bool {
        matches!(self.command, Command::UpdateTasks(_))
    }

    /// Whether too much has changed since its plan was made.
    pub(crate) fn is_outdated(&self) -> bool {
        self.plan.as_ref().is_some_and(|write| planned(&write.plan).is_outdated)
    }

    /// Answers it.
    pub(crate) fn release(self, answer: Outcome) {
        self.handed.answer(answer);
    }
}
