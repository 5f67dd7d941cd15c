//! The bodies and answers once more, as plain data with serde and OpenAPI schemas: for the document at `/openapi.json`
//! and for clients. The server neither reads nor writes through these types (see `bodies` and `write`); tests hold that
//! both say the same.

mod answers;
mod counts;
mod parameters;
mod requests;
mod scalars;
mod tasks;
mod workers;

pub use answers::{Error, ErrorEnvelope, Health, Queue, Unhealthy};
pub use counts::{Count, CountAnswer, Group, GroupedCount, Updated};
pub use parameters::{
    CountTasksQuery, CountWorkersQuery, DeleteQueueQuery, ListTasksQuery, ListWorkersQuery, PreferHeader, QueuePath,
    TaskPath, WorkerPath,
};
pub use requests::{
    BulkUpdateRequest, ClaimRequest, CompleteRequest, CreateTaskRequest, FailRequest, Failure, RunRequest,
    UpdateTaskRequest, WorkerReport,
};
pub use scalars::{JsonObject, QueueName, Route, RunId, TaskId, TaskName, Timestamp, WorkerId};
pub use tasks::{Claimed, LastError, Lease, Task, TaskPage, TaskStatus};
pub use workers::{Observation, ObservationPage, WorkerStatus};

#[cfg(test)]
mod tests;
