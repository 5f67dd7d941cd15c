//! The run ids that were used: those of recently ended runs in memory, all others in sorted segments in the file, each behind a
//! filter in memory. Which runs are active is known to the claim index. The reasons: docs/decisions/0002.

mod merge;
pub(crate) mod segment;

#[cfg(test)]
#[path = "used_runs_tests.rs"]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Result, params};
use taskqueue_core::ids::RunId;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transfer::DeletedRun;

use self::merge::{Merge, next_merge};
use self::segment::{
    Entry, IdUse, IndexRequest, IndexRequests, IndexSlot, PAGE_ENTRIES, Segment, SegmentIndex, SegmentRow,
    SegmentState, entry, page_number, write_segment,
};
use crate::queries::{all_rows, execute, is_unreadable};
use crate::{bloom_filter, rows, statements as sql};

/// The number of times that merges may write or delete an entry: each is once written and once deleted for each size of segment,
/// and a thousand million run ids are in segments of eight sizes.
const WORK_PER_RUN: u64 = 16;
/// Pages that one transaction writes or deletes at most for merges: about two milliseconds.
const PAGES_AT_ONCE: u64 = 64;
/// Pages for each segment that is written, so that merges of very small ones come to an end.
const PAGES_PER_SEGMENT: u64 = 2;
/// The memory that the filter of a new segment may take in any case: it is merged soon, and then its memory is divided anew.
const SMALL_FILTER_BYTES: usize = 128 << 10;

#[derive(Default)]
pub(crate) struct UsedRuns {
    /// Run ids whose use has changed since the last segment was written.
    pub(crate) recent: HashMap<RunId, IdUse>,
    /// The last one of the deleted tasks' run ids that was forgotten in memory. The file still has it.
    forgotten_up_to: Option<DeletedRun>,
    /// True if a forgotten run id is used again. A segment must be written before the transaction is committed: the file still says
    /// that it is to be forgotten.
    pub(crate) reused: bool,
    /// The oldest first.
    segments: Vec<Segment>,
    /// Each is of newer segments than the one before it.
    merges: Vec<Merge>,
    /// Merged segments, and the first page of each that was not deleted yet.
    dead: Vec<(SegmentRow, i64)>,
    next_segment: i64,
    /// Entries that merges may write or delete, by what ended so far.
    credit: u64,
    /// True if merges have nothing to do until the next segment is written.
    merged: bool,
    /// The memory that filters may take in all.
    filter_bytes: usize,
    /// The thread that builds indexes; without it they are built at once.
    builder: Option<IndexRequests>,
    /// True if a page or a row was found that cannot be what was written. The next reload makes all of them anew.
    damaged: AtomicBool,
}

impl UsedRuns {
    pub(crate) fn new(filter_bytes: usize, builder: Option<IndexRequests>) -> Self {
        Self { filter_bytes, builder, ..Self::default() }
    }

    /// Returns what can only add segments: it knows nothing of those that are there but their numbers.
    pub(crate) fn behind_all(connection: &Connection) -> Result<Self> {
        let mut runs = Self::default();
        let numbers = all_rows(connection, &sql::LOAD_RUN_SEGMENTS, [], |row| row.get::<_, i64>("segment"))?;
        runs.next_segment = numbers.into_iter().max().unwrap_or(-1) + 1;
        Ok(runs)
    }

