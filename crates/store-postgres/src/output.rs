//! Reading the output of a task: which bytes are kept, and then those that the answer gives. Bytes of a run stay what they are
//! until they are pushed out, so the two need no transaction unless a send comes between them.
//!
//! And the output of a task in a transaction: what is kept of it, and which pieces its commands add and remove. Nothing is decided
//! here.

use std::collections::BTreeMap;

use futures_util::future::join;
use taskqueue_core::output::{OutputChange, Part};
use taskqueue_core::{KeptOutput, QueueName, Refusal, RunId, TaskId};
use taskqueue_store::reading::read_output;
use taskqueue_store::transfer::TransferredOutput;
use taskqueue_store::{Loaded, Output, TaskKey};

use crate::readers::{BEGIN, END, Read, ReadError};
use crate::reads::{no_queue, refused};
use crate::session::Session;
use crate::transaction::{NO_TASK, PostgresTransaction};
use crate::{rows, statements as sql};

/// Bytes of a part that are not loaded yet.
struct Missing(Part);

pub(crate) async fn read(
    session: &Session,
    queue: &QueueName,
    id: TaskId,
    offset: u64,
    most_bytes: usize,
) -> Read<Output> {
    // An error inside: bytes that were there are gone.
    let attempt = async || {
        let row = session.first(&sql::GET_OUTPUT, &[&queue.as_str(), &id.as_str()]).await?;
        let row = row.ok_or_else(|| no_queue(queue))?;
        let Some(key) = rows::get(&row, "task_key")? else {
            return Err(refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id }));
        };
        let kept = rows::stored_output(&row)?.and_then(|stored| stored.kept.within(most_bytes));
        let kept = kept.ok_or_else(|| refused(Refusal::OutputNotFound { task_id: id }))?;
        let active = rows::get(&row, "active_run_id")?;
        let mut loaded: Vec<(Part, Vec<u8>)> = Vec::new();
        loop {
            let load = |part| {
                let known = loaded.iter().find(|(known, _)| *known == part);
                known.map(|(_, bytes)| bytes.clone()).ok_or(Missing(part))
            };
            match read_output(&kept, active, offset, load) {
                Ok(output) => return Ok(Ok(output)),
                Err(Missing(part)) => match load_part(session, key, kept.run_id, part).await? {
                    Ok(bytes) => loaded.push((part, bytes)),
                    Err(gone) => return Ok(Err(gone)),
                },
            }
        }
    };
    if let Ok(output) = attempt().await? {
        return Ok(output);
    }
    // Some bytes were gone. In a snapshot they are not.
    let (begun, read) = join(session.execute_text(BEGIN), attempt()).await;
    begun?;
    if let Ok(_) | Err(ReadError::Refused(_)) = &read {
        session.execute_text(END).await?;
    }
    Ok(read??)
}

async fn load_part(session: &Session, key: TaskKey, run_id: RunId, part: Part) -> Read<Result<Vec<u8>, rows::Damaged>> {
    let (start, end) = (rows::offset_column(part.start), rows::offset_column(part.end));
    let found = session.query(&sql::GET_OUTPUT_PIECES, &[&key.0, &start, &end, &run_id.as_str()]).await?;
    Ok(rows::bytes_of_part(found.iter(), part))
}

/// The largest piece: two of them fit into a page of PostgreSQL.
const PIECE_BYTES: usize = 4_000;
/// Output is appended to a last piece that is smaller than this. So a run that prints a little at a time does not leave one row for
/// each time, and one that prints much does not write its last piece again and again.
const SMALL_BYTES: u64 = 1_024;

/// What the database has of the output of a task.
#[derive(Debug)]
pub(crate) struct StoredOutput {
    pub(crate) kept: KeptOutput,
    /// Where its last piece begins. It ends where the output ends.
    pub(crate) last_start: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastPiece {
    start: u64,
    bytes: u64,
    /// Whether it is in the database.
    stored: bool,
}

impl LastPiece {
    fn end(self) -> u64 {
        self.start + self.bytes
    }
}

/// The pieces in the database.
#[derive(Clone, Copy, Debug)]
struct StoredPieces {
    /// What they hold before this byte does not count: it has been pushed out.
    first: u64,
    last_start: u64,
    /// Whether some of it was pushed out by this transaction.
    shrinks: bool,
    /// Whether bytes before the first one come back, which a server with a larger limit keeps again.
    regains: bool,
}

#[derive(Debug, Default)]
pub(crate) struct OutputEntry {
    /// As the commands so far have left it.
    pub(crate) kept: Option<KeptOutput>,
    last: Option<LastPiece>,
    /// Nothing if there are none of this run.
    stored: Option<StoredPieces>,
    changed: bool,
    /// Whether all pieces in the database go.
    replaced: bool,
    /// Bytes for the last piece in the database.
    appended: Vec<u8>,
    /// New pieces by their offset, without bytes that are not kept.
    inserted: BTreeMap<u64, Vec<u8>>,
}

/// What to write for one task, in the order of the statements.
#[derive(Debug)]
pub(crate) struct OutputWrite<'a> {
    pub(crate) kept: &'a KeptOutput,
    pub(crate) last_start: u64,
    /// The start of the piece to which bytes are appended.
    pub(crate) appended: Option<(u64, &'a [u8])>,
    /// Pieces that end up to here are deleted.
    pub(crate) delete_before: Option<u64>,
    /// A piece that holds this byte is to begin with it.
    pub(crate) cut_at: Option<u64>,
    pub(crate) inserted: &'a BTreeMap<u64, Vec<u8>>,
}

fn first_byte(kept: &KeptOutput) -> u64 {
    kept.parts.first().map_or(0, |part| part.start)
}

impl OutputEntry {
    /// Output as it was loaded.
    pub(crate) fn loaded(stored: Option<StoredOutput>) -> Self {
        let Some(StoredOutput { kept, last_start }) = stored else { return Self::default() };
        let last = LastPiece { start: last_start, bytes: kept.end().saturating_sub(last_start), stored: true };
        let stored = StoredPieces { first: first_byte(&kept), last_start, shrinks: false, regains: false };
        Self { stored: Some(stored), last: Some(last), kept: Some(kept), ..Self::default() }
    }

