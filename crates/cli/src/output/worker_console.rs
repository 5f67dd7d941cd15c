//! Standard output and standard error of a worker: the output of child processes, the worker's own lines, and a status line
//! on a terminal. One thread writes, so that a blocked terminal blocks nothing else.

use std::io::{self, IsTerminal, Write};
use std::thread::JoinHandle;
use std::time::Duration;

use taskqueue_worker::process::{Chunk, Stream};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::cell::cut;
use super::terminal;

/// Buffered output. A child that writes more waits for the terminal.
const CHUNKS_BUFFERED: usize = 64;
/// Buffered lines. Further ones are dropped: the worker never waits for the terminal.
const MESSAGES_BUFFERED: usize = 4096;
/// How long the end of the worker waits for unwritten lines.
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
    chunks: Sender<Chunk>,
    messages: Sender<ConsoleMessage>,
    thread: Option<JoinHandle<()>>,
}

impl WorkerConsole {
    pub(crate) fn start(slots: usize) -> Self {
        let (chunks, chunks_in) = mpsc::channel(CHUNKS_BUFFERED);
        let (messages, messages_in) = mpsc::channel(MESSAGES_BUFFERED);
        let has_status = Self::has_status();
        let writer = Writer {
            has_slots: slots > 1,
            has_status,
            stdout_is_terminal: has_status && io::stdout().is_terminal(),
            status: String::new(),
            is_drawn: false,
            at_line_start: true,
            has_title: false,
        };
        let thread = std::thread::Builder::new().name("tq-screen".to_owned());
        // Without the thread nothing is shown, but tasks still run.
        let thread = thread.spawn(move || writer.write(chunks_in, messages_in)).ok();
        Self { chunks, messages, thread }
    }

    /// There is a status line only on a terminal.
    pub(crate) fn has_status() -> bool {
        io::stderr().is_terminal()
    }

    /// For the output of child processes.
    pub(crate) fn output_sender(&self) -> Sender<Chunk> {
        self.chunks.clone()
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
struct Writer {
    /// Whether several children run at a time, so that each line begins with its slot.
    has_slots: bool,
    has_status: bool,
    /// Whether standard output and standard error are the same terminal.
    stdout_is_terminal: bool,
    status: String,
    /// Whether the status line is on the screen.
    is_drawn: bool,
    /// Whether the cursor is at the start of a line. Otherwise the status line cannot be drawn.
    at_line_start: bool,
    /// Whether the status is in the title of the window.
    has_title: bool,
}

impl Writer {
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
        let written = match chunk.stream {
            Stream::Stdout => write_chunk(io::stdout().lock(), chunk, self.has_slots),
            Stream::Stderr => write_chunk(io::stderr().lock(), chunk, self.has_slots),
        };
        drop(written);
        if chunk.stream == Stream::Stderr || self.stdout_is_terminal {
            let last = chunk.bytes.last();
            self.at_line_start = last == Some(&b'\n') || (self.has_slots && last != Some(&b'\r'));
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
        if !self.has_status || self.status.is_empty() || !terminal::is_in_foreground(&io::stderr()) {
            return;
        }
        let columns = terminal::columns(&io::stderr()).unwrap_or(80);
        let text = cut(&self.status, columns.saturating_sub(1));
        // While a child is in the middle of a line (a progress bar, a prompt), the status goes into the title of the window.
        self.has_title = !self.at_line_start;
        self.is_drawn = self.at_line_start;
        drop(if self.at_line_start {
            write!(io::stderr(), "{text}")
        } else {
            write!(io::stderr(), "\x1b]2;{text}\x07")
        });
    }
}

/// With several children each line begins with the number of its slot and gets a line end, because the next output may be
/// that of another child.
fn write_chunk(mut out: impl Write, chunk: &Chunk, has_slots: bool) -> io::Result<()> {
    if has_slots {
        for line in chunk.bytes.split_inclusive(|byte| *byte == b'\n') {
            write!(out, "{} | ", chunk.slot)?;
            out.write_all(line)?;
        }
        if !matches!(chunk.bytes.last(), Some(b'\n' | b'\r')) {
            out.write_all(b"\n")?;
        }
    } else {
        out.write_all(&chunk.bytes)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

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
