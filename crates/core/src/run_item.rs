//! What runs say of themselves, as a part of a request about many of them: heartbeats, progress and ends. What each does to its
//! task is in `lifecycle.rs`.

use crate::ids::{RunId, TaskId};
use crate::json::JsonObject;
use crate::lifecycle::RunReport;

/// What one run says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunItem {
    pub task_id: TaskId,
    pub run_id: RunId,
    pub action: RunAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAction {
    Heartbeat { progress: Option<JsonObject> },
    Progress { progress: JsonObject },
    End(RunReport),
}

impl RunAction {
    /// Returns its word in requests.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Heartbeat { .. } => "heartbeat",
            Self::Progress { .. } => "progress",
            Self::End(report) => report.end().as_str(),
        }
    }

    /// Returns the bytes of its texts.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Heartbeat { progress } => progress.as_ref().map_or(0, |progress| progress.as_str().len()),
            Self::Progress { progress } => progress.as_str().len(),
            Self::End(report) => report.bytes(),
        }
    }
}
