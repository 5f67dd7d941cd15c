//! What standard output is: a terminal of some width that shows colours, or something that wants plain text.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// The least width that a table is squeezed into; narrower terminals wrap lines by themselves.
const NARROWEST: usize = 40;

/// What standard output can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Whether colours are welcome.
    pub(crate) colour: bool,
    /// How many columns there are; nothing means that lines may have any length.
    pub(crate) width: Option<usize>,
}

impl Terminal {
    /// Standard output as it is now. Pipes and files get plain, complete lines.
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        Self { colour: colours_welcome(), width: columns(&stdout).map(|width| width.max(NARROWEST)) }
    }
}

/// How many columns a terminal has, if it is one that says so.
pub(super) fn columns(terminal: &impl AsFd) -> Option<usize> {
    tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Whether the environment lets a terminal have colours (no-color.org: any value that is not empty says no).
pub(crate) fn colours_welcome() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb
}
