//! The only place that prints: results to standard output, everything else to standard error. Commands give records to
//! the `Printer`; how a record looks in each format is said in `output/records/`.

mod age;
mod cell;
mod escape;
mod json;
mod printer;
mod record;
mod records;
mod table;
mod terminal;
mod worker_console;

use std::io::{self, Write};

use tracing::warn;

pub(crate) use self::age::{age, now, span};
pub(crate) use self::cell::{Cell, Column};
pub(crate) use self::escape::escape;
pub(crate) use self::json::JsonFields;
pub(crate) use self::printer::Printer;
pub(crate) use self::record::Record;
pub(crate) use self::records::{
    CountRecord, GroupRecord, HealthRecord, PlannedRecord, QueueRecord, SettingRecord, Summary, WaitSummary,
};
pub(crate) use self::table::Layout;
pub(crate) use self::terminal::{Terminal, colours_welcome};
pub(crate) use self::worker_console::{Board, Screen};

use crate::failure::Failure;

/// One piece of text, with a line end. A reader that went away is no reason to stop.
pub(crate) fn data(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()) {
        warn!(%error, "standard output cannot be written");
    }
}

/// One line about what went wrong, whatever the text contains, and the lines that show where.
pub(crate) fn failure(failure: &Failure) {
    if let Some(message) = failure.message() {
        line("error", message);
    }
    if let Some(excerpt) = failure.excerpt() {
        // If even this fails there is nobody left to tell; the exit code still does.
        drop(writeln!(io::stderr(), "{excerpt}"));
    }
}

/// One line about what may go wrong.
pub(crate) fn warning(message: &str) {
    line("warning", message);
}

/// One line about something that is good to know.
pub(crate) fn note(message: &str) {
    line("note", message);
}

fn line(kind: &str, message: &str) {
    let words: Vec<&str> = message.split_whitespace().collect();
    drop(writeln!(io::stderr(), "{kind}: {}", escape(&words.join(" "))));
}
