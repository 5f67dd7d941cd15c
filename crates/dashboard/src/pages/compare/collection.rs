//! The tasks that are compared: which are read, and what is kept of them. A task is read into a record, each value within a bound; records are collected so that
//! paths and values are kept once and tasks refer to them. No task is held whole, and everything has a bound.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::selection::{TaskOrder, TaskQuery, TaskSelection};
use taskqueue_core::status::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;
use taskqueue_store::{Store, StoreError, StoreExt};

use super::value::{Path, Value, ValueKind, kept};
use crate::columns::{Column, Value as StoredValue, leaves};
use crate::problem::Problem;
use crate::selected::find_task;
use crate::show;
use crate::state::on_own_thread;

/// Values of a document that are looked at without being asked for.
const DOCUMENT_VALUES: usize = 100;

/// Documents whose values are looked at.
const DOCUMENTS_READ: [&str; 5] = ["args", "result", "progress", "metadata", "last_run.worker"];
/// What a task has besides its documents.
const FIELDS_READ: [&str; 6] = ["status", "name", "attempt", "priority", "last_route", "created_at"];

/// Returns what is read of each task in any case.
pub(super) fn read_columns(wanted: &[Path]) -> Vec<Column> {
    let fields = FIELDS_READ.into_iter().filter_map(Column::parse);
    wanted.iter().filter_map(|path| path.column.clone()).chain(fields).collect()
}

/// What is kept of one task.
pub(super) struct Record {
    pub(super) id: TaskId,
    pub(super) name: Option<String>,
    pub(super) status: Status,
    /// Whether there are values that were not looked at.
    pub(super) is_partial: bool,
    cells: Vec<RecordCell>,
}

/// One value with its path.
struct RecordCell {
    path: String,
    kind: ValueKind,
    text: String,
    is_cut: bool,
}

impl Record {
    pub(super) fn of(task: &TaskView<'_>, columns: &[Column]) -> Self {
        let (id, name, status) = (task.id, task.name.map(str::to_owned), task.status);
        let mut record = Self { id, name, status, is_partial: false, cells: Vec::new() };
        record.add_times(task);
        for column in columns {
            if let Some(value) = column.value(task) {
                record.add_value(column.path().to_owned(), &value);
            }
        }
        for document in DOCUMENTS_READ {
            let found = leaves(task, &[document], DOCUMENT_VALUES);
            record.is_partial |= found.len() == DOCUMENT_VALUES;
            found.into_iter().for_each(|(path, value)| record.add_value(path, &value));
        }
        record.cells.shrink_to_fit();
        record
    }

    /// Returns the bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let name = self.name.as_deref().map_or(0, str::len);
        let cell = |cell: &RecordCell| size_of::<RecordCell>() + cell.path.capacity() + cell.text.capacity();
        size_of::<Self>() + name + self.cells.iter().map(cell).sum::<usize>()
    }

    /// Adds how long it took and waited, as if these were values.
    fn add_times(&mut self, task: &TaskView<'_>) {
        let mut add = |path: &str, text| {
            self.cells.push(RecordCell { path: path.to_owned(), kind: ValueKind::Number, text, is_cut: false });
        };
        if let (Some(from), Some(to)) = (task.started_at, task.finished_at) {
            add("duration", seconds_between(from, to));
        }
        if let Some(from) = task.started_at {
            add("wait", seconds_between(task.created_at, from));
        }
    }

    fn add_value(&mut self, path: String, value: &StoredValue<'_>) {
        let (kind, text, is_cut) = kept(value);
        self.cells.push(RecordCell { path, kind, text, is_cut });
    }
}

