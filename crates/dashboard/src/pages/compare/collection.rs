//! The tasks that are compared, in memory: paths and values are kept once, tasks refer to them. Everything has a bound.

use std::collections::{HashMap, HashSet};

use taskqueue_core::ids::TaskId;
use taskqueue_core::status::Status;

use super::record::Record;
use super::value::{Kind, Value};

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
        self.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or_else(|| self.id.as_str())
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
    value_places: HashMap<(Kind, bool, Box<str>), u32>,
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

    /// Whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.cells >= CELLS || self.text_bytes >= TEXT_BYTES
    }

    pub(super) fn push(&mut self, record: Record) {
        let mut cells = Vec::new();
        for cell in record.cells() {
            let path = match self.path_places.get(cell.path) {
                Some(path) => *path,
                None if self.paths.len() < PATHS => self.keep_path(cell.path),
                None => {
                    self.has_more_paths = true;
                    continue;
                }
            };
            cells.push((path, self.keep_value(cell.kind, cell.text, cell.is_cut)));
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

    fn keep_value(&mut self, kind: Kind, text: &str, is_cut: bool) -> u32 {
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
        let at = row.cells.binary_search_by_key(&path, |(known, _)| *known).ok()?;
        self.values.get(row.cells[at].1 as usize)
    }

    /// How many different values there are at a path.
    pub(super) fn different(&self, path: PathIndex) -> usize {
        let place =
            |row: &Row| row.cells.binary_search_by_key(&path, |(known, _)| *known).ok().map(|at| row.cells[at].1);
        self.rows.iter().filter_map(place).collect::<HashSet<u32>>().len()
    }

    /// What the values at each path are, by path.
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
    /// Whether it can be drawn and averaged: some numbers, and nearly nothing else (such as `"NaN"`).
    pub(super) fn is_numeric(&self) -> bool {
        self.numbers > 0 && self.numbers * 2 > self.present
    }
}
