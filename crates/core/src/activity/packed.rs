//! Activity as bytes, the same on every backend: a version, the counts, then waits and runs as the number of buckets, each bucket
//! with its count, and the sum. Numbers are those of `varint.rs`.

use super::{Activity, Counts};
use crate::durations::Durations;
use crate::varint;

/// A change of the layout takes the next number, and what has this one stays readable.
const VERSION: u8 = 1;

/// Why stored activity cannot be read: it is damaged, or was written by a program that this one does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Activity {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        self.counts.0.iter().for_each(|count| varint::write(&mut bytes, *count));
        for durations in [&self.waits, &self.runs] {
            varint::write(&mut bytes, durations.buckets().len() as u64);
            for (bucket, count) in durations.buckets() {
                bytes.push(*bucket);
                varint::write(&mut bytes, *count);
            }
            varint::write(&mut bytes, durations.sum_micros());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader(bytes);
        if reader.byte()? != VERSION {
            return Err(Unreadable);
        }
        let mut counts = Counts::default();
        for count in &mut counts.0 {
            *count = reader.number()?;
        }
        let activity = Self { counts, waits: reader.durations()?, runs: reader.durations()? };
        if reader.0.is_empty() { Ok(activity) } else { Err(Unreadable) }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Unreadable> {
        let (byte, rest) = self.0.split_first().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, Unreadable> {
        varint::read(&mut self.0).ok_or(Unreadable)
    }

    fn durations(&mut self) -> Result<Durations, Unreadable> {
        let mut buckets = Vec::new();
        for _ in 0..self.number()? {
            buckets.push((self.byte()?, self.number()?));
        }
        Durations::from_parts(buckets, self.number()?).ok_or(Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Event, Record};
    use proptest::prelude::*;

    fn activity(records: &[(usize, u64)]) -> Activity {
        let mut activity = Activity::default();
        for (event, micros) in records {
            activity.add(Record { event: Event::ALL[*event], micros: Some(*micros) });
        }
        activity
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        assert_eq!(Activity::default().to_bytes(), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let one = activity(&[(1, 1_200), (2, 300)]);
        assert_eq!(one.to_bytes(), [1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0xb0, 9, 1, 0, 1, 0xac, 2]);
    }

    #[test]
    fn the_largest_numbers_are_kept() {
        let mut counts = Counts::default();
        counts.add(Event::Created, u64::MAX);
        let waits = Durations::from_parts(vec![(63, u64::MAX)], u64::MAX).unwrap();
        let activity = Activity { counts, waits, runs: Durations::default() };
        assert_eq!(Activity::from_bytes(&activity.to_bytes()), Ok(activity));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(records in prop::collection::vec((0..7_usize, any::<u64>()), 0..60)) {
            let activity = activity(&records);
            prop_assert_eq!(Activity::from_bytes(&activity.to_bytes()), Ok(activity));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(activity) = Activity::from_bytes(&bytes) {
                prop_assert_eq!(Activity::from_bytes(&activity.to_bytes()), Ok(activity));
            }
        }

        #[test]
        fn a_beginning_is_refused(records in prop::collection::vec((0..7_usize, any::<u64>()), 0..20), part in 0.0..1.0) {
            let bytes = activity(&records).to_bytes();
            let end = (bytes.len() as f64 * part) as usize;
            prop_assert_eq!(Activity::from_bytes(&bytes[..end]), Err(Unreadable));
        }
    }
}
