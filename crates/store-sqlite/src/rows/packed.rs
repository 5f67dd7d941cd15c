//! The bytes of packed columns (docs/decisions/0043): numbers first, all texts at the end, so that they are checked to be
//! UTF-8 once. What `tasks.packed` and `outcomes.outcome` hold is in `packed_head.rs` and `packed_outcome.rs`.

use rusqlite::types::FromSqlError;
use rusqlite::{Result, Row};
use taskqueue_core::output::Part;
use taskqueue_core::{Documents, JsonObject, KeptOutput, RunId, Timestamp, varint};

/// The first byte of every packed value. A change of a layout takes the next number, and what has this one stays readable.
const VERSION: u8 = 1;

/// The error of a packed value that cannot be read: the file is damaged, or was written by a program that this one does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packed column is damaged or has an unknown version")]
pub struct Unreadable;

impl From<Unreadable> for rusqlite::Error {
    fn from(unreadable: Unreadable) -> Self {
        FromSqlError::Other(Box::new(unreadable)).into()
    }
}

/// The id of a run in a packed column.
pub(super) fn run_id(text: &str) -> Result<RunId, Unreadable> {
    RunId::parse(text).ok_or(Unreadable)
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

    /// Returns what is left, which is text.
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

    /// Returns what no length is stored for.
    pub(super) fn rest(self) -> &'a str {
        self.0
    }
}

/// `definitions.documents`, borrowed: the version, the length of the args, then args and metadata as canonical JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedDocuments<'a> {
    pub(crate) args: &'a str,
    pub(crate) metadata: &'a str,
}

impl<'a> PackedDocuments<'a> {
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut packer = Packer::new(16 + self.args.len() + self.metadata.len());
        packer.length(self.args);
        packer.text(self.args);
        packer.text(self.metadata);
        packer.into_bytes()
    }

    pub(crate) fn unpack(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let mut packed = Unpacker::new(bytes)?;
        let length = packed.length()?;
        let mut texts = packed.texts()?;
        Ok(Self { args: texts.next(length)?, metadata: texts.rest() })
    }

    pub(crate) fn documents(&self) -> Documents {
        Documents { args: JsonObject::from_canonical(self.args), metadata: JsonObject::from_canonical(self.metadata) }
    }
}

/// Enough for output without many gaps.
const USUAL_OUTPUT_BYTES: usize = 64;

/// Packs `outputs.packed`: what is kept of the output of a task, without its bytes. In this order: the version; the attempt; how
/// many parts there are; of each, the bytes between it and the one before, and its length; the id of the run.
pub(crate) fn pack_output(kept: &KeptOutput) -> Vec<u8> {
    let mut packer = Packer::new(USUAL_OUTPUT_BYTES);
    packer.int(kept.attempt);
    packer.count(kept.parts.len() as u64);
    let mut end = 0;
    for part in &kept.parts {
        packer.count(part.start - end);
        packer.count(part.bytes());
        end = part.end;
    }
    packer.text(kept.run_id.as_str());
    packer.into_bytes()
}

/// Unpacks what [`pack_output`] packed.
pub(crate) fn unpack_output(bytes: &[u8]) -> Result<KeptOutput, Unreadable> {
    let mut packed = Unpacker::new(bytes)?;
    let attempt = packed.int()?;
    let (count, mut parts, mut end) = (packed.count()?, Vec::new(), 0_u64);
    for _ in 0..count {
        let start = end.checked_add(packed.count()?).ok_or(Unreadable)?;
        end = start.checked_add(packed.count()?).ok_or(Unreadable)?;
        parts.push(Part { start, end });
    }
    let is_sound = !parts.is_empty() && parts.iter().all(|part| part.start < part.end) && end <= i64::MAX as u64;
    let run_id = RunId::parse(packed.texts()?.rest()).filter(|_| is_sound).ok_or(Unreadable)?;
    Ok(KeptOutput { run_id, attempt, parts })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn packed_documents_are_unpacked(args in "\\PC{0,200}", metadata in "\\PC{0,200}") {
            let documents = PackedDocuments { args: &args, metadata: &metadata };
            let bytes = documents.pack();
            prop_assert_eq!(PackedDocuments::unpack(&bytes), Ok(documents));
        }

        #[test]
        fn documents_of_any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = PackedDocuments::unpack(&bytes);
        }
    }

    /// Files hold these bytes: this layout never changes.
    #[test]
    fn version_1_of_documents_looks_like_this() {
        let documents = PackedDocuments { args: r#"{"a":1}"#, metadata: "{}" };
        assert_eq!(documents.pack(), b"\x01\x0e{\"a\":1}{}");
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let places = proptest::collection::btree_set(0..=i64::MAX as u64, 2..600);
        places.prop_map(|places| {
            let places: Vec<u64> = places.into_iter().collect();
            places.chunks_exact(2).map(|place| Part { start: place[0], end: place[1] }).collect()
        })
    }

    proptest! {
        #[test]
        fn packed_output_is_unpacked(attempt in any::<i64>(), run in any::<[u8; 9]>(), parts in parts()) {
            let kept = KeptOutput { run_id: RunId::from_bytes(run), attempt, parts };
            let bytes = pack_output(&kept);
            prop_assert_eq!(unpack_output(&bytes), Ok(kept));
            for end in 0..bytes.len() {
                prop_assert!(unpack_output(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn output_of_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = unpack_output(&bytes);
        }
    }

    /// Files hold these bytes: this layout never changes.
    #[test]
    fn version_1_of_output_looks_like_this() {
        let parts = vec![Part { start: 3, end: 10 }, Part { start: 110, end: 111 }];
        let kept = KeptOutput { run_id: RunId::parse("r_printing0001").unwrap(), attempt: 2, parts };
        let expected = [&[1, 4, 4, 6, 14, 0xc8, 1, 2][..], b"r_printing0001"];
        assert_eq!(pack_output(&kept), expected.concat());
    }
}
