//! What the claim index writes to the file from time to time, so that neither memory nor a start grows with the number of
//! finished tasks: which tasks may be living (below), the used run ids (`used_runs.rs`), and how far that goes.
//! The hot path only adds to lists in memory. The reasons: docs/decisions/0002.

use std::ops::{ControlFlow, RangeInclusive};

use rusqlite::{Connection, Result, params};
use taskqueue_core::delta::{Delta, TallyLine};
use taskqueue_core::{Status, Timestamp};
use taskqueue_store::TaskKey;

use crate::queries::{CONTINUE, each_row, execute, first_row, is_unreadable};
use crate::used_runs::segment::{Entry, IdUse, IndexRequests, entry};
use crate::used_runs::{self, UsedRuns};
use crate::{rows, statements as sql};

/// Changes in memory after which a store that is closed writes them: with fewer the next start reads them as quickly.
const CLOSING_CHANGES: usize = 1_024;

/// Keys behind the last one that was written, with which a start reads their rows instead.
const KEYS_BEHIND_MAX: i64 = 65_536;
/// Run ids of one part: 10 MB of memory, and the past ones among them, at most half, 12 MB more while they are read.
const PART_RUNS: usize = 1_000_000;
/// Tasks of one part.
const PART_TASKS: usize = 4_000_000;

/// A past run, and the key of its task.
type PastRun = (i64, Entry);

/// Options of the history: when it is written, and what it may take in memory.
#[derive(Clone, Copy, Debug)]
pub struct HistoryOptions {
    /// Changes after which they are written: creations, ends of tasks and runs, deletions. So many rows does a start read
    /// after a crash, besides those of living tasks.
    pub flush_after: usize,
    /// The memory of the filters over used run ids: 10 bits for each, as far as they fit.
    pub filter_bytes: usize,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self { flush_after: 32_768, filter_bytes: 16 << 20 }
    }
}

/// The places up to which the history was written, from the table `claim_index`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) last_key: i64,
    pub(crate) flushed_at: Timestamp,
    pub(crate) latest_at: Timestamp,
}

impl Marks {
    pub(crate) fn load(connection: &Connection) -> Result<Self> {
        connection.prepare_cached(&sql::LOAD_MARKS)?.query_row([], |row| {
            let time = |column| row.get(column).map(Timestamp::from_micros);
            Ok(Self { last_key: row.get("last_key")?, flushed_at: time("flushed_at")?, latest_at: time("latest_at")? })
        })
    }

    /// The latest time is only ever moved forward.
    pub(crate) fn save(&self, connection: &Connection) -> Result<()> {
        let values = params![self.last_key, self.flushed_at.as_micros(), self.latest_at.as_micros()];
        execute(connection, &sql::SAVE_MARKS, values).map(drop)
    }
}

#[derive(Default)]
pub(crate) struct History {
    /// Nothing in a transfer, which leaves all of this to the first start.
    options: Option<HistoryOptions>,
    pub(crate) runs: UsedRuns,
    pub(crate) marks: Marks,
    /// The last key that was given to a task. A key is not given again, even if the last task was deleted: its bit may be
    /// written as one that has ended.
    pub(crate) last_key: i64,
    /// Tasks that have become pending or running, or have ended, since the last flush. Also what a start found to differ.
    changes: Vec<(TaskKey, bool)>,
    /// Tasks that were requeued in this transaction, and whose bit may not be set.
    revived: Vec<(TaskKey, bool)>,
    /// True if this transaction has changed tasks that a start may not read.
    touched: bool,
    /// True if the store is being closed.
    closing: bool,
    /// True if this process has found it damaged and made it anew.
    made_anew: bool,
}

impl History {
    pub(crate) fn new(options: HistoryOptions, builder: Option<IndexRequests>) -> Self {
        let runs = UsedRuns::new(options.filter_bytes, builder);
        Self { options: Some(options), runs, ..Self::default() }
    }

    /// Drops what is not in the file and reads what is. If that is damaged, it is made anew, but only once: reading all tasks
    /// at each claim would help nobody.
    pub(crate) fn reload(&mut self, connection: &Connection) -> Result<()> {
        if self.runs.is_damaged() && !self.made_anew {
            self.make_anew(connection)?;
        }
        match self.read(connection) {
            Err(error) if is_unreadable(&error) && !self.made_anew => {
                self.make_anew(connection)?;
                self.read(connection)
            }
            read => read,
        }
    }

    /// Everything here can be found in the rows of the tasks and of the deleted runs. The latest time is kept.
    fn make_anew(&mut self, connection: &Connection) -> Result<()> {
        tracing::error!("the list of used run ids in the database is damaged; it is made anew from all tasks");
        let transaction = connection.unchecked_transaction()?;
        let Marks { flushed_at, latest_at, .. } = Marks::load(&transaction)?;
        clear(&transaction)?;
        Marks { latest_at: latest_at.max(flushed_at), ..Marks::default() }.save(&transaction)?;
        transaction.commit()?;
        while write_part(connection)? {}
        self.runs.made_anew();
        self.made_anew = true;
        Ok(())
    }

