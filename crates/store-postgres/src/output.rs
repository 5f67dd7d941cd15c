//! Reading the output of a task: which bytes are kept, and then those that the answer gives. No transaction is needed for the
//! two: bytes of a run stay what they are until they are pushed out, and who finds them gone looks again.

use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::output::Part;
use taskqueue_core::refusal::Refusal;
use taskqueue_store::command::Output;
use taskqueue_store::output::read_output;
use taskqueue_store::transaction::TaskKey;

use crate::reads::{Read, no_queue, refused};
use crate::rows;
use crate::session::Session;
use crate::statements as sql;

/// How often it is read again because bytes were gone. A run sends once in a second, and this takes some milliseconds.
const ATTEMPTS: usize = 5;

/// Bytes of a part that are not loaded yet.
struct Missing(Part);

pub(crate) async fn read(
    session: &Session,
    queue: &QueueName,
    id: TaskId,
    offset: u64,
    most_bytes: usize,
) -> Read<Output> {
    for _ in 1..ATTEMPTS {
        if let Ok(output) = try_read(session, queue, id, offset, most_bytes).await? {
            return Ok(output);
        }
    }
    Ok(try_read(session, queue, id, offset, most_bytes).await??)
}

/// An error inside: bytes that were there are gone.
async fn try_read(
    session: &Session,
    queue: &QueueName,
    id: TaskId,
    offset: u64,
    most_bytes: usize,
) -> Read<Result<Output, rows::Damaged>> {
    let row = session.first(&sql::GET_OUTPUT, &[&queue.as_str(), &id.as_str()]).await?;
    let row = row.ok_or_else(|| no_queue(queue))?;
    let Some(key) = rows::output_key_or_null(&row)? else {
        return Err(refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id }));
    };
    let kept = rows::stored_output(&row)?.and_then(|stored| stored.kept.within(most_bytes));
    let kept = kept.ok_or_else(|| refused(Refusal::OutputNotFound { task_id: id }))?;
    let active = rows::active_run(&row)?;
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
}

async fn load_part(session: &Session, key: TaskKey, run_id: RunId, part: Part) -> Read<Result<Vec<u8>, rows::Damaged>> {
    let (start, end) = (rows::offset_column(part.start), rows::offset_column(part.end));
    let found = session.query(&sql::GET_OUTPUT_PIECES, &[&key.0, &start, &end, &run_id.as_str()]).await?;
    Ok(rows::bytes_of_part(found.iter(), part))
}
