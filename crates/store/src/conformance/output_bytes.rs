//! Which bytes of the output of a run are kept: whatever it sends, at the limits, and characters at the borders. The rule itself is in
//! `output_tests.rs` of core.

use std::collections::BTreeMap;

use taskqueue_core::limits::{OUTPUT_ANSWER_BYTES, OUTPUT_PARTS, OUTPUT_TEXT_BYTES, TASK_OUTPUT_BYTES};
use tokio::task::JoinSet;

use super::output::{read, running};
use super::prelude::*;

/// Keeps that many bytes.
fn within(most_bytes: usize, output: AddOutput) -> AddOutput {
    AddOutput { most_bytes, ..output }
}

/// Where the answers from an offset on begin, and their texts, one after the other until the end.
async fn follow(fixture: &Fixture, mut offset: u64, most_bytes: usize) -> Vec<(u64, String)> {
    let mut answers = Vec::new();
    loop {
        let read = fixture.store.read_output(&queue("q"), task_id(1), offset, most_bytes).await.unwrap();
        if read.text.is_empty() {
            return answers;
        }
        offset = read.end();
        answers.push((read.start, read.text));
    }
}

/// Sends everything at once.
async fn send_together(fixture: &Fixture, outputs: Vec<AddOutput>) {
    let mut sends = JoinSet::new();
    for output in outputs {
        let store = Arc::clone(&fixture.store);
        sends.spawn(async move { store.write(output).await });
    }
    for sent in sends.join_all().await {
        sent.unwrap();
    }
}

/// Gives task 1 back and claims it again, so that the output of the next run begins with nothing.
async fn next_run(fixture: &Fixture, run: u32) {
    fixture.ok(unclaim("q", 1, run)).await;
    fixture.claim(run + 1).await;
}

fn parts(parts: &[(u64, &str)]) -> Vec<(u64, String)> {
    parts.iter().map(|(start, text)| (*start, (*text).to_owned())).collect()
}

pub async fn a_smaller_limit_shows_less_and_removes_nothing_before_the_next_output(fixture: Fixture) {
    let fixture = running(fixture).await;
    fixture.ok(print(1, 1, 0, "abcdefghij")).await;
    assert_eq!(follow(&fixture, 0, 3).await, parts(&[(7, "hij")]));
    assert_eq!(follow(&fixture, 0, 1_000).await, parts(&[(0, "abcdefghij")]));
    fixture.ok(within(3, print(1, 1, 10, "k"))).await;
    assert_eq!(follow(&fixture, 0, 1_000).await, parts(&[(8, "ijk")]));
}

pub async fn overlapping_output_that_is_sent_at_once_gives_the_same_bytes_in_any_order(fixture: Fixture) {
    let fixture = running(fixture).await;
    let text: String = (0..400).map(|n| format!("line {n} é\n")).collect();
    let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut random = Random::new(7);
    for run in 1..=4 {
        let (mut sends, mut place) = (Vec::new(), 0);
        while place + 1 < borders.len() {
            // Each begins a little before the end of the one before, and some come twice.
            let from = borders[place.saturating_sub(random.below(9))];
            place = (place + 1 + random.below(60)).min(borders.len() - 1);
            let send = within(1 << 20, print(1, run, from as u64, &text[from..borders[place]]));
            sends.extend(std::iter::repeat_n(send, 1 + random.below(2)));
        }
        if run % 2 == 0 {
            sends.reverse();
        }
        send_together(&fixture, sends).await;
        assert_eq!(follow(&fixture, 0, 1 << 20).await, parts(&[(0, &text)]));
        next_run(&fixture, run).await;
    }
}

pub async fn the_largest_offsets_are_kept(fixture: Fixture) {
    let fixture = running(fixture).await;
    let last = i64::MAX as u64;
    fixture.ok(print(1, 1, last - 4, "wxyz")).await;
    fixture.ok(print(1, 1, 0, "first")).await;
    fixture.ok(print(1, 1, last - 6, "uvWX")).await;
    fixture.ok(print(1, 1, last, "")).await;
    assert_eq!(follow(&fixture, 0, 1_000).await, parts(&[(0, "first"), (last - 6, "uvwxyz")]));
    assert_eq!(follow(&fixture, last - 1, 1_000).await, parts(&[(last - 1, "z")]));
    assert_eq!((read(&fixture, last).await.start, read(&fixture, u64::MAX).await.start), (last, last));
}

