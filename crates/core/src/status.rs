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

    /// Whether nothing happens to it any more by itself.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

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

/// A set of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses(u8);

impl Statuses {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(0b1_1111);
    /// The states of tasks that may still change by themselves.
    pub const LIVING: Self = Self::NONE.with(Status::Pending).with(Status::Running);
    /// The states in which a task has ended without success. In most queues few tasks do.
    pub const UNSUCCESSFUL: Self = Self::NONE.with(Status::Failed).with(Status::Cancelled);
    /// The states in which a task has ended: it can be archived, and submitted again.
    pub const ENDED: Self = Self::UNSUCCESSFUL.with(Status::Succeeded);
    /// The states in which a task can be updated and deleted.
    pub const NOT_RUNNING: Self = Self::ENDED.with(Status::Pending);

    #[must_use]
    pub const fn with(self, status: Status) -> Self {
        Self(self.0 | 1 << status as u8)
    }

    pub const fn contains(self, status: Status) -> bool {
        self.0 & 1 << status as u8 != 0
    }

    /// What is in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether everything in here is in `other`, too.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Its states, in the contract's order.
    pub fn iter(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |status| self.contains(*status))
    }

    /// The contract's words.
    pub fn words(self) -> Vec<&'static str> {
        self.iter().map(Status::as_str).collect()
    }

    /// The filter that selects the tasks in these states.
    pub fn filter_text(self) -> String {
        let words: Vec<String> = self.iter().map(|status| format!("\"{}\"", status.as_str())).collect();
        format!("status in [{}]", words.join(", "))
    }
}

impl FromIterator<Status> for Statuses {
    fn from_iter<T: IntoIterator<Item = Status>>(statuses: T) -> Self {
        statuses.into_iter().fold(Self::NONE, Self::with)
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
    /// The run was active for longer than it may be.
    Timeout,
}

impl RunEnd {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Complete, Self::Fail, Self::Unclaim, Self::Cancel, Self::HeartbeatExpired, Self::Timeout];

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
            Self::Timeout => "timeout",
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
