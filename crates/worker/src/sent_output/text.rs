//! The text that is sent of an output, and the offset of each piece in it. No clock and no server: given the time, it says what to send
//! next.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::limits::OUTPUT_TEXT_BYTES;
use tokio::time::Instant;

use super::line_state::LineState;
use super::{SendOutput, SharedOutput};

/// So much of the buffer becomes text at a time.
const STEP_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct OutputText {
    lines: LineState,
    /// The text that is to be sent next, and the number of bytes before it.
    text: String,
    offset: u64,
    /// The number of bytes that are missing because they were printed too fast.
    unsent: u64,
    /// The time at which a line that has not ended was given away last.
    shown_at: Option<Instant>,
    /// A line that changes again and again is sent so seldom.
    rewrite_interval: Duration,
    limit: SizeLimit,
}

/// The limit of what is sent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SizeLimit {
    None,
    /// The number of bytes that are allowed, and of those that are left.
    Left(u64, u64),
    Reached,
}

impl OutputText {
    pub(super) fn new(send: SendOutput, rewrite_interval: Duration) -> Self {
        let limit = match send {
            SendOutput::First(bytes) => SizeLimit::Left(bytes, bytes),
            SendOutput::On | SendOutput::Off => SizeLimit::None,
        };
        Self {
            lines: LineState::default(),
            text: String::new(),
            offset: 0,
            unsent: 0,
            shown_at: None,
            rewrite_interval,
            limit,
        }
    }

    /// Takes from the buffer what is to be sent next, about as much as a request may have.
    pub(super) fn gather(&mut self, shared: &SharedOutput, now: Instant) {
        self.lines.settle();
        while self.text.len() < OUTPUT_TEXT_BYTES && self.limit != SizeLimit::Reached {
            let taken = {
                let mut state = shared.state.lock();
                // What comes behind a gap is another piece.
                let is_before_gap = state.buffer.dropped() > 0 && !(self.text.is_empty() && self.lines.is_shown());
                (!is_before_gap).then(|| (state.buffer.take_dropped(), state.buffer.take(STEP_BYTES), state.is_ended))
            };
            let Some((gap, bytes, is_end)) = taken else {
                let unfinished = self.lines.take_all();
                return self.add(&unfinished);
            };
            if gap > 0 {
                self.skip(gap);
            }
            self.lines.push(&bytes);
            let finished = self.lines.take_finished();
            self.add(&finished);
            if bytes.is_empty() {
                return self.add_unfinished(now, is_end);
            }
        }
    }

    /// The bytes are gone, and everything before them is sent.
    fn skip(&mut self, gap: u64) {
        self.lines = LineState::default();
        self.offset += gap;
        self.unsent += gap;
    }

    /// A line that has not ended is sent as far as it goes. One that changes again and again is sent when it was not for a while.
    fn add_unfinished(&mut self, now: Instant, is_end: bool) {
        if is_end {
            self.lines.end();
        }
        let is_due = is_end || !self.lines.is_rewritten() || self.rewrite_due().is_none_or(|time| now >= time);
        if is_due && !self.lines.is_shown() {
            self.shown_at = Some(now);
            let unfinished = self.lines.take_all();
            self.add(&unfinished);
        }
    }

    fn rewrite_due(&self) -> Option<Instant> {
        self.shown_at.map(|shown_at| shown_at + self.rewrite_interval)
    }

