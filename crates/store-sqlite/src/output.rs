//! The output of tasks. A read looks up which bytes are kept, then reads only the pieces of the part that is wanted.

use rusqlite::{Connection, params};
use taskqueue_core::output::{OutputChange, Part};
use taskqueue_core::{QueueName, Refusal, TaskId};
use taskqueue_store::reading::read_output;
use taskqueue_store::transfer::TransferredOutput;
use taskqueue_store::{Loaded, Output, TaskKey};

use crate::queries::{CONTINUE, Prepared, Read, Snapshot, each_row, first_row, refused};
use crate::{rows, statements as sql};

/// Bytes of a piece that is made of several texts, so that its row lies on one page. A longer text is a piece of its own.
const PIECE_BYTES: usize = 3_500;

/// Bytes of a piece that a transfer writes.
const COPIED_BYTES: usize = 65_536;

/// A piece as `FIND_OUTPUT_PIECE` finds it.
struct Piece {
    key: i64,
    start: u64,
    length: u64,
    /// Of a small piece.
    bytes: Option<Vec<u8>>,
}

/// Returns what is kept of the output of a task from `offset` on, if `most_bytes` of it are kept.
pub(crate) fn get_output(
    file: &Snapshot<'_>,
    queue: &QueueName,
    id: TaskId,
    offset: u64,
    most_bytes: usize,
) -> Read<Output> {
    let found = first_row(file.connection, &sql::GET_OUTPUT, [queue.as_str(), id.as_str()], |row| {
        Ok((rows::key(row)?, rows::active_run(row, "head")?, rows::kept_output(row, "output")?))
    });
    let (key, active, kept) = found?.ok_or_else(|| file.no_task(queue, id))?;
    let kept = kept.and_then(|kept| kept.within(most_bytes));
    let kept = kept.ok_or_else(|| refused(Refusal::OutputNotFound { task_id: id }))?;
    read_output(&kept, active, offset, |part| Ok(load_part(file.connection, key, part)?))
}

/// All output of a task, for a transfer.
pub(crate) fn transferred_output(connection: &Connection, key: TaskKey) -> rusqlite::Result<Option<TransferredOutput>> {
    let kept = first_row(connection, &sql::LOAD_OUTPUT, [key.0], |row| rows::kept_output(row, 0))?;
    let Some(kept) = kept.flatten() else { return Ok(None) };
    let bytes = kept.parts.iter().map(|part| load_part(connection, key, *part)).collect::<Result<_, _>>()?;
    Ok(Some(TransferredOutput { kept, bytes }))
}

/// The bytes of a part. It is an error if one of them is not there.
fn load_part(connection: &Connection, key: TaskKey, Part { start, end }: Part) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut place = start;
    each_row(connection, &sql::LIST_OUTPUT_PIECES, params![key.0, start.cast_signed(), end.cast_signed()], |row| {
        let (first, piece) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get_ref(1)?.as_blob()?);
        let from = usize::try_from(place.saturating_sub(first)).unwrap_or(usize::MAX).min(piece.len());
        let until = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX).min(piece.len());
        if first > place || from >= until {
            return Err(rows::Unreadable.into());
        }
        bytes.extend_from_slice(&piece[from..until]);
        place += (until - from) as u64;
        Ok(CONTINUE)
    })?;
    if place == end { Ok(bytes) } else { Err(rows::Unreadable.into()) }
}

/// Writes the output of a task (docs/decisions/0048). Its bytes lie in pieces. What is printed is added to the piece before it
/// while that is small; every statement costs what it changes, however much output there is.
pub(crate) struct OutputWriter<'a, 'c> {
    pub(crate) file: &'a Prepared<'c>,
    /// The task.
    pub(crate) key: TaskKey,
}

impl OutputWriter<'_, '_> {
    pub(crate) fn save(&self, change: &OutputChange<'_>) -> Loaded<()> {
        if change.replaces {
            self.file.run(&sql::DELETE_OUTPUT_PIECES, [self.key.0], "replacing output")?;
        }
        for (offset, text) in &change.added {
            let part = change.kept.parts.iter().find(|part| *offset < part.end);
            self.add_bytes(*offset, text.as_bytes(), part.map_or(0, |part| part.end))?;
        }
        // What begins with the first byte has lost none.
        if let Some(first) = change.kept.parts.first().filter(|first| first.start > 0) {
            let before = params![self.key.0, int(first.start)];
            self.file.run(&sql::DELETE_OLD_OUTPUT_PIECES, before, "removing old output")?;
        }
        let values = params![self.key.0, rows::pack_output(&change.kept)];
        self.file.run(&sql::SAVE_OUTPUT, values, "saving output").map(drop)
    }

