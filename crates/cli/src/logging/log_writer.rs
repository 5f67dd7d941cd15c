//! The way of log lines from the threads that serve requests to one thread that writes them. Nobody ever waits for
//! standard error: lines that find no room are counted and lost. How lines look is not decided here, except for the one
//! about lost lines.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::args::LogFormat;

/// Room for lines that are not yet written: some thousand.
const WAITING_BYTES: usize = 1_048_576;

/// Rest between two writes. One write then takes all lines of that time, which under load are hundreds; a single line
/// is written at once.
const REST: Duration = Duration::from_millis(2);

/// Takes lines; cheap to clone.
#[derive(Clone)]
pub(super) struct Lines(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    /// There is something to do for the thread.
    wake: Condvar,
    /// Everything is written.
    idle: Condvar,
}

/// Lines on their way.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    count: u64,
    /// Lines that found no room or could not be written, and of which nobody was told.
    lost: u64,
    /// The thread waits for lines and has to be woken.
    asleep: bool,
    /// The thread is writing.
    writing: bool,
    /// Somebody waits for the end: no rests any more.
    hurry: bool,
}

impl Lines {
    /// Starts the thread that writes lines to `sink`, for as long as the process lives.
    pub(super) fn start(sink: impl Write + Send + 'static, format: LogFormat) -> io::Result<Self> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), wake: Condvar::new(), idle: Condvar::new() });
        let lines = Self(Arc::clone(&shared));
        thread::Builder::new().name("tq-log".into()).spawn(move || shared.write_lines(sink, format))?;
        Ok(lines)
    }

    /// Waits until everything is written, but no longer than `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let mut waiting = self.0.lock();
        waiting.hurry = true;
        self.0.wake.notify_one();
        let unfinished = |waiting: &mut Waiting| waiting.writing || !waiting.bytes.is_empty();
        drop(self.0.idle.wait_timeout_while(waiting, patience, unfinished));
    }
}

impl Write for Lines {
    /// Takes one line, or loses it: the caller gets no error that it would have to care about.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.lock();
        if waiting.bytes.len() + line.len() > WAITING_BYTES {
            waiting.lost += 1;
            return Ok(line.len());
        }
        waiting.bytes.extend_from_slice(line);
        waiting.count += 1;
        if mem::take(&mut waiting.asleep) {
            self.0.wake.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lines(&self, mut sink: impl Write, format: LogFormat) {
        let mut batch = Vec::new();
        loop {
            let mut waiting = self.next();
            batch.clear();
            mem::swap(&mut batch, &mut waiting.bytes);
            let (count, lost) = (mem::take(&mut waiting.count), mem::take(&mut waiting.lost));
            waiting.writing = true;
            drop(waiting);

            if lost > 0 {
                batch.extend_from_slice(notice(lost, format).as_bytes());
            }
            let written = sink.write_all(&batch).and_then(|()| sink.flush());

            let mut waiting = self.lock();
            waiting.writing = false;
            if written.is_err() {
                waiting.lost += count + lost;
            }
            self.rest(waiting);
        }
    }

    /// Waits for lines. That some were lost because writing failed is told with the next one, not by trying on.
    fn next(&self) -> MutexGuard<'_, Waiting> {
        let mut waiting = self.lock();
        while waiting.bytes.is_empty() {
            self.idle.notify_all();
            waiting.asleep = true;
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.asleep = false;
        waiting
    }

    /// Lets lines collect.
    fn rest(&self, waiting: MutexGuard<'_, Waiting>) {
        drop(self.wake.wait_timeout_while(waiting, REST, |waiting| !waiting.hurry));
    }
}

/// The line that tells of lost ones.
fn notice(lost: u64, format: LogFormat) -> String {
    let mut time = String::new();
    // Writing to memory does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    match format {
        LogFormat::Text => format!("{time}  WARN {lost} log lines were lost\n"),
        LogFormat::Json => {
            format!(r#"{{"timestamp":"{time}","level":"WARN","message":"{lost} log lines were lost"}}"#) + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

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

    fn start(format: LogFormat) -> (Lines, Receiver<String>, Sender<io::Result<()>>) {
        let ((written, writes), (outcome, outcomes)) = (mpsc::channel(), mpsc::channel());
        (Lines::start(Sink { written, outcomes }, format).unwrap(), writes, outcome)
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
        let line = vec![b'x'; WAITING_BYTES / 4];
        for _ in 0..7 {
            lines.write_all(&line).unwrap();
        }
        outcome.send(Ok(())).unwrap();
        let second = writes.recv().unwrap();
        assert!(second.len() < WAITING_BYTES + 100 && second.ends_with("  WARN 3 log lines were lost\n"));
    }

    #[test]
    fn lines_that_cannot_be_written_are_told_of_later() {
        let (mut lines, writes, outcome) = start(LogFormat::Json);
        lines.write_all(b"first\n").unwrap();
        writes.recv().unwrap();
        outcome.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        lines.write_all(b"second\n").unwrap();
        let second = writes.recv().unwrap();
        let told: serde_json::Value = serde_json::from_str(second.strip_prefix("second\n").unwrap()).unwrap();
        assert_eq!((&told["level"], &told["message"]), (&"WARN".into(), &"1 log lines were lost".into()));
    }

    #[test]
    fn the_end_waits_for_lines_but_not_for_ever() {
        let (mut lines, writes, outcome) = start(LogFormat::Text);
        lines.write_all(b"first\n").unwrap();
        Lines::flush(&lines, Duration::ZERO);
        (0..2).for_each(|_| outcome.send(Ok(())).unwrap());
        lines.write_all(b"second\n").unwrap();
        Lines::flush(&lines, PATIENCE);
        assert_eq!(writes.try_iter().collect::<String>(), "first\nsecond\n");
        Lines::flush(&lines, PATIENCE);
    }
}