    /// Returns the time at which there is something to send although nothing more is printed.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        if !self.text.is_empty() {
            return Some(now);
        }
        if self.lines.is_shown() { None } else { Some(self.rewrite_due().unwrap_or(now)) }
    }

    fn add(&mut self, text: &str) {
        match &mut self.limit {
            SizeLimit::None => self.text.push_str(text),
            SizeLimit::Reached => {}
            SizeLimit::Left(limit, left) => {
                let room = usize::try_from(*left).unwrap_or(usize::MAX);
                let fitting = &text[..text.floor_char_boundary(room)];
                self.text.push_str(fitting);
                *left -= fitting.len() as u64;
                if fitting.len() < text.len() {
                    let line = format!(
                        "\n[taskqueue: the worker sends {limit} bytes of a run (--send-output); the rest is in its log]\n"
                    );
                    self.text.push_str(&line);
                    self.limit = SizeLimit::Reached;
                }
            }
        }
    }

    /// Returns whether no more may be sent than there is.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.limit == SizeLimit::Reached
    }

    /// Returns the next piece and its offset: at most as much as a request may have.
    pub(super) fn piece(&self) -> Option<(u64, Arc<str>)> {
        let piece = &self.text[..self.text.floor_char_boundary(OUTPUT_TEXT_BYTES)];
        (!piece.is_empty()).then(|| (self.offset, piece.into()))
    }

    /// So many bytes of it have arrived.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        if bytes == self.text.len() {
            self.text = String::new();
        } else {
            self.text.drain(..bytes);
        }
    }

    /// Gives up. Returns how many bytes are missing.
    pub(super) fn give_up(&mut self, shared: &SharedOutput) -> u64 {
        let mut state = shared.state.lock();
        state.is_ignored = true;
        let waiting = state.buffer.take(usize::MAX).len() as u64 + state.buffer.take_dropped();
        drop(state);
        if self.is_limit_reached() {
            0
        } else {
            self.unsent + waiting + (self.text.len() + self.lines.take_all().len()) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OutputFeed, RunOutput};
    use super::*;
    use crate::sent_output::Stream;

    const REWRITE: Duration = Duration::from_secs(5);

    /// An output of which the sent pieces are recorded.
    struct Trial {
        output: Option<RunOutput>,
        shared: Arc<SharedOutput>,
        text: OutputText,
        now: Instant,
    }

    impl Trial {
        fn new(send: SendOutput, buffer_bytes: usize) -> Self {
            let shared = SharedOutput::new(send, buffer_bytes);
            let output = Some(RunOutput(Some(Arc::new(OutputFeed(Arc::clone(&shared))))));
            Self { output, shared, text: OutputText::new(send, REWRITE), now: Instant::now() }
        }

        fn print(&self, bytes: impl AsRef<[u8]>) {
            self.output.as_ref().unwrap().print(Stream::Stdout, bytes.as_ref());
        }

        /// Returns what is sent now, a second later.
        fn next(&mut self) -> Option<(u64, String)> {
            self.now += Duration::from_secs(1);
            self.text.gather(&self.shared, self.now);
            let (offset, text) = self.text.piece()?;
            self.text.sent(text.len());
            Some((offset, text.to_string()))
        }

        fn end(&mut self) {
            self.output = None;
        }
    }

    fn piece(offset: u64, text: &str) -> Option<(u64, String)> {
        Some((offset, text.to_owned()))
    }

    #[test]
    fn lines_are_sent_with_the_bytes_before_them() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        assert_eq!(trial.next(), None);
        trial.print("one\ntwo\n");
        assert_eq!(trial.next(), piece(0, "one\ntwo\n"));
        trial.print("grüße\nname: ");
        assert_eq!(trial.next(), piece(8, "grüße\nname: "));
        assert_eq!(trial.next(), None);
        trial.print("x");
        trial.end();
        assert_eq!(trial.next(), piece(22, "x"));
        assert_eq!(trial.text.next_look(trial.now), None);
        assert_eq!(trial.text.give_up(&trial.shared), 0);
    }

    #[test]
    fn bytes_that_are_no_text_count_as_what_is_sent_for_them() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        trial.print(b"a\xff\n");
        assert_eq!(trial.next(), piece(0, "a\u{fffd}\n"));
        trial.print(b"b\xe2\x82");
        assert_eq!(trial.next(), piece(5, "b"));
        trial.end();
        assert_eq!(trial.next(), piece(6, "\u{fffd}"));
    }

    #[test]
    fn a_bar_is_sent_every_five_seconds_and_at_its_end() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        let mut sent = Vec::new();
        for second in 0..12 {
            (0..10).for_each(|tenth| trial.print(format!("\r{second}.{tenth}")));
            sent.extend(trial.next().map(|(_, text)| (second, text)));
        }
        trial.print("\rdone\nnext\n");
        sent.extend(trial.next().map(|(_, text)| (12, text)));
        let expected = [(0, "0.9"), (5, "\r5.9"), (10, "\r10.9"), (12, "\rdone\nnext\n")];
        assert_eq!(sent, expected.map(|(second, text)| (second, text.to_owned())));
    }

    #[test]
    fn a_bar_that_stands_still_is_looked_at_again() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        trial.print("10%");
        assert_eq!(trial.next(), piece(0, "10%"));
        trial.print("\r20%");
        assert_eq!(trial.next(), None);
        let look = trial.text.next_look(trial.now).unwrap();
        assert_eq!(look, trial.now + Duration::from_secs(4));
        trial.now = look - Duration::from_secs(1);
        assert_eq!(trial.next(), piece(3, "\r20%"));
        assert_eq!(trial.text.next_look(trial.now), None);
    }

    #[test]
    fn what_is_printed_too_fast_is_a_gap_and_its_end_is_sent() {
        let mut trial = Trial::new(SendOutput::On, 100_000);
        trial.print("begin\nhalf");
        assert_eq!(trial.next(), piece(0, "begin\nhalf"));
        trial.print(vec![b'x'; 1_000_000]);
        trial.print("\nend\n");
        trial.end();
        let (offset, first) = trial.next().unwrap();
        let gap = 1_000_000 + 5 - 100_000;
        assert_eq!((offset, first.len()), (10 + gap, OUTPUT_TEXT_BYTES));
        let (offset, rest) = trial.next().unwrap();
        assert_eq!(offset, 10 + gap + OUTPUT_TEXT_BYTES as u64);
        assert!(rest.ends_with("xxx\nend\n") && first.len() + rest.len() == 100_000, "{}", rest.len());
        assert_eq!((trial.next(), trial.text.give_up(&trial.shared)), (None, gap));
    }

    #[test]
    fn a_gap_behind_something_that_is_not_sent_yet_is_another_piece() {
        let mut trial = Trial::new(SendOutput::On, 10);
        trial.print("one\n");
        trial.text.gather(&trial.shared, trial.now);
        trial.print("0123456789abcde\n");
        assert_eq!(trial.next(), piece(0, "one\n"));
        assert_eq!(trial.next(), piece(10, "6789abcde\n"));
    }

    #[test]
    fn at_the_limit_a_line_says_so_and_nothing_more_is_sent() {
        let mut trial = Trial::new(SendOutput::First(7), 1000);
        trial.print("one\n");
        assert_eq!(trial.next(), piece(0, "one\n"));
        trial.print("zwöo\nthree\n");
        let (offset, text) = trial.next().unwrap();
        assert!(offset == 4 && text.starts_with("zw\n[taskqueue: the worker sends 7 bytes"), "{text}");
        trial.print("four\n");
        assert_eq!((trial.next(), trial.text.is_limit_reached()), (None, true));
        assert_eq!(trial.text.give_up(&trial.shared), 0, "that is what was wanted");
        let mut exact = Trial::new(SendOutput::First(4), 1000);
        exact.print("one\n");
        assert_eq!((exact.next(), exact.next()), (piece(0, "one\n"), None));
    }

    #[test]
    fn the_first_bytes_are_sent_however_fast_more_is_printed() {
        let mut trial = Trial::new(SendOutput::First(7), 10);
        trial.print("one\ntwo\n");
        trial.print("x".repeat(1000));
        let (offset, text) = trial.next().unwrap();
        assert!(offset == 0 && text.starts_with("one\ntwo\n[taskqueue: "), "{text}");
        let mut more = Trial::new(SendOutput::First(12), 10);
        more.print("0123456789abc\n");
        assert_eq!(more.next(), piece(0, "0123456789"));
        more.print("d\n");
        more.end();
        let (offset, text) = more.next().unwrap();
        assert!(offset == 14 && text == "d\n", "{text}");
    }

    #[test]
    fn what_could_not_be_sent_is_counted() {
        let mut trial = Trial::new(SendOutput::On, 10);
        trial.print("0123456789abcdef");
        trial.text.gather(&trial.shared, trial.now);
        trial.print("more");
        assert_eq!(trial.text.give_up(&trial.shared), 20);
        trial.print("ignored");
        assert_eq!(trial.text.give_up(&trial.shared), 6 + 10);
    }
}
