//! Command lines of the program that do what a page does, to be copied into a shell.

use std::fmt;

use taskqueue_core::shell::shell_word;

/// A command line, quoted where a shell would change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine(String);

impl CommandLine {
    /// `words` are subcommands, such as `task list`; `url` is the address of this server. Both are said, because the shell into which
    /// somebody copies the command may be configured for another server and queue.
    pub(crate) fn new(words: &str, queue: &str, url: &str) -> Self {
        Self(format!("taskqueue {words}")).flag("--queue", queue).flag("--url", url)
    }

    /// The command that a worker runs for each task, behind all flags.
    pub(crate) fn running(mut self, command: &str) -> Self {
        self.0.push_str(" -- ");
        self.0.push_str(command);
        self
    }

    pub(crate) fn flag(mut self, flag: &str, value: &str) -> Self {
        // A value that begins like a flag would be taken for one.
        let separator = if value.starts_with('-') { '=' } else { ' ' };
        self.0.push_str(&format!(" {flag}{separator}{}", shell_word(value)));
        self
    }

    /// Adds a flag, if there is a value for it.
    pub(crate) fn optional(self, flag: &str, value: Option<impl AsRef<str>>) -> Self {
        self.each(flag, value)
    }

    /// Adds a flag for each of these values.
    pub(crate) fn each(self, flag: &str, values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        values.into_iter().fold(self, |command, value| command.flag(flag, value.as_ref()))
    }

    /// Adds a flag without a value, if it is on.
    pub(crate) fn switch(mut self, flag: &str, is_on: bool) -> Self {
        if is_on {
            self.0.push(' ');
            self.0.push_str(flag);
        }
        self
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_would_change_them() {
        let command = CommandLine::new("task sweep", "exp", "http://h:1")
            .flag("--arg", "lr=0.1,1e-3")
            .flag("--args", "{\"a\": 'x'}");
        let command = command.flag("--name", "-x").flag("--batch", "").switch("--zip", true);
        let expected = r#"taskqueue task sweep --queue exp --url http://h:1 --arg lr=0.1,1e-3 --args '{"a": '\''x'\''}' --name=-x --batch '' --zip"#;
        assert_eq!(command.to_string(), expected);
    }
}
