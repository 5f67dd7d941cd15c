//! Where the output of a child goes: to its log, to the relay, and its end into the report of a failure. Reading follows
//! writing, so a child that speaks faster than log and relay can take is held back, and memory stays as it is.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::line_splitter::LineSplitter;
use super::log::Log;
use super::tail::Tail;
use super::terminal::{Window, WindowSize};

/// What a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// How long the rest of the output may take when the run has ended. What is in the pipes is there at once: only a relay or a
/// log that hangs, or a process elsewhere that was handed a pipe, needs any time.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// Where the output of a run goes.
#[derive(Debug)]
pub struct Output {
    /// The file that keeps it. It and its folder are created with the first byte.
    pub log: PathBuf,
    /// How much of the beginning the log keeps.
    pub log_cap_bytes: u64,
    /// Where it is relayed to. When nobody receives, it is only kept.
    pub relay: mpsc::Sender<Chunk>,
    /// What the chunks of this run are marked with.
    pub slot: usize,
    /// Whether only whole lines are relayed.
    pub by_line: bool,
    /// The size of the window if the child is to have a terminal.
    pub terminal: Option<watch::Receiver<WindowSize>>,
}

/// A stream of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, and everything from a terminal.
    Stdout,
    /// Standard error, and what the worker has to say about the output.
    Stderr,
}

/// A piece of output. By line, it ends with the end of a line unless the line was too long or the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which child.
    pub slot: usize,
    /// Which stream of it.
    pub stream: Stream,
    /// What was said.
    pub bytes: Vec<u8>,
}

/// Where output is read from.
pub(crate) struct Source {
    receiver: pipe::Receiver,
    is_terminal: bool,
}

impl Source {
    pub(crate) fn pipe(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { receiver: pipe::Receiver::from_owned_fd(file)?, is_terminal: false })
    }

    pub(crate) fn terminal(file: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Self { receiver: pipe::Receiver::from_owned_fd_unchecked(file)?, is_terminal: true })
    }

    async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        bytes.reserve(READ_BYTES);
        match self.receiver.read_buf(bytes).await {
            // So a terminal says that nobody has it open any more.
            Err(error) if self.is_terminal && error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }
}

/// Reads from one source, or never if there is none. Nothing is lost when it is dropped.
async fn read(source: &mut Option<Source>, bytes: &mut Vec<u8>) -> io::Result<usize> {
    match source {
        Some(source) => source.read(bytes).await,
        None => std::future::pending().await,
    }
}

async fn follow(window: &mut Option<Window>) {
    match window {
        Some(window) => window.follow().await,
        None => std::future::pending().await,
    }
}

/// Moves the output of one child.
pub(crate) struct Pump {
    sources: [Option<Source>; 2],
    window: Option<Window>,
    /// Whether the end of the first source, too, belongs into a report: there is no other on a terminal.
    is_terminal: bool,
    tail: Tail,
    /// Nothing while it is written to, and after it has failed.
    log: Option<Log>,
    log_note: Option<String>,
    relay: Option<mpsc::Sender<Chunk>>,
    is_relaying: bool,
    slot: usize,
    lines: Option<[LineSplitter; 2]>,
}

impl Pump {
    pub(crate) fn new(output: Output, sources: [Option<Source>; 2], window: Option<Window>) -> Self {
        Self {
            sources,
            is_terminal: window.is_some(),
            window,
            tail: Tail::default(),
            log: Some(Log::new(output.log, output.log_cap_bytes)),
            log_note: None,
            relay: Some(output.relay),
            is_relaying: false,
            slot: output.slot,
            lines: output.by_line.then(Default::default),
        }
    }

    /// Moves everything until all sources have ended.
    pub(crate) async fn run(&mut self) {
        let mut buffers = [Vec::new(), Vec::new()];
        while self.sources.iter().any(Option::is_some) {
            let [first, second] = &mut self.sources;
            let [first_bytes, second_bytes] = &mut buffers;
            let (stream, read) = tokio::select! {
                read = read(first, first_bytes) => (Stream::Stdout, read),
                read = read(second, second_bytes) => (Stream::Stderr, read),
                () = follow(&mut self.window) => continue,
            };
            // A source that cannot be read has ended as well.
            if !matches!(read, Ok(1..)) {
                self.sources[stream as usize] = None;
                continue;
            }
            let bytes = std::mem::take(&mut buffers[stream as usize]);
            self.take(stream, bytes).await;
        }
        self.relay_rest().await;
    }

    async fn take(&mut self, stream: Stream, bytes: Vec<u8>) {
        if self.is_terminal || stream == Stream::Stderr {
            self.tail.push(&bytes);
        }
        let mut bytes = self.keep(bytes).await;
        if let Some(lines) = &mut self.lines {
            bytes = lines[stream as usize].whole(&bytes);
        }
        self.relay(stream, bytes).await;
    }

    /// Writes to the log, off this thread: a file may be on a disk far away.
    async fn keep(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        match self.log.take() {
            None => bytes,
            Some(mut log) if log.is_full() => {
                log.remember(&bytes);
                self.log = Some(log);
                bytes
            }
            Some(mut log) => {
                let writing = spawn_blocking(move || (log.write(&bytes), log, bytes));
                // Only the end of the runtime can come between.
                let Ok((written, log, bytes)) = writing.await else { return Vec::new() };
                match written {
                    Ok(()) => self.log = Some(log),
                    Err(error) => self.log_failed(&log, &error).await,
                }
                bytes
            }
        }
    }

    async fn log_failed(&mut self, log: &Log, error: &io::Error) {
        let note = format!("{} could not be written: {error}", log.path().display());
        self.relay(Stream::Stderr, format!("taskqueue: {note}\n").into_bytes()).await;
        self.log_note = Some(note);
    }

    async fn relay(&mut self, stream: Stream, mut bytes: Vec<u8>) {
        let Some(relay) = self.relay.as_ref().filter(|_| !bytes.is_empty()) else { return };
        // What waits in the relay should take no more memory than it says.
        bytes.shrink_to_fit();
        self.is_relaying = true;
        let sent = relay.send(Chunk { slot: self.slot, stream, bytes }).await;
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

    /// Ends the log. Gives the end of the output, and what is to be said about the log.
    pub(crate) async fn finish(mut self) -> (String, Option<String>) {
        if self.is_relaying {
            // Nobody reads the relay: a terminal that was stopped, say. The log still gets all of it.
            self.relay = None;
            let _ = timeout(DRAIN_PATIENCE, self.run()).await;
        }
        let _ = timeout(DRAIN_PATIENCE, self.relay_rest()).await;
        let note = match self.log.take() {
            Some(log) if !log.is_full() => None,
            Some(mut log) => {
                let finishing = spawn_blocking(move || log.finish().unwrap_or_else(|error| Some(error.to_string())));
                timeout(DRAIN_PATIENCE, finishing).await.ok().and_then(Result::ok).flatten()
            }
            None => self.log_note.take().or_else(|| Some("the log could not be written in time".to_owned())),
        };
        (self.tail.text(), note)
    }
}

/// Waits until everything is moved, but no longer than is sensible after the end of a run.
pub(crate) async fn drain(running: impl Future<Output = ()>) {
    let _ = timeout(DRAIN_PATIENCE, running).await;
}
