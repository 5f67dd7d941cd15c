//! What a run has printed and what is not sent yet: the last bytes of it, or the first. Adding to it never waits and never fails; if nobody
//! takes anything, the oldest bytes (or the newest) are dropped and counted.

use std::collections::VecDeque;

use super::line_state::partial_bytes;
use crate::process::Stream;

#[derive(Debug)]
pub(super) struct Buffer {
    bytes: VecDeque<u8>,
    most_bytes: usize,
    /// Whether the first bytes are wanted, and not the last.
    keeps_first: bool,
    /// How many bytes were dropped since the last time that this was asked.
    dropped: u64,
    /// How many were dropped behind those that are there.
    dropped_behind: u64,
    /// The beginning of a character, by stream: other output may come before the rest of it.
    partial: [Vec<u8>; 2],
}

impl Buffer {
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

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        for partial in std::mem::take(&mut self.partial) {
            self.add(&partial);
        }
    }

    /// How many bytes are missing before those that are taken next.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The same, and forgets them. What begins in the middle of a character is missing too.
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

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_the_others_counted() {
        let mut buffer = Buffer::new(10, false);
        buffer.push(Stream::Stdout, b"0123456");
        assert_eq!((buffer.dropped(), buffer.len()), (0, 7));
        buffer.push(Stream::Stderr, b"789ab");
        assert_eq!((buffer.take_dropped(), buffer.take(4)), (2, b"2345".to_vec()));
        buffer.push(Stream::Stdout, &[b'x'; 1000]);
        assert_eq!((buffer.take_dropped(), buffer.take(100)), (6 + 990, vec![b'x'; 10]));
        assert_eq!((buffer.take_dropped(), buffer.len()), (0, 0));
    }

    #[test]
    fn a_character_that_was_cut_comes_whole_even_if_something_came_between() {
        let mut buffer = Buffer::new(100, false);
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
        let mut buffer = Buffer::new(4, false);
        buffer.push(Stream::Stdout, "x€yz".as_bytes());
        assert_eq!((buffer.take_dropped(), buffer.take(9)), (4, b"yz".to_vec()));
    }
    #[test]
    fn the_first_bytes_are_kept_if_they_are_wanted_and_the_gap_comes_behind_them() {
        let mut buffer = Buffer::new(4, true);
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
            let mut buffer = Buffer::new(100, keeps_first);
            buffer.push(Stream::Stdout, b"abcd");
            buffer.shrink(2);
            let before = buffer.take_dropped();
            assert_eq!((buffer.take(9), (before, buffer.take_dropped())), (left.to_vec(), dropped));
        }
    }
}
