//! How run ids are stored: packed into 9 bytes with one that says what the id is, sorted, up to 400 on a page. A page fits on
//! one page of the file.

use rusqlite::{Connection, OptionalExtension, params};
use taskqueue_core::ids::{ID_BYTES, RunId};

use crate::bloom_filter::BloomFilter;
use crate::statements as sql;
use crate::used_runs::segment::SegmentIndex;

/// A run id without its prefix: the 9 bytes that its 12 characters stand for.
pub(crate) type PackedRun = [u8; ID_BYTES];

/// A hash of a run id. Clients choose the ids and could choose some that look alike here: their claims would then ask the disk.
pub(crate) fn hash(run: PackedRun) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&run[..8]);
    let mut hash = u64::from_le_bytes(first) ^ u64::from(run[8]).wrapping_mul(0xff51_afd7_ed55_8ccd);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        hash = (hash ^ (hash >> shift)).wrapping_mul(factor);
    }
    hash ^ (hash >> 31)
}

/// A packed run id, then whether it is used (1) or forgotten (0).
pub(crate) type Entry = [u8; ENTRY_BYTES];

const ENTRY_BYTES: usize = ID_BYTES + 1;
pub(crate) const PAGE_ENTRIES: usize = 400;

/// What a segment says about a run id. "Forgotten" cancels what older segments say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Used,
    Forgotten,
}

pub(crate) fn entry(run_id: RunId, is: Use) -> Entry {
    let mut entry = [0; ENTRY_BYTES];
    entry[..ID_BYTES].copy_from_slice(&run_id.to_bytes());
    entry[ID_BYTES] = u8::from(is == Use::Used);
    entry
}

pub(crate) fn run_of(entry: &Entry) -> PackedRun {
    let mut run = [0; ID_BYTES];
    run.copy_from_slice(&entry[..ID_BYTES]);
    run
}

pub(crate) fn use_of(entry: &Entry) -> Use {
    if entry[ID_BYTES] == 0 { Use::Forgotten } else { Use::Used }
}

/// The entries of a stored page.
pub(crate) fn entries(page: &[u8]) -> &[Entry] {
    page.as_chunks().0
}

/// What a page says about a run id.
pub(crate) fn find(page: &[u8], run: PackedRun) -> Option<Use> {
    let entries = entries(page);
    let at = entries.binary_search_by(|entry| entry[..ID_BYTES].cmp(&run)).ok()?;
    Some(use_of(&entries[at]))
}

/// The number of a page in the file.
pub(crate) fn page_number(segment: i64, page: i64) -> i64 {
    (segment << 32) | page
}

/// Passes a stored page to `read`; nothing if it is not there.
pub(crate) fn with_page<T>(
    connection: &Connection,
    (segment, page): (i64, i64),
    read: impl FnOnce(&[u8]) -> T,
) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql::FIND_RUN_PAGE)?;
    statement.query_row([page_number(segment, page)], |row| Ok(read(row.get_ref(0)?.as_blob()?))).optional()
}

/// Writes the pages of a segment, in ascending order of the run ids.
pub(crate) struct PageWriter {
    pub(crate) segment: i64,
    pub(crate) pages: i64,
    pub(crate) entries: u64,
    page: Vec<u8>,
}

impl PageWriter {
    /// A writer that continues behind what was written before.
    pub(crate) fn new(segment: i64, pages: i64, entries: u64) -> Self {
        Self { segment, pages, entries, page: Vec::with_capacity(PAGE_ENTRIES * ENTRY_BYTES) }
    }

    /// Adds an entry. Returns whether that filled a page, which was written.
    pub(crate) fn add(&mut self, connection: &Connection, entry: &Entry) -> rusqlite::Result<bool> {
        self.page.extend_from_slice(entry);
        self.entries += 1;
        let full = self.page.len() >= PAGE_ENTRIES * ENTRY_BYTES;
        if full {
            self.write(connection)?;
        }
        Ok(full)
    }

    /// Writes the last page.
    pub(crate) fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.page.is_empty() { Ok(()) } else { self.write(connection) }
    }

    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let values = params![page_number(self.segment, self.pages), self.page];
        connection.prepare_cached(sql::INSERT_RUN_PAGE)?.execute(values)?;
        self.pages += 1;
        self.page.clear();
        Ok(())
    }
}

/// Writes a whole segment. The entries are in ascending order, each run id once.
pub(crate) fn write_segment(
    connection: &Connection,
    segment: i64,
    sorted: &[Entry],
    filter_bytes: usize,
) -> rusqlite::Result<(PageWriter, SegmentIndex)> {
    let mut writer = PageWriter::new(segment, 0, 0);
    let mut filter = BloomFilter::new(sorted.len(), filter_bytes);
    for entry in sorted {
        writer.add(connection, entry)?;
        filter.as_mut().map(|filter| filter.add(hash(run_of(entry)))).unwrap_or_default();
    }
    writer.finish(connection)?;
    let first_runs = sorted.iter().step_by(PAGE_ENTRIES).map(run_of).collect();
    Ok((writer, SegmentIndex { first_runs, filter }))
}
