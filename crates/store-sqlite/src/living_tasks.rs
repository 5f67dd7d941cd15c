//! Which tasks may be pending or running, as bits in the file: what a start looks at. ChunkBits of tasks that have ended since are
//! harmless, so the hot path writes nothing here (docs/decisions/0002).

use std::ops::RangeInclusive;

use rusqlite::{Connection, Result, params};
use taskqueue_store::transaction::TaskKey;

use crate::queries::{CONTINUE, each_row, execute, first_row};
use crate::statements as sql;

/// Keys of a chunk.
const CHUNK_KEYS: i64 = 4_096;
/// With more keys than this in a chunk, all its rows are read in their order: that takes less time than looking for each.
const DENSE: usize = 512;

/// The bits of a chunk.
#[derive(Clone)]
struct ChunkBits([u8; (CHUNK_KEYS / 8) as usize]);

impl ChunkBits {
    fn of(bytes: &[u8]) -> Self {
        let mut bits = Self([0; (CHUNK_KEYS / 8) as usize]);
        bits.0.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        bits
    }

    /// Returns the bits of a chunk that the file has.
    fn find(connection: &Connection, chunk: i64) -> Result<Option<Self>> {
        first_row(connection, &sql::FIND_LIVING_TASKS, [chunk], |row| Ok(Self::of(row.get_ref(0)?.as_blob()?)))
    }

    fn place(key: TaskKey) -> (usize, u8) {
        let place = key.0.rem_euclid(CHUNK_KEYS);
        (usize::try_from(place / 8).unwrap_or(0), 1 << (place % 8))
    }

    fn is_set(&self, key: TaskKey) -> bool {
        let (byte, bit) = Self::place(key);
        self.0[byte] & bit != 0
    }

    fn set(&mut self, key: TaskKey, is: bool) {
        let (byte, bit) = Self::place(key);
        if is {
            self.0[byte] |= bit;
        } else {
            self.0[byte] &= !bit;
        }
    }

    fn keys(&self, chunk: i64) -> Vec<TaskKey> {
        let is_set = |place: &i64| self.0[usize::try_from(place / 8).unwrap_or(0)] & (1 << (place % 8)) != 0;
        (0..CHUNK_KEYS).filter(is_set).map(|place| TaskKey(chunk * CHUNK_KEYS + place)).collect()
    }
}

/// Looks up the bits of tasks in the order of their keys, for a check.
#[derive(Default)]
pub(crate) struct LivingReader {
    chunk: Option<(i64, Option<ChunkBits>)>,
}

impl LivingReader {
    /// Returns whether the bit of a task is set.
    pub(crate) fn contains(&mut self, connection: &Connection, key: TaskKey) -> Result<bool> {
        let number = key.0.div_euclid(CHUNK_KEYS);
        if self.chunk.as_ref().is_none_or(|(loaded, _)| *loaded != number) {
            self.chunk = Some((number, ChunkBits::find(connection, number)?));
        }
        Ok(self.chunk.as_ref().and_then(|(_, bits)| bits.as_ref()).is_some_and(|bits| bits.is_set(key)))
    }
}

/// Passes the keys of each chunk to `visit`, with the ranges of keys in which their rows are to be read.
pub(crate) fn visit(
    connection: &Connection,
    mut visit: impl FnMut(&[TaskKey], Vec<RangeInclusive<i64>>) -> Result<()>,
) -> Result<()> {
    each_row(connection, &sql::LOAD_LIVING_TASKS, [], |row| {
        let keys = ChunkBits::of(row.get_ref("keys")?.as_blob()?).keys(row.get("chunk")?);
        let ranges = match (keys.first(), keys.last()) {
            (Some(first), Some(last)) if keys.len() > DENSE => vec![first.0..=last.0],
            _ => keys.iter().map(|key| key.0..=key.0).collect(),
        };
        visit(&keys, ranges)?;
        Ok(CONTINUE)
    })
}

/// Writes which tasks have become pending or running, and which have ended. Of several changes of a task the last one counts.
pub(crate) fn save(connection: &Connection, mut changes: Vec<(TaskKey, bool)>) -> Result<()> {
    let chunk_of = |(key, _): &(TaskKey, bool)| key.0.div_euclid(CHUNK_KEYS);
    changes.sort_by_key(chunk_of);
    for changes in changes.chunk_by(|one, other| chunk_of(one) == chunk_of(other)) {
        let chunk = chunk_of(&changes[0]);
        let before = ChunkBits::find(connection, chunk)?.unwrap_or_else(|| ChunkBits::of(&[]));
        let mut after = before.clone();
        changes.iter().for_each(|(key, is)| after.set(*key, *is));
        if after.0 == before.0 {
            continue;
        }
        if after.0.iter().all(|byte| *byte == 0) {
            execute(connection, &sql::DELETE_LIVING_TASKS, [chunk])?;
        } else {
            execute(connection, &sql::SAVE_LIVING_TASKS, params![chunk, after.0])?;
        }
    }
    Ok(())
}

/// Deletes all bits.
pub(crate) fn clear(connection: &Connection) -> Result<()> {
    execute(connection, &sql::CLEAR_LIVING_TASKS, []).map(drop)
}