/// Seconds with all the microseconds that there are.
fn seconds_between(from: Timestamp, to: Timestamp) -> String {
    let micros = to.as_micros().saturating_sub(from.as_micros()).max(0);
    let mut text = (micros / 1_000_000).to_string();
    if micros % 1_000_000 != 0 {
        let _ = write!(text, ".{:06}", micros % 1_000_000);
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// Different paths that are found; those that were asked for come first.
const PATHS: usize = 300;
/// Values and texts that are held; beyond it no further task is read.
const CELLS: usize = 600_000;
const TEXT_BYTES: usize = 8 * 1024 * 1024;

/// The place of a path in [`Collection::paths`].
pub(super) type PathIndex = u32;

/// A task, with its values by path.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: TaskId,
    pub(super) name: Option<String>,
    pub(super) status: Status,
    /// Sorted by path.
    cells: Vec<(PathIndex, u32)>,
}

impl Row {
    /// The name, or the id.
    pub(super) fn title(&self) -> &str {
        show::title(self.name.as_deref(), &self.id)
    }

    /// The place of its value at a path in [`Collection::values`].
    fn place(&self, path: PathIndex) -> Option<u32> {
        let at = self.cells.binary_search_by_key(&path, |(known, _)| *known).ok()?;
        Some(self.cells[at].1)
    }
}

#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) paths: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Whether there are more paths than are kept.
    pub(super) has_more_paths: bool,
    /// Tasks with more values than were looked at.
    pub(super) partial: usize,
    values: Vec<Value>,
    path_places: HashMap<String, PathIndex>,
    value_places: HashMap<(ValueKind, bool, Box<str>), u32>,
    cells: usize,
    text_bytes: usize,
}

impl Collection {
    /// With room for the paths that were asked for.
    pub(super) fn new<'p>(wanted: impl Iterator<Item = &'p str>) -> Self {
        let mut collection = Self::default();
        for path in wanted {
            collection.keep_path(path);
        }
        collection
    }

    /// Returns whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.cells >= CELLS || self.text_bytes >= TEXT_BYTES
    }

    pub(super) fn push(&mut self, record: Record) {
        let mut cells = Vec::new();
        for cell in &record.cells {
            let path = match self.path_places.get(&cell.path) {
                Some(path) => *path,
                None if self.paths.len() < PATHS => self.keep_path(&cell.path),
                None => {
                    self.has_more_paths = true;
                    continue;
                }
            };
            cells.push((path, self.keep_value(cell.kind, &cell.text, cell.is_cut)));
        }
        cells.sort_unstable();
        cells.dedup_by_key(|(path, _)| *path);
        self.cells += cells.len();
        self.partial += usize::from(record.is_partial);
        self.rows.push(Row { id: record.id, name: record.name, status: record.status, cells });
    }

    fn keep_path(&mut self, path: &str) -> PathIndex {
        if let Some(known) = self.path_places.get(path) {
            return *known;
        }
        let place = self.paths.len() as PathIndex;
        self.paths.push(path.to_owned());
        self.path_places.insert(path.to_owned(), place);
        place
    }

    fn keep_value(&mut self, kind: ValueKind, text: &str, is_cut: bool) -> u32 {
        let key = (kind, is_cut, Box::from(text));
        if let Some(known) = self.value_places.get(&key) {
            return *known;
        }
        let place = self.values.len() as u32;
        self.text_bytes += 2 * text.len();
        self.values.push(Value::new(kind, text, is_cut));
        self.value_places.insert(key, place);
        place
    }

    pub(super) fn path(&self, text: &str) -> Option<PathIndex> {
        self.path_places.get(text).copied()
    }

    /// The value of a task at a path.
    pub(super) fn value(&self, row: &Row, path: PathIndex) -> Option<&Value> {
        self.values.get(row.place(path)? as usize)
    }

    /// Returns how many different values there are at a path.
    pub(super) fn different(&self, path: PathIndex) -> usize {
        self.rows.iter().filter_map(|row| row.place(path)).collect::<HashSet<u32>>().len()
    }

    /// Returns what the values at each path are, by path.
    pub(super) fn facts(&self) -> Vec<Facts<'_>> {
        let mut facts = vec![Facts::default(); self.paths.len()];
        for (path, value) in self.rows.iter().flat_map(|row| &row.cells) {
            let (facts, value) = (&mut facts[*path as usize], &self.values[*value as usize]);
            facts.present += 1;
            facts.numbers += usize::from(value.number.is_some());
            match facts.first {
                None => facts.first = Some(value),
                Some(first) if !facts.differs => facts.differs = first.key() != value.key(),
                Some(_) => {}
            }
        }
        for facts in &mut facts {
            facts.differs |= facts.present < self.rows.len();
        }
        facts
    }
}

/// What the values at one path are.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts<'c> {
    /// Tasks that have a value there.
    pub(super) present: usize,
    /// Tasks that have a number there.
    pub(super) numbers: usize,
    pub(super) first: Option<&'c Value>,
    /// Whether not all tasks have the same value there.
    pub(super) differs: bool,
}

