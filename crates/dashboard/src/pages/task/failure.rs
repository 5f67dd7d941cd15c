//! The last error of a task, as much of it as a page has room for.

use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;

use super::cut;
use crate::show::{self, Moment};

const KIND_CHARS: usize = 200;
const MESSAGE_CHARS: usize = 2_000;
/// The end of a traceback says most.
const TRACEBACK_CHARS: usize = 20_000;

/// The last error of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailureView {
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) traceback: Option<String>,
    pub(super) attempt: i64,
    pub(super) at: Moment,
    /// Whether there is more of it.
    pub(super) is_cut: bool,
}

impl FailureView {
    pub(super) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let error = task.outcome.last_error.as_ref()?;
        let failure = &error.failure;
        let shown = Self {
            kind: show::cut(&failure.kind, KIND_CHARS).into_owned(),
            message: show::cut(&failure.message, MESSAGE_CHARS).into_owned(),
            traceback: failure.traceback.as_deref().map(|text| cut::last(text, TRACEBACK_CHARS)),
            attempt: error.attempt,
            at: Moment::new(error.occurred_at, now),
            is_cut: false,
        };
        let is_cut = shown.kind != *failure.kind
            || shown.message != *failure.message
            || shown.traceback.as_deref() != failure.traceback.as_deref();
        Some(Self { is_cut, ..shown })
    }
}
