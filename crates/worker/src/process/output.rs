//! Forwards the output of a command to its log and to the relay, and keeps its end for the report of a failure. It reads only after it
//! has written, so a command that is faster than log and relay has to wait, and memory is bounded. Where several commands run at
//! once, their output is split into lines. A command on a terminal follows the size of ours.
//!
//! The log file of a command has the first bytes of its output up to a limit, and the last ones. The beginning shows how the command was
//! set up, the end shows why it failed. Writing blocks.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};
use taskqueue_core::terminal::{Cell, LineSink, OutputLines};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::run_dir::{FILE_MODE, FOLDER_MODE};
use crate::sent_output::{RunOutput, Stream};
use crate::settings::or_never;
use crate::supervisor::channel::WindowSize;

/// The size of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// The longest time for reading the rest of the output after the run has ended. It takes time only if the relay or the log hangs, or if
/// a process outside the run has the pipe open.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The destinations of the output of a run.
#[derive(Debug)]
pub struct Output {
    /// The log file. It and its folder are created with the first byte.
    pub log: PathBuf,
    pub log_cap_bytes: u64,
    /// If the receiver is dropped, the output only goes to the log.
    pub relay: mpsc::Sender<Chunk>,
    /// Takes the output for the server.
    pub sent: RunOutput,
    /// The beginning of each line where several commands run at once. Then only whole lines are relayed.
    pub label: Option<Arc<str>>,
    /// The size of the command's terminal; `None` means pipes.
    pub terminal: Option<watch::Receiver<WindowSize>>,
}

/// A piece of output. With a label it is whole lines, of which the last has no end if it was too long or the last one of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The beginning of each line where several commands run at once.
    pub label: Option<Arc<str>>,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

/// A pipe or a terminal.
pub(crate) struct OutputSource {
    receiver: pipe::Receiver,
    is_terminal: bool,
}

impl OutputSource {
    pub(crate) fn pipe(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { receiver: pipe::Receiver::from_owned_fd(file)?, is_terminal: false })
    }

    pub(crate) fn terminal(file: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Self { receiver: pipe::Receiver::from_owned_fd_unchecked(file)?, is_terminal: true })
    }

    /// Reads more. Nothing is lost when this future is dropped.
    async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        bytes.reserve(READ_BYTES);
        match self.receiver.read_buf(bytes).await {
            // EIO: no process has the terminal open any more.
            Err(error) if self.is_terminal && error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }
}

pub(crate) struct OutputForwarder {
    sources: [Option<OutputSource>; 2],
    resizer: Option<WindowResizer>,
    /// On a terminal there is only one source, so the tail is taken from it.
    is_terminal: bool,
    tail: OutputTail,
    /// `None` while a write is under way, and after one has failed.
    log: Option<OutputLog>,
    log_note: Option<String>,
    relay: Option<mpsc::Sender<Chunk>>,
    is_relaying: bool,
    label: Option<Arc<str>>,
    lines: Option<[LineSplitter; 2]>,
    sent: RunOutput,
}

impl OutputForwarder {
    pub(crate) fn new(output: Output, sources: [Option<OutputSource>; 2], resizer: Option<WindowResizer>) -> Self {
        Self {
            sources,
            is_terminal: resizer.is_some(),
            resizer,
            tail: OutputTail::default(),
            log: Some(OutputLog::new(output.log, output.log_cap_bytes)),
            log_note: None,
            relay: Some(output.relay),
            is_relaying: false,
            lines: output.label.is_some().then(Default::default),
            label: output.label,
            sent: output.sent,
        }
    }

    /// Forwards until all sources have ended.
    pub(crate) async fn run(&mut self) {
        let mut buffers = [Vec::new(), Vec::new()];
        while self.sources.iter().any(Option::is_some) {
            let [first, second] = &mut self.sources;
            let [first_bytes, second_bytes] = &mut buffers;
            let (stream, read) = tokio::select! {
                read = or_never(first.as_mut().map(|source| source.read(first_bytes))) => (Stream::Stdout, read),
                read = or_never(second.as_mut().map(|source| source.read(second_bytes))) => (Stream::Stderr, read),
                () = or_never(self.resizer.as_mut().map(WindowResizer::run)) => continue,
            };
            // A source with an error counts as ended.
            if !matches!(read, Ok(1..)) {
                self.sources[stream as usize] = None;
                continue;
            }
            self.forward(stream, std::mem::take(&mut buffers[stream as usize])).await;
        }
        self.relay_rest().await;
    }

    async fn forward(&mut self, stream: Stream, bytes: Vec<u8>) {
        if self.is_terminal || stream == Stream::Stderr {
            self.tail.push(&bytes);
        }
        let mut bytes = self.write_log(bytes).await;
        self.sent.print(stream, &bytes);
        if let Some(lines) = &mut self.lines {
            bytes = lines[stream as usize].push(&bytes);
        }
        self.relay(stream, bytes).await;
    }

