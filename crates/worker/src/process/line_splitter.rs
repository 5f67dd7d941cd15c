//! Cuts a stream at the ends of lines, so that the output of several children does not tear lines apart.

/// Longer lines are cut.
const LINE_BYTES: usize = 64 * 1024;

/// The line that has not ended yet.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    open: Vec<u8>,
}

impl LineSplitter {
    /// Takes what came and gives what is whole, which may be nothing. Of a progress bar, which only ever returns the
    /// carriage, each state counts as whole: it would be seen minutes late otherwise.
    pub(crate) fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.open.extend_from_slice(bytes);
        let line_end = self.open.iter().rposition(|byte| *byte == b'\n');
        // A return at the very end may be the first half of the end of a line.
        let within = &self.open[..self.open.len().saturating_sub(1)];
        let end = line_end.or_else(|| within.iter().rposition(|byte| *byte == b'\r')).map_or(0, |end| end + 1);
        let rest = self.open.split_off(end);
        let mut whole = std::mem::replace(&mut self.open, rest);
        if self.open.len() >= LINE_BYTES {
            whole.append(&mut self.open);
        }
        whole
    }

    /// What is left when the stream has ended.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_given() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.whole(b"one\ntwo\nth"), b"one\ntwo\n");
        assert_eq!(lines.whole(b"re"), b"");
        assert_eq!(lines.whole(b"e\n"), b"three\n");
        assert_eq!(lines.whole(b"four"), b"");
        assert_eq!(lines.rest(), b"four");
        assert_eq!(lines.rest(), b"");
    }

    #[test]
    fn a_line_that_does_not_end_is_cut() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.whole(&vec![b'x'; LINE_BYTES - 1]), b"");
        assert_eq!(lines.whole(b"xy").len(), LINE_BYTES + 1);
        assert_eq!(lines.rest(), b"");
    }

    #[test]
    fn progress_bars_move() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.whole(b"\r10%"), b"\r");
        assert_eq!(lines.whole(b"\r20%\r"), b"10%\r");
        assert_eq!(lines.whole(b"\n"), b"20%\r\n");
    }
}
