//! Why a measurement could not be taken. A figure that misses its goal is no failure.

use std::fmt;

#[derive(Debug)]
pub(crate) struct Failure(String);

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(message: String) -> Self {
        Self(message)
    }

    /// Says what failed.
    pub(crate) fn of(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Self {
        Self(error.to_string())
    }
}
