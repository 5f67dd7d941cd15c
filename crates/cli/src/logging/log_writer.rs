//! A bounded queue of log lines and the thread that writes them, so that no request waits for standard error. Lines that do
//! not fit are dropped and counted; a later line has their number.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::JOURNAL_WARNING;
use crate::args::LogFormat;

/// Some thousand lines.
const UNWRITTEN_BYTES_MAX: usize = 1_048_576;

/// The least time between two writes. Under load one write then takes hundreds of lines; a single line is written at once.
const WRITE_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Clone)]
pub(super) struct LogWriter(Arc<LineQueue>);

struct LineQueue {
    unwritten: Mutex<Unwritten>,
    /// The thread has something to do.
    wake: Condvar,
    /// Everything is written.
    idle: Condvar,
}

#[derive(Default)]
struct Unwritten {
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
    pub(super) fn start(sink: impl Write + Send + 'static, format: LogFormat, is_journal: bool) -> io::Result<Self> {
        let queue = Arc::new(LineQueue { unwritten: Mutex::default(), wake: Condvar::new(), idle: Condvar::new() });
        let writer = Self(Arc::clone(&queue));
        thread::Builder::new().name("tq-log".into()).spawn(move || queue.write_lines(sink, format, is_journal))?;
        Ok(writer)
    }

    /// Lines that did not fit or could not be written.
    pub(super) fn lost_lines(&self) -> u64 {
        self.0.lock().lost_in_all
    }

    /// Waits until everything is written, at most `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let mut unwritten = self.0.lock();
        unwritten.is_flushing = true;
        self.0.wake.notify_one();
        let unfinished = |unwritten: &mut Unwritten| unwritten.is_writing || !unwritten.bytes.is_empty();
        drop(self.0.idle.wait_timeout_while(unwritten, timeout, unfinished));
    }
}

impl Write for LogWriter {
    /// Queues one line, or drops it. Never fails, because callers could do nothing about it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut unwritten = self.0.lock();
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
    fn lock(&self) -> MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

            let mut unwritten = self.lock();
            unwritten.is_writing = false;
            if written.is_err() {
                unwritten.lost += count + lost;
                unwritten.lost_in_all += count;
            }
            self.pause(unwritten);
        }
    }

    /// Waits for lines. After a failed write the lost lines are reported with the next line, not by writing again.
    fn next(&self) -> MutexGuard<'_, Unwritten> {
        let mut unwritten = self.lock();
        while unwritten.bytes.is_empty() {
            self.idle.notify_all();
            unwritten.is_idle = true;
            unwritten = self.wake.wait(unwritten).unwrap_or_else(PoisonError::into_inner);
        }
        unwritten.is_idle = false;
        unwritten
    }

    /// Lets lines accumulate.
    fn pause(&self, unwritten: MutexGuard<'_, Unwritten>) {
        drop(self.wake.wait_timeout_while(unwritten, WRITE_INTERVAL, |unwritten| !unwritten.is_flushing));
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
