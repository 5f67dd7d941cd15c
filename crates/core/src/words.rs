//! How values are written for people, on pages, in tables and in sentences. The same value looks the same everywhere. Times are short
//! in tables, with the units that commands take (`5m`), and in full on pages (`5 min`).

pub mod telemetry;

use std::time::Duration;

use crate::time::Timestamp;

/// 12345 as `12,345`.
pub fn number(value: impl Into<u64>) -> String {
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
pub fn count(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(value))
}

/// A number with one decimal, unless that is 0.
pub fn one_decimal(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A size with few digits: `512 B`, `38.2 GiB`.
pub fn bytes(value: u64) -> String {
    let (number, unit) = scaled(value);
    format!("{number} {unit}")
}

/// A part of a whole, with the unit once if both have the same: `20.1 of 24 GiB`, `3 MiB of 24 GiB`.
pub fn bytes_of(part: u64, whole: u64) -> String {
    let ((number, unit), whole_unit) = (scaled(part), scaled(whole).1);
    if unit == whole_unit {
        format!("{number} of {}", bytes(whole))
    } else {
        format!("{number} {unit} of {}", bytes(whole))
    }
}

fn scaled(value: u64) -> (String, &'static str) {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1_023.5 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    let number = if unit == 0 || scaled >= 99.5 { format!("{scaled:.0}") } else { one_decimal(scaled) };
    (number, UNITS[unit])
}

const DAY: u64 = 86_400;

/// How units are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// As they are typed: `90s`, `5m`, `2h`, `7d`.
    Typed,
    /// `90 s`, `5 min`, `2 h`, `7 days`.
    Full,
}

/// A time relative to now: `5m ago`, `in 3h`.
pub fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_micros().saturating_sub(at.as_micros())) / 1_000_000;
    match seconds {
        // Two clocks seldom agree to the second.
        -2..=0 => "now".to_owned(),
        1.. => format!("{} ago", span(seconds.unsigned_abs())),
        _ => format!("in {}", span(seconds.unsigned_abs())),
    }
}

/// In the largest unit of which there are at least two, or else in seconds: `119s`, `2m`.
pub fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(365 * DAY, "y"), (DAY, "d"), (3_600, "h"), (60, "m")];
    let unit = UNITS.into_iter().find(|(unit_seconds, _)| seconds >= 2 * unit_seconds);
    match unit {
        Some((unit_seconds, name)) => format!("{}{name}", seconds / unit_seconds),
        None => format!("{seconds}s"),
    }
}

/// A measured time for a table: `<1ms`, `120ms`, `3.2s`, `41s`, `5m`. Two digits are as exact as percentiles are.
pub fn short_duration(seconds: f64) -> String {
    match seconds {
        0.0 => "0s".to_owned(),
        ..0.001 => "<1ms".to_owned(),
        ..1.0 => format!("{:.0}ms", seconds * 1e3),
        ..10.0 => format!("{}s", one_decimal(seconds)),
        _ => span(seconds.round() as u64),
    }
}

/// One unit, the largest that fits, as few digits as tell something: `0.2 s`, `41 s`, `28 min`, `3 h`, `2 days`.
pub fn duration(value: Duration) -> String {
    let seconds = value.as_secs_f64();
    match seconds {
        ..0.001 => "0 s".to_owned(),
        ..0.1 => format!("{:.0} ms", seconds * 1_000.0),
        ..9.95 => format!("{seconds:.1} s"),
        ..59.5 => format!("{seconds:.0} s"),
        ..3_570.0 => format!("{:.0} min", seconds / 60.0),
        ..35_820.0 => format!("{} h", one_decimal(seconds / 3_600.0)),
        ..86_400.0 => format!("{:.0} h", seconds / 3_600.0),
        ..864_000.0 => match one_decimal(seconds / 86_400.0) {
            days if days == "1" => "1 day".to_owned(),
            days => format!("{days} days"),
        },
        _ => format!("{} days", number((seconds / 86_400.0).round() as u64)),
    }
}

/// A duration in whole seconds, because tenths of an age would change at each look.
pub fn whole_duration(value: Duration) -> String {
    if value < Duration::from_secs(10) { format!("{} s", value.as_secs()) } else { duration(value) }
}

/// A setting as it was typed: in the largest unit of which it is a multiple.
pub fn exact_duration(seconds: f64, units: Units) -> String {
    const UNITS: [(f64, &str, &str); 3] = [(86_400.0, "d", " days"), (3_600.0, "h", " h"), (60.0, "m", " min")];
    let fits = |unit: &f64| seconds >= *unit && seconds < 1e15 && (seconds / unit).fract() == 0.0;
    let unit = UNITS.into_iter().find(|(unit, ..)| fits(unit)).unwrap_or((1.0, "s", " s"));
    match (unit, units) {
        ((unit, typed, _), Units::Typed) => format!("{}{typed}", seconds / unit),
        _ if seconds == 86_400.0 => "1 day".to_owned(),
        ((unit, _, full), Units::Full) => format!("{}{full}", seconds / unit),
    }
}

