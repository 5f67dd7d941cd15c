//! The bytes of packed columns (docs/decisions/0043): numbers first, all texts at the end, so that they are checked to be
//! UTF-8 once. What each column holds is in `packed_head.rs`, `packed_documents.rs` and `packed_outcome.rs`.

use rusqlite::types::FromSqlError;
use rusqlite::{Result, Row};
use taskqueue_core::time::Timestamp;
use taskqueue_core::varint;

/// The first byte of every packed value. A change of a layout takes the next number, and what has this one stays readable.
const VERSION: u8 = 1;

/// Why a packed value cannot be read: the file is damaged, or was written by a program that this one does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a packed column is damaged or has an unknown version")
    }
}

impl std::error::Error for Unreadable {}

impl From<Unreadable> for rusqlite::Error {
    fn from(unreadable: Unreadable) -> Self {
        FromSqlError::Other(Box::new(unreadable)).into()
    }
}

/// The bytes of a packed column.
pub(super) fn column<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

/// Writes a packed value.
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn new(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(VERSION);
        Self(bytes)
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// The sign is the lowest bit of the number, so that small negative numbers are short, too.
    pub(super) fn int(&mut self, value: i64) {
        varint::write(&mut self.0, ((value << 1) ^ (value >> 63)) as u64);
    }

    pub(super) fn length(&mut self, text: &str) {
        self.count(text.len() as u64);
    }

    /// A number of bytes or of parts.
    pub(super) fn count(&mut self, count: u64) {
        self.int(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Eight bytes, the lowest first.
    pub(super) fn time(&mut self, at: Timestamp) {
        self.0.extend_from_slice(&at.as_micros().to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the numbers of a packed value, then its texts.
pub(super) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Self(rest)),
            _ => Err(Unreadable),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Unreadable> {
        let (first, rest) = self.0.split_first().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*first)
    }

    #[inline]
    pub(super) fn int(&mut self) -> Result<i64, Unreadable> {
        let bits = varint::read(&mut self.0).ok_or(Unreadable)?;
        Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    pub(super) fn length(&mut self) -> Result<usize, Unreadable> {
        usize::try_from(self.int()?).map_err(|_| Unreadable)
    }

    pub(super) fn count(&mut self) -> Result<u64, Unreadable> {
        u64::try_from(self.int()?).map_err(|_| Unreadable)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Unreadable> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(Timestamp::from_micros(i64::from_le_bytes(*bytes)))
    }

    /// A text at a place that SQL knows.
    pub(super) fn fixed_text(&mut self, length: usize) -> Result<&'a str, Unreadable> {
        let (text, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| Unreadable)
    }

    /// What is left, which is text.
    pub(super) fn texts(self) -> Result<Texts<'a>, Unreadable> {
        std::str::from_utf8(self.0).map(Texts).map_err(|_| Unreadable)
    }
}

/// The texts of a packed value, one behind the other.
pub(super) struct Texts<'a>(&'a str);

impl<'a> Texts<'a> {
    pub(super) fn next(&mut self, length: usize) -> Result<&'a str, Unreadable> {
        let (text, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(text)
    }

    /// What no length is stored for.
    pub(super) fn rest(self) -> &'a str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integer_survives_and_small_ones_take_a_byte() {
        let around = |power: u32| [-1, 0, 1].map(|near| (1_i64 << power).wrapping_add(near));
        let numbers = (0..64).flat_map(around).flat_map(|number| [number, number.wrapping_neg()]);
        for number in numbers.chain([i64::MIN, i64::MAX]) {
            let mut packer = Packer::new(0);
            packer.int(number);
            let bytes = packer.into_bytes();
            assert!(bytes.len() == 2 || !(-64..64).contains(&number), "{number}: {bytes:?}");
            let mut unpacker = Unpacker::new(&bytes).unwrap();
            assert_eq!(unpacker.int(), Ok(number));
            assert_eq!(unpacker.byte(), Err(Unreadable), "nothing is left of {number}");
        }
    }

    #[test]
    fn an_unknown_version_an_end_too_early_and_a_number_too_long_are_refused() {
        assert!(Unpacker::new(&[]).is_err() && Unpacker::new(&[0]).is_err() && Unpacker::new(&[2, 0]).is_err());
        let reader = |bytes: &'static [u8]| Unpacker::new(bytes).unwrap();
        assert_eq!(reader(&[1]).byte(), Err(Unreadable));
        assert_eq!(reader(&[1, 0x80]).int(), Err(Unreadable));
        let mut long = [0xff; 12];
        long[0] = VERSION;
        assert_eq!(Unpacker::new(&long).unwrap().int(), Err(Unreadable));
        assert_eq!(reader(&[1, 0, 0, 0, 0, 0, 0, 0]).time(), Err(Unreadable));
        assert_eq!(reader(&[1, 1]).length(), Err(Unreadable), "a negative length");
        assert!(reader(&[1, 0xff]).texts().is_err(), "no UTF-8");
        assert_eq!(reader("\u{1}é".as_bytes()).texts().unwrap().next(1), Err(Unreadable), "half of a character");
        assert_eq!(reader("\u{1}é".as_bytes()).texts().unwrap().next(3), Err(Unreadable));
    }
}
