//! Full-screen mode of the terminal: entered when a view opens and left however the view ends.

use std::io::{self, IsTerminal};

use ratatui::{DefaultTerminal, Frame};

use crate::failure::Failure;

/// Refuses if standard output is not a terminal. `instead` is a command that works there.
pub(crate) fn require_terminal(what: &str, instead: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} needs a terminal, but standard output is not one; for programs use {instead}")))
}

#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Enters full-screen mode. A panic leaves it before its message is printed.
    pub(super) fn open() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            // It may have failed half-way.
            drop(ratatui::try_restore());
            Failure::Refused(format!("the terminal cannot be used: {error}"))
        })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.0.draw(draw).map(drop).map_err(|error| Failure::from_output(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If this fails, the terminal is closed already. The cursor is shown first: the library does that too late for a
        // terminal that is being closed.
        drop(self.0.show_cursor());
        drop(ratatui::try_restore());
    }
}
