//! A moment as people read it: how long ago, with the exact time on hover.

use std::time::{SystemTime, UNIX_EPOCH};

use taskqueue_core::time::{Timestamp, between};
use taskqueue_core::words::whole_duration;

/// A moment, seen from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    at: Timestamp,
    now: Timestamp,
}

impl Moment {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self { at, now }
    }

    /// For programs, and for the hover: exact, in UTC.
    pub(crate) fn exact(&self) -> String {
        self.at.to_string()
    }

    /// How far away, also ahead: `in 9 min`, `9 min ago`.
    pub(crate) fn distance(&self) -> String {
        if self.at > self.now { ahead(self.now, self.at) } else { format!("{} ago", self.age()) }
    }

    /// How long ago: `41 s`, `3 h`. Something of a clock that is ahead is of now.
    pub(crate) fn age(&self) -> String {
        whole_duration(between(self.at, self.now))
    }
}

/// This moment, by the clock of this machine.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// How far ahead a moment is: `in 9 min`.
pub(crate) fn ahead(now: Timestamp, at: Timestamp) -> String {
    format!("in {}", whole_duration(between(now, at)))
}