    /// Output that is copied from another database.
    pub(crate) fn copied(TransferredOutput { kept, bytes }: &TransferredOutput) -> Self {
        let mut copied = Self { kept: Some(kept.clone()), changed: true, ..Self::default() };
        kept.parts.iter().zip(bytes).for_each(|(part, bytes)| copied.add(part.start, bytes));
        copied
    }

    pub(crate) fn save(&mut self, change: &OutputChange<'_>) {
        if change.replaces {
            let replaced = self.replaced || self.stored.is_some();
            *self = Self { replaced, ..Self::default() };
        }
        change.added.iter().for_each(|(offset, text)| self.add(*offset, text.as_bytes()));
        self.kept = Some(change.kept.clone());
        self.changed = true;
        self.push_out(first_byte(&change.kept));
    }

    fn add(&mut self, offset: u64, bytes: &[u8]) {
        // A piece in the database may still hold bytes there that were pushed out.
        if let Some(stored) = self.stored.as_mut().filter(|stored| offset < stored.first) {
            stored.regains = true;
            self.cut_last();
        }
        let added = bytes.len() as u64;
        let is_room = |last: &LastPiece| {
            last.end() == offset && last.bytes < SMALL_BYTES && last.bytes + added <= PIECE_BYTES as u64
        };
        if let Some(last) = self.last.as_mut().filter(|last| is_room(last)) {
            last.bytes += added;
            let piece = if last.stored { &mut self.appended } else { self.inserted.entry(last.start).or_default() };
            piece.extend_from_slice(bytes);
            return;
        }
        let ends_behind = self.last.is_none_or(|last| last.end() <= offset);
        for (start, piece) in (offset..).step_by(PIECE_BYTES).zip(bytes.chunks(PIECE_BYTES)) {
            self.inserted.insert(start, piece.to_vec());
            if ends_behind {
                self.last = Some(LastPiece { start, bytes: piece.len() as u64, stored: false });
            }
        }
    }

    /// The piece that holds the first byte of those in the database will begin with it; that may be the last one.
    fn cut_last(&mut self) {
        let Some(stored) = self.stored.filter(|stored| stored.regains) else { return };
        if let Some(last) = self.last.as_mut().filter(|last| last.stored) {
            let start = last.start.max(stored.first);
            *last = LastPiece { start, bytes: last.end() - start, stored: true };
        }
    }

    /// Removes the bytes before the first kept one.
    fn push_out(&mut self, first: u64) {
        if let Some(stored) = self.stored.as_mut().filter(|stored| stored.first < first) {
            (stored.first, stored.shrinks) = (first, true);
            self.cut_last();
        }
        while let Some(piece) = self.inserted.first_entry().filter(|piece| *piece.key() < first) {
            let (start, mut bytes) = piece.remove_entry();
            let cut = usize::try_from(first - start).unwrap_or(usize::MAX);
            if cut < bytes.len() {
                bytes.drain(..cut);
                if let Some(last) = self.last.as_mut().filter(|last| last.start == start) {
                    *last = LastPiece { start: first, bytes: bytes.len() as u64, stored: false };
                }
                self.inserted.insert(first, bytes);
            }
        }
    }

    /// What is to be written, if anything.
    pub(crate) fn write(&self) -> Option<OutputWrite<'_>> {
        let kept = self.kept.as_ref().filter(|_| self.changed)?;
        let last_start = self.last?.start;
        let appended = self.stored.filter(|_| !self.appended.is_empty());
        let pushed_out = self.stored.filter(|stored| stored.shrinks).map(|stored| stored.first);
        let all = self.replaced.then_some(i64::MAX.unsigned_abs());
        Some(OutputWrite {
            kept,
            last_start,
            appended: appended.map(|stored| (stored.last_start, &self.appended[..])),
            delete_before: all.or(pushed_out),
            cut_at: self.stored.filter(|stored| stored.regains).map(|stored| stored.first),
            inserted: &self.inserted,
        })
    }
}

impl PostgresTransaction<'_> {
    pub(crate) fn output_entry(&mut self, key: TaskKey) -> Loaded<&mut OutputEntry> {
        if !self.rows.outputs.contains_key(&key) {
            let row = self.first("loading output", &sql::LOAD_OUTPUTS_BY_KEY, &[&vec![key.0]])?;
            let stored = row.as_ref().map(rows::stored_output).transpose()?.flatten();
            self.rows.outputs.insert(key, OutputEntry::loaded(stored));
        }
        self.rows.outputs.get_mut(&key).ok_or(NO_TASK)
    }
}
