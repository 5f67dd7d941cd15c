//! The last bytes of a command's output, as text for the report of a failure.

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
        let plain = without_sequences(&String::from_utf8_lossy(whole));
        let shown = plain.split('\n').map(|line| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default());
        shown.collect::<Vec<_>>().join("\n")
    }
}

/// Removes control characters other than line ends and tabs, and whole terminal control sequences.
fn without_sequences(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut characters),
            '\n' | '\r' | '\t' => plain.push(character),
            _ if character.is_control() => {}
            _ => plain.push(character),
        }
    }
    plain
}

/// After an escape character: `[`, parameters and one letter; or `]`, anything and a bell or escape; or one character.
fn skip_sequence(characters: &mut std::str::Chars<'_>) {
    let last = match characters.next() {
        Some('[') => characters.find(|character| matches!(character, '\u{40}'..='\u{7e}' | '\n')),
        Some(']') => characters.find(|character| matches!(character, '\u{7}' | '\u{1b}' | '\n')),
        other => other,
    };
    // The terminator `ESC \` has two characters.
    if last == Some('\u{1b}') {
        characters.next();
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
