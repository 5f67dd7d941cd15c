//! `outputs.packed`: what is kept of the output of a task, without its bytes. In this order: the version; the attempt; how many
//! parts there are; of each, the bytes between it and the one before, and its length; the id of the run.

use taskqueue_core::ids::RunId;
use taskqueue_core::output::{KeptOutput, Part};

use super::packed::{Packer, Unpacker, Unreadable};

/// Enough for output without many gaps.
const USUAL_BYTES: usize = 64;

pub(crate) fn pack_output(kept: &KeptOutput) -> Vec<u8> {
    let mut packer = Packer::new(USUAL_BYTES);
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

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let places = proptest::collection::btree_set(0..=i64::MAX as u64, 2..600);
        places.prop_map(|places| {
            let places: Vec<u64> = places.into_iter().collect();
            places.chunks_exact(2).map(|place| Part { start: place[0], end: place[1] }).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(attempt in any::<i64>(), run in any::<[u8; 9]>(), parts in parts()) {
            let kept = KeptOutput { run_id: RunId::from_bytes(run), attempt, parts };
            let bytes = pack_output(&kept);
            prop_assert_eq!(unpack_output(&bytes), Ok(kept));
            for end in 0..bytes.len() {
                prop_assert!(unpack_output(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn bytes_of_any_kind_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = unpack_output(&bytes);
        }
    }

    /// Files hold these bytes: this layout never changes.
    #[test]
    fn version_1_looks_like_this() {
        let parts = vec![Part { start: 3, end: 10 }, Part { start: 110, end: 111 }];
        let kept = KeptOutput { run_id: RunId::parse("r_printing0001").unwrap(), attempt: 2, parts };
        let expected = [&[1, 4, 4, 6, 14, 0xc8, 1, 2][..], b"r_printing0001"];
        assert_eq!(pack_output(&kept), expected.concat());
    }
}
