//! Many in one request, the extension `batch` (docs/decisions/0039): the bodies, whose items are read one at a time, and the
//! answers. An item is the body of the single request with its ids, and is refused as that would be.

mod answer;
mod claim;
mod create;
mod items;
mod report;
mod writer;

pub use answer::{ItemsWriter, refused_item};
pub use claim::{ClaimTasksRequest, ClaimedTasks, RefusedRun};
pub use create::{CreateTasksRequest, CreatedTasks, ReadTask, RefusedTask};
pub use items::{BatchBody, BatchError, ItemError};
pub use report::{RefusedReport, ReportRunsRequest, ReportedRuns, RunAction, RunItem, RunItemIds};
pub use writer::BatchWriter;

#[cfg(test)]
mod tests;
