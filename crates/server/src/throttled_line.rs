//! A line of the log that may be due again and again, and is written once a minute.

use std::time::Duration;

use tokio::time::Instant;

/// The time in which the line is not written again.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct ThrottledLine {
    written: Option<Instant>,
    /// How often it was not written since then.
    left_out: u64,
}

impl ThrottledLine {
    /// Counts an occasion for the line. If it is due: how many there were without one.
    pub(crate) fn count(&mut self, now: Instant) -> Option<u64> {
        if self.written.is_some_and(|written| now.duration_since(written) < LINE_INTERVAL) {
            self.left_out += 1;
            return None;
        }
        self.written = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute() {
        let (start, mut counted) = (Instant::now(), ThrottledLine::default());
        let lines = [0, 1, 2, 59, 60, 61, 119, 121].map(|second| counted.count(start + Duration::from_secs(second)));
        assert_eq!(lines, [Some(0), None, None, None, Some(3), None, None, Some(2)]);
    }
}
