//! Why a command did not do what it was asked. One line for people; the exit code is chosen in `main`.

use std::io;

/// Why a command did not do what it was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line, the environment or the configuration is wrong.
    Usage(String),
    /// What was asked for cannot be had; the text says what to do.
    Refused(String),
    /// The same, with lines that show where the mistake is.
    RefusedAt {
        /// What to do.
        message: String,
        /// The place, on lines of its own.
        excerpt: String,
    },
    /// The server was not reached, or its answer got lost.
    Unreachable(String),
    /// Not everything was done, as the summary has told already.
    Unfinished,
    /// Another process did the work and has told everything; this was its exit code.
    Told(u8),
    /// Nobody reads the results any more, which is no mistake.
    ReaderGone,
}

impl Failure {
    /// What went wrong and what to do about it, where that is not told yet.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Usage(message) | Self::Refused(message) | Self::Unreachable(message) => Some(message),
            Self::RefusedAt { message, .. } => Some(message),
            Self::Unfinished | Self::Told(_) | Self::ReaderGone => None,
        }
    }

    /// The lines that show where the mistake is.
    pub(crate) fn excerpt(&self) -> Option<&str> {
        if let Self::RefusedAt { excerpt, .. } = self { Some(excerpt) } else { None }
    }

    /// Standard output could not be written.
    pub(crate) fn from_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Refused(format!("standard output cannot be written: {error}")),
        }
    }
}

/// Why a client command stopped: by itself, or because a call failed, which still has to be explained.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Everything is said.
    Failure(Failure),
    /// A call failed.
    Call(taskqueue_client::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<taskqueue_client::Error> for Stop {
    fn from(error: taskqueue_client::Error) -> Self {
        Self::Call(error)
    }
}