    /// Adds bytes that are not there, to a part that ends at `part_end`.
    fn add_bytes(&self, offset: u64, bytes: &[u8], part_end: u64) -> Loaded<()> {
        let end = offset + bytes.len() as u64;
        let room = (PIECE_BYTES + 1).saturating_sub(bytes.len()) as i64;
        let before = self.piece_before(end, room)?;
        if let Some(Piece { key: piece, start, length, bytes: Some(kept) }) = &before
            && start + length == offset
        {
            let after = self.take_piece_after(end, part_end, room - kept.len() as i64)?;
            let joined = [kept, bytes, &after.unwrap_or_default()].concat();
            return self.file.run(&sql::SAVE_OUTPUT_PIECE, params![piece, joined], "saving output").map(drop);
        }
        if let Some(overlapping) = before.filter(|piece| piece.start + piece.length > offset) {
            self.cut_front(&overlapping, end)?;
        }
        let after = self.take_piece_after(end, part_end, room)?;
        let joined = after.map(|after| [bytes, &after].concat());
        let values = params![self.key.0, int(offset), joined.as_deref().unwrap_or(bytes)];
        self.file.run(&sql::INSERT_OUTPUT_PIECE, values, "saving output").map(drop)
    }

    /// The last piece that begins before `offset`, with its bytes if they are fewer than `most`.
    fn piece_before(&self, offset: u64, most: i64) -> Loaded<Option<Piece>> {
        self.file.one(&sql::FIND_OUTPUT_PIECE, params![self.key.0, int(offset), most], "loading output", |row| {
            let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
            Ok(Piece { key: row.get(0)?, start: number(1)?, length: number(2)?, bytes: row.get(3)? })
        })
    }

    /// Returns what fills a gap may be followed by a small piece, and else would leave many of them. Takes it, if it has fewer than
    /// `most` bytes. Behind the end of the part a piece may begin with bytes that were pushed out, and stays as it is.
    fn take_piece_after(&self, end: u64, part_end: u64, most: i64) -> Loaded<Option<Vec<u8>>> {
        if end < part_end { self.take_piece(end, most) } else { Ok(None) }
    }

    /// Removes the piece that begins at `start`, if it has fewer than `most` bytes.
    fn take_piece(&self, start: u64, most: i64) -> Loaded<Option<Vec<u8>>> {
        self.file
            .one(&sql::TAKE_OUTPUT_PIECE, params![self.key.0, int(start), most], "loading output", |row| row.get(0))
    }

    /// Removes the bytes of a piece before `start`: it began with bytes that had been pushed out, and these are kept again,
    /// because more is kept than before.
    fn cut_front(&self, piece: &Piece, start: u64) -> Loaded<()> {
        let Some(mut bytes) = self.take_piece(piece.start, i64::MAX)? else { return Ok(()) };
        let cut = usize::try_from(start - piece.start).unwrap_or(usize::MAX).min(bytes.len());
        let rest = bytes.split_off(cut);
        if rest.is_empty() {
            return Ok(());
        }
        self.file.run(&sql::INSERT_OUTPUT_PIECE, params![self.key.0, int(start), rest], "saving output").map(drop)
    }

    /// Adds all output of a copied task.
    pub(crate) fn add(&self, TransferredOutput { kept, bytes }: &TransferredOutput) -> Loaded<()> {
        for (part, bytes) in kept.parts.iter().zip(bytes) {
            let offsets = (part.start..).step_by(COPIED_BYTES);
            for (offset, piece) in offsets.zip(bytes.chunks(COPIED_BYTES)) {
                self.file.run(&sql::INSERT_OUTPUT_PIECE, params![self.key.0, int(offset), piece], "copying output")?;
            }
        }
        self.file.run(&sql::SAVE_OUTPUT, params![self.key.0, rows::pack_output(kept)], "copying output").map(drop)
    }

    /// Deletes the output of a deleted task, and returns how many pieces it had. Most tasks have none.
    pub(crate) fn delete(&self) -> Loaded<usize> {
        match self.file.run(&sql::DELETE_OUTPUT, [self.key.0], "deleting output")? {
            0 => Ok(0),
            _ => self.file.run(&sql::DELETE_OUTPUT_PIECES, [self.key.0], "deleting output"),
        }
    }
}

