//! Standard output and standard error of a worker: relays what children say, shows lines between, and keeps a status line
//! where there is room for it. One thread writes, so that a stuck terminal holds up nothing else.

use std::io::{self, IsTerminal, Write};
use std::thread::JoinHandle;
use std::time::Duration;

use taskqueue_worker::process::{Chunk, Stream};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::cell::cut;
use super::terminal;

/// Pieces of output under way: a child that says more waits for the terminal.
const CHUNKS: usize = 64;
/// Lines under way. Beyond that they are dropped: the worker never waits for whoever reads them.
const LINES: usize = 4096;
/// How long the last lines may take to be written.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Something to show.
#[derive(Debug)]
enum Paper {
    /// A line of its own, and whether the output that is under way comes before it.
    Line(String, bool),
    /// What the status line says from now on; nothing takes it away.
    Status(String),
    Close,
}

/// The way to the thread that writes.
pub(crate) struct Screen {
    chunks: Sender<Chunk>,
    papers: Sender<Paper>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    pub(crate) fn start(slots: usize) -> Self {
        let (chunks, chunks_in) = mpsc::channel(CHUNKS);
        let (papers, papers_in) = mpsc::channel(LINES);
        let has_status = Self::has_status();
        let writer = Writer {
            is_shared: slots > 1,
            has_status,
            is_one_terminal: has_status && io::stdout().is_terminal(),
            status: String::new(),
            at_line_start: true,
            has_title: false,
        };
        let thread = std::thread::Builder::new().name("tq-screen".to_owned());
        // Without a thread nothing is shown; the tasks are run all the same.
        let thread = thread.spawn(move || writer.write(chunks_in, papers_in)).ok();
        Self { chunks, papers, thread }
    }

    /// Whether there is a status line: somebody looks.
    pub(crate) fn has_status() -> bool {
        io::stderr().is_terminal()
    }

    /// Where children's output goes.
    pub(crate) fn relay(&self) -> Sender<Chunk> {
        self.chunks.clone()
    }

    /// A way to put lines and the status on the screen.
    pub(crate) fn board(&self) -> Board {
        Board(self.papers.clone())
    }

    /// Writes what is left, as long as somebody takes it.
    pub(crate) async fn close(self) {
        let Some(thread) = self.thread else { return };
        let closing = async {
            // There is no room for this either while nobody takes the lines before it.
            let closed = self.papers.send(Paper::Close).await;
            drop((self.chunks, self.papers));
            if closed.is_ok() {
                drop(tokio::task::spawn_blocking(move || thread.join()).await);
            }
        };
        drop(tokio::time::timeout(LAST_LINES, closing).await);
    }
}

/// Puts lines and the status on the screen. It never waits: what cannot be taken is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Board(Sender<Paper>);

impl Board {
    /// A line; `after_output` if it tells of something whose output comes first.
    pub(crate) fn line(&self, text: String, after_output: bool) {
        drop(self.0.try_send(Paper::Line(text, after_output)));
    }

    /// What the status line says from now on.
    pub(crate) fn status(&self, text: String) {
        drop(self.0.try_send(Paper::Status(text)));
    }
}

/// The thread that writes.
struct Writer {
    /// Whether several children talk, so that each line says whose it is.
    is_shared: bool,
    has_status: bool,
    /// Whether standard output, too, is seen where our lines and the status are.
    is_one_terminal: bool,
    status: String,
    /// Whether the next character begins a line; otherwise there is no room for the status.
    at_line_start: bool,
    /// Whether the title of the window is ours.
    has_title: bool,
}

impl Writer {
    fn write(mut self, mut chunks: Receiver<Chunk>, mut papers: Receiver<Paper>) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
        runtime.block_on(async {
            loop {
                tokio::select! {
                    biased;
                    paper = papers.recv() => match paper {
                        Some(Paper::Line(text, after_output)) => {
                            if after_output {
                                self.drain(&mut chunks);
                            }
                            self.line(&text);
                        }
                        Some(Paper::Status(text)) => {
                            self.status = text;
                            self.erase();
                            self.draw();
                        }
                        Some(Paper::Close) | None => {
                            self.drain(&mut chunks);
                            return;
                        }
                    },
                    Some(chunk) = chunks.recv() => self.chunk(&chunk),
                }
            }
        });
    }

    /// Writes the output that is under way now. What comes meanwhile has to wait: a child that never pauses would keep all
    /// lines back.
    fn drain(&mut self, chunks: &mut Receiver<Chunk>) {
        for _ in 0..chunks.len() {
            let Ok(chunk) = chunks.try_recv() else { return };
            self.chunk(&chunk);
        }
    }

    fn line(&mut self, text: &str) {
        self.erase();
        let open = if self.at_line_start { "" } else { "\r\n" };
        // Only a terminal has a carriage to return.
        let open = if self.has_status { open } else { open.trim_start_matches('\r') };
        // If nobody reads this any more, the work is still done.
        drop(writeln!(io::stderr(), "{open}{text}"));
        self.at_line_start = true;
        self.draw();
    }

    fn chunk(&mut self, chunk: &Chunk) {
        self.erase();
        let written = match chunk.stream {
            Stream::Stdout => put(io::stdout().lock(), chunk, self.is_shared),
            Stream::Stderr => put(io::stderr().lock(), chunk, self.is_shared),
        };
        drop(written);
        if chunk.stream == Stream::Stderr || self.is_one_terminal {
            let last = chunk.bytes.last();
            self.at_line_start = last == Some(&b'\n') || (self.is_shared && last != Some(&b'\r'));
        }
        self.draw();
    }

    /// Takes the status away, so that something else can be written in its place.
    fn erase(&self) {
        if self.has_status && self.at_line_start {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }

    fn draw(&mut self) {
        if self.has_title && self.at_line_start {
            // It would go on to tell of a moment that is long over.
            self.has_title = false;
            drop(write!(io::stderr(), "\x1b]2;\x07"));
        }
        if !self.has_status || self.status.is_empty() {
            return;
        }
        let columns = terminal::columns(&io::stderr()).unwrap_or(80);
        let text = cut(&self.status, columns.saturating_sub(1));
        // Where a child is in the middle of a line (a progress bar, a prompt) only the title of the window is ours.
        self.has_title = !self.at_line_start;
        drop(if self.at_line_start {
            write!(io::stderr(), "{text}")
        } else {
            write!(io::stderr(), "\x1b]2;{text}\x07")
        });
    }
}

/// Writes a piece of output. With several children at work each line begins with the number of its slot, and one that has no
/// end gets one: what comes next may be somebody else's.
fn put(mut out: impl Write, chunk: &Chunk, is_shared: bool) -> io::Result<()> {
    if is_shared {
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

    /// A terminal that was stopped while there was much to tell.
    #[tokio::test]
    async fn a_screen_that_takes_nothing_any_more_does_not_hold_up_the_end() {
        let (chunks, _chunks_in) = mpsc::channel(1);
        let (papers, _papers_in) = mpsc::channel(1);
        let (_never, stuck) = std::sync::mpsc::channel::<()>();
        let thread = Some(std::thread::spawn(move || _ = stuck.recv()));
        let screen = Screen { chunks, papers, thread };
        screen.board().line("the last that fits".to_owned(), false);
        let closed = tokio::time::timeout(2 * LAST_LINES, screen.close()).await;
        assert!(closed.is_ok(), "the end waits for the screen");
    }
}
