//! What happened to the tasks of each queue, as counters that only grow. Queues without a name of their own are counted as `other`
//! from when they have none: a queue that gets a name later takes nothing back, or `other` would seem to begin anew.

use std::collections::BTreeMap;

use taskqueue_core::QueueName;
use taskqueue_core::activity::Activity;
use taskqueue_core::durations::{BOUNDS_MICROS, BUCKETS, Durations};
use taskqueue_store::activity::ActivityTotals;
use taskqueue_store::histogram::HistogramValues;
use taskqueue_store::transaction::QueueKey;

use super::labels::OTHER;

/// So many of the stored buckets make one that is shown: factors of four from 1 ms to 12 days.
const MERGED: usize = 4;
const SHOWN: usize = (BUCKETS - 1).div_ceil(MERGED) + 1;

/// Returns durations as they are shown, in seconds.
pub(crate) fn in_seconds(durations: &Durations) -> HistogramValues {
    let mut counts = [0; SHOWN];
    for (bucket, count) in durations.buckets() {
        counts[usize::from(*bucket).div_ceil(MERGED)] += count;
    }
    let bounds = BOUNDS_MICROS.iter().step_by(MERGED).map(|micros| *micros as f64 / 1e6);
    let buckets = bounds.chain([f64::INFINITY]).zip(counts).collect();
    HistogramValues { buckets, sum: durations.sum_micros() as f64 / 1e6 }
}

/// The events of the last scrape.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    /// Since the process began.
    last: BTreeMap<QueueKey, Activity>,
    /// Those in queues while they had no name.
    unnamed: Activity,
    /// The names of the last scrape to which the database gave them.
    names: BTreeMap<QueueKey, QueueName>,
}

impl EventCounts {
    /// Takes note of what was counted so far and gives it by label. Without new names those of the last time are used.
    pub(crate) fn update(
        &mut self,
        totals: ActivityTotals,
        names: Option<BTreeMap<QueueKey, QueueName>>,
    ) -> BTreeMap<String, Activity> {
        if let Some(names) = names {
            self.names = names;
        }
        let nothing = Activity::default();
        let mut shown: BTreeMap<String, Activity> =
            self.names.values().map(|name| (name.as_str().to_owned(), nothing.clone())).collect();
        for (key, activity) in &totals.queues {
            match self.names.get(key) {
                Some(name) => shown.entry(name.as_str().to_owned()).or_default().merge(activity),
                None => self.unnamed.merge(&activity.since(self.last.get(key).unwrap_or(&nothing))),
            }
        }
        self.last = totals.queues;
        if self.unnamed != nothing || totals.others != nothing {
            let other = shown.entry(OTHER.to_owned()).or_default();
            other.merge(&self.unnamed);
            other.merge(&totals.others);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::activity::{Event, Record};

    use super::*;

    fn totals(queues: &[(i64, u64)], others: u64) -> ActivityTotals {
        let activity = |created| {
            let mut activity = Activity::default();
            activity.counts.add(Event::Created, created);
            activity
        };
        let queues = queues.iter().map(|(key, created)| (QueueKey(*key), activity(*created))).collect();
        ActivityTotals { queues, others: activity(others) }
    }

    fn names(names: &[(i64, &str)]) -> Option<BTreeMap<QueueKey, QueueName>> {
        Some(names.iter().map(|(key, name)| (QueueKey(*key), QueueName::parse(name).unwrap())).collect())
    }

    fn created(shown: &BTreeMap<String, Activity>) -> Vec<(&str, u64)> {
        shown.iter().map(|(label, counts)| (label.as_str(), counts.counts.of(Event::Created))).collect()
    }

    #[test]
    fn what_is_counted_as_other_never_shrinks() {
        let mut counts = EventCounts::default();
        let shown = counts.update(totals(&[(1, 5), (2, 3)], 0), names(&[(1, "a")]));
        assert_eq!(created(&shown), [("a", 5), ("other", 3)]);
        // The second queue gets the name of one that was deleted, and a third one appears.
        let shown = counts.update(totals(&[(1, 5), (2, 4), (3, 1)], 7), names(&[(2, "b")]));
        assert_eq!(created(&shown), [("b", 4), ("other", 11)]);
        let shown = counts.update(totals(&[(2, 9), (3, 2)], 7), None);
        assert_eq!(created(&shown), [("b", 9), ("other", 12)], "the names of the last time");
    }

    #[test]
    fn a_queue_in_which_nothing_happened_is_shown_with_zeros() {
        let shown = EventCounts::default().update(totals(&[], 0), names(&[(1, "a"), (2, "other")]));
        assert_eq!(created(&shown), [("a", 0), ("other", 0)]);
    }

    #[test]
    fn durations_are_shown_in_buckets_of_a_factor_of_four() {
        let mut activity = Activity::default();
        for micros in [0, 999, 1_000, 3_999, 4_000, 1_023_999, 1_024_000, 1 << 62] {
            activity.add(Record { event: Event::Claimed, micros: Some(micros) });
        }
        let values = in_seconds(&activity.waits);
        assert_eq!(values.buckets.len(), SHOWN);
        let filled: Vec<_> = values.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(0.001, 2), (0.004, 2), (0.016, 1), (1.024, 1), (4.096, 1), (f64::INFINITY, 1)]);
        assert_eq!(values.count(), 8);
    }
}