/// An offset as a column holds it. None is larger than 2^63 - 1.
fn int(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// What output and progress cost in the file: a start and the work with tasks read nothing of output, an addition costs the
/// same however much there is, and small texts share a row.
#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rusqlite::{Connection, params};
    use taskqueue_core::output::{KeptOutput, OutputChange, Part};
    use taskqueue_store::conformance::prelude::*;
    use taskqueue_store::transaction::{TaskKey, Transaction};
    use tokio::task::JoinSet;

    use crate::claim_index::ClaimIndex;
    use crate::queue_tests::Opened;
    use crate::transaction::SqliteTransaction;
    use crate::{migrate, rows, statements as sql};

    /// A store in which run 1 has claimed task 1.
    async fn running() -> Opened {
        let opened = Opened::new().await;
        opened.ok(create("q", 1, with_budget(9))).await;
        opened.ok(claim("q", "default", 1)).await;
        opened
    }

    /// The same, with more bytes kept.
    fn kept(most_bytes: usize, output: AddOutput) -> AddOutput {
        AddOutput { most_bytes, ..output }
    }

    #[tokio::test]
    async fn a_start_and_the_work_with_tasks_read_nothing_of_output() {
        let opened = running().await;
        opened.ok(print(1, 1, 0, "text")).await;
        // Whoever looks at output now gets an error.
        opened.file().execute_batch("DROP TABLE output_pieces; DROP TABLE outputs").unwrap();
        let opened = opened.again().await;
        opened.ok(heartbeat("q", 1, 1)).await;
        opened.ok(progress(1, 1, r#"{"step":1}"#)).await;
        opened.ok(fail("q", 1, 1)).await;
        opened.ok(claim("q", "default", 2)).await.unwrap();
        opened.ok(complete("q", 1, 2, object("{}"))).await;
        assert!(opened.store.get_task(&queue("q"), task_id(1)).await.is_ok());
        assert_eq!(opened.store.count_tasks(&queue("q"), filtered("missing(progress.step)")).await, Ok(1));
        assert!(opened.store.read_output(&queue("q"), task_id(1), 0, 1_000).await.is_err(), "this does read it");
    }

    #[tokio::test]
    async fn a_piece_that_is_lost_is_an_error_and_never_other_bytes() {
        let opened = running().await;
        let large = "x".repeat(10_000);
        for n in 0..3 {
            opened.ok(kept(1 << 20, print(1, 1, n * 10_000, &large))).await;
        }
        opened.file().execute_batch("DELETE FROM output_pieces WHERE start = 10000").unwrap();
        let read = async |offset| opened.store.read_output(&queue("q"), task_id(1), offset, 1 << 20).await;
        assert!(read(0).await.is_err() && read(15_000).await.is_err());
        assert_eq!(read(20_000).await.unwrap().text, large);
    }

    #[tokio::test]
    async fn texts_that_come_in_the_wrong_order_share_rows_too() {
        let swapped = (0..500).flat_map(|n| [n * 20 + 10, n * 20]).collect::<Vec<u64>>();
        let cases = [("0123456789", swapped, 6), ("x", (0..1_000).rev().collect(), 1)];
        for (text, offsets, rows) in cases {
            let opened = running().await;
            for offset in &offsets {
                opened.ok(kept(1 << 20, print(1, 1, *offset, text))).await;
            }
            let pieces = opened.count("output_pieces");
            assert!(pieces <= rows, "{} bytes in {pieces} rows", text.len() * offsets.len());
            let read = opened.store.read_output(&queue("q"), task_id(1), 0, 1 << 20).await.unwrap();
            assert_eq!(read.text, text.repeat(offsets.len()));
        }
    }

    #[tokio::test]
    async fn small_texts_share_a_row_and_old_rows_go() {
        let opened = running().await;
        let line = "0123456789".repeat(10);
        for n in 0..100 {
            opened.ok(kept(1 << 20, print(1, 1, n * 100, &line))).await;
        }
        assert_eq!(opened.count("output_pieces"), 3, "10,000 bytes in rows of at most 3,500");
        let large = "x".repeat(65_536);
        for n in 0..9 {
            opened.ok(kept(262_144, print(1, 1, 10_000 + n * 65_536, &large))).await;
        }
        assert_eq!(opened.count("output_pieces"), 4, "each as it came");
        opened.ok(kept(262_144, print(1, 1, 10_000 + 9 * 65_536, "x"))).await;
        let bytes = "SELECT sum(length(bytes)) FROM output_pieces";
        assert_eq!(opened.number(bytes), 262_145, "the oldest byte is left in its row");
        opened.ok(fail("q", 1, 1)).await;
        opened.ok(claim("q", "default", 2)).await;
        opened.ok(print(1, 2, 0, "anew")).await;
        assert_eq!(opened.number(bytes), 4, "of the run before nothing is left");
    }

    #[tokio::test]
    async fn no_output_is_left_of_deleted_tasks() {
        let opened = Opened::new().await;
        let rows = "SELECT (SELECT count(*) FROM outputs) + (SELECT count(*) FROM output_pieces)";
        for id in 0..20 {
            opened.ok(create("q", id, Definition::default())).await;
            opened.ok(claim("q", "default", id)).await;
            let mut prints = JoinSet::new();
            for n in 0..80 {
                let printed = kept(1 << 20, print(id, id, n * 3_500, &"x".repeat(3_500)));
                let store = Arc::clone(&opened.store);
                prints.spawn(async move { store.write(printed).await.unwrap() });
            }
            prints.join_all().await;
            opened.ok(complete("q", id, id, object("{}"))).await;
        }
        assert_eq!(opened.number(rows), 20 * 81);
        opened.ok(delete("q", 0)).await;
        assert_eq!(opened.number(rows), 19 * 81);
        let some = act_on_all("q", BulkAction::Delete, "id < 't_000000000005'");
        assert_eq!(opened.ok(some).await.changed, 4);
        assert_eq!(opened.number(rows), 15 * 81);
        opened.ok(delete_queue("q", true)).await;
        // More pieces than one step of the purge removes. Closing waits for no purge, so others come before.
        while opened.count("purges") > 0 {
            opened.ok(create_queue("r")).await;
        }
        assert_eq!((opened.number(rows), opened.count("tasks"), opened.count("definitions")), (0, 0, 0));
    }

    /// A migrated database in memory, with the steps that SQLite takes on it counted.
    fn counting() -> (Connection, Arc<AtomicU64>) {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
        let steps = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        (connection, steps)
    }

    #[test]
    fn an_addition_costs_the_same_however_much_output_there_is() {
        const PIECES: u64 = 20_000;
        let (connection, steps) = counting();
        let fill = "INSERT INTO output_pieces (task_key, start, bytes)
        WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?1)
        SELECT task, n * 4000, zeroblob(4000) FROM numbers, (SELECT 1 AS task UNION SELECT 2 UNION SELECT 3)";
        connection.execute(fill, [PIECES.cast_signed()]).unwrap();
        let mut claim_index = ClaimIndex::default();
        let mut tx = SqliteTransaction::new(&connection, &mut claim_index, Timestamp::from_micros(1));
        let mut add = |start: u64, offset: u64| {
            let end = offset.max(PIECES * 4_000 - 1) + 1;
            let kept = KeptOutput { run_id: run_id(1), attempt: 1, parts: vec![Part { start, end }] };
            let change = OutputChange { kept, replaces: false, added: vec![(offset, "x")] };
            let before = steps.load(Ordering::Relaxed);
            tx.save_output(QueueKey(1), TaskKey(2), &change).unwrap();
            steps.load(Ordering::Relaxed) - before
        };
        let (first, pushed, joined) =
            (add(0, PIECES * 4_000), add(4_000, PIECES * 4_000 + 1), add(4_001, PIECES * 4_000 + 2));
        for (what, cost) in [("a new piece", first), ("one piece pushed out", pushed), ("nothing pushed out", joined)] {
            assert!(cost < 200, "{what}: {cost} steps");
        }
        let left = connection.query_row("SELECT count(*) FROM output_pieces WHERE task_key = 2", [], |row| row.get(0));
        assert_eq!(left, Ok(PIECES.cast_signed()), "one more and one less");

        let before = steps.load(Ordering::Relaxed);
        let values = params![2, (PIECES * 4_000 - 2).cast_signed(), i64::MAX];
        let mut listed = connection.prepare(&sql::LIST_OUTPUT_PIECES).unwrap();
        assert_eq!(listed.query_map(values, |row| row.get::<_, i64>(0)).unwrap().count(), 2);
        let cost = steps.load(Ordering::Relaxed) - before;
        assert!(cost < 200, "reading the end: {cost} steps");
    }

    #[tokio::test]
    async fn progress_of_the_same_size_leaves_the_row_of_its_task_alone() {
        let opened = running().await;
        // An outcome and the head. Then what SQLite writes to the head is refused.
        opened.ok(progress(1, 1, r#"{"step":10}"#)).await;
        let packed = "SELECT packed FROM tasks";
        let head = opened.file().query_row(packed, [], |row| row.get::<_, Vec<u8>>(0)).unwrap();
        assert_eq!(rows::PackedHead::unpack(&head).unwrap().progress_bytes, 11);
        let trigger = "CREATE TRIGGER untouched BEFORE UPDATE ON tasks BEGIN SELECT raise(ABORT, 'written'); END";
        opened.file().execute_batch(trigger).unwrap();
        opened.ok(progress(1, 1, r#"{"step":20}"#)).await;
        assert!(opened.store.write(progress(1, 1, r#"{"step":200}"#)).await.is_err(), "its size is in the head");
        let shown = opened.store.get_task(&queue("q"), task_id(1)).await.unwrap().outcome.progress.unwrap();
        assert_eq!(shown.value, object(r#"{"step":20}"#));
    }
}
