//! JSON strings in canonical form: non-ASCII raw, `"` and `\` after a backslash, characters below U+0020 in short
//! form or as `\u00xx` (docs/reference/http-api.md §6.4). Other escapes of clients are resolved by the parser.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns whether a byte must be escaped: quote, backslash, control character.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The position of the first special byte at or after `from`, or the end. Eight bytes per step: strings are most of a
/// body, and every body, every answer and every filtered row passes here.
pub(super) fn plain_run(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let marks = special_marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !is_special(*byte)) {
        at += 1;
    }
    at
}

/// The high bit of each special byte. A borrow may mark bytes above a special one falsely, so only the lowest mark
/// counts.
fn special_marks(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero_bytes(word ^ (ONES * b'"' as u64));
    let backslash = zero_bytes(word ^ (ONES * b'\\' as u64));
    (control | quote | backslash) & HIGH
}

/// The letters of short escapes, and the bytes that they stand for.
#[rustfmt::skip]
const SHORT_ESCAPES: [(u8, u8); 7] = [
    (b'"', b'"'), (b'\\', b'\\'), (b'b', 0x08), (b'f', 0x0c), (b'n', b'\n'), (b'r', b'\r'), (b't', b'\t'),
];

/// The letter of each byte that has a short escape, 0 for the others: output of a run may hold a special byte in every place.
const LETTERS: [u8; 256] = {
    let (mut letters, mut at) = ([0; 256], 0);
    while at < SHORT_ESCAPES.len() {
        letters[SHORT_ESCAPES[at].1 as usize] = SHORT_ESCAPES[at].0;
        at += 1;
    }
    letters
};

/// The letter of the short escape of a special byte, where it has one.
fn short_escape(byte: u8) -> Option<u8> {
    match LETTERS[usize::from(byte)] {
        0 => None,
        letter => Some(letter),
    }
}

/// The byte that a short escape with this letter stands for.
pub(crate) fn escaped_byte(letter: u8) -> Option<u8> {
    SHORT_ESCAPES.into_iter().find(|(own, _)| *own == letter).map(|(_, escaped)| escaped)
}

/// Appends `text` as a canonical JSON string with its quotes.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut from = 0;
    loop {
        let end = plain_run(bytes, from);
        out.extend_from_slice(&bytes[from..end]);
        let Some(&byte) = bytes.get(end) else { break };
        match short_escape(byte) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
        from = end + 1;
    }
    out.push(b'"');
}

/// How many bytes [`write_string`] appends.
pub fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 2 + bytes.len();
    let mut at = plain_run(bytes, 0);
    while let Some(&byte) = bytes.get(at) {
        len += if short_escape(byte).is_some() { 1 } else { 5 };
        at = plain_run(bytes, at + 1);
    }
    len
}

