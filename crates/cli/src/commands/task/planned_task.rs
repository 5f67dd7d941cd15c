//! A task that is to be created, as a line of a file or a combination of a sweep gives it. How it is created stands in
//! `creation_calls.rs`.

use std::fmt;

use taskqueue_client::{Definition, TaskId};

/// Where a task comes from, for messages: `line 7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Flags,
    Line(u64),
    Combination(u64),
}

impl Origin {
    /// Its place among the others of the same command.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Flags => 0,
            Self::Line(number) | Self::Combination(number) => number,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags => f.write_str("the task"),
            Self::Line(number) => write!(f, "line {number}"),
            Self::Combination(number) => write!(f, "combination {number}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct PlannedTask {
    pub(super) id: TaskId,
    /// Derived from the definition, not given by the user.
    pub(super) is_derived: bool,
    pub(super) definition: Definition,
    pub(super) origin: Origin,
}

/// What makes no task, and why.
#[derive(Debug)]
pub(super) struct WrongTask {
    pub(super) origin: Origin,
    pub(super) reason: String,
}

/// Tasks that are read, and if the server knows batches also sent, together.
#[derive(Debug, Default)]
pub(super) struct TaskGroup {
    pub(super) tasks: Vec<Result<PlannedTask, WrongTask>>,
    /// How far the command has come with them, for its progress bar.
    pub(super) end: u64,
    bytes: usize,
}

impl TaskGroup {
    /// Fewer than a request may have: the first tasks are under way soon, and one group is being read while others are sent.
    pub(super) const TASKS_MAX: usize = 500;
    /// A quarter of what a request may have. Some groups and their requests are in memory at the same time.
    const BYTES_MAX: usize = 4 * 1_048_576;

    pub(super) fn push(&mut self, task: Result<PlannedTask, WrongTask>, end: u64) {
        if let Ok(PlannedTask { definition, .. }) = &task {
            self.bytes += definition.args.as_str().len() + definition.metadata.as_str().len();
        }
        self.tasks.push(task);
        self.end = end;
    }

    pub(super) fn is_full(&self) -> bool {
        self.tasks.len() >= Self::TASKS_MAX || self.bytes >= Self::BYTES_MAX
    }
}
