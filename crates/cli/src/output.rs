//! The only place that prints: data to standard output, errors to standard error.

use std::io::{self, Write};

use tracing::warn;

/// One piece of data, with a line end. A reader that went away is no reason to stop.
pub(crate) fn data(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()) {
        warn!(%error, "standard output cannot be written");
    }
}

/// One line about what went wrong, whatever the text contains.
pub(crate) fn error(message: &str) {
    let line: Vec<&str> = message.split_whitespace().collect();
    // If even this fails there is nobody left to tell; the exit code still does.
    drop(writeln!(io::stderr(), "error: {}", line.join(" ")));
}
