//! Reading kept output: the same on every backend, which loads the bytes of a part.

use taskqueue_core::ids::RunId;
use taskqueue_core::output::{KeptOutput, Part, shown};

use crate::command::Output;

/// Returns what is kept from `offset` on, up to a gap or the size of an answer; empty at its end. `active` is the active run of
/// the task. `load` gives the bytes of a part.
pub fn read_output<E>(
    kept: &KeptOutput,
    active: Option<RunId>,
    mut offset: u64,
    mut load: impl FnMut(Part) -> Result<Vec<u8>, E>,
) -> Result<Output, E> {
    let KeptOutput { run_id, attempt, .. } = *kept;
    let ended = active != Some(run_id);
    while let Some(part) = kept.from(offset) {
        let bytes = load(part)?;
        let (start, text) = shown(part.start, &bytes);
        if !text.is_empty() {
            return Ok(Output { run_id, attempt, start, text: text.to_owned(), ended });
        }
        // Only a part of a character is left of it.
        offset = part.end;
    }
    Ok(Output { run_id, attempt, start: kept.end(), text: String::new(), ended })
}
