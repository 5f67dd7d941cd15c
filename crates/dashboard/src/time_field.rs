//! Times and durations as people type them: `90 s`, `15 min`, `2 h`, `7 days`; a moment as the API writes it, or `in 2 h`.

use taskqueue_core::scheduling::seconds_as_duration;
use taskqueue_core::time::Timestamp;
use taskqueue_core::words::{Units, exact_duration};

/// Names of units and their seconds, the largest first. The first name of each is the one that is written.
const UNITS: [(f64, &[&str]); 4] = [
    (86_400.0, &["days", "day", "d"]),
    (3_600.0, &["h", "hour", "hours"]),
    (60.0, &["min", "m", "minute", "minutes"]),
    (1.0, &["s", "sec", "second", "seconds"]),
];
const RULE: &str = "Write a number with its unit, such as 90 s, 15 min, 2 h or 7 days.";
/// How a moment begins that is counted from now.
const AHEAD: &str = "in ";
const MOMENT_RULE: &str = "Write a time such as 2027-01-31T08:00:00Z, or how far ahead it is: in 2 h.";

/// A number of seconds, not negative. A number without a unit is of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let factor = UNITS.iter().find(|(_, names)| names.contains(&unit)).map(|(factor, _)| *factor);
    let factor = if unit.is_empty() { Some(1.0) } else { factor };
    let seconds = number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    seconds.filter(|seconds| seconds.is_finite()).ok_or_else(|| RULE.to_owned())
}

/// A whole number of seconds between these.
pub(crate) fn whole_seconds(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let exact = seconds(text)?;
    // Exact up to 2^53, far beyond what follows.
    let whole = exact as u64;
    if exact.fract() != 0.0 || exact > 9e15 {
        return Err("Write a whole number of seconds, minutes, hours or days.".to_owned());
    }
    let is_within = (least..=most).contains(&whole);
    if is_within {
        Ok(whole)
    } else {
        Err(format!("Write at least {} and at most {}.", written(least as f64), written(most as f64)))
    }
}

/// How many seconds, as they can be typed: `90 s`, `2 h`, `1 day`.
pub(crate) fn written(seconds: f64) -> String {
    exact_duration(seconds, Units::Full)
}

/// Whether a moment is written as how far ahead of now it is.
pub(crate) fn is_relative(text: &str) -> bool {
    text.trim().starts_with(AHEAD)
}

/// A moment, or how far ahead of now it is.
pub(crate) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    match text.strip_prefix(AHEAD) {
        Some(ahead) => seconds(ahead).map(|seconds| now.plus(seconds_as_duration(seconds))),
        None => Timestamp::parse(text).ok_or_else(|| MOMENT_RULE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units_and_written_so_that_they_read_back() {
        let cases = [
            ("0", 0.0, "0 s"),
            ("90", 90.0, "90 s"),
            (" 90s ", 90.0, "90 s"),
            ("1.5 h", 5_400.0, "90 min"),
            ("15 min", 900.0, "15 min"),
            ("1 day", 86_400.0, "1 day"),
            ("7days", 604_800.0, "7 days"),
            ("36 hours", 129_600.0, "36 h"),
            ("0.25", 0.25, "0.25 s"),
        ];
        for (text, expected, back) in cases {
            assert_eq!(seconds(text), Ok(expected), "{text}");
            assert_eq!(written(expected), back);
            assert_eq!(seconds(back), Ok(expected));
        }
        for text in ["", "h", "-5 s", "5 weeks", "1e3", "1 2 s", "1..2 s", "nan"] {
            assert_eq!(seconds(text), Err(RULE.to_owned()), "{text}");
        }
    }

    #[test]
    fn whole_seconds_are_within_their_range() {
        assert_eq!(whole_seconds("2 h", 1, 10_000), Ok(7_200));
        for text in ["0", "0.5 s", "1 day"] {
            assert!(whole_seconds(text, 1, 10_000).is_err(), "{text}");
        }
        let most = whole_seconds("2 days", 1, 86_400).unwrap_err();
        assert_eq!(most, "Write at least 1 s and at most 1 day.");
    }

    #[test]
    fn a_moment_is_a_time_or_ahead_of_now() {
        let now = Timestamp::from_micros(0);
        assert_eq!(moment(" 1970-01-01T00:01:00Z ", now), Ok(now.plus_seconds(60)));
        assert_eq!(moment("in 2 h", now), Ok(now.plus_seconds(7_200)));
        assert_eq!(moment("tomorrow", now), Err(MOMENT_RULE.to_owned()));
        assert_eq!(moment("in a while", now), Err(RULE.to_owned()));
    }
}