    /// Reads which segments there are. Of those that were known before, the indexes in memory are kept: a number is never
    /// given twice.
    pub(crate) fn reload(&mut self, connection: &Connection) -> Result<()> {
        (self.recent, self.forgotten_up_to, self.reused) = (HashMap::new(), None, false);
        let rows = all_rows(connection, &sql::LOAD_RUN_SEGMENTS, [], SegmentRow::of)?;
        let last = rows.iter().map(|row| row.number).max().unwrap_or(0);
        self.next_segment = self.next_segment.max(last + 1);
        let of_state = |state| rows.iter().filter(move |row| row.state == state).copied();
        let known: HashMap<i64, IndexSlot> =
            self.segments.drain(..).map(|segment| (segment.row.number, segment.index)).collect();
        let slot = |row: &SegmentRow| known.get(&row.number).cloned().unwrap_or_default();
        self.segments = of_state(SegmentState::Live).map(|row| Segment { index: slot(&row), row }).collect();
        self.dead = of_state(SegmentState::Dead).map(|row| (row, 0)).collect();
        self.merges.clear();
        for row in of_state(SegmentState::Building).chain(of_state(SegmentState::Complete)) {
            let merge = self.merge(connection, row)?;
            self.merges.push(merge);
        }
        self.merges.sort_by_key(|merge| merge.writer.row.newest);
        self.merged = false;
        // The newest first: they are small, and get all the memory that they want.
        for (at, Segment { row, index }) in self.segments.iter().enumerate().rev() {
            if !known.contains_key(&row.number) {
                let newer = self.segments[at + 1..].iter().map(|segment| wanted_bytes(&segment.row)).sum();
                self.request_index(connection, *row, index, newer)?;
            }
        }
        Ok(())
    }

    fn request_index(
        &self,
        connection: &Connection,
        row: SegmentRow,
        slot: &IndexSlot,
        other_filters: usize,
    ) -> Result<()> {
        let (filter_bytes, slot) = (self.filter_bytes.saturating_sub(other_filters), slot.clone());
        if let Some(builder) = &self.builder {
            let request = IndexRequest { row, filter_bytes, slot };
            // The thread has ended: the store is being closed.
            builder.send(Some(request)).unwrap_or_default();
            return Ok(());
        }
        let _ = slot.set(SegmentIndex::build(connection, row, filter_bytes, &|| true)?);
        Ok(())
    }

    /// Records that a run has ended.
    pub(crate) fn end(&mut self, run_id: RunId) {
        self.recent.insert(run_id, IdUse::Used);
        self.credit += WORK_PER_RUN;
    }

    /// Records that a run begins.
    pub(crate) fn begin(&mut self, run_id: RunId) {
        self.reused |= self.forgotten_up_to.is_some() && self.recent.get(&run_id) == Some(&IdUse::Forgotten);
    }

    /// Forgets up to `most` run ids of deleted tasks whose time is over.
    pub(crate) fn forget_over(&mut self, connection: &Connection, now: Timestamp, most: u32) -> Result<usize> {
        let (kept_until, run_id) =
            self.forgotten_up_to.as_ref().map_or((i64::MIN, ""), |(at, run_id)| (at.as_micros(), run_id.as_str()));
        let values = params![now.as_micros(), kept_until, run_id, most];
        let over = all_rows(connection, &sql::LIST_FORGETTABLE_RUNS, values, rows::deleted_run)?;
        let forgotten = over.len();
        over.into_iter().for_each(|run| self.forget(run));
        Ok(forgotten)
    }

    /// Forgets a run id of a deleted task. They are forgotten in the order of their rows, which the next segment deletes.
    fn forget(&mut self, run: DeletedRun) {
        self.recent.insert(run.1, IdUse::Forgotten);
        self.forgotten_up_to = Some(run);
    }

