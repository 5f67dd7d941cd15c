//! Commands that are shown to be copied into a shell.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A command of this program, quoted where a shell would change it.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(String);

impl CommandLine {
    /// `words` are subcommands, such as `task list`.
    pub fn new(words: &str) -> Self {
        Self(format!("taskqueue {words}"))
    }

    /// A value without a flag, such as an id.
    pub fn argument(self, value: &str) -> Self {
        self.word(&shell_word(value))
    }

    pub fn flag(self, flag: &str, value: &str) -> Self {
        // A value that begins like a flag would be taken for one.
        let separator = if value.starts_with('-') { '=' } else { ' ' };
        self.word(&format!("{flag}{separator}{}", shell_word(value)))
    }

    /// Adds a flag, if there is a value for it.
    pub fn optional(self, flag: &str, value: Option<impl AsRef<str>>) -> Self {
        self.each(flag, value)
    }

    /// Adds a flag for each of these values.
    pub fn each(self, flag: &str, values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        values.into_iter().fold(self, |command, value| command.flag(flag, value.as_ref()))
    }

    /// Adds a flag without a value, if it is on.
    pub fn switch(self, flag: &str, is_on: bool) -> Self {
        if is_on { self.word(flag) } else { self }
    }

    /// The command that a worker runs for each task, behind all flags.
    pub fn running(self, command: &str) -> Self {
        self.word("--").word(command)
    }

    fn word(mut self, word: &str) -> Self {
        self.0.push(' ');
        self.0.push_str(word);
        self
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word as a shell reads it back. Control characters are written as escapes, because a terminal would obey them when the command
/// is pasted.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    if !word.chars().any(char::is_control) {
        return Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")));
    }
    let mut text = "$'".to_owned();
    for character in word.chars() {
        match character {
            '\'' | '\\' => text.extend(['\\', character]),
            character if character.is_control() => {
                // Each byte of its UTF-8. Writing to memory does not fail.
                for byte in character.to_string().bytes() {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            }
            character => text.push(character),
        }
    }
    text.push('\'');
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_looks_like_a_flag_stays_a_value() {
        let command = CommandLine::new("task list").flag("--name", "-x").flag("--fuzzy", "a b");
        assert_eq!(command.to_string(), "taskqueue task list --name=-x --fuzzy 'a b'");
    }

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
            ("a\u{1b}[201~'\\", r"$'a\x1b[201~\'\\'"),
        ];
        for (word, expected) in cases {
            assert_eq!(shell_word(word), expected);
        }
    }
}
