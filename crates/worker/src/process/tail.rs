//! The last bytes of a command's output, as text for the report of a failure.

use taskqueue_core::terminal::{Cell, LineReader, LineSink};

/// Enough for a long stack trace.
pub(crate) const TAIL_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Up to twice `TAIL_BYTES`, so that old bytes are removed seldom.
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let fresh = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        self.is_cut |= fresh.len() < bytes.len();
        self.bytes.extend_from_slice(fresh);
        if self.bytes.len() > 2 * TAIL_BYTES {
            self.bytes.drain(..self.bytes.len() - TAIL_BYTES);
            self.is_cut = true;
        }
    }

    pub(crate) fn raw(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(TAIL_BYTES)..]
    }

    /// Readable text: whole lines where possible, without terminal control sequences, and with the last state of a progress bar.
    pub(crate) fn text(&self) -> String {
        let raw = self.raw();
        let is_cut = self.is_cut || raw.len() < self.bytes.len();
        let line_start = raw.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let whole = match line_start {
            Some(start) if is_cut && start < raw.len() => &raw[start..],
            _ => raw,
        };
        let (mut reader, mut lines) = (LineReader::new(TAIL_BYTES), PlainLines::default());
        reader.read(&String::from_utf8_lossy(whole), &mut lines);
        lines.add(reader.line());
        lines.0
    }
}

/// Lines without colours and control characters.
#[derive(Default)]
struct PlainLines(String);

impl PlainLines {
    fn add(&mut self, line: &[Cell<()>]) {
        self.0.extend(line.iter().map(|cell| cell.character));
    }
}

impl LineSink for PlainLines {
    type Look = ();

    fn look(&self) {}

    fn change_look(&mut self, _parameters: &str) {}

    fn end_line(&mut self, line: &[Cell<()>], is_too_long: bool) {
        self.add(line);
        self.0.push_str(if is_too_long { "" } else { "\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(bytes: &[u8]) -> String {
        let mut tail = Tail::default();
        bytes.chunks(1000).for_each(|chunk| tail.push(chunk));
        tail.text()
    }

    #[test]
    fn a_short_text_is_kept_as_it_is() {
        assert_eq!(tail(b"one\n\ttwo\n"), "one\n\ttwo\n");
        assert_eq!(tail(b""), "");
    }

    #[test]
    fn a_long_text_begins_with_a_whole_line() {
        let text: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        let kept = tail(text.as_bytes());
        assert!(kept.starts_with("line ") && kept.ends_with("line 9999\n"), "{kept}");
        assert!(kept.len() <= TAIL_BYTES && kept.len() > TAIL_BYTES - 20);

        let mut at_once = Tail::default();
        at_once.push(text.as_bytes());
        assert_eq!(at_once.text(), kept);
    }

    #[test]
    fn one_endless_line_is_cut_anywhere() {
        assert_eq!(tail(&[b'x'; 100_000]), "x".repeat(TAIL_BYTES));
    }

    #[test]
    fn what_is_no_text_is_left_out_or_replaced() {
        assert_eq!(tail(b"a\0b\x07c\xff\n"), "abc\u{fffd}\n");
        assert_eq!(tail(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;url\x1b\\y\x1bMz"), "red xyz");
        assert_eq!(tail(b"10%\r20%\r30%\r\ndone\r\n"), "30%\ndone\n");
    }
}
