//! The only place that prints: results to standard output, everything else to standard error, questions too, and progress bars if that is a
//! terminal. Commands give records to the `Printer`; the formats of each record are in `output/records/`.

mod log_printer;
mod printer;
mod records;
mod table;
mod worker_console;

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use taskqueue_core::time::Timestamp;
use tracing::warn;

pub(crate) use self::log_printer::{LogLines, LogPrinter, LogStyle};
pub(crate) use self::printer::{Listing, Printer, Record, expanded, field_cells, field_columns, values};
pub(crate) use self::records::*;
pub(crate) use self::table::{
    Cell, Column, Columns, Layout, Terminal, colours_allowed, columns, escape, is_in_foreground,
};
pub(crate) use self::worker_console::{ConsoleHandle, WorkerConsole};
use crate::args::ConfirmArgs;
use crate::failure::Failure;

/// The time of this machine, which may differ a little from the server's.
pub(crate) fn now() -> Timestamp {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

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

fn line(kind: &str, message: &str) {
    let words: Vec<&str> = message.split_whitespace().collect();
    drop(writeln!(io::stderr(), "{kind}: {}", escape(&words.join(" "))));
}

/// Asks for confirmation before many tasks are changed. Without a terminal --yes is required.
pub(crate) fn confirm(question: &str, args: ConfirmArgs) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let question = question.trim_end_matches('?');
        return Err(Failure::Usage(format!("{question}: add --yes, because there is no terminal to ask on")));
    }
    let mut stderr = io::stderr();
    // Without the question on the screen the answer does not count.
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let answered = asked.and_then(|()| io::stdin().lock().read_line(&mut answer));
    match answered {
        Ok(_) if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") => Ok(()),
        _ => Err(Failure::Refused("nothing was changed".to_owned())),
    }
}

const TICK: Duration = Duration::from_millis(200);

/// A bar, or a spinner if the total is unknown. It disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn of_tasks(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {human_pos}/{human_len} {elapsed} {msg}", verb)
    }

    pub(crate) fn of_bytes(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {percent}% {eta} {msg}", verb)
    }

    /// With the rate, for what is throttled.
    pub(crate) fn of_copied_bytes(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {percent}% {binary_bytes_per_sec} {eta}", verb)
    }

    pub(crate) fn spinner(verb: &'static str) -> Self {
        Self::new(ProgressBar::new_spinner(), "{prefix} {spinner} {elapsed} {msg}", verb)
    }

    fn new(bar: ProgressBar, template: &'static str, verb: &'static str) -> Self {
        // The templates are constants; if one is wrong, the default style is good enough.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(verb);
        // Without a terminal nothing is drawn, so the thread is not needed.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Returns whether somebody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    pub(crate) fn set_message(&self, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(message());
        }
    }

    /// Hides the bar while `print` writes lines to standard error.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
