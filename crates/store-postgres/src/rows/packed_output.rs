//! The columns of output: which bytes are kept, as one text, and the pieces that hold them.

use taskqueue_core::output::{KeptOutput, Part};
use taskqueue_store::transaction::TaskKey;
use tokio_postgres::Row;

use super::{Damaged, Read, get};
use crate::output::StoredOutput;

/// An empty result needs no row.
const EMPTY_RESULT_BYTES: usize = "{}".len();

/// Start and end of each part, as `0-512 1024-2048`.
pub(crate) fn parts_text(parts: &[Part]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| format!("{}-{}", part.start, part.end)).collect();
    parts.join(" ")
}

fn read_parts(text: &str) -> Option<Vec<Part>> {
    let part = |text: &str| {
        let (start, end) = text.split_once('-')?;
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        (start < end).then_some(Part { start, end })
    };
    text.split(' ').map(part).collect()
}

/// An offset as a column holds it. No offset that a server accepts is larger.
pub(crate) fn offset_column(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// The key of the task of a row of output, or of the size of its result.
pub(crate) fn output_key(row: &Row) -> Read<TaskKey> {
    get(row, "task_key")
}

/// What is kept of the output of a task, if anything is.
pub(crate) fn stored_output(row: &Row) -> Read<Option<StoredOutput>> {
    let Some(run_id) = get(row, "run_id")? else { return Ok(None) };
    let parts = read_parts(get(row, "parts")?).ok_or_else(|| Damaged::at("parts"))?;
    let kept = KeptOutput { run_id, attempt: get(row, "attempt")?, parts };
    Ok(Some(StoredOutput { kept, last_start: get(row, "last_start")? }))
}

/// Where the pieces of the output of a task lie, from `CHECK_OUTPUTS`.
pub(crate) fn places_of_pieces(row: &Row) -> Read<Vec<Part>> {
    let (starts, lengths): (Vec<i64>, Vec<i64>) = (get(row, "starts")?, get(row, "lengths")?);
    let number = |number: i64| u64::try_from(number).map_err(|_| Damaged::at("starts"));
    let place = |(start, length): (i64, i64)| {
        let start = number(start)?;
        Ok(Part { start, end: start.saturating_add(number(length)?) })
    };
    starts.into_iter().zip(lengths).map(place).collect()
}

/// The bytes of a part, from the pieces that hold them, in ascending order.
pub(crate) fn bytes_of_part<'a>(pieces: impl Iterator<Item = &'a Row>, part: Part) -> Read<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(part.bytes()).unwrap_or(0));
    for row in pieces {
        let (start, piece): (u64, &[u8]) = (get(row, "start")?, get(row, "bytes")?);
        let at = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX).min(piece.len());
        bytes.extend_from_slice(&piece[at(part.start)..at(part.end)]);
    }

    if bytes.len() as u64 == part.bytes() { Ok(bytes) } else { Err(Damaged::at("bytes")) }
}

/// The size of the result of a task.
pub(crate) fn result_bytes(row: &Row) -> Read<usize> {
    let bytes = get::<Option<i32>>(row, "bytes")?;
    Ok(bytes.map_or(EMPTY_RESULT_BYTES, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_read_back_from_their_column() {
        for bounds in [&[(0, 1)][..], &[(5, 512), (1_024, 2_048)], &[(0, 1), (u64::MAX - 1, u64::MAX)]] {
            let parts: Vec<Part> = bounds.iter().map(|&(start, end)| Part { start, end }).collect();
            assert_eq!(read_parts(&parts_text(&parts)), Some(parts));
        }
    }

    #[test]
    fn damaged_parts_are_noticed() {
        for text in ["", "1", "1-", "-1", "2-2", "3-2", "1-2 ", "1-2  3-4", "a-b", "1-2,3-4"] {
            assert_eq!(read_parts(text), None, "{text}");
        }
    }
}
