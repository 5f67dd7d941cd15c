//! Reads the output of a task: which bytes are kept, then only the pieces of the part that is wanted. How it is written is in
//! `transaction/output.rs`.

use rusqlite::{Connection, OptionalExtension, params};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::output::{KeptOutput, Part};
use taskqueue_core::refusal::Refusal;
use taskqueue_store::command::Output;
use taskqueue_store::output::read_output;
use taskqueue_store::transaction::TaskKey;
use taskqueue_store::transfer::TransferredOutput;

use crate::each_row::{CONTINUE, each_row};
use crate::reads::{Read, no_task, refused};
use crate::snapshot::Snapshot;
use crate::{rows, statements as sql};

/// What is kept of the output of a task from `offset` on, if `most_bytes` of it are kept.
pub(crate) fn get_output(
    file: &Snapshot<'_>,
    queue: &QueueName,
    id: TaskId,
    offset: u64,
    most_bytes: usize,
) -> Read<Output> {
    let mut statement = file.connection.prepare_cached(sql::GET_OUTPUT)?;
    let found = statement.query_row([queue.as_str(), id.as_str()], |row| {
        Ok((rows::key(row)?, rows::active_run(row, "head")?, rows::kept_output(row, "output")?))
    });
    let Some((key, active, kept)) = found.optional()? else { return Err(no_task(file, queue, id)) };
    let kept = kept.and_then(|kept| kept.within(most_bytes));
    let kept = kept.ok_or_else(|| refused(Refusal::OutputNotFound { task_id: id }))?;
    read_output(&kept, active, offset, |part| Ok(load_part(file.connection, key, part)?))
}

/// All output of a task, for a transfer.
pub(crate) fn transferred_output(connection: &Connection, key: TaskKey) -> rusqlite::Result<Option<TransferredOutput>> {
    let mut statement = connection.prepare_cached(sql::LOAD_OUTPUT)?;
    let kept: Option<KeptOutput> = statement.query_row([key.0], |row| rows::kept_output(row, 0)).optional()?.flatten();
    let Some(kept) = kept else { return Ok(None) };
    let bytes = kept.parts.iter().map(|part| load_part(connection, key, *part)).collect::<Result<_, _>>()?;
    Ok(Some(TransferredOutput { kept, bytes }))
}

/// The bytes of a part. It is an error if one of them is not there.
fn load_part(connection: &Connection, key: TaskKey, Part { start, end }: Part) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut place = start;
    each_row(connection, sql::LIST_OUTPUT_PIECES, params![key.0, start.cast_signed(), end.cast_signed()], |row| {
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
