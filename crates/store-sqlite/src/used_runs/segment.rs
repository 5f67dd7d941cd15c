//! A segment: a sorted set of run ids on pages of the file, which never changes. Run ids are packed into 9 bytes with one that says
//! what the id is, up to 400 on a page, which fits on one page of the file. What is kept of a segment in memory says on which page
//! an id would be, and mostly that it is on none. A thread reads segments to build that: all of them after a start, and each one
//! that was merged. It has a connection of its own, so the writer goes on meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, Result, Row, params};
use taskqueue_core::ids::{ID_BYTES, RunId};

use crate::bloom_filter::BloomFilter;
use crate::queries::{CONTINUE, each_row, execute, first_row, is_unreadable};
use crate::statements as sql;

/// Pages that one statement reads to build an index: a read that lasts long keeps the log from being reused.
const PAGES_AT_ONCE: i64 = 256;

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

/// The use of a run id, as a segment says it. "Forgotten" cancels what older segments say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdUse {
    Used,
    Forgotten,
}

pub(crate) fn entry(run_id: RunId, is: IdUse) -> Entry {
    let mut entry = [0; ENTRY_BYTES];
    entry[..ID_BYTES].copy_from_slice(&run_id.to_bytes());
    entry[ID_BYTES] = u8::from(is == IdUse::Used);
    entry
}

pub(crate) fn run_of(entry: &Entry) -> PackedRun {
    let mut run = [0; ID_BYTES];
    run.copy_from_slice(&entry[..ID_BYTES]);
    run
}

pub(crate) fn use_of(entry: &Entry) -> IdUse {
    if entry[ID_BYTES] == 0 { IdUse::Forgotten } else { IdUse::Used }
}

/// The entries of a stored page.
pub(crate) fn entries(page: &[u8]) -> &[Entry] {
    page.as_chunks().0
}

/// Returns what a page says about a run id.
pub(crate) fn find(page: &[u8], run: PackedRun) -> Option<IdUse> {
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
) -> Result<Option<T>> {
    let number = page_number(segment, page);
    first_row(connection, &sql::FIND_RUN_PAGE, [number], |row| Ok(read(row.get_ref(0)?.as_blob()?)))
}

/// Writes the pages of a segment, in ascending order of the run ids.
pub(crate) struct PageWriter {
    /// The segment as far as it is written.
    pub(crate) row: SegmentRow,
    page: Vec<u8>,
}

impl PageWriter {
    /// A writer that continues behind what was written before.
    pub(crate) fn new(row: SegmentRow) -> Self {
        Self { row, page: Vec::with_capacity(PAGE_ENTRIES * ENTRY_BYTES) }
    }

    /// Adds an entry. Returns whether that filled a page, which was written.
    pub(crate) fn add(&mut self, connection: &Connection, entry: &Entry) -> Result<bool> {
        self.page.extend_from_slice(entry);
        self.row.entries += 1;
        let full = self.page.len() >= PAGE_ENTRIES * ENTRY_BYTES;
        if full {
            self.write(connection)?;
        }
        Ok(full)
    }

    /// Writes the last page, and the segment in its new state.
    pub(crate) fn finish(&mut self, connection: &Connection, state: SegmentState) -> Result<()> {
        if !self.page.is_empty() {
            self.write(connection)?;
        }
        self.row.state = state;
        self.row.save(connection)
    }

    fn write(&mut self, connection: &Connection) -> Result<()> {
        let values = params![page_number(self.row.number, self.row.pages), self.page];
        execute(connection, &sql::INSERT_RUN_PAGE, values)?;
        self.row.pages += 1;
        self.page.clear();
        Ok(())
    }
}

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Other segments are being merged into it. They are still asked.
    Building,
    /// All of them are in it, but they are still asked.
    Complete,
    Live,
    /// It was merged into another one, and its pages are being deleted.
    Dead,
}

impl SegmentState {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Building, "building"), (Self::Complete, "complete"), (Self::Live, "live"), (Self::Dead, "dead")];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(state, _)| *state == self).map_or("", |(_, text)| text)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(state, _)| *state)
    }
}

/// A row of `run_segments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRow {
    pub(crate) number: i64,
    /// The numbers of the oldest and the newest segment that it holds, before any of them was merged.
    pub(crate) oldest: i64,
    pub(crate) newest: i64,
    pub(crate) state: SegmentState,
    pub(crate) pages: i64,
    pub(crate) entries: u64,
}

impl SegmentRow {
    /// One of which nothing is written.
    pub(crate) fn begun(number: i64, oldest: i64, newest: i64) -> Self {
        Self { number, oldest, newest, state: SegmentState::Building, pages: 0, entries: 0 }
    }

    pub(crate) fn of(row: &Row<'_>) -> Result<Self> {
        let state = SegmentState::parse(row.get_ref("state")?.as_str()?);
        Ok(Self {
            number: row.get("segment")?,
            oldest: row.get("oldest")?,
            newest: row.get("newest")?,
            state: state.ok_or(rusqlite::types::FromSqlError::InvalidType)?,
            pages: row.get("pages")?,
            entries: u64::try_from(row.get::<_, i64>("entries")?).unwrap_or(0),
        })
    }

