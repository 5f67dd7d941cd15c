//! Instants as whole microseconds since 1970 UTC, and the one text form of the contract.
//! No clock lives here: `now` is an argument everywhere in this crate.

use std::fmt;
use std::time::Duration;

/// Microseconds in one second.
const SECOND: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;
/// 0001-01-01T00:00:00Z in seconds since 1970.
const FIRST_SECOND: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z in seconds since 1970.
const LAST_SECOND: i64 = 253_402_300_799;

/// The numbers below 100 with two digits. There are 128 places, so that no value leads outside.
const PAIRS: [[u8; 2]; 128] = {
    let (mut pairs, mut number) = ([*b"00"; 128], 0);
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// An instant, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Returns the time from one instant to a later one; zero if it is not later.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

impl Timestamp {
    /// The instant that many microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The instant that many seconds later.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(SECOND)))
    }

    /// The instant that much later, but not beyond the year 9999: a later one has no text.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(LAST_SECOND * SECOND + SECOND - 1))
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.f{1,6}](Z|±HH:MM)` (docs/reference/filter-language.md §4.4), nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (head, tail) = (bytes.get(..19)?, bytes.get(19..)?);
        let shape = head.iter().enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            10 => *b == b'T',
            13 | 16 => *b == b':',
            _ => b.is_ascii_digit(),
        });
        if !shape {
            return None;
        }
        let number = |from: usize, to: usize| digits(&head[from..to]);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let valid = year >= 1
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour <= 23
            && minute <= 59
            && second <= 59;
        if !valid {
            return None;
        }
        let (fraction, zone) = fraction(tail)?;
        let local = days_from_civil(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
        let utc = local - offset_seconds(zone)?;
        (FIRST_SECOND..=LAST_SECOND).contains(&utc).then_some(Self(utc * SECOND + fraction))
    }

    /// Appends `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    pub fn write(self, out: &mut Vec<u8>) {
        let seconds = self.0.div_euclid(SECOND);
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
        // Four of these stand in every task of a page, so the text is filled in place, two digits at a time, and
        // divided where that is cheap: in 32 bits.
        let (of_day, micros) = (seconds.rem_euclid(DAY_SECONDS) as u32, self.0.rem_euclid(SECOND) as u32);
        let (year, month, day) = (year as u32, month as u32, day as u32);
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let mut pair = |at: usize, value: u32| text[at..at + 2].copy_from_slice(&PAIRS[(value & 127) as usize]);
        pair(0, year / 100);
        pair(2, year % 100);
        pair(5, month);
        pair(8, day);
        pair(11, of_day / 3600);
        pair(14, of_day / 60 % 60);
        pair(17, of_day % 60);
        pair(20, micros / 10_000);
        pair(22, micros / 100 % 100);
        pair(24, micros % 100);
        out.extend_from_slice(&text);
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(27);
        self.write(&mut out);
        f.write_str(std::str::from_utf8(&out).unwrap_or_default())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

/// Splits `[.f{1,6}]` off and returns its microseconds and the rest.
fn fraction(tail: &[u8]) -> Option<(i64, &[u8])> {
    let Some(after_dot) = tail.strip_prefix(b".") else { return Some((0, tail)) };
    let count = after_dot.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=6).contains(&count) {
        return None;
    }
    let value = digits(&after_dot[..count])?;
    let scale = 10_i64.pow(6 - u32::try_from(count).ok()?);
    Some((value * scale, &after_dot[count..]))
}

/// `Z` or `±HH:MM` with hours 0-23 and minutes 0-59, as seconds east of UTC.
fn offset_seconds(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let east = hours * 3600 + minutes * 60;
            Some(if *sign == b'-' { -east } else { east })
        }
        _ => None,
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970 of a date of the proleptic Gregorian calendar. Years are counted from March, so that the
/// leap day is the last day of its year, and in eras of 400 years, which are all alike (146,097 days).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    // From here on everything is small and positive.
    let day_of_era = days.rem_euclid(146_097) as u32;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = i64::from(year_of_era) + era * 400 + i64::from(month <= 2);
    (year, i64::from(month), i64::from(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_written_in_utc_with_six_fractional_digits() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_763_175_061_123_456, "2025-11-15T02:51:01.123456Z"),
            (FIRST_SECOND * SECOND, "0001-01-01T00:00:00.000000Z"),
            (LAST_SECOND * SECOND + 999_999, "9999-12-31T23:59:59.999999Z"),
        ];
        for (micros, text) in cases {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn every_day_of_ten_thousand_years_reads_back() {
        for day in FIRST_SECOND / DAY_SECONDS..=LAST_SECOND / DAY_SECONDS {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
        }
    }

    #[test]
    fn anything_but_the_strict_form_is_refused() {
        let cases = "2026-01-01 2026-01-01t00:00:00Z 2026-01-01T00:00:00z 2026-01-01T00:00:00 2026-01-01T00:00Z \
             2026-01-01T00:00:00.Z 2026-01-01T00:00:00.1234567Z 2026-01-01T24:00:00Z 2026-01-01T00:60:00Z \
             2026-01-01T00:00:60Z 2026-13-01T00:00:00Z 2026-00-01T00:00:00Z 2026-02-29T00:00:00Z \
             1900-02-29T00:00:00Z 0000-01-01T00:00:00Z 0001-01-01T00:00:00+00:01 9999-12-31T23:59:59-00:01 \
             2026-01-01T00:00:00+24:00 2026-01-01T00:00:00+0100 ２026-01-01T00:00:00Z +026-01-01T00:00:00Z \
             2026-01-01T00:00:00,5Z 2026-01-01T00:00:00+00 10000-01-01T00:00:00Z -2026-01-01T00:00:00Z \
             26-01-01T00:00:00Z 2026-1-1T00:00:00Z 20260101T000000Z";
        let blanks =
            ["2026-01-01 00:00:00Z", "2026-01-01T00:00:00 Z", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z "];
        for text in cases.split(' ').chain([""]).chain(blanks) {
            assert_eq!(Timestamp::parse(text), None, "{text:?}");
        }
    }
}
