//! What nearly every test of the rules names.

pub(crate) use taskqueue_core::definition::{Definition, Routes};
pub(crate) use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
pub(crate) use taskqueue_core::json::JsonObject;
pub(crate) use taskqueue_core::lifecycle::{Change, RunReport};
pub(crate) use taskqueue_core::refusal::Refusal;
pub(crate) use taskqueue_core::scheduling::{Scheduling, SchedulingFields};
pub(crate) use taskqueue_core::task::{
    Failure, FinishedRun, LastRun, Lifecycle, Outcome, Progress, RunEnd, Status, Task,
};
pub(crate) use taskqueue_core::time::Timestamp;
pub(crate) use taskqueue_core::update::Update;

pub(crate) use crate::samples::{at, failure, new_task, object, route};
