//! Commands in messages that can be copied into a shell: quoted where needed, and for the same server and queue as the
//! command that prints them.

use std::borrow::Cow;
use std::fmt::Write;

use crate::client_context::ClientContext;
use crate::config::{Source, Sourced};

/// A command line of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellCommand(String);

impl ShellCommand {
    /// `words` are subcommands, such as `task list`. What the environment and the files configure is not repeated, because
    /// the next command finds it there, too.
    pub(crate) fn new(context: &ClientContext, words: &str) -> Self {
        let mut command = Self(format!("taskqueue {words}"));
        if matches!(context.url_source, Source::Flag(_)) {
            command = command.flag("--url", &context.url);
        }
        if let Some(Sourced { value, source: Source::Flag(flag) }) = &context.trust {
            command = command.flag(flag, &value.text());
        }
        if context.queue_source != Source::BuiltIn {
            command = command.flag("--queue", context.queue.as_str());
        }
        command
    }

    /// A value without a flag, such as an id.
    pub(crate) fn argument(mut self, value: &str) -> Self {
        // Writing to memory does not fail.
        let _ = write!(self.0, " {}", quoted(value));
        self
    }

    pub(crate) fn flag(mut self, flag: &str, value: &str) -> Self {
        // A value that begins like a flag would be taken for one.
        let separator = if value.starts_with('-') { '=' } else { ' ' };
        // Writing to memory does not fail.
        let _ = write!(self.0, " {flag}{separator}{}", quoted(value));
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

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_would_change_them() {
        let cases = [
            ("plain-1.5", "plain-1.5"),
            ("", "''"),
            ("a b", "'a b'"),
            (r#"status == "failed""#, r#"'status == "failed"'"#),
            ("name == 'x'", r"'name == '\''x'\'''"),
            ("$HOME", "'$HOME'"),
            ("a*", "'a*'"),
            ("ä", "'ä'"),
        ];
        for (word, expected) in cases {
            assert_eq!(quoted(word), expected, "{word}");
        }
    }

    #[test]
    fn a_value_that_looks_like_a_flag_stays_a_value() {
        let command = ShellCommand("taskqueue task list".to_owned()).flag("--name", "-x").flag("--fuzzy", "a b");
        assert_eq!(command.as_str(), "taskqueue task list --name=-x --fuzzy 'a b'");
    }
}