    /// Writes on a blocking thread, because the file may be on a slow network disk.
    async fn write_log(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        match self.log.take() {
            None => bytes,
            Some(mut log) if log.is_full() => {
                log.push_beyond(&bytes);
                self.log = Some(log);
                bytes
            }
            Some(mut log) => {
                let writing = spawn_blocking(move || (log.write(&bytes), log, bytes));
                // An error means that the runtime is shutting down.
                let Ok((written, log, bytes)) = writing.await else { return Vec::new() };
                match written {
                    Ok(()) => self.log = Some(log),
                    Err(error) => self.log_failed(&log, &error).await,
                }
                bytes
            }
        }
    }

    async fn log_failed(&mut self, log: &OutputLog, error: &io::Error) {
        let note = format!("{} could not be written: {error}", log.path.display());
        self.relay(Stream::Stderr, format!("taskqueue: {note}\n").into_bytes()).await;
        self.log_note = Some(note);
    }

    async fn relay(&mut self, stream: Stream, mut bytes: Vec<u8>) {
        let Some(relay) = self.relay.as_ref().filter(|_| !bytes.is_empty()) else { return };
        // Queued chunks should use no more memory than their length.
        bytes.shrink_to_fit();
        self.is_relaying = true;
        let sent = relay.send(Chunk { label: self.label.clone(), stream, bytes }).await;
        self.is_relaying = false;
        if sent.is_err() {
            self.relay = None;
        }
    }

    async fn relay_rest(&mut self) {
        let Some([mut first, mut second]) = self.lines.take() else { return };
        self.relay(Stream::Stdout, first.rest()).await;
        self.relay(Stream::Stderr, second.rest()).await;
    }

    /// Finishes the log. Returns the end of the output, and a note about the log.
    pub(crate) async fn finish(mut self) -> (String, Option<String>) {
        if self.is_relaying {
            // The relay is blocked, for example by a stopped terminal. The log still gets the whole output.
            self.relay = None;
            let _ = timeout(DRAIN_TIMEOUT, self.run()).await;
        }
        let _ = timeout(DRAIN_TIMEOUT, self.relay_rest()).await;
        let note = match self.log.take() {
            Some(log) if !log.is_full() => None,
            Some(mut log) => {
                let finishing = spawn_blocking(move || log.finish().unwrap_or_else(|error| Some(error.to_string())));
                timeout(DRAIN_TIMEOUT, finishing).await.ok().and_then(Result::ok).flatten()
            }
            None => self.log_note.take().or_else(|| Some("the log could not be written in time".to_owned())),
        };
        (self.tail.text(), note)
    }
}

/// Longer lines are split.
const LINE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The line that has not ended yet.
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Adds bytes and returns the complete lines, possibly none.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.partial.extend_from_slice(bytes);
        let end = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.partial.split_off(end);
        let ended = std::mem::replace(&mut self.partial, rest);
        let mut complete = Vec::with_capacity(ended.len());
        for line in ended.split_inclusive(|byte| *byte == b'\n') {
            complete.extend_from_slice(shown(line.strip_suffix(b"\n").unwrap_or(line)));
            complete.push(b'\n');
        }
        let overwritten = self.partial.len() - not_overwritten(&self.partial).len();
        self.partial.drain(..overwritten);
        if self.partial.len() >= LINE_BYTES {
            complete.append(&mut self.partial);
        }
        complete
    }

    /// The last line, when the stream has ended without a line end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        shown(&std::mem::take(&mut self.partial)).to_vec()
    }
}

/// The end of a line that nothing overwrites. A carriage return at its end may be the first half of CR LF, or more may follow.
fn not_overwritten(line: &[u8]) -> &[u8] {
    let start = shown_end(line);
    line[..start].iter().rposition(|byte| *byte == b'\r').map_or(line, |at| &line[at + 1..])
}

/// Returns the part of a line that is to be seen.
fn shown(line: &[u8]) -> &[u8] {
    let last = not_overwritten(line);
    &last[..shown_end(last)]
}

/// Returns the position of the carriage returns at the end of a line.
fn shown_end(line: &[u8]) -> usize {
    line.iter().rposition(|byte| *byte != b'\r').map_or(0, |at| at + 1)
}

/// Sets the size of a command's terminal when the size of ours changes. The kernel sends SIGWINCH to the command.
pub(crate) struct WindowResizer {
    pub(crate) pty: OwnedFd,
    pub(crate) size: watch::Receiver<WindowSize>,
}

