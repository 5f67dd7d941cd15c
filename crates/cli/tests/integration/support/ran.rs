//! What a command of the binary left behind, and what tests expect of it.

use std::process::{Child, Command, Output};

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Ran {
    /// Its arguments, for failure messages. What is in its environment may be secret.
    pub(crate) command: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(command: &Command, output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { command: shown(command), code: output.status.code(), stdout, stderr }
    }

    /// Waits for the end of a command whose output is piped.
    pub(crate) fn of(child: Child) -> Self {
        Self::new(&Command::new("spawned"), child.wait_with_output().unwrap())
    }

    /// The standard output of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// The standard output of a command that succeeded; it has all of these parts.
    #[track_caller]
    pub(crate) fn ok_with(self, parts: &[&str]) -> String {
        self.assert_parts(&self.stdout, parts);
        self.ok()
    }

    /// A command that printed exactly this.
    #[track_caller]
    pub(crate) fn printed(self, stdout: &str) -> Self {
        assert_eq!(self.stdout, stdout, "{self:?}");
        self
    }

    /// A command whose standard error has all of these parts.
    #[track_caller]
    pub(crate) fn said(self, parts: &[&str]) -> Self {
        self.assert_parts(&self.stderr, parts);
        self
    }

    /// The standard output of a command that succeeded and had nothing to say on standard error.
    #[track_caller]
    pub(crate) fn ok_quietly(self) -> String {
        assert_eq!(self.stderr, "", "{self:?}");
        self.ok()
    }

    /// The standard error of a command that ended with this code.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.stderr
    }

    /// The standard error of a command that ended with this code; it has all of these parts.
    #[track_caller]
    pub(crate) fn fails_with(self, code: i32, parts: &[&str]) -> String {
        self.assert_parts(&self.stderr, parts);
        self.fails(code)
    }

    /// The line on standard error of a command that ended with this code and printed nothing else; it has all of these parts.
    #[track_caller]
    pub(crate) fn refuses_with(self, code: i32, parts: &[&str]) -> String {
        assert!(self.stdout.is_empty() && self.stderr.lines().count() == 1, "one line of refusal: {self:?}");
        self.fails_with(code, parts)
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    #[track_caller]
    fn assert_parts(&self, text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing after {}: {self:?}", self.command);
        }
    }
}

pub(super) fn shown(command: &Command) -> String {
    command.get_args().map(|argument| format!("{} ", argument.display())).collect()
}
