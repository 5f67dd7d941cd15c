//! How far the output of a task was read, and what the next answer means for it. `taskqueue top` reads in the same way. Pure.

use taskqueue_client::Output;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Everything before it was read or is not kept.
    pub(crate) offset: u64,
    /// The attempt whose output is read; nothing before the first answer.
    attempt: Option<i64>,
    has_ended: bool,
}

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

    /// Whether the run was over when it was read last.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The same output is of another run, as the task says.
    pub(crate) fn restart(&mut self) {
        *self = Self::default();
    }
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
}