impl WindowResizer {
    /// Never returns.
    pub(crate) async fn run(&mut self) {
        while self.size.changed().await.is_ok() {
            let WindowSize { rows, columns } = *self.size.borrow_and_update();
            // On an error the command keeps the old size.
            let _ = tcsetwinsize(&self.pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        }
        std::future::pending().await
    }
}

/// The file is created with the first byte: a run without output has none.
#[derive(Debug)]
pub(crate) struct OutputLog {
    path: PathBuf,
    cap_bytes: u64,
    file: Option<File>,
    written_bytes: u64,
    /// The output after the limit was reached.
    beyond: OutputTail,
    beyond_bytes: u64,
}

impl OutputLog {
    pub(crate) fn new(path: PathBuf, cap_bytes: u64) -> Self {
        Self { path, cap_bytes, file: None, written_bytes: 0, beyond: OutputTail::default(), beyond_bytes: 0 }
    }

    /// After the limit is reached, nothing is written until `finish`.
    pub(crate) fn is_full(&self) -> bool {
        self.beyond_bytes > 0
    }

    /// Adds output beyond the limit.
    pub(crate) fn push_beyond(&mut self, bytes: &[u8]) {
        self.beyond.push(bytes);
        self.beyond_bytes += bytes.len() as u64;
    }

    /// Writes up to the limit. A line in the file says when it is reached.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.cap_bytes - self.written_bytes).unwrap_or(usize::MAX);
        let (fitting, beyond) = bytes.split_at(room.min(bytes.len()));
        self.append(fitting)?;
        self.written_bytes += fitting.len() as u64;
        if !beyond.is_empty() {
            if !self.is_full() {
                let (cap, kib) = (self.cap_bytes, TAIL_BYTES / 1024);
                let line = format!(
                    "\n[taskqueue: this log has reached its limit of {cap} bytes; the rest is not kept, apart from its last \
                    {kib} KiB, which are added when the run has ended]\n"
                );
                self.append(line.as_bytes())?;
            }
            self.push_beyond(beyond);
        }
        Ok(())
    }

    /// Writes the last output if it was beyond the limit. Returns a note if something is missing.
    pub(crate) fn finish(&mut self) -> io::Result<Option<String>> {
        if !self.is_full() {
            return Ok(None);
        }
        let end = self.beyond.raw().to_vec();
        let missing = self.beyond_bytes - end.len() as u64;
        if missing > 0 {
            self.append(format!("[taskqueue: {missing} bytes of output are not kept here]\n").as_bytes())?;
        }
        self.append(&end)?;
        let (written, path) = (self.written_bytes, self.path.display());
        let note = format!(
            "{path} keeps the first {written} and the last {} bytes of the output, not the {missing} between",
            end.len()
        );
        Ok((missing > 0).then_some(note))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = if let Some(file) = &mut self.file { file } else { self.file.insert(open(&self.path)?) };
        file.write_all(bytes)
    }
}

fn open(path: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(FILE_MODE);
    match (options.open(path), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
            options.open(path)
        }
        (opened, _) => opened,
    }
}

/// Enough for a long stack trace.
pub(crate) const TAIL_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct OutputTail {
    /// Up to twice `TAIL_BYTES`, so that old bytes are removed seldom.
    bytes: Vec<u8>,
    is_cut: bool,
}

impl OutputTail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let fresh = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        self.is_cut |= fresh.len() < bytes.len();
        self.bytes.extend_from_slice(fresh);
        if self.bytes.len() > 2 * TAIL_BYTES {
            self.bytes.drain(..self.bytes.len() - TAIL_BYTES);
            self.is_cut = true;
        }
    }

    pub(crate) fn raw(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(TAIL_BYTES)..]
    }

    /// Readable text: whole lines where possible, without terminal control sequences, and with the last state of a progress bar.
    pub(crate) fn text(&self) -> String {
        let raw = self.raw();
        let is_cut = self.is_cut || raw.len() < self.bytes.len();
        let line_start = raw.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let whole = match line_start {
            Some(start) if is_cut && start < raw.len() => &raw[start..],
            _ => raw,
        };
        let (mut reader, mut lines) = (OutputLines::new(TAIL_BYTES), PlainLines::default());
        reader.read(&String::from_utf8_lossy(whole), &mut lines);
        lines.add(reader.line());
        lines.0
    }
}

/// Lines without colours and control characters.
#[derive(Default)]
struct PlainLines(String);

impl PlainLines {
    fn add(&mut self, line: &[Cell<()>]) {
        self.0.extend(line.iter().map(|cell| cell.character));
    }
}

impl LineSink for PlainLines {
    type Look = ();

    fn look(&self) {}

    fn change_look(&mut self, _parameters: &str) {}

