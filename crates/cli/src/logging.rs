//! Sets up logging to standard error: format, level, panics. For the journal of systemd a number before each line tells its level; lines
//! of text then have no time, because the journal has its own, and those of JSON keep it, because programs read it there.

mod log_writer;

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::{Event, Level, Subscriber, error};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use self::log_writer::LogWriter;
use crate::args::{LogFormat, LogLevel};
use crate::failure::Failure;

/// The time for which the end of the program waits for unwritten lines. Together with the time for running requests and for the store
/// it stays below the 10 s of a stop.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The log of this process.
static LOG: OnceLock<LogWriter> = OnceLock::new();

/// Returns how many log lines could not be written since the process began.
pub(crate) fn lost_lines() -> u64 {
    LOG.get().map_or(0, LogWriter::lost_lines)
}

/// Flushes the log when it is dropped.
pub(crate) struct LogGuard(LogWriter);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.flush(FLUSH_TIMEOUT);
    }
}

pub(crate) fn start(format: LogFormat, level: LogLevel) -> Result<LogGuard, Failure> {
    let is_journal = is_journal();
    let log_writer = LogWriter::start(io::stderr(), format, is_journal)
        .map_err(|error| Failure::Refused(format!("cannot start the log thread: {error}")))?;
    let writer = log_writer.clone();
    // There is one log for each process.
    let _ = LOG.set(log_writer.clone());
    // A line that cannot be written is counted by the writer. Reporting it on standard error could not work either.
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(filter(level))
        .log_internal_errors(false);
    // An error means that a subscriber is already set, which is good enough.
    drop(match format {
        LogFormat::Text if is_journal => {
            let lines = tracing_subscriber::fmt::format().with_ansi(false).with_target(false).without_time();
            subscriber.with_ansi(false).event_format(WithLevel(lines)).try_init()
        }
        LogFormat::Json if is_journal => {
            let lines = tracing_subscriber::fmt::format().json().flatten_event(true).with_span_list(false);
            subscriber.fmt_fields(JsonFields::new()).event_format(WithLevel(lines)).try_init()
        }
        LogFormat::Text => {
            let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            subscriber.with_ansi(colours).with_target(false).try_init()
        }
        LogFormat::Json => subscriber.json().flatten_event(true).with_span_list(false).try_init(),
    });
    // The default hook writes to standard error directly, where it could block for ever.
    panic::set_hook(Box::new(log_panic));
    Ok(LogGuard(log_writer))
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    error!(panic = panic.payload_as_str().unwrap_or("not a string"), place, "a thread panicked");
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

/// The variable in which systemd says which file is the journal: its device and its inode.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// The prefix of a warning.
const JOURNAL_WARNING: &str = "<4>";

/// Returns whether standard error goes to the journal. The variable alone says nothing: it is inherited by what redirects its output.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var(JOURNAL_VARIABLE) else { return false };
    rustix::fs::fstat(io::stderr().as_fd()).is_ok_and(|file| stream == format!("{}:{}", file.st_dev, file.st_ino))
}

/// Another format with the level before each line.
struct WithLevel<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithLevel<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writer.write_str(prefix(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priorities of syslog.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => JOURNAL_WARNING,
        Level::INFO => "<6>",
        _ => "<7>",
    }
}
