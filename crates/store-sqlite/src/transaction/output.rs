//! Writes the output of a task (docs/decisions/0048). Its bytes lie in pieces. What is printed is added to the piece before it
//! while that is small; every statement costs what it changes, however much output there is.

use rusqlite::params;
use taskqueue_core::output::OutputChange;
use taskqueue_store::transaction::{Loaded, TaskKey};
use taskqueue_store::transfer::TransferredOutput;

use super::SqliteTransaction;
use crate::rows;
use crate::statements as sql;

/// Bytes of a piece that is made of several texts, so that its row lies on one page. A longer text is a piece of its own.
const PIECE_BYTES: usize = 3_500;

/// Bytes of a piece that a transfer writes.
const COPIED_BYTES: usize = 65_536;

/// A piece as `find_output_piece.sql` finds it.
struct Piece {
    key: i64,
    start: u64,
    length: u64,
    /// Of a small piece.
    bytes: Option<Vec<u8>>,
}

impl SqliteTransaction<'_> {
    pub(super) fn save_kept_output(&self, key: TaskKey, change: &OutputChange<'_>) -> Loaded<()> {
        if change.replaces {
            self.run(sql::DELETE_OUTPUT_PIECES, [key.0], "replacing output")?;
        }
        for (offset, text) in &change.added {
            let part = change.kept.parts.iter().find(|part| *offset < part.end);
            self.add_bytes(key, *offset, text.as_bytes(), part.map_or(0, |part| part.end))?;
        }
        // What begins with the first byte has lost none.
        if let Some(first) = change.kept.parts.first().filter(|first| first.start > 0) {
            self.run(sql::DELETE_OLD_OUTPUT_PIECES, params![key.0, int(first.start)], "removing old output")?;
        }
        self.run(sql::SAVE_OUTPUT, params![key.0, rows::pack_output(&change.kept)], "saving output").map(drop)
    }

    /// Adds bytes that are not there, to a part that ends at `part_end`.
    fn add_bytes(&self, key: TaskKey, offset: u64, bytes: &[u8], part_end: u64) -> Loaded<()> {
        let end = offset + bytes.len() as u64;
        let room = (PIECE_BYTES + 1).saturating_sub(bytes.len()) as i64;
        let before = self.piece_before(key, end, room)?;
        if let Some(Piece { key: piece, start, length, bytes: Some(kept) }) = &before
            && start + length == offset
        {
            let after = self.take_piece_after(key, end, part_end, room - kept.len() as i64)?;
            let joined = [kept, bytes, &after.unwrap_or_default()].concat();
            return self.run(sql::SAVE_OUTPUT_PIECE, params![piece, joined], "saving output").map(drop);
        }
        if let Some(overlapping) = before.filter(|piece| piece.start + piece.length > offset) {
            self.cut_front(key, &overlapping, end)?;
        }
        let after = self.take_piece_after(key, end, part_end, room)?;
        let joined = after.map(|after| [bytes, &after].concat());
        let values = params![key.0, int(offset), joined.as_deref().unwrap_or(bytes)];
        self.run(sql::INSERT_OUTPUT_PIECE, values, "saving output").map(drop)
    }

    /// The last piece that begins before `offset`, with its bytes if they are fewer than `most`.
    fn piece_before(&self, key: TaskKey, offset: u64, most: i64) -> Loaded<Option<Piece>> {
        self.one(sql::FIND_OUTPUT_PIECE, params![key.0, int(offset), most], "loading output", |row| {
            let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
            Ok(Piece { key: row.get(0)?, start: number(1)?, length: number(2)?, bytes: row.get(3)? })
        })
    }

    /// What fills a gap may be followed by a small piece, and else would leave many of them. Takes it, if it has fewer than `most`
    /// bytes. Behind the end of the part a piece may begin with bytes that were pushed out, and stays as it is.
    fn take_piece_after(&self, key: TaskKey, end: u64, part_end: u64, most: i64) -> Loaded<Option<Vec<u8>>> {
        if end < part_end { self.take_piece(key, end, most) } else { Ok(None) }
    }

    /// Removes the piece that begins at `start`, if it has fewer than `most` bytes.
    fn take_piece(&self, key: TaskKey, start: u64, most: i64) -> Loaded<Option<Vec<u8>>> {
        self.one(sql::TAKE_OUTPUT_PIECE, params![key.0, int(start), most], "loading output", |row| row.get(0))
    }

    /// Removes the bytes of a piece before `start`: it began with bytes that had been pushed out, and these are kept again,
    /// because more is kept than before.
    fn cut_front(&self, key: TaskKey, piece: &Piece, start: u64) -> Loaded<()> {
        let Some(mut bytes) = self.take_piece(key, piece.start, i64::MAX)? else { return Ok(()) };
        let cut = usize::try_from(start - piece.start).unwrap_or(usize::MAX).min(bytes.len());
        let rest = bytes.split_off(cut);
        if rest.is_empty() {
            return Ok(());
        }
        self.run(sql::INSERT_OUTPUT_PIECE, params![key.0, int(start), rest], "saving output").map(drop)
    }

    /// Adds all output of a copied task.
    pub(crate) fn add_output(&self, key: TaskKey, TransferredOutput { kept, bytes }: &TransferredOutput) -> Loaded<()> {
        for (part, bytes) in kept.parts.iter().zip(bytes) {
            let offsets = (part.start..).step_by(COPIED_BYTES);
            for (offset, piece) in offsets.zip(bytes.chunks(COPIED_BYTES)) {
                self.run(sql::INSERT_OUTPUT_PIECE, params![key.0, int(offset), piece], "copying output")?;
            }
        }
        self.run(sql::SAVE_OUTPUT, params![key.0, rows::pack_output(kept)], "copying output").map(drop)
    }

    /// Deletes the output of a deleted task, and returns how many pieces it had. Most tasks have none.
    pub(super) fn delete_output(&self, key: TaskKey) -> Loaded<usize> {
        match self.run(sql::DELETE_OUTPUT, [key.0], "deleting output")? {
            0 => Ok(0),
            _ => self.run(sql::DELETE_OUTPUT_PIECES, [key.0], "deleting output"),
        }
    }
}

/// An offset as a column holds it. None is larger than 2^63 - 1.
fn int(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
