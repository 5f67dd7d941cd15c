//! Standard output and standard error of a worker: the output of child processes, the worker's own lines, and a status line
//! on a terminal. One thread writes, so that a blocked terminal blocks nothing else.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::thread::JoinHandle;
use std::time::Duration;

use taskqueue_worker::process::{Chunk, Stream};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::table::{cut, is_in_foreground, width_of};

/// Buffered output. A child that writes more waits for the terminal.
const CHUNKS_BUFFERED: usize = 64;
/// Buffered lines. Further ones are dropped: the worker never waits for the terminal.
const MESSAGES_BUFFERED: usize = 4096;
/// The time for which the end of the worker waits for unwritten lines.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum ConsoleMessage {
    /// The flag says whether output that is already buffered comes first.
    Line(String, bool),
    /// The new text of the status line; an empty one removes it.
    Status(String),
    Close,
}

/// The channels to the thread that writes.
pub(crate) struct WorkerConsole {
    /// For the output of child processes.
    pub(crate) chunks: Sender<Chunk>,
    messages: Sender<ConsoleMessage>,
    thread: Option<JoinHandle<()>>,
}

impl WorkerConsole {
    pub(crate) fn start() -> Self {
        let (chunks, chunks_in) = mpsc::channel(CHUNKS_BUFFERED);
        let (messages, messages_in) = mpsc::channel(MESSAGES_BUFFERED);
        let (has_status, is_one_file) = (Self::has_status(), is_one_file());
        let writer = ConsoleWriter { has_status, is_one_file, at_line_start: true, ..ConsoleWriter::default() };
        let thread = std::thread::Builder::new().name("tq-screen".to_owned());
        // Without the thread nothing is shown, but tasks still run.
        let thread = thread.spawn(move || writer.write(chunks_in, messages_in)).ok();
        Self { chunks, messages, thread }
    }

    /// There is a status line only on a terminal.
    pub(crate) fn has_status() -> bool {
        io::stderr().is_terminal()
    }

    pub(crate) fn handle(&self) -> ConsoleHandle {
        ConsoleHandle(self.messages.clone())
    }

    /// Writes what is left, unless the terminal is blocked.
    pub(crate) async fn close(self) {
        let Some(thread) = self.thread else { return };
        let closing = async {
            // This waits, too, while the channel is full.
            let closed = self.messages.send(ConsoleMessage::Close).await;
            drop((self.chunks, self.messages));
            if closed.is_ok() {
                drop(tokio::task::spawn_blocking(move || thread.join()).await);
            }
        };
        drop(tokio::time::timeout(CLOSE_TIMEOUT, closing).await);
    }
}

/// Sends lines and the status without waiting. What does not fit is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleHandle(Sender<ConsoleMessage>);

impl ConsoleHandle {
    /// With `after_output` the line comes after output that is already buffered.
    pub(crate) fn line(&self, text: String, after_output: bool) {
        drop(self.0.try_send(ConsoleMessage::Line(text, after_output)));
    }

    pub(crate) fn status(&self, text: String) {
        drop(self.0.try_send(ConsoleMessage::Status(text)));
    }
}

/// The state of the thread that writes.
#[derive(Default)]
struct ConsoleWriter {
    has_status: bool,
    /// True if standard output and standard error are the same terminal, log file or pipe.
    is_one_file: bool,
    status: String,
    /// True if the status line is on the screen.
    is_drawn: bool,
    /// True if the cursor is at the start of a line. Otherwise the status line cannot be drawn.
    at_line_start: bool,
    /// True if the status is in the title of the window.
    has_title: bool,
}

