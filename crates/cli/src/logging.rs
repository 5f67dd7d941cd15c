//! Logging to standard error: format, level, panics, and the thread that writes the lines. For the journal of systemd a number before
//! each line tells its level; lines of text then have no time, because the journal has its own, and those of JSON keep it, because
//! programs read it there.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, mem, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tracing::{Event, Level, Subscriber, error};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

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
    let log_writer =
        LogWriter::start(io::stderr(), format, is_journal).map_err(Failure::because("cannot start the log thread"))?;
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
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        error!(panic = panic.payload_as_str().unwrap_or("not a string"), place, "a thread panicked");
    }));
    Ok(LogGuard(log_writer))
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

/// Some thousand lines.
const UNWRITTEN_BYTES_MAX: usize = 1_048_576;

/// The least time between two writes. Under load one write then takes hundreds of lines; a single line is written at once.
const WRITE_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Clone)]
struct LogWriter(Arc<LineQueue>);

struct LineQueue {
    unwritten: Mutex<UnwrittenLines>,
    /// The thread has something to do.
    wake: Condvar,
    /// Everything is written.
    idle: Condvar,
}

#[derive(Default)]
struct UnwrittenLines {
    bytes: Vec<u8>,
    count: u64,
    /// Lines that did not fit or could not be written, and are not reported yet.
    lost: u64,
    /// All of them, reported or not.
    lost_in_all: u64,
    /// The thread waits on `wake`.
    is_idle: bool,
    is_writing: bool,
    /// A flush is waiting: no pauses between writes any more.
    is_flushing: bool,
}

impl LogWriter {
    /// Starts the thread that writes lines to `sink`. It runs until the process ends.
    fn start(sink: impl Write + Send + 'static, format: LogFormat, is_journal: bool) -> io::Result<Self> {
        let queue = Arc::new(LineQueue { unwritten: Mutex::default(), wake: Condvar::new(), idle: Condvar::new() });
        let writer = Self(Arc::clone(&queue));
        thread::Builder::new().name("tq-log".into()).spawn(move || queue.write_lines(sink, format, is_journal))?;
        Ok(writer)
    }

    /// Lines that did not fit or could not be written.
    fn lost_lines(&self) -> u64 {
        self.0.unwritten.lock().lost_in_all
    }

    /// Waits until everything is written, at most `timeout`.
    fn flush(&self, timeout: Duration) {
        let mut unwritten = self.0.unwritten.lock();
        unwritten.is_flushing = true;
        self.0.wake.notify_one();
        let unfinished = |unwritten: &mut UnwrittenLines| unwritten.is_writing || !unwritten.bytes.is_empty();
        self.0.idle.wait_while_for(&mut unwritten, unfinished, timeout);
    }
}