pub async fn characters_are_whole_at_every_border(fixture: Fixture) {
    let (fixture, text) = (running(fixture).await, "aé€😀b\0");
    fixture.ok(print(1, 1, 10, text)).await;
    let rest = |at: usize| text.ceil_char_boundary(at);
    for at in 0..=text.len() {
        let Output { start, text: answer, .. } = read(&fixture, 10 + at as u64).await;
        assert_eq!((start, &*answer), (10 + rest(at) as u64, &text[rest(at)..]), "from {at}");
        let kept = text.len() - at;
        let last = follow(&fixture, 0, kept.max(1)).await;
        assert_eq!(last, parts(&[(10 + rest(at.min(text.len() - 1)) as u64, &text[rest(at.min(text.len() - 1))..])]));
    }
    // A part that is there begins and ends inside of the characters of what comes after it.
    for (run, at) in (2..).zip(0..text.len()) {
        next_run(&fixture, run - 1).await;
        fixture.ok(print(1, run, at as u64, "X")).await;
        fixture.ok(print(1, run, 0, text)).await;
        let (before, behind) = (text.floor_char_boundary(at), rest(at + 1));
        let mut expected = vec![(0, &text[..before]), (at, "X"), (behind, &text[behind..])];
        expected.retain(|(_, text)| !text.is_empty());
        let mut joined: Vec<(u64, String)> = Vec::new();
        for (start, text) in expected {
            match joined.last_mut() {
                Some((first, last)) if *first + last.len() as u64 == start as u64 => last.push_str(text),
                _ => joined.push((start as u64, text.to_owned())),
            }
        }
        assert_eq!(follow(&fixture, 0, 1_000).await, joined, "at {at}");
    }
}

/// More than a row has of them on any backend.
pub async fn thousands_of_single_bytes_are_kept(fixture: Fixture) {
    let fixture = running(fixture).await;
    let text: String = ('a'..='z').cycle().take(4_200).collect();
    let send = |at: usize| within(1 << 20, print(1, 1, at as u64, &text[at..=at]));
    // The first half from its end, so that each byte comes before the last one.
    for hundred in (0..21).rev() {
        send_together(&fixture, (hundred * 100..(hundred + 1) * 100).rev().map(send).collect()).await;
    }
    for hundred in 21..42 {
        send_together(&fixture, (hundred * 100..(hundred + 1) * 100).map(send).collect()).await;
    }
    assert_eq!(follow(&fixture, 0, 1 << 20).await, parts(&[(0, &text)]));
    assert_eq!(follow(&fixture, 3_321, 1 << 20).await, parts(&[(3_321, &text[3_321..])]));
}

pub async fn the_largest_texts_push_out_the_oldest(fixture: Fixture) {
    let fixture = running(fixture).await;
    let large = |n: usize| char::from(b'a' + n as u8).to_string().repeat(OUTPUT_TEXT_BYTES);
    let (mut whole, most) = (String::new(), TASK_OUTPUT_BYTES);
    for n in 0..6 {
        fixture.ok(within(most, print(1, 1, whole.len() as u64, &large(n)))).await;
        whole.push_str(&large(n));
    }
    for n in 0..10 {
        let text = format!("{n:01024}");
        fixture.ok(within(most, print(1, 1, whole.len() as u64, &text))).await;
        whole.push_str(&text);
    }
    let start = whole.len() - most;
    assert_eq!(follow(&fixture, 0, most).await, parts(&[(start as u64, &whole[start..])]));
    let inside = whole.len() - 70_000;
    assert_eq!(follow(&fixture, inside as u64, most).await, parts(&[(inside as u64, &whole[inside..])]));
}

