//! What decides at exactly a limit or only in a rare case: tests that mutants of the code survived without.

use taskqueue_core::cursor::{Binding, InvalidCursor, OrderValue, Position, Resource};
use taskqueue_core::limits::CURSOR_CHARS;

use crate::prelude::*;

#[test]
fn a_cursor_of_exactly_the_longest_text_reads_back_and_a_longer_one_is_refused() {
    let binding = Binding::new(Resource::TaskList, &QueueName::parse("q").unwrap(), &[]);
    let position = |bytes: usize| Position { queue_key: 1, values: vec![OrderValue::Text("x".repeat(bytes).into())] };
    // 3 bytes are 4 characters; a key, a kind, a length and a digest come with the text.
    let longest = CURSOR_CHARS / 4 * 3 - 8 - 1 - 4 - 16;
    let cursor = binding.encode(&position(longest));
    assert_eq!(cursor.len(), CURSOR_CHARS);
    assert_eq!(binding.decode(&cursor), Ok(position(longest)));
    let cursor = binding.encode(&position(longest + 1));
    assert_eq!(binding.decode(&cursor), Err(InvalidCursor));
}

#[test]
fn every_month_ends_with_its_last_day() {
    let days = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, days) in (1..).zip(days) {
        let parsed = |day: u32| Timestamp::parse(&format!("2026-{month:02}-{day:02}T00:00:00Z"));
        assert!(parsed(days).is_some() && parsed(days + 1).is_none(), "month {month}");
        assert!(parsed(1).is_some() && parsed(0).is_none(), "month {month}");
    }
    for (year, leap) in [(2024, true), (2023, false), (2000, true), (1900, false)] {
        assert_eq!(Timestamp::parse(&format!("{year}-02-29T00:00:00Z")).is_some(), leap, "{year}");
    }
}

#[test]
fn an_offset_has_at_most_23_hours_and_59_minutes() {
    let midnight = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
    let with = |offset: &str| Timestamp::parse(&format!("2026-01-02T00:00:00{offset}"));
    for (offset, minutes) in [("+23:59", 1439), ("-23:59", -1439), ("+23:00", 1380), ("-00:59", -59), ("+00:00", 0)] {
        assert_eq!(with(offset), Some(midnight.plus_seconds(-60 * minutes)), "{offset}");
    }
    for offset in ["+24:00", "-24:00", "+99:00", "+00:60", "-00:61", "+23:99"] {
        assert_eq!(with(offset), None, "{offset}");
    }
}

#[test]
fn a_fraction_counts_from_the_left() {
    let micros =
        |fraction: &str| Timestamp::parse(&format!("1970-01-01T00:00:00{fraction}Z")).map(Timestamp::as_micros);
    let cases = [("", 0), (".5", 500_000), (".05", 50_000), (".123", 123_000), (".000001", 1), (".999999", 999_999)];
    for (fraction, expected) in cases {
        assert_eq!(micros(fraction), Some(expected), "{fraction}");
    }
    assert_eq!((micros("."), micros(".1234567")), (None, None));
}
