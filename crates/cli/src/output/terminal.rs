//! The width and colours of standard output, if it is a terminal.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

/// Tables are not made narrower than this; narrower terminals wrap lines.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) colour: bool,
    /// In columns; none means that lines may have any length.
    pub(crate) width: Option<usize>,
}

impl Terminal {
    /// Pipes and files get plain, complete lines.
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        Self { colour: colours_allowed(), width: columns(&stdout).map(|width| width.max(WIDTH_MIN)) }
    }
}

/// The width of a terminal; none if it is not a terminal or does not report it.
pub(super) fn columns(terminal: &impl AsFd) -> Option<usize> {
    tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Whether this process is in the foreground of a terminal: after Ctrl-Z, the line of the cursor belongs to the shell.
pub(crate) fn is_in_foreground(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp())
}

/// Whether the environment allows colours (no-color.org: any value of NO_COLOR that is not empty forbids them).
pub(crate) fn colours_allowed() -> bool {
    let is_forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !is_forbidden && !is_dumb
}
