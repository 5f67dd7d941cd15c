//! Splits a stream at the ends of lines, so that the output of several commands is not mixed within a line.

/// Longer lines are split.
const LINE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The line that has not ended yet.
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Adds bytes and returns the complete lines, possibly none. A progress bar writes only carriage returns; each of its states
    /// counts as a line, because it would be shown minutes late otherwise.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.partial.extend_from_slice(bytes);
        let line_end = self.partial.iter().rposition(|byte| *byte == b'\n');
        // A carriage return at the end may be the first half of CR LF.
        let within = &self.partial[..self.partial.len().saturating_sub(1)];
        let end = line_end.or_else(|| within.iter().rposition(|byte| *byte == b'\r')).map_or(0, |end| end + 1);
        let rest = self.partial.split_off(end);
        let mut complete = std::mem::replace(&mut self.partial, rest);
        if self.partial.len() >= LINE_BYTES {
            complete.append(&mut self.partial);
        }
        complete
    }

    /// The last line, when the stream has ended without a line end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_given() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"one\ntwo\nth"), b"one\ntwo\n");
        assert_eq!(lines.push(b"re"), b"");
        assert_eq!(lines.push(b"e\n"), b"three\n");
        assert_eq!(lines.push(b"four"), b"");
        assert_eq!(lines.rest(), b"four");
        assert_eq!(lines.rest(), b"");
    }

    #[test]
    fn a_line_that_does_not_end_is_cut() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(&vec![b'x'; LINE_BYTES - 1]), b"");
        assert_eq!(lines.push(b"xy").len(), LINE_BYTES + 1);
        assert_eq!(lines.rest(), b"");
    }

    #[test]
    fn progress_bars_move() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"\r10%"), b"\r");
        assert_eq!(lines.push(b"\r20%\r"), b"10%\r");
        assert_eq!(lines.push(b"\n"), b"20%\r\n");
    }
}
