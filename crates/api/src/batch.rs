//! Many in one request, the extension `batch` (docs/decisions/0039): the bodies, whose items are read one at a time, and the
//! answers. An item is the body of the single request with its ids, and is refused as that would be.

mod claim;
mod create;
mod items;
mod report;
#[cfg(test)]
mod tests;
mod writer;

pub use self::claim::{ClaimTasksRequest, ClaimedTasks, RefusedRun};
pub use self::create::{CreateTasksRequest, CreatedTasks, ReadTask, RefusedTask};
pub use self::items::{BatchBody, BatchError, ItemError};
pub use self::report::{
    RefusedReport, ReportRunsRequest, ReportedRuns, RunAction, RunItem, RunItemIds, write_run_item,
};
pub use self::writer::{BatchWriter, ItemsWriter, refused_item};
