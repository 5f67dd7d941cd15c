//! What runs print: whose output a task keeps, which bytes of it, and which of them an answer gives
//! (docs/decisions/0048). The bytes themselves lie in storage; here are only their offsets.

use std::str;

use crate::ids::RunId;
use crate::json;
use crate::limits::{OUTPUT_ANSWER_BYTES, OUTPUT_OFFSET_MAX, OUTPUT_PARTS};
use crate::refusal::Refusal;
use crate::task::{Lifecycle, RunEnd, TaskHead};

/// The bytes from `start` to before `end`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub start: u64,
    pub end: u64,
}

impl Part {
    fn new(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    pub fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The kept output of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOutput {
    /// The run that printed it.
    pub run_id: RunId,
    /// The attempt of that run.
    pub attempt: i64,
    /// In ascending order, at least one. What is between two of them was never sent, and what is before the first was never
    /// sent or has been pushed out.
    pub parts: Vec<Part>,
}

/// A piece of output that a run sends.
#[derive(Clone, Copy, Debug)]
pub struct NewOutput<'a> {
    pub run_id: RunId,
    /// The number of bytes before it.
    pub offset: u64,
    pub text: &'a str,
}

/// A change of output to write. Bytes before the first part are no longer needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChange<'a> {
    pub kept: KeptOutput,
    /// True if the task kept the output of another run, of which all bytes go first.
    pub replaces: bool,
    /// The bytes that are new, each with its offset, in ascending order.
    pub added: Vec<(u64, &'a str)>,
}

/// A run sends output: the active one or the latest finished one, whose last bytes may come late. No change if everything was
/// there before, was pushed out before, or comes from a finished run after the active one has printed.
pub fn add<'a>(
    task: &TaskHead,
    kept: Option<&KeptOutput>,
    new: NewOutput<'a>,
    most_bytes: usize,
) -> Result<Option<OutputChange<'a>>, Refusal> {
    let lifecycle = &task.lifecycle;
    let active = lifecycle.run.map(|run| run.run_id);
    let finished = lifecycle.finished_run.map(|run| run.run_id);
    let attempt = if active == Some(new.run_id) {
        lifecycle.attempt
    } else if finished == Some(new.run_id) {
        finished_attempt(lifecycle)
    } else {
        return Err(Refusal::StaleRun { run_id: new.run_id });
    };
    let own = kept.filter(|kept| kept.run_id == new.run_id);
    let active_has_printed = kept.is_some_and(|kept| Some(kept.run_id) == active);
    if own.is_none() && active_has_printed {
        return Ok(None);
    }
    let before = own.map_or(&[][..], |kept| &kept.parts);
    let mut added = missing(before, new);
    let Some(start) = first_kept(before, &added, most_bytes) else { return Ok(None) };
    // Characters that begin before the first kept byte are not stored at all.
    added.retain_mut(|(offset, text)| cut_front(offset, text, start));
    if added.is_empty() {
        return Ok(None);
    }
    let left = before.iter().filter_map(|part| Part::new(part.start.max(start), part.end));
    let parts = joined(left, &added);
    let replaces = own.is_none() && kept.is_some();
    let attempt = own.map_or(attempt, |kept| kept.attempt);
    Ok(Some(OutputChange { kept: KeptOutput { run_id: new.run_id, attempt, parts }, replaces, added }))
}

impl KeptOutput {
    /// Returns what is left of it if no more than this is kept.
    pub fn within(mut self, most_bytes: usize) -> Option<Self> {
        push_out(&mut self.parts, most_bytes);
        (!self.parts.is_empty()).then_some(self)
    }

    /// The number of bytes up to its end, with those that are missing.
    pub fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// The bytes that an answer gives at most: from `offset` or the next kept byte on, up to a gap.
    pub fn from(&self, offset: u64) -> Option<Part> {
        let part = self.parts.iter().find(|part| part.end > offset)?;
        let start = part.start.max(offset);
        Part::new(start, part.end.min(start.saturating_add(OUTPUT_ANSWER_BYTES as u64)))
    }
}

