//! The closed sets of words that tasks, runs and workers can be in. A leaf: refusals, filters and tasks all name them.

/// The five states of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Waits to be claimed.
    Pending,
    /// Owned by an active run.
    Running,
    /// Completed.
    Succeeded,
    /// Out of attempts.
    Failed,
    /// Taken out by a client.
    Cancelled,
}

impl Status {
    /// All of them, in the contract's order.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// The status that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// The worker completed it.
    Complete,
    /// The worker reported a failure.
    Fail,
    /// The worker gave it back.
    Unclaim,
    /// A client cancelled the task.
    Cancel,
    /// The lease ended without a heartbeat.
    HeartbeatExpired,
}

impl RunEnd {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Complete, Self::Fail, Self::Unclaim, Self::Cancel, Self::HeartbeatExpired];

    /// The end that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == word)
    }

    /// The word in `error.details.action`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Unclaim => "unclaim",
            Self::Cancel => "cancel",
            Self::HeartbeatExpired => "heartbeat_expired",
        }
    }
}

/// What a worker says it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerStatus {
    /// Waits for work.
    Idle,
    /// From a confirmed claim through execution, reporting and cleanup.
    Busy,
}

impl WorkerStatus {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Idle, Self::Busy];

    /// The status that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
        }
    }
}
