//! A Bloom filter over hashes of ids: it says "not here" for certain, or "perhaps". All bits of an id are in one block of 64
//! bytes, so that a question costs one access to memory.

/// Bits of memory for each id. About 1 of 60 questions about another id is then answered "perhaps".
pub(crate) const BITS_PER_ID: usize = 10;
/// Below this a filter answers "perhaps" too often to be worth its memory.
const BITS_PER_ID_MIN: usize = 3;
/// Bits that are set for an id.
const PROBES: u32 = 5;
const BLOCK_BITS: usize = 512;

pub(crate) struct BloomFilter {
    blocks: Box<[[u64; BLOCK_BITS / 64]]>,
}

impl BloomFilter {
    /// An empty filter for so many ids; nothing if there is too little memory for one.
    pub(crate) fn new(ids: usize, most_bytes: usize) -> Option<Self> {
        let bits = ids.saturating_mul(BITS_PER_ID).min(most_bytes.saturating_mul(8));
        let blocks = bits.div_ceil(BLOCK_BITS).max(1);
        (bits >= ids.saturating_mul(BITS_PER_ID_MIN))
            .then(|| Self { blocks: vec![[0; BLOCK_BITS / 64]; blocks].into() })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BITS / 8
    }

    pub(crate) fn add(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in probes(hash) {
            self.blocks[block][word] |= bit;
        }
    }

    /// Returns whether an id with this hash may have been added.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block(hash)];
        probes(hash).all(|(word, bit)| block[word] & bit != 0)
    }

    fn block(&self, hash: u64) -> usize {
        // The upper half of the hash, scaled to the number of blocks. It is less than that number.
        usize::try_from(((hash >> 32) * self.blocks.len() as u64) >> 32).unwrap_or(0)
    }
}

/// The words and bits of an id within its block.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| {
        let place = (mixed >> (64 - 9 * (probe + 1))) & 511;
        (usize::try_from(place >> 6).unwrap_or(0), 1 << (place & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::used_runs::segment::{PackedRun, hash};

    /// The nth of a series of ids, as counters make them: most of their bytes are the same.
    fn nth(n: u32) -> PackedRun {
        let mut run = *b"\0\0\0\0\0\0\0\0\0";
        run[5..].copy_from_slice(&n.to_be_bytes());
        run
    }

    #[test]
    fn a_filter_never_denies_what_was_added_and_seldom_admits_what_was_not() {
        let mut filter = BloomFilter::new(10_000, usize::MAX).unwrap();
        (0..10_000).for_each(|n| filter.add(hash(nth(n))));
        assert!((0..10_000).all(|n| filter.may_hold(hash(nth(n)))));
        let wrong = (10_000..110_000).filter(|n| filter.may_hold(hash(nth(*n)))).count();
        assert!(wrong < 3_000, "{wrong} of 100,000");
    }

    #[test]
    fn a_filter_takes_no_more_memory_than_it_may_and_none_if_that_is_too_little() {
        let bytes = |runs, most| BloomFilter::new(runs, most).map(|filter| filter.bytes());
        for (runs, most, expected) in [
            (1_000, usize::MAX, Some(1_280)),
            (100_000, 100_000, Some(100_032)),
            (100_000, 37_500, Some(37_504)),
            (100_000, 37_000, None),
            (0, 0, Some(64)),
        ] {
            assert_eq!(bytes(runs, most), expected, "{runs} {most}");
        }
    }

    #[test]
    fn a_count_that_cannot_be_true_gets_no_filter() {
        assert!(BloomFilter::new(usize::MAX, 16 << 20).is_none());
    }
}
