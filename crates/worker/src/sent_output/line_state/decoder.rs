//! UTF-8 that comes in parts: what is no character becomes U+FFFD, a character that was cut in two does not.

#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a character, at most 3 bytes.
    partial: Vec<u8>,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let complete = self.partial.len() - partial_bytes(&self.partial);
        let rest = self.partial.split_off(complete);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// Forgets the beginning of a character that does not come; whether there was one.
    pub(super) fn end(&mut self) -> bool {
        !std::mem::take(&mut self.partial).is_empty()
    }
}

/// How many bytes at the end may be the beginning of a character.
pub(in crate::sent_output) fn partial_bytes(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    for (index, byte) in tail.iter().enumerate().rev() {
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        let there = &tail[index..];
        // One that cannot be completed, such as a surrogate, is not waited for.
        let may_continue = std::str::from_utf8(there).is_err_and(|error| error.error_len().is_none());
        return if there.len() < wanted && may_continue { there.len() } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to cut this into three parts gives the same text.
    #[test]
    fn cuts_change_nothing() {
        let bytes = b"a\xc3\xbc\xe2\x82\xac\xf0\x9f\xa6\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\xe2\x82z\xc0\x80\xf5";
        let expected = String::from_utf8_lossy(bytes).into_owned();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut decoder = Decoder::default();
                let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let text: String = parts.iter().map(|part| decoder.push(part)).collect();
                assert_eq!(text, expected, "{first} {second}");
                assert!(!decoder.end());
            }
        }
    }

    #[test]
    fn half_a_character_is_waited_for() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"x\xe2\x82"), "x");
        assert_eq!(decoder.push(b"\xac"), "€");
        assert_eq!(decoder.push(b"\xf0\x9f"), "");
        assert!(decoder.end());
        assert_eq!(decoder.push(b"y"), "y");
    }
}