    fn read(&mut self, connection: &Connection) -> Result<()> {
        (self.changes, self.revived, self.touched) = (Vec::new(), Vec::new(), false);
        self.marks = Marks::load(connection)?;
        let last_key = connection.prepare_cached(&sql::FIND_LAST_KEY)?.query_row([], |row| row.get(0))?;
        self.last_key = self.marks.last_key.max(last_key);
        self.runs.reload(connection)
    }

    /// The key for a new task; in a transfer the database chooses it.
    pub(crate) fn next_key(&self) -> Option<i64> {
        self.options.map(|_| self.last_key + 1)
    }

    /// Records that a task was created with this key. A creation that found its task there uses up none: a start reads what
    /// lies behind the last flush by its keys.
    pub(crate) fn key_given(&mut self, task: TaskKey) {
        self.last_key = self.last_key.max(task.0);
    }

    /// Records that a task is pending or running, or no longer. Said of tasks whose bit may be otherwise.
    pub(crate) fn set_living(&mut self, task: TaskKey, is: bool) {
        self.changes.push((task, is));
    }

    /// Records a change of a task.
    pub(crate) fn apply(&mut self, task: TaskKey, delta: &Delta<'_>) {
        let is_living = |line: TallyLine<'_>| matches!(line.status, Status::Pending | Status::Running);
        let (before, after) = (delta.tally.removed, delta.tally.added);
        let (was, is) = (before.is_some_and(is_living), after.is_some_and(is_living));
        if was != is {
            self.set_living(task, is);
        }
        if is && !was && before.is_some() && task.0 <= self.marks.last_key {
            self.revived.push((task, true));
        }
        if let Some(run_id) = delta.run.removed {
            self.runs.end(run_id);
        }
        if let Some(run_id) = delta.run.added {
            self.runs.begin(run_id);
        }
    }

    /// Records a change that leaves no other trace for a start: the update of a task that may have ended long ago.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    fn unflushed(&self) -> usize {
        self.changes.len() + self.runs.recent.len()
    }

    pub(crate) fn is_due(&self) -> bool {
        let full = self.options.is_some_and(|options| self.unflushed() >= options.flush_after);
        full || self.closing || self.runs.reused
    }

    /// Returns whether a store that is closed should write what it has. The next transaction then does.
    pub(crate) fn close(&mut self) -> bool {
        self.closing = self.unflushed() >= CLOSING_CHANGES;
        self.is_due()
    }

    /// Writes what the transaction must write, at its end. Most have nothing.
    pub(crate) fn finish(&mut self, connection: &Connection, now: Timestamp) -> Result<()> {
        if self.options.is_none() {
            return Ok(());
        }
        if std::mem::take(&mut self.touched) {
            execute(connection, &sql::TOUCH_MARKS, [now.as_micros()])?;
        }
        if self.is_due() {
            self.flush(connection, now)?;
        } else if !self.revived.is_empty() {
            save_living(connection, std::mem::take(&mut self.revived))?;
        }
        self.runs.work(connection)
    }

    /// Writes everything that is only in memory. All of it is what this transaction commits, or an earlier one did.
    pub(crate) fn flush(&mut self, connection: &Connection, now: Timestamp) -> Result<()> {
        self.revived.clear();
        save_living(connection, std::mem::take(&mut self.changes))?;
        self.runs.flush(connection)?;
        self.marks = Marks { last_key: self.last_key, flushed_at: now, latest_at: self.marks.latest_at.max(now) };
        self.marks.save(connection)
    }
}

/// Removes everything, so that the next start reads all tasks.
pub(crate) fn clear(connection: &Connection) -> Result<()> {
    execute(connection, &sql::CLEAR_LIVING_TASKS, [])?;
    used_runs::clear(connection)?;
    execute(connection, &sql::CLEAR_MARKS, []).map(drop)
}

/// A part of the history: what was read of some tasks.
#[derive(Default)]
struct HistoryPart {
    tasks: usize,
    last_key: Option<i64>,
    latest_at: Timestamp,
    living: Vec<(TaskKey, bool)>,
    runs: Vec<Entry>,
}