/// How fast steps are, by the larger number: `3.5 steps/s`, or `12s per step` (`12 s per step` in full). Nothing if it says
/// nothing.
pub fn step_rate(step_seconds: f64, units: Units) -> Option<String> {
    let per_second = 1.0 / step_seconds;
    match per_second {
        _ if !per_second.is_finite() || !(0.0..=1e9).contains(&step_seconds) => None,
        9.95..=1e9 => Some(format!("{} steps/s", number(per_second.round() as u64))),
        1.0..1.05 => Some("1 step/s".to_owned()),
        1.05..9.95 => Some(format!("{} steps/s", one_decimal(per_second))),
        ..1.0 if units == Units::Typed => Some(format!("{} per step", short_duration(step_seconds))),
        ..1.0 => Some(format!("{} per step", duration(Duration::from_secs_f64(step_seconds)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_exact() {
        let cases =
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (u64::MAX, "18,446,744,073,709,551,615")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        let counts = [0, 1, 1_234].map(|value| count(value, "task"));
        assert_eq!(counts, ["0 tasks", "1 task", "1,234 tasks"]);
    }

    #[test]
    fn sizes_have_binary_units() {
        let cases = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1 KiB"), (1_536, "1.5 KiB"), (41_017_000_000, "38.2 GiB")];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes_of(21_582_210_662, 25_769_803_776), "20.1 of 24 GiB");
        assert_eq!(bytes_of(3_145_728, 25_769_803_776), "3 MiB of 24 GiB");
    }
}

#[cfg(test)]
mod time_tests {
    use super::*;

    #[test]
    fn ages_are_short_and_in_a_fitting_unit() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let cases = [
            (0, "now"),
            (-1, "1s ago"),
            (-119, "119s ago"),
            (-120, "2m ago"),
            (-7199, "119m ago"),
            (-7200, "2h ago"),
            (-172_800, "2d ago"),
            (-900 * 86_400, "2y ago"),
            (1, "now"),
            (2, "now"),
            (290, "in 4m"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(age(now.plus_seconds(seconds), now), expected, "{seconds}");
        }
        for (seconds, text) in [(0.02, "0 s"), (9.96, "9 s"), (10.0, "10 s"), (1_700.0, "28 min")] {
            assert_eq!(whole_duration(Duration::from_secs_f64(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn a_duration_has_one_unit_and_few_digits() {
        let cases = [
            (0.0, "0s", "0 s"),
            (0.0004, "<1ms", "0 s"),
            (0.0124, "12ms", "12 ms"),
            (0.02, "20ms", "20 ms"),
            (0.2, "200ms", "0.2 s"),
            (2.0, "2s", "2.0 s"),
            (3.24, "3.2s", "3.2 s"),
            (9.96, "10s", "10 s"),
            (41.2, "41s", "41 s"),
            (59.4, "59s", "59 s"),
            (59.6, "60s", "1 min"),
            (1_700.0, "28m", "28 min"),
            (3_600.0, "60m", "1 h"),
            (5_400.0, "90m", "1.5 h"),
            (80_000.0, "22h", "22 h"),
            (86_400.0, "24h", "1 day"),
            (200_000.0, "2d", "2.3 days"),
            (864_000_000.0, "27y", "10,000 days"),
        ];
        for (seconds, short, full) in cases {
            assert_eq!(short_duration(seconds), short, "{seconds}");
            assert_eq!(duration(Duration::from_secs_f64(seconds)), full, "{seconds}");
        }
    }

    #[test]
    fn settings_are_shown_as_they_were_typed() {
        let cases = [
            (0.0, "0s", "0 s"),
            (0.5, "0.5s", "0.5 s"),
            (10.0, "10s", "10 s"),
            (90.0, "90s", "90 s"),
            (120.0, "2m", "2 min"),
            (7_200.0, "2h", "2 h"),
            (86_400.0, "1d", "1 day"),
            (604_800.0, "7d", "7 days"),
        ];
        for (seconds, typed, full) in cases {
            assert_eq!(exact_duration(seconds, Units::Typed), typed);
            assert_eq!(exact_duration(seconds, Units::Full), full);
        }
    }

    #[test]
    fn a_rate_is_the_larger_of_both_numbers() {
        let cases = [
            (0.001, Some("1,000 steps/s"), Some("1,000 steps/s")),
            (0.4, Some("2.5 steps/s"), Some("2.5 steps/s")),
            (0.5, Some("2 steps/s"), Some("2 steps/s")),
            (1.0, Some("1 step/s"), Some("1 step/s")),
            (2.5, Some("2.5s per step"), Some("2.5 s per step")),
            (90.0, Some("90s per step"), Some("2 min per step")),
            (0.0, None, None),
            (f64::MAX, None, None),
            (5e-324, None, None),
        ];
        for (seconds, typed, full) in cases {
            assert_eq!(step_rate(seconds, Units::Typed).as_deref(), typed, "{seconds}");
            assert_eq!(step_rate(seconds, Units::Full).as_deref(), full, "{seconds}");
        }
    }
}