    /// Returns whether a run id is certainly new, as far as that is known without the disk.
    pub(crate) fn is_surely_new(&self, run_id: RunId) -> bool {
        match self.recent.get(&run_id) {
            Some(is) => *is == IdUse::Forgotten,
            None => {
                let hash = segment::hash(run_id.to_bytes());
                !self.segments.iter().any(|segment| segment.may_hold(hash))
            }
        }
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Drops what is in memory of the segments, after those of the file were made anew: their numbers are given again.
    pub(crate) fn made_anew(&mut self) {
        (self.segments, self.merges, self.dead) = (Vec::new(), Vec::new(), Vec::new());
        *self.damaged.get_mut() = false;
    }

    fn notice<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.damaged.store(self.is_damaged() || is_unreadable(error), Ordering::Relaxed))
    }

    /// Returns whether a run id was used and not forgotten.
    pub(crate) fn is_used(&self, connection: &Connection, run_id: RunId) -> Result<bool> {
        self.notice(self.find(connection, run_id))
    }

    fn find(&self, connection: &Connection, run_id: RunId) -> Result<bool> {
        if let Some(is) = self.recent.get(&run_id) {
            return Ok(*is == IdUse::Used);
        }
        let run = run_id.to_bytes();
        let hash = segment::hash(run);
        for segment in self.segments.iter().rev().filter(|segment| segment.may_hold(hash)) {
            if let Some(is) = segment.find(connection, run)? {
                return Ok(is == IdUse::Used);
            }
        }
        Ok(false)
    }

    /// Writes the recent ones as a segment.
    pub(crate) fn flush(&mut self, connection: &Connection) -> Result<()> {
        let mut entries: Vec<Entry> =
            std::mem::take(&mut self.recent).into_iter().map(|(id, is)| entry(id, is)).collect();
        entries.sort_unstable();
        self.add_segment(connection, &entries)?;
        if let Some((kept_until, run_id)) = self.forgotten_up_to.take() {
            let last = params![kept_until.as_micros(), run_id.as_str()];
            execute(connection, &sql::DELETE_FORGETTABLE_RUNS, last)?;
        }
        self.reused = false;
        Ok(())
    }

    /// Writes sorted entries, each run id once, as the newest segment.
    pub(crate) fn add_segment(&mut self, connection: &Connection, sorted: &[Entry]) -> Result<()> {
        if sorted.is_empty() {
            return Ok(());
        }
        let number = self.next_segment.max(1);
        let others: usize = self.segments.iter().map(Segment::filter_bytes).sum();
        let own_bytes = self.filter_bytes.saturating_sub(others).max(SMALL_FILTER_BYTES.min(self.filter_bytes));
        self.segments.push(write_segment(connection, number, sorted, own_bytes)?);
        self.next_segment = number + 1;
        self.credit += PAGES_PER_SEGMENT * PAGE_ENTRIES as u64;
        self.merged = false;
        Ok(())
    }

    /// Does as much of the merges as what ended so far pays for.
    pub(crate) fn work(&mut self, connection: &Connection) -> Result<()> {
        let pages = (self.credit / PAGE_ENTRIES as u64).min(PAGES_AT_ONCE);
        if self.merged || pages == 0 {
            self.credit = self.credit.min(PAGES_AT_ONCE * PAGE_ENTRIES as u64);
            return Ok(());
        }
        self.credit = (self.credit - pages * PAGE_ENTRIES as u64).min(8 * PAGES_AT_ONCE * PAGE_ENTRIES as u64);
        self.merges.iter_mut().for_each(|merge| merge.is_fresh = false);
        let mut left = usize::try_from(pages).unwrap_or(0);
        while left > 0 && !self.merged {
            let worked = self.work_once(connection, left);
            match self.notice(worked)? {
                Some(used) => left = left.saturating_sub(used),
                None => break,
            }
        }
        Ok(())
    }

    /// Does one thing. Returns how many pages that cost; nothing if there is nothing to do now.
    fn work_once(&mut self, connection: &Connection, pages: usize) -> Result<Option<usize>> {
        if self.begin_merge(connection)? {
            return Ok(Some(1));
        }
        // The newest first: it is the smallest, and small segments become many soon.
        for at in (0..self.merges.len()).rev() {
            let merge = &mut self.merges[at];
            if merge.writer.row.state == SegmentState::Building {
                return merge.step(connection, pages).map(Some);
            }
            if merge.index.get().is_some() {
                return self.replace_merged(connection, at).map(|()| Some(1));
            }
            if !merge.is_fresh && !merge.index_requested {
                merge.index_requested = true;
                let (row, slot) = (merge.writer.row, merge.index.clone());
                let inputs = self.inputs(&row);
                let others = self.segments.iter().enumerate().filter(|(at, _)| !inputs.contains(at));
                let other_filters = others.map(|(_, segment)| segment.filter_bytes()).sum();
                self.request_index(connection, row, &slot, other_filters)?;
            }
        }
        let Some((row, first_page)) = self.dead.last_mut() else {
            self.merged = self.merges.is_empty();
            return Ok(None);
        };
        let last_page = row.pages.min(*first_page + i64::try_from(pages).unwrap_or(1));
        let between = [page_number(row.number, *first_page), page_number(row.number, last_page)];
        execute(connection, &sql::DELETE_RUN_PAGES, between)?;
        *first_page = last_page;
        if last_page == row.pages {
            execute(connection, &sql::DELETE_RUN_SEGMENT, [row.number])?;
            self.dead.pop();
        }
        Ok(Some(pages))
    }

    /// Begins a merge, of segments that are newer than those that are being merged already.
    fn begin_merge(&mut self, connection: &Connection) -> Result<bool> {
        let newest = self.merges.last().map_or(i64::MIN, |merge| merge.writer.row.newest);
        let first = self.segments.partition_point(|segment| segment.row.newest <= newest);
        let entries: Vec<u64> = self.segments[first..].iter().map(|segment| segment.row.entries).collect();
        let Some(range) = next_merge(&entries) else { return Ok(false) };
        let merged = &self.segments[first + range.start..first + range.end];
        let (Some(oldest), Some(newest)) = (merged.first(), merged.last()) else { return Ok(false) };
        let (oldest, newest, number) = (oldest.row.oldest, newest.row.newest, self.next_segment);
        let row = SegmentRow::begun(number, oldest, newest);
        row.save(connection)?;
        self.next_segment += 1;
        let merge = self.merge(connection, row)?;
        self.merges.push(merge);
        Ok(true)
    }

    fn merge(&self, connection: &Connection, row: SegmentRow) -> Result<Merge> {
        let inputs = self.inputs(&row);
        Merge::new(connection, row, &self.segments[inputs.clone()], inputs.start == 0)
    }

    /// The segments that are merged into this one.
    fn inputs(&self, row: &SegmentRow) -> std::ops::Range<usize> {
        let start = self.segments.partition_point(|segment| segment.row.oldest < row.oldest);
        start..self.segments.partition_point(|segment| segment.row.newest <= row.newest)
    }

    /// Lets a complete segment take the place of those that were merged into it.
    fn replace_merged(&mut self, connection: &Connection, at: usize) -> Result<()> {
        let merge = self.merges.remove(at);
        let (row, index) = (SegmentRow { state: SegmentState::Live, ..merge.writer.row }, merge.index);
        row.save(connection)?;
        let inputs = self.inputs(&row);
        let replaced: Vec<Segment> = self.segments.splice(inputs, [Segment { row, index }]).collect();
        for segment in replaced {
            let row = SegmentRow { state: SegmentState::Dead, ..segment.row };
            row.save(connection)?;
            self.dead.push((row, 0));
        }
        Ok(())
    }
}

/// The memory that the filter of a segment takes if there is enough.
fn wanted_bytes(row: &SegmentRow) -> usize {
    usize::try_from(row.entries).unwrap_or(usize::MAX).saturating_mul(bloom_filter::BITS_PER_ID) / 8
}

/// Passes what is wrong with the pages of the segments that are asked to `report`, for a check.
pub(crate) fn check_segments(connection: &Connection, mut report: impl FnMut(String)) -> Result<()> {
    let rows = all_rows(connection, &sql::LOAD_RUN_SEGMENTS, [], SegmentRow::of)?;
    for row in rows.iter().filter(|row| matches!(row.state, SegmentState::Live | SegmentState::Complete)) {
        if !segment::is_as_written(connection, *row)? {
            report(format!("segment {} of the used run ids is not as it was written", row.number));
        }
    }
    Ok(())
}

/// Deletes all segments.
pub(crate) fn clear(connection: &Connection) -> Result<()> {
    for statement in [&sql::CLEAR_RUN_PAGES, &sql::CLEAR_RUN_SEGMENTS] {
        execute(connection, statement, [])?;
    }
    Ok(())
}
