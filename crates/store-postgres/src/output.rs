//! Reading the output of a task: which bytes are kept, and then those that the answer gives. Bytes of a run stay what they are
//! until they are pushed out, so the two need no transaction unless a send comes between them.

use futures_util::future::join;
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::output::Part;
use taskqueue_core::refusal::Refusal;
use taskqueue_store::command::Output;
use taskqueue_store::output::read_output;
use taskqueue_store::transaction::TaskKey;

use crate::readers::{BEGIN, END, ReadError};
use crate::reads::{Read, no_queue, refused};
use crate::rows;
use crate::session::Session;
use crate::statements as sql;

/// Bytes of a part that are not loaded yet.
struct Missing(Part);

pub(crate) async fn read(
    session: &Session,
    queue: &QueueName,
    id: TaskId,
    offset: u64,
    most_bytes: usize,
) -> Read<Output> {
    if let Ok(output) = try_read(session, queue, id, offset, most_bytes).await? {
        return Ok(output);
    }
    // Some bytes were gone. In a snapshot they are not.
    let (begun, read) = join(session.execute_text(BEGIN), try_read(session, queue, id, offset, most_bytes)).await;
    begun?;
    if let Ok(_) | Err(ReadError::Refused(_)) = &read {
        session.execute_text(END).await?;
    }
    Ok(read??)
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
