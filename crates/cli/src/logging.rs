//! Where log lines go and how they look. What is logged is decided where it happens.

mod log_writer;

use std::io::{self, IsTerminal};
use std::panic::{self, PanicHookInfo};
use std::time::Duration;

use tracing::error;
use tracing_subscriber::filter::LevelFilter;

use self::log_writer::Lines;
use crate::args::{LogFormat, LogLevel};
use crate::failure::Failure;

/// How long the end of the program waits for lines that are still to be written. With the time for requests under way
/// and for the store it stays below the 10 s of a stop.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The log. Dropping it waits for the lines that are still to be written.
pub(crate) struct Logs(Lines);

impl Drop for Logs {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

/// Sends log lines to standard error from now on.
pub(crate) fn start(format: LogFormat, level: LogLevel) -> Result<Logs, Failure> {
    let lines = Lines::start(io::stderr(), format)
        .map_err(|error| Failure::Refused(format!("cannot start the log thread: {error}")))?;
    let writer = lines.clone();
    // A line that cannot be written is nobody's fault; complaining about it on standard error would be in vain, too.
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(filter(level))
        .log_internal_errors(false);
    // An error means that somebody else already takes the lines; then there is nothing to do.
    drop(match format {
        LogFormat::Text => {
            let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            subscriber.with_ansi(colours).with_target(false).try_init()
        }
        LogFormat::Json => subscriber.json().flatten_event(true).with_span_list(false).try_init(),
    });
    // The usual words about a panic go straight to standard error, where they could wait for ever.
    panic::set_hook(Box::new(log_panic));
    Ok(Logs(lines))
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    error!(panic = panic.payload_as_str().unwrap_or("of another type than text"), place, "a thread panicked");
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
