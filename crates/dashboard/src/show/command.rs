//! Command lines of the program that do what a page does, to be copied into a shell.

use taskqueue_core::shell::CommandLine;

/// `words` are subcommands, such as `task list`; `url` is the address of this server. Both are said, because the shell into which
/// somebody copies the command may be configured for another server and queue.
pub(crate) fn command_line(words: &str, queue: &str, url: &str) -> CommandLine {
    CommandLine::new(words).flag("--queue", queue).flag("--url", url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_would_change_them() {
        let command =
            command_line("task sweep", "exp", "http://h:1").flag("--arg", "lr=0.1,1e-3").flag("--args", "{\"a\": 'x'}");
        let command = command.flag("--name", "-x").flag("--batch", "").switch("--zip", true);
        let expected = r#"taskqueue task sweep --queue exp --url http://h:1 --arg lr=0.1,1e-3 --args '{"a": '\''x'\''}' --name=-x --batch '' --zip"#;
        assert_eq!(command.to_string(), expected);
    }
}
