//! What few runs do with their output (docs/decisions/0048), then random sends against a map of bytes. What is usual is in the
//! conformance suite of the stores.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::samples::{new_task, run};
use crate::task::{ActiveRun, FinishedRun, Task};
use crate::time::Timestamp;

const ROOMY: usize = 1000;

/// A task in its third attempt with the run `active`, whose second attempt was the run `before`, ended this way.
fn task(end: RunEnd) -> TaskHead {
    let over = Timestamp::from_micros(0);
    let lifecycle = Lifecycle {
        attempt: 3,
        run: Some(ActiveRun { run_id: run("active"), lease_expires_at: over, times_out_at: None }),
        finished_run: Some(FinishedRun { run_id: run("before"), end }),
        ..Lifecycle::created(Timestamp::from_micros(1_000_000), 1)
    };
    Task { lifecycle, ..new_task() }.head()
}

fn part(start: u64, end: u64) -> Part {
    Part { start, end }
}

fn kept(by: &str, parts: &[(u64, u64)]) -> KeptOutput {
    KeptOutput { run_id: run(by), attempt: 3, parts: parts.iter().map(|(start, end)| part(*start, *end)).collect() }
}

fn sends<'a>(by: &str, offset: u64, text: &'a str) -> NewOutput<'a> {
    NewOutput { run_id: run(by), offset, text }
}

type Sent<'a> = Option<(Vec<(u64, u64)>, Vec<(u64, &'a str)>)>;

/// What is kept and what is added when the active run, of which these parts are kept, sends this.
fn sent<'a>(parts: &[(u64, u64)], offset: u64, text: &'a str, most_bytes: usize) -> Sent<'a> {
    let kept = (!parts.is_empty()).then(|| kept("active", parts));
    let change = add(&task(RunEnd::Fail), kept.as_ref(), sends("active", offset, text), most_bytes).unwrap()?;
    Some((change.kept.parts.iter().map(|part| (part.start, part.end)).collect(), change.added))
}

#[test]
fn every_other_run_is_stale_even_with_an_empty_text_or_when_nothing_is_kept() {
    let stale = Err(Refusal::StaleRun { run_id: run("other") });
    for (text, most_bytes) in [("a", ROOMY), ("", ROOMY), ("a", 0)] {
        assert_eq!(add(&task(RunEnd::Fail), None, sends("other", 0, text), most_bytes), stale);
        let own = kept("other", &[(0, 1)]);
        assert_eq!(add(&task(RunEnd::Fail), Some(&own), sends("other", 1, text), most_bytes), stale);
    }
}

#[test]
fn the_attempt_of_a_finished_run_is_the_one_it_had() {
    let attempt = |head: &TaskHead| add(head, None, sends("before", 0, "a"), ROOMY).unwrap().unwrap().kept.attempt;
    let pending = |end, attempt| {
        let head = task(end);
        TaskHead { lifecycle: Lifecycle { run: None, attempt, ..head.lifecycle }, ..head }
    };
    assert_eq!(attempt(&task(RunEnd::Fail)), 2);
    assert_eq!(attempt(&task(RunEnd::Unclaim)), 3, "the attempt that was given back was taken again");
    assert_eq!(attempt(&pending(RunEnd::Fail, 3)), 3);
    assert_eq!(attempt(&pending(RunEnd::Unclaim, 2)), 3);
    assert_eq!(attempt(&pending(RunEnd::Fail, 0)), 1, "after a requeue it is not known");
}

#[test]
fn a_character_that_begins_before_the_first_kept_byte_is_not_stored() {
    assert_eq!(sent(&[], 0, "😀ab", 5), Some((vec![(4, 6)], vec![(4, "ab")])));
    assert_eq!(sent(&[], 0, "😀", 3), None);
    // The one that does not fit comes before bytes that are kept, in a text that goes on behind them.
    assert_eq!(sent(&[(4, 6)], 0, "😀abcd", 7), Some((vec![(4, 8)], vec![(6, "cd")])));
    // The same, with another text than before: the end of its "é" is there already.
    assert_eq!(sent(&[(5, 7)], 0, "😀éabc", 7), Some((vec![(5, 9)], vec![(7, "bc")])));
}

#[test]
fn no_offset_overflows_and_what_could_not_be_stored_is_not_kept() {
    let last = OUTPUT_OFFSET_MAX;
    assert_eq!(sent(&[], last - 2, "ab", ROOMY), Some((vec![(last - 2, last)], vec![(last - 2, "ab")])));
    for offset in [last - 1, last, last + 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(sent(&[], offset, "ab", ROOMY), None);
        assert_eq!(sent(&[(0, 1), (last - 1, last)], offset, "ab", ROOMY), None);
    }
    let all = kept("active", &[(last - 2, last)]);
    assert_eq!((all.from(last - 1), all.from(last), all.from(u64::MAX)), (Some(part(last - 1, last)), None, None));
    assert_eq!(shown(u64::MAX, b"\x80"), (u64::MAX, ""));
}

#[test]
fn an_answer_is_as_large_as_it_is_written() {
    let limit = OUTPUT_ANSWER_BYTES;
    for (character, written) in [("x", 1), ("\n", 2), ("\u{1b}", 6), ("é", 2), ("\"", 2)] {
        let text = character.repeat(limit / written + 1);
        let (_, shown) = shown(0, text.as_bytes());
        assert_eq!(shown.len(), limit / written * character.len(), "{character:?}");
    }
}

