//! A task that is to be created, as a line of a file or a combination of a sweep gives it. How it is created stands in
//! `creation_calls.rs`.

use std::{fmt, mem};

use taskqueue_client::{Creation, Definition, TaskId, Timestamp};
use taskqueue_core::batch_label::labelled;

use crate::args::SchedulingArgs;

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
    pub(super) creation: Creation,
    /// Its time is counted from when the command was started, so it is another one each time.
    pub(super) is_delayed: bool,
    pub(super) origin: Origin,
}

/// What a command gives to each of its tasks, where they do not say it themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// Of the batch.
    pub(super) label: Option<String>,
    /// By `--delay`.
    pub(super) delayed_until: Option<Timestamp>,
}

impl Given {
    pub(super) fn by(label: Option<&str>, scheduling: &SchedulingArgs, not_before: Option<Timestamp>) -> Self {
        let delayed_until = not_before.filter(|_| scheduling.delay.is_some());
        Self { label: label.map(str::to_owned), delayed_until }
    }

    pub(super) fn task(&self, id: TaskId, is_derived: bool, mut creation: Creation, origin: Origin) -> PlannedTask {
        creation.definition.metadata = labelled(creation.definition.metadata, self.label.as_deref());
        let is_delayed = creation.not_before.is_some() && creation.not_before == self.delayed_until;
        PlannedTask { id, is_derived, creation, is_delayed, origin }
    }
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
    const TASKS_MAX: usize = 500;
    /// Many proxies take bodies of 1 MiB, and a request is a little longer than is counted here. A task that is larger is a group
    /// of its own.
    const BYTES_MAX: usize = 1_000_000;

    /// Adds a task. If it does not fit any more, it begins the next group, and the full one is returned.
    pub(super) fn push(&mut self, task: Result<PlannedTask, WrongTask>, end: u64) -> Option<Self> {
        let bytes = task.as_ref().map_or(0, |planned| request_bytes(&planned.creation.definition));
        let fits = self.tasks.len() < Self::TASKS_MAX && self.bytes + bytes <= Self::BYTES_MAX;
        let full = (!fits && !self.tasks.is_empty()).then(|| mem::take(self));
        self.tasks.push(task);
        self.bytes += bytes;
        self.end = end;
        full
    }
}

/// About what a task needs in a request.
fn request_bytes(definition: &Definition) -> usize {
    /// The id, numbers, a time and names of fields; the quotes and the comma of a route.
    const FRAME_BYTES: usize = 200;
    const ROUTE_FRAME_BYTES: usize = 3;
    let name = definition.name.as_ref().map_or(0, |name| name.len());
    let routes: usize = definition.routes.iter().map(|route| route.len() + ROUTE_FRAME_BYTES).sum();
    let scheduling = definition.scheduling.stored_bytes();
    FRAME_BYTES + name + routes + definition.args.as_str().len() + definition.metadata.as_str().len() + scheduling
}
