//! Pieces of the output of a task: how far it was read, which `taskqueue top` asks, too, and the last lines of it. Pure.

use taskqueue_client::Output;

/// The place up to which the output of a task was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Everything before it was read or is not kept.
    pub(crate) offset: u64,
    /// The attempt whose output is read; nothing before the first answer.
    attempt: Option<i64>,
    /// Whether the run was over when it was read last.
    pub(crate) has_ended: bool,
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The text comes next.
    Next {
        /// So many bytes before it are not there.
        missing: u64,
        /// Whether they are the first of the run: pushed out, and nothing that a reader has seen.
        is_first: bool,
    },
    /// It is the output of another run, which is to be read from its beginning.
    AnotherRun,
}

impl Cursor {
    /// Takes the next answer, and returns what it means.
    pub(crate) fn accept(&mut self, output: &Output) -> Step {
        let is_other_attempt = self.attempt.is_some_and(|attempt| attempt != output.attempt);
        // After a requeue attempts are counted anew. No run prints less than it had, and none goes on after its end.
        let is_other_run = output.end < self.offset || (self.has_ended && !output.ended);
        if is_other_attempt || is_other_run {
            *self = Self { attempt: Some(output.attempt), ..Self::default() };
            return Step::AnotherRun;
        }
        let step = Step::Next { missing: output.start.saturating_sub(self.offset), is_first: self.offset == 0 };
        *self = Self { offset: output.end, attempt: Some(output.attempt), has_ended: output.ended };
        step
    }
}

/// Leaves the last lines; the end of the text may be a line without an end. Returns whether something was left out.
pub(super) fn keep_last_lines(pieces: &mut Vec<Output>, lines: usize) -> bool {
    pieces.retain(|piece| !piece.text.is_empty());
    let Some(last) = pieces.len().checked_sub(1) else { return false };
    if lines == 0 {
        pieces.clear();
        return true;
    }
    let mut seen = 0;
    for index in (0..=last).rev() {
        let text = &pieces[index].text;
        let is_final = |at: usize| index == last && at + 1 == text.len();
        for (at, _) in text.rmatch_indices('\n').filter(|(at, _)| !is_final(*at)) {
            seen += 1;
            if seen == lines {
                let rest = text[at + 1..].to_owned();
                pieces.drain(..index);
                pieces[0].start = pieces[0].end - rest.len() as u64;
                pieces[0].text = rest;
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(attempt: i64, start: u64, text: &str, ended: bool) -> Output {
        Output { attempt, start, end: start + text.len() as u64, text: text.to_owned(), ended }
    }

    #[test]
    fn what_is_missing_is_counted_and_what_was_pushed_out_is_told_apart() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.accept(&answer(1, 100, "abc", false)), Step::Next { missing: 100, is_first: true });
        assert_eq!(cursor.offset, 103);
        assert_eq!(cursor.accept(&answer(1, 103, "de", false)), Step::Next { missing: 0, is_first: false });
        assert_eq!(cursor.accept(&answer(1, 110, "x", false)), Step::Next { missing: 5, is_first: false });
        assert_eq!(cursor.accept(&answer(1, 111, "", true)), Step::Next { missing: 0, is_first: false });
    }

    #[test]
    fn another_run_is_read_from_its_beginning() {
        let read = || {
            let mut cursor = Cursor::default();
            cursor.accept(&answer(1, 0, "0123456789", false));
            cursor
        };
        let mut retried = read();
        assert_eq!(retried.accept(&answer(2, 10, "more", false)), Step::AnotherRun);
        assert_eq!(retried.accept(&answer(2, 0, "first", false)), Step::Next { missing: 0, is_first: true });
        let mut shorter = read();
        assert_eq!(shorter.accept(&answer(1, 4, "", false)), Step::AnotherRun, "requeued: the first attempt again");
        assert_eq!(shorter.offset, 0);
        let mut longer = read();
        longer.accept(&answer(1, 10, "", true));
        assert_eq!(longer.accept(&answer(1, 10, "late", true)), Step::Next { missing: 0, is_first: false });
        assert_eq!(longer.accept(&answer(1, 14, "new", false)), Step::AnotherRun, "the run had ended");
    }

    fn tail(texts: &[&str], lines: usize) -> (String, u64, bool) {
        let mut pieces = Vec::new();
        let mut start = 100;
        for text in texts {
            let end = start + text.len() as u64;
            pieces.push(Output { attempt: 1, start, end, text: (*text).to_owned(), ended: true });
            start = end;
        }
        let is_cut = keep_last_lines(&mut pieces, lines);
        let start = pieces.first().map_or(start, |piece| piece.start);
        (pieces.iter().map(|piece| piece.text.as_str()).collect(), start, is_cut)
    }

    #[test]
    fn the_last_lines_stay_wherever_the_pieces_are_cut() {
        let whole = "one\ntwo\nthree\n";
        for at in 0..=whole.len() {
            let pieces = [&whole[..at], &whole[at..]];
            assert_eq!(tail(&pieces, 2), ("two\nthree\n".to_owned(), 104, true), "{pieces:?}");
            assert_eq!(tail(&pieces, 3), (whole.to_owned(), 100, false), "{pieces:?}");
            assert_eq!(tail(&pieces, 1), ("three\n".to_owned(), 108, true), "{pieces:?}");
        }
        assert_eq!(tail(&["a\nb"], 1), ("b".to_owned(), 102, true));
        assert_eq!(tail(&["a\n\n"], 1), ("\n".to_owned(), 102, true));
        assert_eq!(tail(&["a\n"], 0), (String::new(), 102, true));
        assert_eq!(tail(&[], 5), (String::new(), 100, false));
        assert_eq!(tail(&["a\n"], usize::MAX), ("a\n".to_owned(), 100, false));
    }
}
