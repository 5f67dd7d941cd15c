//! Commands in messages that can be copied into a shell: quoted where needed, and for the same server and queue as the
//! command that prints them.

use std::fmt::Write;

use taskqueue_core::shell::shell_word;

use crate::client_context::ClientContext;
use crate::config::{Source, Sourced};

/// A command line of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellCommand(String);

impl ShellCommand {
    /// `words` are subcommands, such as `task list`. What the environment and the files configure is not repeated, because
    /// the next command finds it there, too.
    pub(crate) fn new(context: &ClientContext, words: &str) -> Self {
        let command = Self::of_server(context, words);
        match context.queue_source {
            Source::BuiltIn => command,
            _ => command.flag("--queue", context.queue.as_str()),
        }
    }

    /// A command that names its queue itself, such as `queue resume`.
    pub(crate) fn of_server(context: &ClientContext, words: &str) -> Self {
        let mut command = Self(format!("taskqueue {words}"));
        if matches!(context.url_source, Source::Flag(_)) {
            command = command.flag("--url", &context.url);
        }
        if let Some(Sourced { value, source: Source::Flag(flag) }) = &context.trust {
            command = command.flag(flag, &value.text());
        }
        command
    }

    /// A value without a flag, such as an id.
    pub(crate) fn argument(mut self, value: &str) -> Self {
        // Writing to memory does not fail.
        let _ = write!(self.0, " {}", shell_word(value));
        self
    }

    pub(crate) fn flag(mut self, flag: &str, value: &str) -> Self {
        // A value that begins like a flag would be taken for one.
        let separator = if value.starts_with('-') { '=' } else { ' ' };
        // Writing to memory does not fail.
        let _ = write!(self.0, " {flag}{separator}{}", shell_word(value));
        self
    }

    pub(crate) fn optional_flag(self, flag: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.flag(flag, value),
            None => self,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_looks_like_a_flag_stays_a_value() {
        let command = ShellCommand("taskqueue task list".to_owned()).flag("--name", "-x").flag("--fuzzy", "a b");
        assert_eq!(command.as_str(), "taskqueue task list --name=-x --fuzzy 'a b'");
    }
}