    fn end_line(&mut self, line: &[Cell<()>], is_too_long: bool) {
        self.add(line);
        self.0.push_str(if is_too_long { "" } else { "\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_given() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"one\ntwo\nth"), b"one\ntwo\n");
        assert_eq!(lines.push(b"re"), b"");
        assert_eq!(lines.push(b"e\n"), b"three\n");
        assert_eq!(lines.push(b"four"), b"");
        assert_eq!(lines.rest(), b"four");
        assert_eq!(lines.rest(), b"");
    }

    #[test]
    fn a_line_that_does_not_end_is_cut() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(&vec![b'x'; LINE_BYTES - 1]), b"");
        assert_eq!(lines.push(b"xy").len(), LINE_BYTES + 1);
        assert_eq!(lines.rest(), b"");
    }

    #[test]
    fn a_progress_bar_is_one_line() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"\r10%"), b"");
        assert_eq!(lines.push(b"\r20%\r"), b"");
        assert_eq!(lines.partial, b"20%\r", "of what is overwritten nothing is kept");
        assert_eq!(lines.push(b"\nnext\r\n\r\n"), b"20%\nnext\n\n");
        assert_eq!(lines.push(b"30%\r40%\r\rdone\n50%\r60%\r"), b"done\n");
        assert_eq!(lines.rest(), b"60%", "also one that never ends");
    }

    #[test]
    fn a_bar_that_is_wiped_away_leaves_no_line() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"\r99%\r   \r"), b"");
        assert_eq!(lines.push(b"saved\n"), b"saved\n");
        assert_eq!(lines.push(b"\r"), b"");
        assert_eq!(lines.rest(), b"");
    }

    fn written(cap_bytes: u64, chunks: &[&[u8]]) -> (String, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task/run/output.log");
        let mut log = OutputLog::new(path.clone(), cap_bytes);
        for chunk in chunks {
            log.write(chunk).unwrap();
        }
        let note = log.finish().unwrap();
        (std::fs::read_to_string(path).unwrap(), note)
    }

    #[test]
    fn everything_is_kept_up_to_the_limit() {
        assert_eq!(written(8, &[b"one\n", b"two\n"]), ("one\ntwo\n".to_owned(), None));
    }

    #[test]
    fn beyond_the_limit_the_end_is_kept_and_the_gap_is_noted() {
        let flood = vec![b'x'; 100_000];
        let (text, note) = written(6, &[b"one\n", b"two\n", &flood, b"\nthe end\n"]);
        assert!(text.starts_with("one\ntw\n[taskqueue: this log has reached its limit of 6 bytes;"), "{text}");
        assert!(text.contains("[taskqueue: 83627 bytes of output are not kept here]\nxxx"), "{text}");
        assert!(text.ends_with("xxx\nthe end\n"));
        let expected = 6
            + TAIL_BYTES
            + text.lines().filter(|line| line.starts_with('[')).map(|line| line.len() + 1).sum::<usize>()
            + 1;
        assert_eq!(text.len(), expected);
        let expected = "keeps the first 6 and the last 16384 bytes of the output, not the 83627 between";
        assert!(note.unwrap().ends_with(expected));
    }

    #[test]
    fn a_little_beyond_the_limit_nothing_is_missing() {
        let (text, note) = written(4, &[b"one\ntwo\n"]);
        assert!(text.starts_with("one\n") && text.ends_with("]\ntwo\n") && note.is_none(), "{text}");
    }

    fn tail(bytes: &[u8]) -> String {
        let mut tail = OutputTail::default();
        bytes.chunks(1000).for_each(|chunk| tail.push(chunk));
        tail.text()
    }

    #[test]
    fn a_long_text_begins_with_a_whole_line() {
        let text: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        let kept = tail(text.as_bytes());
        assert!(kept.starts_with("line ") && kept.ends_with("line 9999\n"), "{kept}");
        assert!(kept.len() <= TAIL_BYTES && kept.len() > TAIL_BYTES - 20);

        let mut at_once = OutputTail::default();
        at_once.push(text.as_bytes());
        assert_eq!(at_once.text(), kept);
    }

    #[test]
    fn a_text_is_kept_as_it_is_and_what_is_no_text_is_left_out_or_replaced() {
        for (printed, expected) in [
            (&b"one\n\ttwo\n"[..], "one\n\ttwo\n"),
            (b"", ""),
            (b"a\0b\x07c\xff\n", "abc\u{fffd}\n"),
            (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;url\x1b\\y\x1bMz", "red xyz"),
            (b"10%\r20%\r30%\r\ndone\r\n", "30%\ndone\n"),
            (&[b'x'; 100_000], &"x".repeat(TAIL_BYTES)),
        ] {
            assert_eq!(tail(printed), expected);
        }
    }
}