/// The text of kept bytes that begin at `start`, with the offset of its first byte. Characters of which a part is missing are
/// left out at both ends, and it ends before it would be larger than an answer may be.
pub fn shown(start: u64, bytes: &[u8]) -> (u64, &str) {
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let skipped = bytes.iter().take_while(|byte| is_inside(byte)).count();
    let bytes = &bytes[skipped..];
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    (start.saturating_add(skipped as u64), json::written_prefix(text, OUTPUT_ANSWER_BYTES))
}

/// The attempt of the latest finished run. Only the task's own attempt is stored, and a run that was given back or requeued
/// has taken its own back; then this is the number that it most likely had.
fn finished_attempt(lifecycle: &Lifecycle) -> i64 {
    let given_back = lifecycle.finished_run.is_some_and(|run| run.end == RunEnd::Unclaim);
    let later_claims = i64::from(lifecycle.run.is_some());
    lifecycle.attempt.saturating_sub(later_claims).saturating_add(i64::from(given_back)).max(1)
}

/// Returns what is not in the parts of a text at its offset. Of a text that would end beyond the largest offset nothing is taken:
/// it could not be stored.
fn missing<'a>(parts: &[Part], NewOutput { mut offset, mut text, .. }: NewOutput<'a>) -> Vec<(u64, &'a str)> {
    let mut missing = Vec::new();
    let Some(end) = offset.checked_add(text.len() as u64).filter(|end| *end <= OUTPUT_OFFSET_MAX) else {
        return missing;
    };
    for part in parts.iter().filter(|part| part.start < end) {
        let before = usize::try_from(part.start.saturating_sub(offset)).unwrap_or(usize::MAX);
        missing.push((offset, &text[..text.floor_char_boundary(before)]));
        cut_front(&mut offset, &mut text, part.end);
    }
    missing.push((offset, text));
    missing.retain(|(_, text)| !text.is_empty());
    missing
}

/// Removes the characters of a text that begin before `start`. Returns whether something is left.
fn cut_front(offset: &mut u64, text: &mut &str, start: u64) -> bool {
    let cut = usize::try_from(start.saturating_sub(*offset)).unwrap_or(usize::MAX);
    let cut = text.ceil_char_boundary(cut);
    *offset += cut as u64;
    *text = &text[cut..];
    !text.is_empty()
}

/// Where the bytes begin that are kept of what is there and what is added, if any are.
fn first_kept(before: &[Part], added: &[(u64, &str)], most_bytes: usize) -> Option<u64> {
    let mut parts = joined(before.iter().copied(), added);
    push_out(&mut parts, most_bytes);
    parts.first().map(|part| part.start)
}

/// Parts and new texts that do not overlap, in order, as few as can be.
fn joined(parts: impl Iterator<Item = Part>, added: &[(u64, &str)]) -> Vec<Part> {
    let added = added.iter().filter_map(|(offset, text)| Part::new(*offset, offset + text.len() as u64));
    let mut parts: Vec<Part> = parts.chain(added).collect();
    parts.sort_unstable_by_key(|part| part.start);
    parts.dedup_by(|next, previous| {
        let touches = previous.end == next.start;
        if touches {
            previous.end = next.end;
        }
        touches
    });
    parts
}

/// Removes the oldest bytes until there are no more than this, in no more than [`OUTPUT_PARTS`] parts.
fn push_out(parts: &mut Vec<Part>, most_bytes: usize) {
    parts.drain(..parts.len().saturating_sub(OUTPUT_PARTS));
    let mut over = parts.iter().map(|part| part.bytes()).sum::<u64>().saturating_sub(most_bytes as u64);
    parts.retain_mut(|part| {
        let cut = part.bytes().min(over);
        part.start += cut;
        over -= cut;
        part.start < part.end
    });
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
