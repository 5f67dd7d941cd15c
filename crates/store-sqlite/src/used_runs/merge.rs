//! Merging: which segments are merged, and the merge itself, some pages at a time. It continues behind the last page that was
//! written, also after a restart.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Result};

use crate::statements as sql;
use crate::used_runs::segment::{
    Entry, IdUse, IndexSlot, PAGE_ENTRIES, PageWriter, Segment, SegmentRow, SegmentState, entries, page_number, run_of,
    use_of, with_page,
};

/// Segments of similar size that are merged into one.
const FAN_IN: usize = 4;
/// Segments with fewer entries than four times this are of one size.
const SMALLEST_SIZE: u64 = 1_024;

/// Sizes grow by a factor of four.
fn size(entries: u64) -> u32 {
    (entries / SMALLEST_SIZE).max(1).ilog2() / 2
}

/// Returns which of these segments are to be merged, if any, given how many entries they have, the oldest first. Only neighbours are
/// merged, because what a newer segment says cancels what an older one says. Of each size there are at most three for long, so
/// there are few segments, and an entry is written again once for each size.
pub(crate) fn next_merge(segments: &[u64]) -> Option<Range<usize>> {
    let sizes: Vec<u32> = segments.iter().map(|entries| size(*entries)).collect();
    let largest = sizes.iter().copied().max()?;
    (0..=largest).find_map(|size| {
        let newest_larger = sizes.iter().rposition(|other| *other > size);
        let start = newest_larger.map_or(0, |at| at + 1);
        let of_size: Vec<usize> = (start..sizes.len()).filter(|at| sizes[*at] == size).collect();
        match of_size[..] {
            [first, .., last] if of_size.len() >= FAN_IN => Some(first..last + 1),
            _ => None,
        }
    })
}

/// A merge under way.
pub(crate) struct Merge {
    /// Nothing is older than the result, so what was forgotten needs no entry there.
    is_oldest: bool,
    inputs: Vec<MergeInput>,
    /// What writes the result; its row is as far as that is written.
    pub(crate) writer: PageWriter,
    pub(crate) index: IndexSlot,
    /// Completed by a transaction that may not be committed yet: other connections do not see all pages.
    pub(crate) is_fresh: bool,
    pub(crate) index_requested: bool,
}

/// A segment that is being merged, and the place up to which it was.
struct MergeInput {
    segment: i64,
    pages: i64,
    page: i64,
    place: usize,
    loaded: Vec<Entry>,
}

impl MergeInput {
    /// Loads the page of the place if needed. Returns the entry there; nothing at the end.
    fn entry(&mut self, connection: &Connection) -> Result<Option<&Entry>> {
        while self.page < self.pages && (self.loaded.is_empty() || self.place >= self.loaded.len()) {
            if !self.loaded.is_empty() {
                (self.page, self.place) = (self.page + 1, 0);
                self.loaded.clear();
                continue;
            }
            let loaded = with_page(connection, (self.segment, self.page), |page| entries(page).to_vec())?;
            // No page is written without entries.
            self.loaded = loaded.filter(|loaded| !loaded.is_empty()).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        }
        Ok(self.loaded.get(self.place))
    }
}

impl Merge {
    /// Begins to merge these segments, or continues.
    pub(crate) fn new(
        connection: &Connection,
        mut row: SegmentRow,
        inputs: &[Segment],
        is_oldest: bool,
    ) -> Result<Self> {
        let mut last_page = connection.prepare_cached(&sql::FIND_LAST_RUN_PAGE)?;
        let of_segment = [page_number(row.number, 0), page_number(row.number + 1, 0) - 1];
        let written = last_page.query_row(of_segment, |page| {
            let last = entries(page.get_ref("entries")?.as_blob()?).last().map(run_of);
            Ok((page.get::<_, i64>("page")? - of_segment[0] + 1, last))
        });
        let (pages, last) = written.optional()?.unwrap_or((0, None));
        if row.state == SegmentState::Building {
            // Every page but the last one of a complete segment is full.
            (row.pages, row.entries) = (pages, u64::try_from(pages).unwrap_or(0) * PAGE_ENTRIES as u64);
        }
        let input = |segment: &Segment| {
            let (page, place) = last.map_or(Ok((0, 0)), |last| segment.place_behind(connection, last))?;
            let SegmentRow { number, pages, .. } = segment.row;
            Ok(MergeInput { segment: number, pages, page, place, loaded: Vec::new() })
        };
        let inputs = inputs.iter().map(input).collect::<Result<_>>()?;
        let (writer, index) = (PageWriter::new(row), IndexSlot::default());
        Ok(Self { is_oldest, inputs, writer, index, is_fresh: false, index_requested: false })
    }

    /// Writes up to so many pages. Returns how many it wrote.
    pub(crate) fn step(&mut self, connection: &Connection, most_pages: usize) -> Result<usize> {
        let mut written = 0;
        while written < most_pages {
            let Some(entry) = self.next(connection)? else {
                self.writer.finish(connection, SegmentState::Complete)?;
                self.is_fresh = true;
                return Ok(written + 1);
            };
            if !(self.is_oldest && use_of(&entry) == IdUse::Forgotten) {
                written += usize::from(self.writer.add(connection, &entry)?);
            }
        }
        Ok(written)
    }

    /// The next entry in ascending order. Of several about one run id the newest counts.
    fn next(&mut self, connection: &Connection) -> Result<Option<Entry>> {
        let mut next: Option<Entry> = None;
        for input in &mut self.inputs {
            if let Some(entry) = input.entry(connection)?
                && next.is_none_or(|next| run_of(entry) <= run_of(&next))
            {
                next = Some(*entry);
            }
        }
        if let Some(next) = &next {
            for input in &mut self.inputs {
                input.place +=
                    usize::from(input.loaded.get(input.place).is_some_and(|entry| run_of(entry) == run_of(next)));
            }
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_neighbours_of_one_size_are_merged_the_smallest_first() {
        const K: u64 = 1_024;
        type Case<'a> = (&'a str, &'a [u64], Option<Range<usize>>);
        let cases: [Case<'_>; 9] = [
            ("nothing", &[], None),
            ("three of a size", &[K, K, K], None),
            ("four of a size", &[K, 1, 2 * K, 3], Some(0..4)),
            ("more than four", &[K; 6], Some(0..6)),
            ("sizes are apart", &[64 * K, 16 * K, 4 * K, K], None),
            ("small ones behind large ones", &[64 * K, 64 * K, 1, 1, 1, 1], Some(2..6)),
            ("small ones between are merged with them", &[16 * K, 16 * K, 1, 16 * K, 16 * K, 1], Some(0..5)),
            ("a larger one separates", &[1, 1, 64 * K, 1, 1], None),
            ("the smallest size first", &[16 * K, 16 * K, 16 * K, 16 * K, 1, 1, 1, 1], Some(4..8)),
        ];
        for (what, segments, expected) in cases {
            assert_eq!(next_merge(segments), expected, "{what}");
        }
    }

    #[test]
    fn there_are_few_segments_and_an_entry_is_written_few_times() {
        let (mut segments, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..10_000 {
            segments.push(16_384);
            while let Some(range) = next_merge(&segments) {
                let merged: u64 = segments[range.clone()].iter().sum();
                written += merged;
                segments.splice(range, [merged]);
            }
            most = most.max(segments.len());
        }
        let times = written / (10_000 * 16_384);
        assert!(most <= 24 && times <= 8, "{most} segments, written {times} times");
    }
}
