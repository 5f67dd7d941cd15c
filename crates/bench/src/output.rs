//! The only place that prints: results to standard output, progress and failures to standard error.

use std::io::{self, Write};

/// One or more lines of a result.
pub(crate) fn line(text: &str) {
    let mut stdout = io::stdout().lock();
    // A reader that went away is no reason to stop.
    drop(writeln!(stdout, "{text}").and_then(|()| stdout.flush()));
}

/// One line about what happens.
pub(crate) fn progress(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}
