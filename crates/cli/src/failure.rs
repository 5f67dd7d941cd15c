//! Errors of commands. Each has a message of one line, which may name what was meant instead of a misspelt name;
//! `main` chooses the exit code.

use std::fmt::Display;
use std::io;
use std::path::Path;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line, the environment or the configuration is wrong.
    Usage(String),
    /// The request was refused or failed. The text says what to do.
    Refused(String),
    /// The request was refused, with an excerpt that shows where the mistake is.
    RefusedAt { message: String, excerpt: String },
    /// The server was not reached, or its answer was lost.
    Unreachable(String),
    /// The user ended the command. The text says how far it came.
    Interrupted(String),
    /// Not every task was processed. The summary is already printed.
    Unfinished,
    /// The exit code of a child process that did the work and printed its own messages.
    ChildExit(u8),
    /// The reader of standard output closed it, as `head` does. Not an error.
    BrokenPipe,
}

impl Failure {
    /// The message to print; none if everything is already printed.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Usage(message) | Self::Refused(message) | Self::Unreachable(message) | Self::Interrupted(message) => {
                Some(message)
            }
            Self::RefusedAt { message, .. } => Some(message),
            Self::Unfinished | Self::ChildExit(_) | Self::BrokenPipe => None,
        }
    }

    pub(crate) fn excerpt(&self) -> Option<&str> {
        if let Self::RefusedAt { excerpt, .. } = self { Some(excerpt) } else { None }
    }

    /// Returns what makes the refusal `WHAT: ERROR` of an error.
    pub(crate) fn because<E: Display>(what: impl Display) -> impl Fn(E) -> Self {
        move |error| Self::Refused(format!("{what}: {error}"))
    }

    /// Returns what makes the refusal of a file that cannot be read of an error.
    pub(crate) fn cannot_read<E: Display>(name: impl Display) -> impl Fn(E) -> Self {
        Self::because(format!("cannot read {name}"))
    }

    /// Returns what makes the refusal of a place that cannot be written of an error.
    pub(crate) fn cannot_write<E: Display>(path: &Path) -> impl Fn(E) -> Self {
        Self::because(format!("cannot write {}", path.display()))
    }

    /// An error of writing to standard output.
    pub(crate) fn from_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Refused(format!("standard output cannot be written: {error}")),
        }
    }
}

/// The error of a client command.
#[derive(Debug)]
pub(crate) enum CommandError {
    Failure(Failure),
    /// A failed call to the server, not yet turned into a message (`explain_error.rs`).
    Call(taskqueue_client::Error),
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<taskqueue_client::Error> for CommandError {
    fn from(error: taskqueue_client::Error) -> Self {
        Self::Call(error)
    }
}

const SUGGESTIONS_MAX: usize = 3;

/// From 0 (nothing in common) to 1 (equal).
const SIMILARITY_MIN: f64 = 0.6;

/// Returns the names that `wanted` may be a misspelling of, most similar first.
pub(crate) fn similar_names<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let similarity = |name: &str| strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
    let mut similar: Vec<(f64, &str)> = names.iter().map(|name| (similarity(name), *name)).collect();
    similar.retain(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.into_iter().map(|(_, name)| name).take(SUGGESTIONS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first_and_distant_ones_not_at_all() {
        let names = ["default", "gpu", "gpu-large", "nightly", "Nightly-2"];
        let cases = [
            ("defualt", vec!["default"]),
            ("nigthly", vec!["nightly", "Nightly-2"]),
            ("GPU", vec!["gpu"]),
            ("gpularge", vec!["gpu-large"]),
            ("something", vec![]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(similar_names(wanted, &names), expected, "{wanted}");
        }
    }
}
