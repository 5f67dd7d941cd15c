//! Splits a stream at the ends of lines, so that the output of several commands is not mixed within a line. What a carriage return
//! overwrites is left out: a progress bar is the line that is there at its end.

/// Longer lines are split.
const LINE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The line that has not ended yet.
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Adds bytes and returns the complete lines, possibly none.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.partial.extend_from_slice(bytes);
        let end = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.partial.split_off(end);
        let ended = std::mem::replace(&mut self.partial, rest);
        let mut complete = Vec::with_capacity(ended.len());
        for line in ended.split_inclusive(|byte| *byte == b'\n') {
            complete.extend_from_slice(shown(line.strip_suffix(b"\n").unwrap_or(line)));
            complete.push(b'\n');
        }
        let overwritten = self.partial.len() - not_overwritten(&self.partial).len();
        self.partial.drain(..overwritten);
        if self.partial.len() >= LINE_BYTES {
            complete.append(&mut self.partial);
        }
        complete
    }

    /// The last line, when the stream has ended without a line end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        shown(&std::mem::take(&mut self.partial)).to_vec()
    }
}

/// The end of a line that nothing overwrites. A carriage return at its end may be the first half of CR LF, or more may follow.
fn not_overwritten(line: &[u8]) -> &[u8] {
    let start = shown_end(line);
    line[..start].iter().rposition(|byte| *byte == b'\r').map_or(line, |at| &line[at + 1..])
}

/// What is to be seen of a line.
fn shown(line: &[u8]) -> &[u8] {
    let last = not_overwritten(line);
    &last[..shown_end(last)]
}

/// Where the carriage returns at the end of a line begin.
fn shown_end(line: &[u8]) -> usize {
    line.iter().rposition(|byte| *byte != b'\r').map_or(0, |at| at + 1)
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
    fn a_progress_bar_is_one_line() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"\r10%"), b"");
        assert_eq!(lines.push(b"\r20%\r"), b"");
        assert_eq!(lines.partial, b"20%\r", "of what is overwritten nothing is kept");
        assert_eq!(lines.push(b"\nnext\r\n\r\n"), b"20%\nnext\n\n");
        assert_eq!(lines.push(b"30%\r40%\r\rdone\n50%\r60%\r"), b"done\n");
        assert_eq!(lines.rest(), b"60%", "also one that never ends");
    }

    #[test]
    fn a_bar_that_is_wiped_away_leaves_no_line() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.push(b"\r99%\r   \r"), b"");
        assert_eq!(lines.push(b"saved\n"), b"saved\n");
        assert_eq!(lines.push(b"\r"), b"");
        assert_eq!(lines.rest(), b"");
    }
}
