//! Why a command did not do what it was asked. One line for people; the exit code is chosen in `main`.

/// Why a command did not do what it was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line or the environment is wrong.
    Usage(String),
    /// What was asked for cannot be had; the text says what to do.
    Refused(String),
}

impl Failure {
    /// What went wrong and what to do about it.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Usage(message) | Self::Refused(message) => message,
        }
    }
}