/// What a run prints in truth: all kinds of characters, so that most cuts are inside one.
fn stream() -> impl Strategy<Value = String> {
    vec(select(vec!['a', '\n', '\u{1b}', 'é', '～', '😀']), 1..60).prop_map(String::from_iter)
}

/// Pieces of it, in any order, overlapping or apart: each the numbers of its first and last character, as a share of all.
fn pieces() -> impl Strategy<Value = Vec<(f64, f64)>> {
    vec((0.0..1.0, 0.0..0.3), 1..25)
}

fn piece(stream: &str, (from, share): (f64, f64)) -> (u64, &str) {
    let from = stream.floor_char_boundary((from * stream.len() as f64) as usize);
    let to = stream.ceil_char_boundary(from + (share * stream.len() as f64) as usize);
    (from as u64, &stream[from..to])
}

/// What a store does with changes.
#[derive(Default)]
struct Bytes {
    kept: Option<KeptOutput>,
    bytes: BTreeMap<u64, u8>,
}

impl Bytes {
    /// Whether anything changed.
    fn send(&mut self, offset: u64, text: &str, most_bytes: usize) -> bool {
        let new = sends("active", offset, text);
        let Some(change) = add(&task(RunEnd::Fail), self.kept.as_ref(), new, most_bytes).unwrap() else { return false };
        for (offset, text) in &change.added {
            for (offset, byte) in (*offset..).zip(text.bytes()) {
                assert_eq!(self.bytes.insert(offset, byte), None, "a byte is added once");
            }
        }
        let start = change.kept.parts[0].start;
        self.bytes.retain(|offset, _| *offset >= start);
        self.kept = Some(change.kept);
        true
    }

    fn parts(&self) -> &[Part] {
        self.kept.as_ref().map_or(&[], |kept| &kept.parts)
    }

    /// Everything that is shown, as a client reads it: each answer goes on where the last one ended.
    fn read(&self) -> BTreeMap<u64, u8> {
        let mut read = BTreeMap::new();
        let Some(kept) = &self.kept else { return read };
        let mut offset = 0;
        while let Some(part) = kept.from(offset) {
            let bytes: Vec<u8> = self.bytes.range(part.start..part.end).map(|(_, byte)| *byte).collect();
            assert_eq!(bytes.len() as u64, part.bytes(), "every byte of a part is there");
            let (start, text) = shown(part.start, &bytes);
            assert!(start + text.len() as u64 <= part.end && start >= offset);
            read.extend((start..).zip(text.bytes()));
            offset = if text.is_empty() { part.end } else { start + text.len() as u64 };
        }
        read
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn what_is_shown_is_what_was_printed(
        stream in stream(),
        pieces in pieces(),
        // Within less than a character, what fits depends on which one it is.
        most_bytes in prop_oneof![Just(0_usize), 4..20_usize, 20..300_usize],
        base in select(vec![0, 1, 1 << 40, OUTPUT_OFFSET_MAX - 240]),
    ) {
        let mut output = Bytes::default();
        let mut sent = BTreeSet::new();
        let mut pushed_out_before = 0;
        for (offset, text) in pieces.into_iter().map(|each| piece(&stream, each)) {
            let offset = base + offset;
            sent.extend(offset..offset + text.len() as u64);
            output.send(offset, text, most_bytes);
            prop_assert!(!output.send(offset, text, most_bytes), "a repetition changes nothing");

            let parts = output.parts();
            prop_assert!(parts.iter().all(|part| part.start < part.end));
            prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start), "ascending and apart: {:?}", parts);
            let bytes: u64 = parts.iter().map(|part| part.bytes()).sum();
            prop_assert_eq!(bytes, output.bytes.len() as u64);
            prop_assert!(bytes <= most_bytes as u64);
            prop_assert!(bytes as usize + 3 >= most_bytes.min(sent.len()), "no more is pushed out than must be");
            let start = parts.first().map_or(base, |part| part.start);
            let pushed_out = (offset..offset + text.len() as u64).rfind(|offset| !output.bytes.contains_key(offset));
            pushed_out_before = start.max(pushed_out_before).max(pushed_out.map_or(0, |last| last + 1));
            if !parts.is_empty() {
                prop_assert!(sent.range(pushed_out_before..).all(|offset| output.bytes.contains_key(offset)));
            }
            for (offset, byte) in output.bytes.iter().chain(&output.read()) {
                prop_assert_eq!(*byte, stream.as_bytes()[(*offset - base) as usize], "the byte at {}", offset);
            }
        }
        let read = output.read();
        let whole = output.bytes.keys().filter(|offset| !read.contains_key(offset)).count();
        prop_assert!(whole <= 3, "only the rest of the character that was cut is not shown: {} bytes", whole);
    }

    #[test]
    fn a_run_that_lies_about_its_offsets_gets_text_and_breaks_nothing(
        sends in vec((0..60_u64, stream()), 1..20),
        most_bytes in 0..100_usize,
        from in 0..100_u64,
    ) {
        let mut output = Bytes::default();
        for (offset, text) in &sends {
            output.send(*offset, text, most_bytes);
            prop_assert!(output.parts().windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(output.bytes.len() <= most_bytes);
            output.read();
            if let Some(kept) = output.kept.clone().and_then(|kept| kept.within(from as usize)) {
                prop_assert!(kept.parts.iter().map(|part| part.bytes()).sum::<u64>() <= from);
                prop_assert!(kept.from(from).is_none_or(|part| part.start >= from && part.start < part.end));
            }
        }
    }
}