    pub(crate) fn save(&self, connection: &Connection) -> Result<()> {
        let Self { number, oldest, newest, state, pages, entries } = self;
        let entries = i64::try_from(*entries).unwrap_or(i64::MAX);
        let values = params![number, oldest, newest, state.as_str(), pages, entries];
        execute(connection, &sql::SAVE_RUN_SEGMENT, values).map(drop)
    }
}

/// The index of a segment, which is kept in memory.
pub(crate) struct SegmentIndex {
    /// The first run id of each page.
    pub(crate) first_runs: Vec<PackedRun>,
    /// Nothing if there is no memory for it: then every question goes to the disk.
    pub(crate) filter: Option<BloomFilter>,
}

/// The slot for the index of a segment. It is built once, perhaps by another thread; nothing inside means that it could not.
pub(crate) type IndexSlot = Arc<OnceLock<Option<SegmentIndex>>>;

impl SegmentIndex {
    /// Reads all pages of a segment. Nothing if some are not there, because the segment was merged and deleted meanwhile,
    /// or if `wanted` says no.
    pub(crate) fn build(
        connection: &Connection,
        row: SegmentRow,
        filter_bytes: usize,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Option<Self>> {
        let mut filter = BloomFilter::new(usize::try_from(row.entries).unwrap_or(usize::MAX), filter_bytes);
        let mut first_runs = Vec::new();
        let mut first_page = 0;
        while first_page < row.pages && wanted() {
            let last_page = row.pages.min(first_page + PAGES_AT_ONCE) - 1;
            let between = [page_number(row.number, first_page), page_number(row.number, last_page)];
            each_row(connection, &sql::LIST_RUN_PAGES, between, |page| {
                let entries = entries(page.get_ref("entries")?.as_blob()?);
                first_runs.extend(entries.first().map(run_of));
                if let Some(filter) = &mut filter {
                    entries.iter().for_each(|entry| filter.add(hash(run_of(entry))));
                }
                Ok(CONTINUE)
            })?;
            first_page = last_page + 1;
        }
        let whole = i64::try_from(first_runs.len()) == Ok(row.pages);
        Ok(whole.then_some(Self { first_runs, filter }))
    }
}

/// Returns whether a segment has the pages and the entries that its row says, in ascending order.
pub(crate) fn is_as_written(connection: &Connection, row: SegmentRow) -> Result<bool> {
    let (mut pages, mut count, mut last, mut ordered) = (0, 0_u64, None, true);
    let between = [page_number(row.number, 0), page_number(row.number + 1, 0) - 1];
    each_row(connection, &sql::LIST_RUN_PAGES, between, |page| {
        let bytes = page.get_ref("entries")?.as_blob()?;
        ordered &= page.get::<_, i64>("page")? == page_number(row.number, pages);
        ordered &= !bytes.is_empty() && bytes.len() == size_of_val(entries(bytes));
        for entry in entries(bytes) {
            ordered &= last < Some(run_of(entry));
            last = Some(run_of(entry));
            count += 1;
        }
        pages += 1;
        Ok(CONTINUE)
    })?;
    Ok(ordered && (pages, count) == (row.pages, row.entries))
}

pub(crate) struct Segment {
    pub(crate) row: SegmentRow,
    pub(crate) index: IndexSlot,
}

impl Segment {
    pub(crate) fn new(row: SegmentRow, index: SegmentIndex) -> Self {
        Self { row, index: Arc::new(OnceLock::from(Some(index))) }
    }

    fn index(&self) -> Option<&SegmentIndex> {
        self.index.get().and_then(Option::as_ref)
    }

    /// The memory of the filter.
    pub(crate) fn filter_bytes(&self) -> usize {
        self.index().and_then(|index| index.filter.as_ref()).map_or(0, BloomFilter::bytes)
    }

    /// Returns whether a run id with this hash may be here, as far as that is known without the disk.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        self.index().and_then(|index| index.filter.as_ref()).is_none_or(|filter| filter.may_hold(hash))
    }

