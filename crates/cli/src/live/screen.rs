//! The terminal as a screen: taken when a view opens, and given back as it was, whichever way the view ends.

use std::io::{self, IsTerminal};

use ratatui::{DefaultTerminal, Frame};

use crate::failure::Failure;

/// Refuses to show a view where nobody can look at it. `instead` is a command that works there.
pub(crate) fn require_terminal(what: &str, instead: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} needs a terminal, and standard output is none; for programs use {instead}")))
}

/// The screen of a view.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal. From here on also a panic gives it back, before its message is printed.
    pub(super) fn open() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            // It may have gone half the way.
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
        // If this fails the terminal is gone, and there is nothing to give back. The cursor is shown again first: where
        // that is done by the library it comes too late for a terminal that is being closed.
        drop(self.0.show_cursor());
        drop(ratatui::try_restore());
    }
}
