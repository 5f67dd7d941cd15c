//! The closed sets of words that tasks, runs and workers can be in. A leaf: refusals, filters and tasks all name them.

/// Declares an enum whose variants each have a word. `ALL` lists them in this order, `as_str` gives the word, `parse` reads it.
macro_rules! word_enum {
    ($(#[$attribute:meta])* $visibility:vis enum $name:ident {
        $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }
    };
}

pub(crate) use word_enum;

word_enum! {
    /// The five states of a task.
    #[derive(PartialOrd, Ord)]
    pub enum Status {
        /// Waits to be claimed.
        Pending = "pending",
        /// Owned by an active run.
        Running = "running",
        /// Completed.
        Succeeded = "succeeded",
        /// Out of attempts.
        Failed = "failed",
        /// Taken out by a client.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Returns whether nothing happens to it any more by itself.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
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

    /// Returns what is in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether everything in here is in `other`, too.
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

word_enum! {
    /// The end of a run.
    pub enum RunEnd {
        /// The worker completed it.
        Complete = "complete",
        /// The worker reported a failure.
        Fail = "fail",
        /// The worker gave it back.
        Unclaim = "unclaim",
        /// A client cancelled the task.
        Cancel = "cancel",
        /// The lease ended without a heartbeat.
        HeartbeatExpired = "heartbeat_expired",
        /// The run was active for longer than it may be.
        Timeout = "timeout",
    }
}

word_enum! {
    /// The state that a worker reports.
    pub enum WorkerStatus {
        /// Waits for work.
        Idle = "idle",
        /// From a confirmed claim through execution, reporting and cleanup.
        Busy = "busy",
    }
}