    /// Returns what the pages say about a run id.
    pub(crate) fn find(&self, connection: &Connection, run: PackedRun) -> Result<Option<IdUse>> {
        let Some(page) = self.page_of(connection, run)? else { return Ok(None) };
        let find = |page: &[u8]| (!entries(page).is_empty()).then(|| find(page, run));
        let found = with_page(connection, (self.row.number, page), find)?;
        found.flatten().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// The page that would hold a run id: the last one that does not begin behind it.
    fn page_of(&self, connection: &Connection, run: PackedRun) -> Result<Option<i64>> {
        if let Some(index) = self.index() {
            let behind = index.first_runs.partition_point(|first| *first <= run);
            return Ok(i64::try_from(behind).ok().and_then(|behind| behind.checked_sub(1)).filter(|page| *page >= 0));
        }
        let (mut low, mut high) = (0, self.row.pages);
        while low < high {
            let middle = i64::midpoint(low, high);
            let first = |page: &[u8]| entries(page).first().map(run_of);
            let first = with_page(connection, (self.row.number, middle), first)?;
            match first.flatten().ok_or(rusqlite::Error::QueryReturnedNoRows)? <= run {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok((low > 0).then_some(low - 1))
    }

    /// The place of the first entry behind a run id: page and place on it.
    pub(crate) fn place_behind(&self, connection: &Connection, run: PackedRun) -> Result<(i64, usize)> {
        let Some(page) = self.page_of(connection, run)? else { return Ok((0, 0)) };
        let behind = |page: &[u8]| entries(page).partition_point(|entry| run_of(entry) <= run);
        let place = with_page(connection, (self.row.number, page), behind)?;
        Ok((page, place.ok_or(rusqlite::Error::QueryReturnedNoRows)?))
    }
}

/// Writes a whole segment. The entries are in ascending order, each run id once.
pub(crate) fn write_segment(
    connection: &Connection,
    number: i64,
    sorted: &[Entry],
    filter_bytes: usize,
) -> Result<Segment> {
    let mut writer = PageWriter::new(SegmentRow::begun(number, number, number));
    let mut filter = BloomFilter::new(sorted.len(), filter_bytes);
    for entry in sorted {
        writer.add(connection, entry)?;
        filter.as_mut().map(|filter| filter.add(hash(run_of(entry)))).unwrap_or_default();
    }
    writer.finish(connection, SegmentState::Live)?;
    let first_runs = sorted.iter().step_by(PAGE_ENTRIES).map(run_of).collect();
    Ok(Segment::new(writer.row, SegmentIndex { first_runs, filter }))
}

/// Pause after which indexes that could not be built are tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// A segment whose index is wanted.
pub(crate) struct IndexRequest {
    pub(crate) row: SegmentRow,
    pub(crate) filter_bytes: usize,
    pub(crate) slot: IndexSlot,
}

/// The way for requests; `None` ends the thread.
pub(crate) type IndexRequests = Sender<Option<IndexRequest>>;

/// The running thread. Ends with it.
pub(crate) struct IndexBuilder {
    pub(crate) requests: IndexRequests,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IndexBuilder {
    pub(crate) fn start(connection: Connection) -> std::io::Result<Self> {
        let (requests, received) = channel();
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::Builder::new()
            .name("run-filters".into())
            .spawn(move || run(&connection, &received, &is_ending))?;
        Ok(Self { requests, ending, thread: Some(thread) })
    }
}

impl Drop for IndexBuilder {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = self.requests.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, requests: &Receiver<Option<IndexRequest>>, ending: &AtomicBool) {
    let mut failed: Vec<IndexRequest> = Vec::new();
    loop {
        let received = match failed.is_empty() {
            true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => requests.recv_timeout(RETRY_PAUSE),
        };
        match received {
            Ok(Some(request)) => failed.extend(build(connection, request, ending)),
            Err(RecvTimeoutError::Timeout) => {
                failed = failed.into_iter().filter_map(|request| build(connection, request, ending)).collect();
            }
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Builds an index. Gives the request back if the database could not be read now.
fn build(connection: &Connection, request: IndexRequest, ending: &AtomicBool) -> Option<IndexRequest> {
    let IndexRequest { row, filter_bytes, slot } = &request;
    // A segment that nobody holds any more was merged.
    let wanted = || !ending.load(Ordering::Relaxed) && Arc::strong_count(slot) > 1;
    if !wanted() {
        return None;
    }
    let built = SegmentIndex::build(connection, *row, *filter_bytes, &wanted);
    if let Err(error) = &built {
        tracing::warn!(%error, "used run ids could not be read to speed up claims; claims ask the disk meanwhile");
        // With a damaged page it stays so. A claim that asks for that page lets all of them be made anew.
        if !is_unreadable(error) {
            return Some(request);
        }
    }
    let _ = slot.set(built.unwrap_or_default());
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate;

    #[test]
    fn an_index_that_could_not_be_built_is_built_later() {
        let mut connection = Connection::open_in_memory().unwrap();
        let (slot, ending) = (IndexSlot::default(), AtomicBool::new(false));
        let row = SegmentRow { number: 1, oldest: 1, newest: 1, state: SegmentState::Live, pages: 1, entries: 1 };
        let request = IndexRequest { row, filter_bytes: 1 << 20, slot: slot.clone() };
        // The table is not there yet.
        let again = build(&connection, request, &ending).unwrap();
        assert!(slot.get().is_none());
        migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
        let page = "INSERT INTO run_pages (page, entries) VALUES (1 << 32, x'00010203040506070801')";
        connection.execute(page, []).unwrap();
        assert!(build(&connection, again, &ending).is_none());
        assert!(slot.get().is_some_and(Option::is_some));
    }
}
