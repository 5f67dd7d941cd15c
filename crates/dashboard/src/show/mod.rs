//! How values are written for people: numbers, durations, sizes, moments, long texts; and what is drawn of them. The same value looks
//! the same on every page.

pub(crate) mod ansi;
mod bar;
pub(crate) mod chart;
pub(crate) mod command;
pub(crate) mod html;
pub(crate) mod json;
mod meter;
mod moment;
mod spark;

use std::borrow::Cow;
use std::time::Duration;

pub(crate) use self::bar::Bar;
pub(crate) use self::meter::Meter;
pub(crate) use self::moment::{Moment, ahead, between, now};
pub(crate) use self::spark::{Minute, Spark};

/// 12345 as `12,345`.
pub(crate) fn number(value: impl Into<u64>) -> String {
    let digits = value.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 task`, `2,000 tasks`.
pub(crate) fn count(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(value))
}

/// A text of at most so many characters, with a sign where it was cut.
pub(crate) fn cut(text: &str, most_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most_chars) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let end = text.char_indices().nth(most_chars.saturating_sub(1)).map_or(0, |(at, _)| at);
            Cow::Owned(format!("{}…", &text[..end]))
        }
    }
}

/// One unit, the largest that fits, as few digits as tell something: `0.2 s`, `41 s`, `28 min`, `3 h`, `2 days`.
pub(crate) fn duration(value: Duration) -> String {
    let seconds = value.as_secs_f64();
    match seconds {
        ..0.001 => "0 s".to_owned(),
        ..0.1 => format!("{:.0} ms", seconds * 1_000.0),
        ..9.95 => format!("{seconds:.1} s"),
        ..59.5 => format!("{seconds:.0} s"),
        ..3_570.0 => format!("{:.0} min", seconds / 60.0),
        ..35_820.0 => decimal(seconds / 3_600.0, "h"),
        ..86_400.0 => format!("{:.0} h", seconds / 3_600.0),
        ..864_000.0 => match decimal(seconds / 86_400.0, "days") {
            text if text == "1 days" => "1 day".to_owned(),
            text => text,
        },
        _ => format!("{} days", number((seconds / 86_400.0).round() as u64)),
    }
}

/// How long ago something was: as a duration, but in whole seconds, because tenths would change at each look.
pub(crate) fn age(value: Duration) -> String {
    if value < Duration::from_secs(10) { format!("{} s", value.as_secs()) } else { duration(value) }
}

/// One decimal, unless it is 0.
fn decimal(value: f64, unit: &str) -> String {
    format!("{} {unit}", trimmed(value))
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// How often something happens in a minute, with as many digits as tell something: `156`, `3.4`, `0.2`.
pub(crate) fn per_minute(times: u64, within: Duration) -> String {
    let rate = if within.is_zero() { 0.0 } else { times as f64 * 60.0 / within.as_secs_f64() };
    if rate >= 9.95 { number(rate.round() as u64) } else { trimmed(rate) }
}

/// `512 B`, `38.2 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1_023.5 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    if unit == 0 || scaled >= 99.5 { format!("{scaled:.0} {}", UNITS[unit]) } else { decimal(scaled, UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("", 3), "");
    }

    #[test]
    fn numbers_are_grouped_and_exact() {
        let cases =
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (u64::MAX, "18,446,744,073,709,551,615")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!((count(1, "task"), count(0, "task")), ("1 task".to_owned(), "0 tasks".to_owned()));
    }

    #[test]
    fn an_age_has_no_tenths_of_a_second() {
        for (seconds, text) in [(0.02, "0 s"), (9.96, "9 s"), (10.0, "10 s"), (1_700.0, "28 min")] {
            assert_eq!(age(Duration::from_secs_f64(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn a_duration_has_one_unit_and_few_digits() {
        let cases = [
            (0.0, "0 s"),
            (0.02, "20 ms"),
            (0.2, "0.2 s"),
            (9.96, "10 s"),
            (59.4, "59 s"),
            (59.6, "1 min"),
            (1_700.0, "28 min"),
            (3_600.0, "1 h"),
            (5_400.0, "1.5 h"),
            (80_000.0, "22 h"),
            (86_400.0, "1 day"),
            (200_000.0, "2.3 days"),
            (864_000_000.0, "10,000 days"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn a_rate_has_few_digits() {
        let cases = [
            (0, 300, "0"),
            (1, 300, "0.2"),
            (5, 300, "1"),
            (17, 300, "3.4"),
            (780, 300, "156"),
            (90_000, 60, "90,000"),
            (3, 0, "0"),
        ];
        for (times, seconds, text) in cases {
            assert_eq!(per_minute(times, Duration::from_secs(seconds)), text, "{times} {seconds}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        let cases = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1 KiB"), (1_536, "1.5 KiB"), (41_017_000_000, "38.2 GiB")];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
    }
}
