//! Times relative to now: `5m ago`, `in 3h`.

use std::time::{SystemTime, UNIX_EPOCH};

use taskqueue_core::time::Timestamp;

/// The time of this machine, which may differ a little from the server's.
pub(crate) fn now() -> Timestamp {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

pub(crate) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_micros().saturating_sub(at.as_micros())) / 1_000_000;
    match seconds {
        // Two clocks seldom agree to the second.
        -2..=0 => "now".to_owned(),
        1.. => format!("{} ago", span(seconds.unsigned_abs())),
        _ => format!("in {}", span(seconds.unsigned_abs())),
    }
}

/// In the largest unit of which there are at least two, or else in seconds: `119s`, `2m`.
pub(crate) fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(365 * 86_400, "y"), (86_400, "d"), (3600, "h"), (60, "m")];
    let unit = UNITS.into_iter().find(|(unit_seconds, _)| seconds >= 2 * unit_seconds);
    match unit {
        Some((unit_seconds, name)) => format!("{}{name}", seconds / unit_seconds),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
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
    }
}