/// Writes the history of a file that has none or is far behind: one that a transfer filled, or whose history was damaged. A part at
/// a time, each in a transaction of its own, so that it continues after a crash; then a start reads few rows. Called before the
/// threads are started.
pub(crate) fn catch_up(connection: &Connection) -> Result<()> {
    while write_part(connection)? {
        // Nobody else does it yet.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    }
    Ok(())
}

/// Writes the next part, if the history is far behind; false if it is not.
fn write_part(connection: &Connection) -> Result<bool> {
    let last_key: i64 = connection.query_row(&sql::FIND_LAST_KEY, [], |row| row.get(0))?;
    let marks = Marks::load(connection)?;
    if last_key - marks.last_key <= KEYS_BEHIND_MAX {
        return Ok(false);
    }
    if marks.last_key == 0 {
        tracing::info!(tasks = last_key, "reading all tasks once, so that later starts need not");
    }
    let transaction = connection.unchecked_transaction()?;
    let part = read_part(&transaction, marks.last_key, PART_RUNS)?;
    let marks = Marks {
        last_key: part.last_key.unwrap_or(last_key),
        // Not changed: the run ids of deleted tasks are not written here.
        flushed_at: marks.flushed_at,
        latest_at: part.latest_at,
    };
    save_living(&transaction, part.living)?;
    UsedRuns::behind_all(&transaction)?.add_segment(&transaction, &part.runs)?;
    marks.save(&transaction)?;
    transaction.commit()?;
    tracing::info!(read = marks.last_key, of = last_key, "tasks were read");
    Ok(true)
}

/// Reads rows behind a key, up to about so many run ids. Nothing is said of the active runs: a start reads their tasks.
fn read_part(connection: &Connection, after: i64, most_runs: usize) -> Result<HistoryPart> {
    let (past_runs, until) = read_past_runs(connection, after, most_runs / 2)?;
    let mut part = HistoryPart { last_key: until, ..HistoryPart::default() };
    let most_finished = most_runs - past_runs.len().min(most_runs / 2);
    each_row(connection, &sql::LOAD_CLAIM_INDEX, [after + 1, until.unwrap_or(i64::MAX)], |row| {
        let task = rows::claim_index(row)?;
        part.tasks += 1;
        part.latest_at = part.latest_at.max(task.head.updated_at);
        part.runs.extend(task.finished_run_id.map(|run_id| entry(run_id, IdUse::Used)));
        if matches!(task.status, Status::Pending | Status::Running) {
            part.living.push((task.key, true));
        }
        let full = part.tasks >= PART_TASKS || part.runs.len() >= most_finished;
        if full {
            part.last_key = Some(task.key.0);
        }
        Ok(if full { ControlFlow::Break(()) } else { CONTINUE })
    })?;
    // Of tasks that are left to the next part, that one reads them again.
    let last_key = part.last_key.unwrap_or(i64::MAX);
    part.runs.extend(past_runs.into_iter().filter(|(key, _)| *key <= last_key).map(|(_, entry)| entry));
    part.runs.sort_unstable();
    part.runs.dedup();
    Ok(part)
}

/// The past runs of tasks behind a key, and the key of the task with which there are as many as may be; nothing if these are
/// all. A task has all its runs in one part.
fn read_past_runs(connection: &Connection, after: i64, most: usize) -> Result<(Vec<PastRun>, Option<i64>)> {
    let (mut runs, mut until): (Vec<PastRun>, _) = (Vec::new(), None);
    each_row(connection, &sql::LOAD_PAST_RUNS, [after + 1, i64::MAX], |row| {
        let key: i64 = row.get("task_key")?;
        if let Some((last, _)) = runs.last()
            && *last != key
            && runs.len() >= most
        {
            until = Some(*last);
            return Ok(ControlFlow::Break(()));
        }
        runs.push((key, entry(rows::run_id(row)?, IdUse::Used)));
        Ok(CONTINUE)
    })?;
    Ok((runs, until))
}

// Which tasks may be pending or running, as bits in the file: what a start looks at. ChunkBits of tasks that have ended since are
// harmless, so the hot path writes nothing here (docs/decisions/0002).

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
pub(crate) fn visit_living(
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
fn save_living(connection: &Connection, mut changes: Vec<(TaskKey, bool)>) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate;

    #[test]
    fn a_part_ends_where_its_past_runs_are_as_many_as_may_be() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
        for key in 1..=50 {
            for run in 0..3 {
                let values = rusqlite::params![key, format!("r_{key:06}{run:06}")];
                connection.execute("INSERT INTO past_runs (task_key, run_id) VALUES (?1, ?2)", values).unwrap();
            }
        }
        let (mut after, mut runs) = (0, Vec::new());
        loop {
            let part = read_part(&connection, after, 20).unwrap();
            assert!(part.runs.len() <= 20, "{} run ids in a part", part.runs.len());
            runs.extend(part.runs);
            let Some(last_key) = part.last_key else { break };
            assert!(last_key > after, "no progress behind {after}");
            after = last_key;
        }
        assert_eq!(runs.len(), 150);
        runs.dedup();
        assert_eq!(runs.len(), 150, "a run id in two parts");
    }
}
