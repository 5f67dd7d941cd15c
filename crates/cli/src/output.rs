//! The only place that prints: results to standard output, everything else to standard error. Commands give records to
//! the `Printer`; the formats of each record are in `output/records/`.

mod age;
mod cell;
mod csv;
mod escape;
mod fields;
mod log_lines;
mod log_printer;
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
pub(crate) use self::fields::{cells as field_cells, columns as field_columns};
pub(crate) use self::log_lines::LogLines;
pub(crate) use self::log_printer::{LogPrinter, LogStyle, byte_count};
pub(crate) use self::printer::{Listing, Printer};
pub(crate) use self::record::{Record, expanded, values};
pub(crate) use self::records::{
    ActivityRecord, BackupRecord, ChangedRecord, CheckRecord, CheckedFolder, CountRecord, CountedQueueRecord,
    ExplanationRecord, FieldChange, FolderFile, FolderRecord, GroupRecord, HealthRecord, NewTokenRecord, PlannedRecord,
    ProblemRecord, QueueRecord, ReasonRecord, RerunRecord, RouteRecord, SeriesRecord, SettingRecord, SettingsRecord,
    StatsRecord, Summary, TokenRecord, WaitSummary, WideWorker, worker_place,
};
pub(crate) use self::table::Layout;
pub(crate) use self::terminal::{Terminal, colours_allowed, is_in_foreground};
pub(crate) use self::worker_console::{ConsoleHandle, WorkerConsole};

use crate::failure::Failure;

/// Prints text and a line end to standard output. A failure is only logged.
pub(crate) fn text(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()) {
        warn!(%error, "standard output cannot be written");
    }
}

/// Prints the message as one line, and the excerpt.
pub(crate) fn failure(failure: &Failure) {
    if let Some(message) = failure.message() {
        line("error", message);
    }
    if let Some(text) = failure.excerpt() {
        excerpt(text);
    }
}

/// Prints lines below a message.
pub(crate) fn excerpt(text: &str) {
    // If this fails, the exit code still shows a failure.
    drop(writeln!(io::stderr(), "{}", text.trim_end_matches('\n')));
}

pub(crate) fn warning(message: &str) {
    line("warning", message);
}

pub(crate) fn note(message: &str) {
    line("note", message);
}

/// A number with commas between its thousands.
pub(crate) fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 task`, `2 tasks`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn line(kind: &str, message: &str) {
    let words: Vec<&str> = message.split_whitespace().collect();
    drop(writeln!(io::stderr(), "{kind}: {}", escape(&words.join(" "))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_have_commas() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (4512, "4,512"), (1_234_567, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(with_commas(number), expected);
        }
    }
}