/// The longest beginning of a text whose characters take at most so many bytes in JSON, without the quotes.
pub fn written_prefix(text: &str, most_bytes: usize) -> &str {
    if string_len(text) - 2 <= most_bytes {
        return text;
    }
    let mut written = 0;
    let end = text.char_indices().find(|(at, character)| {
        written += string_len(&text[*at..*at + character.len_utf8()]) - 2;
        written > most_bytes
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// A string inside canonical text: the text between the quotes, escapes not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonStr<'a>(pub(super) &'a str);

impl<'a> JsonStr<'a> {
    /// Returns whether this is exactly `text`.
    pub fn is(&self, text: &str) -> bool {
        match self.0.len().cmp(&text.len()) {
            // Escapes are longer than what they stand for.
            Ordering::Less => false,
            Ordering::Equal => self.0 == text && !self.0.contains('\\'),
            Ordering::Greater => self.bytes().eq(text.bytes()),
        }
    }

    /// The string with its escapes resolved.
    pub fn to_text(&self) -> Cow<'a, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(self.0);
        }
        let bytes: Vec<u8> = self.bytes().collect();
        // Canonical escapes stand for ASCII, so nothing is lost here.
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The order by code point, which is the order of the UTF-8 bytes and the one that keys are sorted in.
    pub(crate) fn order(&self, text: &str) -> Ordering {
        self.bytes().cmp(text.bytes())
    }

    /// Returns the order between two strings of canonical text.
    pub(super) fn order_of_keys(&self, other: &JsonStr<'_>) -> Ordering {
        // The same text is the same string, and most keys that are compared are the same.
        if self.0 == other.0 { Ordering::Equal } else { self.bytes().cmp(other.bytes()) }
    }

    /// The UTF-8 bytes of the resolved string: a canonical escape stands for exactly one.
    fn bytes(&self) -> impl Iterator<Item = u8> + 'a {
        let mut rest = self.0.bytes();
        iter::from_fn(move || match rest.next()? {
            b'\\' => match rest.next()? {
                b'u' => {
                    // Every canonical escape begins with two zeros.
                    let mut digit = |skipped| char::from(rest.nth(skipped)?).to_digit(16);
                    Some((digit(2)? << 4 | digit(0)?) as u8)
                }
                letter => Some(escaped_byte(letter).unwrap_or(letter)),
            },
            plain => Some(plain),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_string_is_written_with_the_shortest_escapes_and_nothing_else_escaped() {
        let cases = [
            ("", r#""""#),
            ("plain text", r#""plain text""#),
            ("\"\\", r#""\"\\""#),
            ("\u{8}\u{c}\n\r\t", r#""\b\f\n\r\t""#),
            ("\0\u{1}\u{b}\u{1f}", r#""\u0000\u0001\u000b\u001f""#),
            ("\u{7f}\u{80}é\u{2028}\u{feff}\u{10ffff}", "\"\u{7f}\u{80}é\u{2028}\u{feff}\u{10ffff}\""),
            ("/<>&'", r#""/<>&'""#),
            ("seven b\nseven b\nseven bytes", r#""seven b\nseven b\nseven bytes""#),
        ];
        for (text, canonical) in cases {
            assert_eq!(written(text), canonical);
            assert_eq!(string_len(text), canonical.len(), "{text:?}");
        }
    }

    #[test]
    fn a_written_prefix_is_the_longest_that_fits_and_splits_no_character() {
        let text = "a\n\u{1b}é😀\"";
        let prefixes: Vec<&str> = (0..18).map(|most_bytes| written_prefix(text, most_bytes)).collect();
        let ends = [0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 5, 5, 5, 5, 9, 9, 10];
        assert_eq!(prefixes, ends.map(|end| &text[..end]));
        assert!(prefixes.iter().zip(0..).all(|(prefix, most_bytes)| written(prefix).len() - 2 <= most_bytes));
    }

    #[test]
    fn a_plain_run_ends_at_the_first_special_byte_wherever_it_stands() {
        for special in 0..=255 {
            for position in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[position] = special;
                let expected = if is_special(special) { position } else { 20 };
                for from in 0..=position {
                    assert_eq!(plain_run(&bytes, from), expected, "byte {special} at {position} from {from}");
                }
            }
        }
        assert_eq!(plain_run(b"", 7), 7);
    }

    #[test]
    fn a_string_in_canonical_text_is_its_resolved_text_and_no_other() {
        let texts =
            ["", "a", "a\nb", r"a\nb", "\\", "\\\\", "\"", "\0", "\u{1f}", r"\u001f", "é", "😀", "a\u{0}b\u{7f}"];
        for text in texts {
            let canonical = written(text);
            let string = JsonStr(&canonical[1..canonical.len() - 1]);
            assert_eq!(string.to_text(), text);
            for other in texts {
                assert_eq!(string.is(other), text == other, "{text:?} is {other:?}");
                assert_eq!(string.order(other), text.cmp(other), "{text:?} before {other:?}");
                let other_canonical = written(other);
                let other_string = JsonStr(&other_canonical[1..other_canonical.len() - 1]);
                assert_eq!(string.order_of_keys(&other_string), text.cmp(other), "{text:?} before {other:?}");
            }
        }
    }

    #[test]
    fn broken_escapes_are_survived() {
        for text in ["\\", "\\u", "\\u00", "\\u001", "\\u00zz", "\\u00ff", "\\é", "\\u0é0"] {
            let _ = (JsonStr(text).to_text(), JsonStr(text).is("é"), JsonStr(text).order("é"));
        }
    }
}