impl ConsoleWriter {
    fn write(mut self, mut chunks: Receiver<Chunk>, mut messages: Receiver<ConsoleMessage>) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
        runtime.block_on(async {
            loop {
                tokio::select! {
                    biased;
                    message = messages.recv() => match message {
                        Some(ConsoleMessage::Line(text, after_output)) => {
                            if after_output {
                                self.drain(&mut chunks);
                            }
                            self.line(&text);
                        }
                        Some(ConsoleMessage::Status(text)) => {
                            self.status = text;
                            self.erase();
                            self.draw();
                        }
                        Some(ConsoleMessage::Close) | None => {
                            self.drain(&mut chunks);
                            return;
                        }
                    },
                    Some(chunk) = chunks.recv() => self.chunk(&chunk),
                }
            }
        });
    }

    /// Writes the output that is buffered now, but not what arrives meanwhile: a child that never pauses would delay all
    /// lines.
    fn drain(&mut self, chunks: &mut Receiver<Chunk>) {
        for _ in 0..chunks.len() {
            let Ok(chunk) = chunks.try_recv() else { return };
            self.chunk(&chunk);
        }
    }

    fn line(&mut self, text: &str) {
        self.erase();
        let open = if self.at_line_start { "" } else { "\r\n" };
        // Only a terminal needs the carriage return.
        let open = if self.has_status { open } else { open.trim_start_matches('\r') };
        // A failure to write does not stop the work.
        drop(writeln!(io::stderr(), "{open}{text}"));
        self.at_line_start = true;
        self.draw();
    }

    fn chunk(&mut self, chunk: &Chunk) {
        self.erase();
        let bytes = match &chunk.label {
            Some(label) => Cow::Owned(labelled(label, &chunk.bytes)),
            None => Cow::Borrowed(chunk.bytes.as_slice()),
        };
        // A failure to write does not stop the work.
        drop(match chunk.stream {
            Stream::Stdout => write_all(io::stdout().lock(), &bytes),
            Stream::Stderr => write_all(io::stderr().lock(), &bytes),
        });
        if chunk.stream == Stream::Stderr || self.is_one_file {
            self.at_line_start = bytes.last() == Some(&b'\n');
        }
        self.draw();
    }

    /// Removes the status line, so that something else can be written in its place.
    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }

    fn draw(&mut self) {
        if self.has_title && self.at_line_start {
            // The title would show an old status.
            self.has_title = false;
            drop(write!(io::stderr(), "\x1b]2;\x07"));
        }
        // The status may be older than the shell's return to the terminal.
        if !self.has_status || self.status.is_empty() || !is_in_foreground(&io::stderr()) {
            return;
        }
        let text = cut(&self.status, width_of(&io::stderr()).unwrap_or(80).saturating_sub(1));
        // While a child is in the middle of a line (a progress bar, a prompt), the status goes into the title of the window.
        self.has_title = !self.at_line_start;
        self.is_drawn = self.at_line_start;
        let (begin, end) = if self.at_line_start { ("", "") } else { ("\x1b]2;", "\x07") };
        drop(write!(io::stderr(), "{begin}{text}{end}"));
    }
}

/// Lines that each begin with a label and have an end, because the next output may be that of another child.
fn labelled(label: &str, lines: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len() + 64);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(b" | ");
        out.extend_from_slice(line);
    }
    if lines.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    out
}

/// With one write as far as possible, because other processes may write to the same file.
fn write_all(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

/// Returns whether standard output and standard error go to the same place.
fn is_one_file() -> bool {
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let (out, err) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr()));
    out.ok().map(place).is_some_and(|out| err.ok().map(place) == Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_label_and_an_end() {
        assert_eq!(labelled("0 t_1", b"a\nb\n"), b"0 t_1 | a\n0 t_1 | b\n");
        assert_eq!(labelled("0 t_1", b"\nhalf"), b"0 t_1 | \n0 t_1 | half\n");
    }

    #[tokio::test]
    async fn a_blocked_terminal_does_not_delay_the_end() {
        let (chunks, _chunks_in) = mpsc::channel(1);
        let (messages, _papers_in) = mpsc::channel(1);
        let (_never, stuck) = std::sync::mpsc::channel::<()>();
        let thread = Some(std::thread::spawn(move || _ = stuck.recv()));
        let console = WorkerConsole { chunks, messages, thread };
        console.handle().line("the last line that fits".to_owned(), false);
        let closed = tokio::time::timeout(2 * CLOSE_TIMEOUT, console.close()).await;
        assert!(closed.is_ok(), "the end waits for the terminal");
    }
}
