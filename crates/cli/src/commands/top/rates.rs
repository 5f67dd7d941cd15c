//! Rates of a queue, computed from the counts of consecutive refreshes. Between two refreshes the counts are taken to change
//! linearly, so that neither the interval nor a pause changes the rates. Pure: time is an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use taskqueue_client::Status;

use super::snapshot::Counts;

/// The time over which rates are averaged: long enough to be steady, short enough to follow changes.
const WINDOW: Duration = Duration::from_secs(60);
/// Over shorter times a single task would look like a high rate.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// The time that the bar chart covers.
const BARS: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    latest: Counts,
}

/// Tasks that were created and that ended since the history began. Deletions and requeues between two refreshes make the
/// counts smaller; that is not counted as work.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    created: u64,
    finished: u64,
}

/// Tasks per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) created: f64,
    pub(super) finished: f64,
}

impl Rates {
    /// The seconds until the pending tasks have ended at this rate.
    pub(super) fn seconds_left(&self, counts: &Counts) -> Option<f64> {
        let pending = counts.get(Status::Pending);
        (pending > 0 && self.finished > 0.0).then(|| pending as f64 / self.finished)
    }
}

impl History {
    pub(super) fn record(&mut self, counts: Counts, at: Instant) {
        let sample = match self.samples.back() {
            None => Sample { at, created: 0, finished: 0 },
            Some(last) => Sample {
                at,
                created: last.created + counts.total().saturating_sub(self.latest.total()),
                finished: last.finished + counts.finished().saturating_sub(self.latest.finished()),
            },
        };
        self.latest = counts;
        self.samples.push_back(sample);
        // The sample before the first bar is the start of that bar.
        while self.samples.get(1).is_some_and(|second| at.saturating_duration_since(second.at) >= BARS) {
            self.samples.pop_front();
        }
    }

    /// The rates up to the latest refresh; none until there are enough samples.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let window = last.at.duration_since(first.at).min(WINDOW);
        if window < WINDOW_MIN {
            return None;
        }
        let since = last.at.checked_sub(window)?;
        let per_second =
            |count: fn(&Sample) -> u64| (count(last) as f64 - self.interpolate(since, count)) / window.as_secs_f64();
        Some(Rates { created: per_second(|sample| sample.created), finished: per_second(|sample| sample.finished) })
    }

    /// Tasks that ended in each of `count` equal parts of the last minutes, oldest first, in thousandths so that the bars
    /// of slow queues are not flat.
    pub(super) fn bars(&self, count: usize) -> Vec<u64> {
        let Some(last) = self.samples.back() else { return Vec::new() };
        let part = BARS / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let level = |parts_ago: usize| {
            let ago = part.saturating_mul(u32::try_from(parts_ago).unwrap_or(u32::MAX));
            last.at.checked_sub(ago).map_or(0.0, |at| self.interpolate(at, |sample| sample.finished))
        };
        (0..count).rev().map(|ago| ((level(ago) - level(ago + 1)) * 1000.0).max(0.0).round() as u64).collect()
    }

    /// A count at this time, interpolated linearly between two samples.
    fn interpolate(&self, at: Instant, count: fn(&Sample) -> u64) -> f64 {
        let later = self.samples.partition_point(|sample| sample.at <= at);
        let (Some(before), after) =
            (later.checked_sub(1).and_then(|index| self.samples.get(index)), self.samples.get(later))
        else {
            return self.samples.front().map_or(0.0, |first| count(first) as f64);
        };
        let Some(after) = after else { return count(before) as f64 };
        let part = at.duration_since(before.at).as_secs_f64() / after.at.duration_since(before.at).as_secs_f64();
        count(before) as f64 + part * (count(after) as f64 - count(before) as f64)
    }
}

#[cfg(test)]
mod tests;