impl Facts<'_> {
    /// Returns whether it can be drawn and averaged: some numbers, and nearly nothing else (such as `"NaN"`).
    pub(super) fn is_numeric(&self) -> bool {
        self.numbers > 0 && self.numbers * 2 > self.present
    }
}

/// Bytes of a page on its way from the store.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Chosen tasks that are read at once. Each may have two megabytes.
const READS_AT_ONCE: usize = 4;

/// The tasks that are compared: those that match, newest first, up to a number; or those that were chosen one by one.
pub(super) struct Wanted<'w> {
    pub(super) selection: TaskSelection,
    /// These and no others, unless empty.
    pub(super) ids: &'w [TaskId],
    /// How many at most.
    pub(super) most: usize,
    /// Values that are needed in any case.
    pub(super) paths: Vec<Path>,
}

/// How much of what matches was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Whether everything was read.
    pub(super) is_all: bool,
    /// How many match, where that is known.
    pub(super) matching: Option<u64>,
    /// Chosen tasks that are not there.
    pub(super) gone: usize,
}

impl Wanted<'_> {
    pub(super) async fn read(self, store: &dyn Store, queue: &QueueName) -> Result<(Collection, Extent), Problem> {
        let mut collection = Collection::new(self.paths.iter().map(|path| path.text.as_str()));
        let extent = if self.ids.is_empty() {
            self.read_matching(store, queue, &mut collection).await?
        } else {
            self.read_chosen(store, queue, &mut collection).await?
        };
        Ok((collection, extent))
    }

    async fn read_matching(
        self,
        store: &dyn Store,
        queue: &QueueName,
        into: &mut Collection,
    ) -> Result<Extent, Problem> {
        let (selection, columns) = (self.selection, Arc::new(read_columns(&self.paths)));
        let mut after = None;
        loop {
            let limit = u16::try_from(self.most - into.rows.len()).unwrap_or(u16::MAX);
            let (selection, columns) = (selection.clone(), Arc::clone(&columns));
            let query = TaskQuery { selection, order: TaskOrder::default(), limit, after, max_bytes: PAGE_BYTES };
            let read = move |task: &TaskView<'_>| {
                let record = Record::of(task, &columns);
                let bytes = record.bytes();
                (record, bytes)
            };
            let page = store.list_rows(queue, query, read).await?;
            let (records, mut collection) = (page.items, std::mem::take(into));
            let collect = move || {
                records.into_iter().for_each(|record| collection.push(record));
                collection
            };
            *into = on_own_thread(collect).await?;
            after = page.next;
            if after.is_none() || into.rows.len() >= self.most || into.is_full() {
                break;
            }
        }
        if after.is_none() {
            return Ok(Extent { is_all: true, matching: Some(into.rows.len() as u64), gone: 0 });
        }
        // A count that takes too long is left out rather than the page.
        let matching = match store.count_tasks(queue, selection).await {
            Ok(count) => Some(count),
            Err(StoreError::Busy) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Extent { is_all: false, matching, gone: 0 })
    }

    async fn read_chosen(self, store: &dyn Store, queue: &QueueName, into: &mut Collection) -> Result<Extent, Problem> {
        let mut extent = Extent { is_all: true, ..Extent::default() };
        let mut tasks = stream::iter(self.ids.to_vec()).map(|id| find_task(store, queue, id)).buffered(READS_AT_ONCE);
        let chosen = Arc::new((self.selection, read_columns(&self.paths)));
        while let Some(task) = tasks.next().await {
            let Some(task) = task? else {
                extent.gone += 1;
                continue;
            };
            let (mut collection, chosen) = (std::mem::take(into), Arc::clone(&chosen));
            let collect = move || {
                let (view, (selection, columns)) = (task.view(), &*chosen);
                if !selection.matches(&view) {
                    return (collection, true);
                }
                if collection.is_full() {
                    return (collection, false);
                }
                collection.push(Record::of(&view, columns));
                (collection, true)
            };
            (*into, extent.is_all) = on_own_thread(collect).await?;
            if !extent.is_all {
                break;
            }
        }
        Ok(extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_their_microseconds() {
        let at = Timestamp::from_micros;
        assert_eq!(seconds_between(at(1), at(2_500_001)), "2.5");
        assert_eq!(seconds_between(at(0), at(60_000_000)), "60");
        assert_eq!(seconds_between(at(0), at(1_000_010)), "1.00001");
        assert_eq!(seconds_between(at(5), at(1)), "0");
    }
}
