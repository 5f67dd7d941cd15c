//! Sends what a run prints. Whoever reads the output of the command only puts it into a buffer, which never waits; a task per run sends
//! from there. So no server, however slow, slows the command or its log (docs/decisions/0051). The buffer drops what does not fit
//! and counts it.

mod line_state;
mod sender;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::line_state::partial_bytes;

/// The part of the output of a run that is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutput {
    Off,
    On,
    /// The first so many bytes, and a line that says so.
    First(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Also all output on a terminal.
    Stdout,
    /// Also the worker's own messages about the output.
    Stderr,
}

/// The buffers of runs that are over, in KiB.
const LATE_KIB: usize = 16 * 1024;

/// The senders of a worker.
pub(crate) struct LateOutput {
    senders: Mutex<JoinSet<()>>,
    /// The time at which they have to end.
    deadline: watch::Sender<Option<Instant>>,
    /// For each KiB of runs that are over.
    room: Semaphore,
}

impl LateOutput {
    pub(crate) fn new() -> Self {
        let (senders, deadline) = (Mutex::default(), watch::Sender::new(None));
        Self { senders, deadline, room: Semaphore::new(LATE_KIB) }
    }
}

/// Takes what a run prints. When the last clone is dropped, the output has ended.
#[derive(Clone, Debug)]
pub struct RunOutput(Option<Arc<OutputFeed>>);

impl RunOutput {
    /// Sends nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Never waits. What cannot be sent in time is left out.
    pub fn print(&self, stream: Stream, bytes: &[u8]) {
        if let Some(feed) = &self.0 {
            feed.0.print(stream, bytes);
        }
    }
}

/// Ends the output when it is dropped.
#[derive(Debug)]
struct OutputFeed(Arc<SharedOutput>);

impl Drop for OutputFeed {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.buffer.end();
        state.is_ended = true;
        drop(state);
        self.0.ended.notify_one();
    }
}

/// The output that the one who prints and the one who sends share.
#[derive(Debug)]
struct SharedOutput {
    state: Mutex<OutputState>,
    printed: Notify,
    ended: Notify,
}

#[derive(Debug)]
struct OutputState {
    buffer: OutputBuffer,
    is_ended: bool,
    /// No more is to be sent.
    is_ignored: bool,
}

impl SharedOutput {
    fn new(send: SendOutput, buffer_bytes: usize) -> Arc<Self> {
        let buffer = OutputBuffer::new(buffer_bytes, matches!(send, SendOutput::First(_)));
        let state = OutputState { buffer, is_ended: false, is_ignored: false };
        Arc::new(Self { state: Mutex::new(state), printed: Notify::new(), ended: Notify::new() })
    }

    fn print(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state.lock();
        if !state.is_ignored {
            state.buffer.push(stream, bytes);
            drop(state);
            self.printed.notify_one();
        }
    }

    /// Waits until there is something to send.
    async fn printed(&self) {
        while self.state.lock().buffer.bytes.is_empty() {
            self.printed.notified().await;
        }
    }

    async fn ended(&self) {
        while !self.state.lock().is_ended {
            self.ended.notified().await;
        }
    }
}

#[derive(Debug)]
pub(super) struct OutputBuffer {
    pub(super) bytes: VecDeque<u8>,
    most_bytes: usize,
    /// The first bytes are wanted, and not the last.
    keeps_first: bool,
    /// The number of bytes that are missing before those that are taken next, since the last time that this was asked.
    pub(super) dropped: u64,
    /// The number of those that were dropped behind those that are there.
    dropped_behind: u64,
    /// The beginning of a character, by stream: other output may come before the rest of it.
    partial: [Vec<u8>; 2],
}

impl OutputBuffer {
    pub(super) fn new(most_bytes: usize, keeps_first: bool) -> Self {
        let (bytes, partial) = (VecDeque::new(), Default::default());
        Self { bytes, most_bytes, keeps_first, dropped: 0, dropped_behind: 0, partial }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let partial = std::mem::take(&mut self.partial[stream as usize]);
        let joined = if partial.is_empty() { None } else { Some([&partial, bytes].concat()) };
        let bytes = joined.as_deref().unwrap_or(bytes);
        let (whole, rest) = bytes.split_at(bytes.len() - partial_bytes(bytes));
        self.partial[stream as usize] = rest.to_vec();
        self.add(whole);
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.keeps_first {
            return self.add_behind(bytes);
        }
        let kept = &bytes[bytes.len().saturating_sub(self.most_bytes)..];
        let excess = (self.bytes.len() + kept.len()).saturating_sub(self.most_bytes);
        self.dropped += (excess + bytes.len() - kept.len()) as u64;
        self.bytes.drain(..excess);
        self.bytes.extend(kept);
    }

