//! The tasks around a task: those that it waits for and those that wait for it, as much of them as a person wants to see.

use std::sync::Arc;

use taskqueue_core::{Status, TaskId};

/// Which tasks are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The task in the middle, existing or not.
    pub id: TaskId,
    /// Those that it waits for, as far as they are wanted.
    pub dependencies: Vec<TaskId>,
    /// How many of those that wait for it are wanted.
    pub most_dependents: u16,
}

/// The related tasks, all of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelatedTasks {
    /// In the order in which they were named; nothing for those that do not exist.
    pub dependencies: Vec<Option<RelatedTask>>,
    /// Those that wait for it, or did until they ended, the oldest first.
    pub dependents: Vec<RelatedTask>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedTask {
    pub id: TaskId,
    pub status: Status,
    pub name: Option<Arc<str>>,
}