pub async fn an_answer_is_no_longer_than_it_may_be(fixture: Fixture) {
    let fixture = running(fixture).await;
    // Six bytes of JSON each.
    let text = "\u{1}".repeat(OUTPUT_TEXT_BYTES);
    let (sends, most) = (20, 4 << 20);
    for n in 0..sends {
        fixture.ok(within(most, print(1, 1, (n * text.len()) as u64, &text))).await;
    }
    let answers = follow(&fixture, 0, most).await;
    let mut end = 0;
    for (start, text) in &answers {
        assert_eq!(*start, end, "nothing is left out");
        assert!(text.len() * 6 <= OUTPUT_ANSWER_BYTES);
        end += text.len() as u64;
    }
    assert_eq!(end, (sends * text.len()) as u64);
    assert_eq!(answers[0].1.len(), OUTPUT_ANSWER_BYTES / 6, "as much as fits");
}

pub async fn the_oldest_parts_go_when_there_are_too_many(fixture: Fixture) {
    let fixture = running(fixture).await;
    let too_many = OUTPUT_PARTS as u64 + 44;
    for n in 0..too_many {
        fixture.ok(print(1, 1, 2 * n, "x")).await;
    }
    let kept = follow(&fixture, 0, 1_000).await;
    assert_eq!(kept.first(), Some(&(88, "x".to_owned())));
    assert_eq!(kept.len(), OUTPUT_PARTS);
    // Filling gaps makes room for older parts.
    let filling = "y".repeat(11);
    fixture.ok(print(1, 1, 89, &filling)).await;
    fixture.ok(print(1, 1, 80, "z")).await;
    let kept = follow(&fixture, 0, 1_000).await;
    assert_eq!(kept[..2], parts(&[(80, "z"), (88, "xyxyxyxyxyxyx")])[..]);
}

/// Every byte by itself.
#[derive(Default)]
struct Naive(BTreeMap<u64, u8>);

impl Naive {
    /// What came first stays, the oldest bytes are pushed out, and what brings nothing new changes nothing.
    fn print(&mut self, offset: u64, text: &str, most_bytes: usize) {
        let mut bytes = self.0.clone();
        for (offset, byte) in (offset..).zip(text.bytes()) {
            bytes.entry(offset).or_insert(byte);
        }
        while bytes.len() > most_bytes {
            bytes.pop_first();
        }
        if bytes.keys().any(|offset| !self.0.contains_key(offset)) {
            self.0 = bytes;
        }
    }

    fn parts(&self) -> Vec<(u64, String)> {
        let mut parts: Vec<(u64, String)> = Vec::new();
        for (offset, byte) in &self.0 {
            match parts.last_mut() {
                Some((start, text)) if *start + text.len() as u64 == *offset => text.push(char::from(*byte)),
                _ => parts.push((*offset, char::from(*byte).to_string())),
            }
        }
        parts
    }
}

/// With repetitions, overlaps and gaps that are filled; and a limit that is smaller at times, so that what was pushed out comes again.
pub async fn random_output_is_what_keeping_every_byte_by_itself_gives(fixture: Fixture) {
    let fixture = running(fixture).await;
    for (run, (most_bytes, places)) in (1..).zip([(40, 300), (4_000, 9_000), (20_000, 30_000), (9_000, 9_100)]) {
        let (mut random, mut naive, mut end) = (Random::new(run), Naive::default(), 0);
        for step in 0..150 {
            let length = random.pick(&[1, 1, 7, 100, 1_000, 3_400, 5_000]).min(places / 3);
            let text: String = (0..length).map(|_| random.pick(&['a', 'b', 'c', 'd', '\n'])).collect();
            // Mostly behind the last, as runs print.
            let offset = if random.percent(60) { end } else { random.below(places) as u64 };
            let limit = if random.percent(15) { most_bytes / 3 } else { most_bytes };
            fixture.ok(within(limit, print(1, run, offset, &text))).await;
            naive.print(offset, &text, limit);
            end = end.max(offset + length as u64);
            if step % 10 == 9 {
                assert_eq!(follow(&fixture, 0, most_bytes).await, naive.parts(), "seed {run}, step {step}");
            }
        }
        next_run(&fixture, u32::try_from(run).unwrap()).await;
    }
}