    /// Drops what does not fit. What comes behind a gap is added when everything before it was taken.
    fn add_behind(&mut self, bytes: &[u8]) {
        let room = if self.dropped_behind > 0 { 0 } else { self.most_bytes - self.bytes.len() };
        let (kept, excess) = bytes.split_at(bytes.len().min(room));
        self.bytes.extend(kept);
        self.dropped_behind += excess.len() as u64;
    }

    /// Keeps no more than so many of the bytes that are there.
    pub(super) fn shrink(&mut self, most_bytes: usize) {
        let excess = self.bytes.len().saturating_sub(most_bytes);
        if self.keeps_first {
            self.bytes.truncate(most_bytes);
            self.dropped_behind += excess as u64;
        } else {
            self.bytes.drain(..excess);
            self.dropped += excess as u64;
        }
        self.bytes.shrink_to_fit();
    }

    /// Ends the output: no more bytes come.
    pub(super) fn end(&mut self) {
        std::mem::take(&mut self.partial).iter().for_each(|partial| self.add(partial));
    }

    /// Returns the number of missing bytes, and forgets them. What begins in the middle of a character is missing too.
    pub(super) fn take_dropped(&mut self) -> u64 {
        if self.dropped > 0 {
            let cut = self.bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
            self.bytes.drain(..cut);
            self.dropped += cut as u64;
        }
        std::mem::take(&mut self.dropped)
    }

    /// Takes the oldest bytes, at most so many.
    pub(super) fn take(&mut self, most: usize) -> Vec<u8> {
        let taken = self.bytes.drain(..self.bytes.len().min(most)).collect();
        if self.bytes.is_empty() {
            // Of a run that prints nothing for hours.
            self.bytes = VecDeque::new();
            self.dropped += std::mem::take(&mut self.dropped_behind);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_the_others_counted() {
        let mut buffer = OutputBuffer::new(10, false);
        buffer.push(Stream::Stdout, b"0123456");
        assert_eq!((buffer.dropped, buffer.bytes.len()), (0, 7));
        buffer.push(Stream::Stderr, b"789ab");
        assert_eq!((buffer.take_dropped(), buffer.take(4)), (2, b"2345".to_vec()));
        buffer.push(Stream::Stdout, &[b'x'; 1000]);
        assert_eq!((buffer.take_dropped(), buffer.take(100)), (6 + 990, vec![b'x'; 10]));
        assert_eq!((buffer.take_dropped(), buffer.bytes.len()), (0, 0));
    }

    #[test]
    fn a_character_that_was_cut_comes_whole_even_if_something_came_between() {
        let mut buffer = OutputBuffer::new(100, false);
        buffer.push(Stream::Stdout, b"a\xe2");
        buffer.push(Stream::Stderr, b"warning\n");
        buffer.push(Stream::Stdout, b"\x82");
        buffer.push(Stream::Stdout, b"\xacb\xf0");
        assert_eq!(buffer.take(100), "awarning\n€b".as_bytes());
        buffer.end();
        assert_eq!(buffer.take(100), b"\xf0");
    }

    #[test]
    fn what_is_left_of_a_character_is_dropped_with_the_rest_of_it() {
        let mut buffer = OutputBuffer::new(4, false);
        buffer.push(Stream::Stdout, "x€yz".as_bytes());
        assert_eq!((buffer.take_dropped(), buffer.take(9)), (4, b"yz".to_vec()));
    }

    #[test]
    fn the_first_bytes_are_kept_if_they_are_wanted_and_the_gap_comes_behind_them() {
        let mut buffer = OutputBuffer::new(4, true);
        buffer.push(Stream::Stdout, b"01");
        buffer.push(Stream::Stdout, b"23456");
        buffer.push(Stream::Stdout, b"7");
        assert_eq!((buffer.take_dropped(), buffer.take(3)), (0, b"012".to_vec()));
        buffer.push(Stream::Stdout, b"8");
        assert_eq!((buffer.take_dropped(), buffer.take(3)), (0, b"3".to_vec()));
        buffer.push(Stream::Stdout, b"9");
        assert_eq!((buffer.take_dropped(), buffer.take(3)), (5, b"9".to_vec()));
    }

    #[test]
    fn a_buffer_that_shrinks_counts_what_it_loses() {
        for (keeps_first, left, dropped) in [(false, b"cd", (2, 0)), (true, b"ab", (0, 2))] {
            let mut buffer = OutputBuffer::new(100, keeps_first);
            buffer.push(Stream::Stdout, b"abcd");
            buffer.shrink(2);
            let before = buffer.take_dropped();
            assert_eq!((buffer.take(9), (before, buffer.take_dropped())), (left.to_vec(), dropped));
        }
    }
}