impl Write for LogWriter {
    /// Queues one line, or drops it. Never fails, because callers could do nothing about it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut unwritten = self.0.unwritten.lock();
        if unwritten.bytes.len() + line.len() > UNWRITTEN_BYTES_MAX {
            unwritten.lost += 1;
            unwritten.lost_in_all += 1;
            return Ok(line.len());
        }
        unwritten.bytes.extend_from_slice(line);
        unwritten.count += 1;
        if mem::take(&mut unwritten.is_idle) {
            self.0.wake.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineQueue {
    fn write_lines(&self, mut sink: impl Write, format: LogFormat, is_journal: bool) {
        let mut batch = Vec::new();
        loop {
            let mut unwritten = self.next();
            batch.clear();
            mem::swap(&mut batch, &mut unwritten.bytes);
            let (count, lost) = (mem::take(&mut unwritten.count), mem::take(&mut unwritten.lost));
            unwritten.is_writing = true;
            drop(unwritten);

            if lost > 0 {
                batch.extend_from_slice(lost_lines_warning(lost, format, is_journal).as_bytes());
            }
            let written = sink.write_all(&batch).and_then(|()| sink.flush());

            let mut unwritten = self.unwritten.lock();
            unwritten.is_writing = false;
            if written.is_err() {
                unwritten.lost += count + lost;
                unwritten.lost_in_all += count;
            }
            self.pause(unwritten);
        }
    }

    /// Waits for lines. After a failed write the lost lines are reported with the next line, not by writing again.
    fn next(&self) -> MutexGuard<'_, UnwrittenLines> {
        let mut unwritten = self.unwritten.lock();
        while unwritten.bytes.is_empty() {
            self.idle.notify_all();
            unwritten.is_idle = true;
            self.wake.wait(&mut unwritten);
        }
        unwritten.is_idle = false;
        unwritten
    }

    /// Lets lines accumulate.
    fn pause(&self, mut unwritten: MutexGuard<'_, UnwrittenLines>) {
        self.wake.wait_while_for(&mut unwritten, |unwritten| !unwritten.is_flushing, WRITE_INTERVAL);
    }
}

fn lost_lines_warning(lost: u64, format: LogFormat, is_journal: bool) -> String {
    let mut time = String::new();
    // Writing to memory does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let level = if is_journal { JOURNAL_WARNING } else { "" };
    match format {
        LogFormat::Text if is_journal => format!("{level} WARN {lost} log lines were lost\n"),
        LogFormat::Text => format!("{time}  WARN {lost} log lines were lost\n"),
        LogFormat::Json => {
            format!(r#"{level}{{"timestamp":"{time}","level":"WARN","message":"{lost} log lines were lost"}}"#) + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Sends on what is written, and takes the outcome of each write from the test.
    struct Sink {
        written: Sender<String>,
        outcomes: Receiver<io::Result<()>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
            self.outcomes.recv().unwrap().map(|()| bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn start(format: LogFormat) -> (LogWriter, Receiver<String>, Sender<io::Result<()>>) {
        let ((written, writes), (outcome, outcomes)) = (mpsc::channel(), mpsc::channel());
        (LogWriter::start(Sink { written, outcomes }, format, false).unwrap(), writes, outcome)
    }

    #[test]
    fn lines_that_come_during_a_write_are_written_together() {
        let (mut lines, writes, outcome) = start(LogFormat::Text);
        lines.write_all(b"first\n").unwrap();
        assert_eq!(writes.recv().unwrap(), "first\n");
        for line in ["second\n", "third\n"] {
            lines.write_all(line.as_bytes()).unwrap();
        }
        outcome.send(Ok(())).unwrap();
        assert_eq!(writes.recv().unwrap(), "second\nthird\n");
    }

    #[test]
    fn lines_without_room_are_lost_and_counted() {
        let (mut lines, writes, outcome) = start(LogFormat::Text);
        lines.write_all(b"first\n").unwrap();
        writes.recv().unwrap();
        let line = vec![b'x'; UNWRITTEN_BYTES_MAX / 4];
        for _ in 0..7 {
            lines.write_all(&line).unwrap();
        }
        outcome.send(Ok(())).unwrap();
        let second = writes.recv().unwrap();
        assert!(second.len() < UNWRITTEN_BYTES_MAX + 100 && second.ends_with("  WARN 3 log lines were lost\n"));
        assert_eq!(lines.lost_lines(), 3);
    }

    #[test]
    fn lines_that_cannot_be_written_are_reported_later() {
        let (mut lines, writes, outcome) = start(LogFormat::Json);
        lines.write_all(b"first\n").unwrap();
        writes.recv().unwrap();
        outcome.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        lines.write_all(b"second\n").unwrap();
        let second = writes.recv().unwrap();
        let warning: serde_json::Value = serde_json::from_str(second.strip_prefix("second\n").unwrap()).unwrap();
        assert_eq!((&warning["level"], &warning["message"]), (&"WARN".into(), &"1 log lines were lost".into()));
        assert_eq!(lines.lost_lines(), 1, "reported lines still count");
    }

    #[test]
    fn the_end_waits_for_lines_but_not_for_ever() {
        let (mut lines, writes, outcome) = start(LogFormat::Text);
        lines.write_all(b"first\n").unwrap();
        LogWriter::flush(&lines, Duration::ZERO);
        (0..2).for_each(|_| outcome.send(Ok(())).unwrap());
        lines.write_all(b"second\n").unwrap();
        LogWriter::flush(&lines, TIMEOUT);
        assert_eq!(writes.try_iter().collect::<String>(), "first\nsecond\n");
        LogWriter::flush(&lines, TIMEOUT);
    }
}
