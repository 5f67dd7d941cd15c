//! The tasks that are compared: which are read, and what is kept of them. A task is read into a record, each value within a bound; records are collected so that
//! paths and values are kept once and tasks refer to them. No task is held whole, and everything has a bound.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use taskqueue_core::{QueueName, Status, TaskId, TaskOrder, TaskQuery, TaskSelection, TaskView, Timestamp};
use taskqueue_store::{Store, StoreError, StoreExt};

use super::value::{Path, Value, ValueKind};
use super::view::View;
use crate::columns::{Column, leaves};
use crate::problem::Problem;
use crate::selected::find_task;
use crate::show;
use crate::show::scale::without_zeros;
use crate::state::on_own_thread;

/// Values of a document that are looked at without being asked for.
const DOCUMENT_VALUES: usize = 100;

/// Documents whose values are looked at.
const DOCUMENTS_READ: [&str; 5] = ["args", "result", "progress", "metadata", "last_run.worker"];
/// What a task has besides its documents.
const FIELDS_READ: [&str; 6] = ["status", "name", "attempt", "priority", "last_route", "created_at"];

/// What is kept of one task.
struct Record {
    id: TaskId,
    name: Option<String>,
    status: Status,
    /// Whether there are values that were not looked at.
    is_partial: bool,
    /// Values with their paths.
    cells: Vec<(String, Value)>,
}

impl Record {
    fn of(task: &TaskView<'_>, columns: &[Column]) -> Self {
        let (mut cells, mut is_partial) = (times(task), false);
        let value = |column: &Column| Some((column.path().to_owned(), Value::of(&column.value(task)?)));
        cells.extend(columns.iter().filter_map(value));
        for document in DOCUMENTS_READ {
            let found = leaves(task, &[document], DOCUMENT_VALUES);
            is_partial |= found.len() == DOCUMENT_VALUES;
            cells.extend(found.into_iter().map(|(path, value)| (path, Value::of(&value))));
        }
        cells.shrink_to_fit();
        Self { id: task.id, name: task.name.map(str::to_owned), status: task.status, is_partial, cells }
    }

    /// Returns the bytes of memory that it takes.
    fn bytes(&self) -> usize {
        let name = self.name.as_deref().map_or(0, str::len);
        let cell = |(path, value): &(String, Value)| size_of::<(String, Value)>() + path.capacity() + value.text.len();
        size_of::<Self>() + name + self.cells.iter().map(cell).sum::<usize>()
    }
}

/// Returns how long a task took and waited, as if these were values.
fn times(task: &TaskView<'_>) -> Vec<(String, Value)> {
    let took = task.started_at.zip(task.finished_at).map(|times| ("duration", times));
    let waited = task.started_at.map(|started_at| ("wait", (task.created_at, started_at)));
    let value = |(from, to)| Value::new(ValueKind::Number, &seconds_between(from, to), false);
    took.into_iter().chain(waited).map(|(path, times)| (path.to_owned(), value(times))).collect()
}

/// Seconds with all the microseconds that there are.
fn seconds_between(from: Timestamp, to: Timestamp) -> String {
    let micros = to.as_micros().saturating_sub(from.as_micros()).max(0);
    without_zeros(&format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000))
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
    fn new(wanted: &[Path]) -> Self {
        let mut collection = Self::default();
        for path in wanted {
            collection.keep_path(&path.text);
        }
        collection
    }

    /// Returns whether nothing more fits.
    fn is_full(&self) -> bool {
        self.cells >= CELLS || self.text_bytes >= TEXT_BYTES
    }

    fn push(&mut self, record: Record) {
        let mut cells = Vec::new();
        for (path, value) in record.cells {
            let path = match self.path_places.get(&path) {
                Some(path) => *path,
                None if self.paths.len() < PATHS => self.keep_path(&path),
                None => {
                    self.has_more_paths = true;
                    continue;
                }
            };
            cells.push((path, self.keep_value(value)));
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

    fn keep_value(&mut self, value: Value) -> u32 {
        let key = (value.kind, value.is_cut, value.text.clone());
        if let Some(known) = self.value_places.get(&key) {
            return *known;
        }
        let place = self.values.len() as u32;
        self.text_bytes += 2 * value.text.len();
        self.values.push(value);
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

    /// The values of each task with the places of their paths in [`Collection::paths`].
    pub(super) fn cells(&self) -> impl Iterator<Item = (usize, &Value)> {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        cells.map(|(path, value)| (*path as usize, &self.values[*value as usize]))
    }
}

/// Bytes of a page on its way from the store.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Chosen tasks that are read at once. Each may have two megabytes.
const READS_AT_ONCE: usize = 4;

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

/// Reads what a view asks for: the tasks that match, newest first, up to a number; or those that were chosen one by one. Nothing if its
/// filter is not valid.
pub(super) async fn read(store: &dyn Store, queue: &QueueName, view: &View) -> Result<(Collection, Extent), Problem> {
    let Ok(selection) = view.selection.clone() else { return Ok(Default::default()) };
    let wanted = view.paths();
    let mut collection = Collection::new(&wanted);
    let fields = FIELDS_READ.into_iter().filter_map(Column::parse);
    let columns: Arc<[Column]> = wanted.into_iter().filter_map(|path| path.column).chain(fields).collect();
    let extent = if view.ids.is_empty() {
        read_matching(store, queue, selection, columns, view.most, &mut collection).await?
    } else {
        read_chosen(store, queue, selection, columns, &view.ids, &mut collection).await?
    };
    Ok((collection, extent))
}

async fn read_matching(
    store: &dyn Store,
    queue: &QueueName,
    selection: TaskSelection,
    columns: Arc<[Column]>,
    most: usize,
    into: &mut Collection,
) -> Result<Extent, Problem> {
    let mut after = None;
    loop {
        let limit = u16::try_from(most - into.rows.len()).unwrap_or(u16::MAX);
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
        if after.is_none() || into.rows.len() >= most || into.is_full() {
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

async fn read_chosen(
    store: &dyn Store,
    queue: &QueueName,
    selection: TaskSelection,
    columns: Arc<[Column]>,
    ids: &[TaskId],
    into: &mut Collection,
) -> Result<Extent, Problem> {
    let mut extent = Extent { is_all: true, ..Extent::default() };
    let mut tasks = stream::iter(ids.to_vec()).map(|id| find_task(store, queue, id)).buffered(READS_AT_ONCE);
    let chosen = Arc::new((selection, columns));
    while let Some(task) = tasks.next().await {
        let Some(task) = task? else {
            extent.gone += 1;
            continue;
        };
        let (mut collection, chosen) = (std::mem::take(into), Arc::clone(&chosen));
        let collect = move || {
            let (view, (selection, columns)) = (task.view(), &*chosen);
            let is_wanted = selection.matches(&view);
            let has_room = !is_wanted || !collection.is_full();
            if is_wanted && has_room {
                collection.push(Record::of(&view, columns));
            }
            (collection, has_room)
        };
        (*into, extent.is_all) = on_own_thread(collect).await?;
        if !extent.is_all {
            break;
        }
    }
    Ok(extent)
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
