//! How values look on every page: moments, long texts, rates, and what is drawn of them. Numbers, durations and sizes are written as
//! everywhere (`taskqueue_core::words`).

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

use taskqueue_core::words::one_decimal;
pub(crate) use taskqueue_core::words::{bytes, count, duration, number};

pub(crate) use self::bar::Bar;
pub(crate) use self::meter::{Meter, Metered};
pub(crate) use self::moment::{Moment, ahead, now};
pub(crate) use self::spark::{Minute, Spark};

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

/// A text as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).chain(['.']).collect()
}

/// How often something happens in a minute, with as many digits as tell something: `156`, `3.4`, `0.2`.
pub(crate) fn per_minute(times: u64, within: Duration) -> String {
    let rate = if within.is_zero() { 0.0 } else { times as f64 * 60.0 / within.as_secs_f64() };
    if rate >= 9.95 { number(rate.round() as u64) } else { one_decimal(rate) }
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
}
