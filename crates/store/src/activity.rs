//! The activity that this process has counted (`taskqueue_core::activity`), and how it is saved. Each process has rows of its
//! own in the database, with all that it has counted in a span: saving them twice changes nothing, and servers that share a
//! database never wait for each other. Readers add the rows up (docs/decisions/0059).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use taskqueue_core::Timestamp;
use taskqueue_core::activity::{Activity, Record, Span, Unit};
use taskqueue_core::stats::KnownSpans;

use crate::command::SaveActivity;
use crate::{QueueKey, Store, StoreExt, StoreResult};

/// Spans in memory: a minute and an hour for each queue in which something happened within the hour, some hundred bytes
/// each. What happens in more queues than that is not counted.
const MAX_SPANS: usize = 20_000;
/// Queues whose totals are counted apart.
const MAX_TOTALS: usize = 1_000;

/// Rows that are saved with one command: a few milliseconds.
const SAVED_AT_ONCE: usize = 200;

/// Saves what is not saved yet. What cannot be saved stays in memory for the next time.
pub async fn save_activity(store: &(impl Store + ?Sized)) -> StoreResult<()> {
    let log = store.activity();
    let unsaved = log.unsaved();
    // Without any row what is too old is still forgotten.
    let nothing: Option<&[ActivityRow]> = unsaved.is_empty().then_some(&[]);
    let mut saved_at = None;
    for rows in unsaved.chunks(SAVED_AT_ONCE).chain(nothing) {
        saved_at = Some(store.write(SaveActivity { process: log.process, rows: rows.to_vec() }).await?);
        log.saved(rows);
    }
    saved_at.into_iter().for_each(|now| log.forget_saved(now));
    Ok(())
}

/// Tells the rows of this process from those of others, also of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub i64);

impl ProcessId {
    /// A random one: the standard hasher is seeded by the operating system.
    fn random() -> Self {
        Self(RandomState::new().hash_one(()).cast_signed())
    }
}

/// The activity that a process has counted in a span, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRow {
    pub queue: QueueKey,
    pub span: Span,
    pub activity: Activity,
}

/// The activity that this process has counted.
#[derive(Debug)]
pub struct ActivityLog {
    /// The process that counts.
    pub process: ProcessId,
    counted: Mutex<Counted>,
    has_warned: AtomicBool,
}

#[derive(Debug, Default)]
struct Counted {
    /// The spans that are under way, and those that are not saved yet.
    spans: BTreeMap<(QueueKey, Span), CountedSpan>,
    totals: BTreeMap<QueueKey, Activity>,
    /// Of the queues for which there is no room in `totals`.
    other_totals: Activity,
}

#[derive(Debug, Default)]
struct CountedSpan {
    activity: Activity,
    is_saved: bool,
}

/// The activity since this process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivityTotals {
    pub queues: BTreeMap<QueueKey, Activity>,
    /// Of all queues beyond the first thousand.
    pub others: Activity,
}

impl Default for ActivityLog {
    fn default() -> Self {
        Self { process: ProcessId::random(), counted: Mutex::default(), has_warned: AtomicBool::new(false) }
    }
}

impl ActivityLog {
    /// Counts what a transaction did that was committed at `now`.
    pub fn add(&self, now: Timestamp, records: &[(QueueKey, Record)]) {
        if records.is_empty() {
            return;
        }
        let mut counted = self.counted.lock();
        // Mostly those of one queue follow each other: it is looked for once.
        let of_queues = records.chunk_by(|(one, _), (next, _)| one == next);
        let all_fit = of_queues.fold(true, |all_fit, records| {
            let queue = records[0].0;
            counted.add(queue, now, |activity| records.iter().for_each(|(_, record)| activity.add(*record))) && all_fit
        });
        drop(counted);
        if !all_fit && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("so many queues are in use that the activity of some is not counted");
        }
    }

    /// Returns what is not saved yet.
    pub fn unsaved(&self) -> Vec<ActivityRow> {
        let counted = self.counted.lock();
        let unsaved = counted.spans.iter().filter(|(_, counted)| !counted.is_saved);
        unsaved
            .map(|(&(queue, span), counted)| ActivityRow { queue, span, activity: counted.activity.clone() })
            .collect()
    }

    /// These rows were saved.
    fn saved(&self, rows: &[ActivityRow]) {
        let mut counted = self.counted.lock();
        for ActivityRow { queue, span, activity } in rows {
            let Some(current) = counted.spans.get_mut(&(*queue, *span)) else { continue };
            current.is_saved = current.activity == *activity;
        }
    }

    /// Removes from memory what is saved and over.
    fn forget_saved(&self, now: Timestamp) {
        self.counted.lock().spans.retain(|(_, span), counted| !(counted.is_saved && span.is_over(now)));
    }

    /// The activity since this process began.
    pub fn totals(&self) -> ActivityTotals {
        let counted = self.counted.lock();
        ActivityTotals { queues: counted.totals.clone(), others: counted.other_totals.clone() }
    }

    /// Forgets the totals of deleted queues, so that there is room for those of others. `existing` are the queues of a moment,
    /// sorted; what is above them all was created since.
    pub fn forget_totals_except(&self, existing: &[QueueKey]) {
        let is_new = |queue: &QueueKey| existing.last().is_none_or(|last| queue > last);
        self.counted.lock().totals.retain(|queue, _| is_new(queue) || existing.binary_search(queue).is_ok());
    }

    /// The spans of a queue that are in memory, begun within `[from, to)`. To be asked before the database is read: a span
    /// that is over leaves the memory when it has been saved.
    pub fn in_memory(&self, queue: QueueKey, unit: Unit, (from, to): (Timestamp, Timestamp)) -> KnownSpans {
        if from >= to {
            return KnownSpans::new();
        }
        let span = |start| (queue, Span { unit, start });
        let counted = self.counted.lock();
        let spans = counted.spans.range(span(from)..span(to));
        spans.map(|((_, span), counted)| (span.start, counted.activity.clone())).collect()
    }

    /// Returns what all processes have counted: the sum of their rows; for spans of this process that are in memory, what is there.
    pub fn sum(
        &self,
        in_memory: KnownSpans,
        rows: impl IntoIterator<Item = (Timestamp, ProcessId, Activity)>,
    ) -> KnownSpans {
        let mut spans: BTreeMap<Timestamp, Activity> = in_memory.into_iter().collect();
        let own: Vec<Timestamp> = spans.keys().copied().collect();
        for (start, process, activity) in rows {
            if process != self.process || own.binary_search(&start).is_err() {
                spans.entry(start).or_default().merge(&activity);
            }
        }
        spans.into_iter().collect()
    }
}

impl Counted {
    /// Returns whether there was room for it.
    fn add(&mut self, queue: QueueKey, now: Timestamp, add_to: impl Fn(&mut Activity)) -> bool {
        let has_own = self.totals.len() < MAX_TOTALS || self.totals.contains_key(&queue);
        let totals = if has_own { self.totals.entry(queue).or_default() } else { &mut self.other_totals };
        add_to(totals);
        Unit::ALL.into_iter().all(|unit| {
            let key = (queue, Span::of(unit, now));
            let has_room = self.spans.len() < MAX_SPANS || self.spans.contains_key(&key);
            if has_room {
                let span = self.spans.entry(key).or_default();
                add_to(&mut span.activity);
                span.is_saved = false;
            }
            has_room
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskqueue_core::activity::Event;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn created(queue: i64) -> (QueueKey, Record) {
        (QueueKey(queue), Record::CREATED)
    }

    fn activity(tasks: usize) -> Activity {
        let mut activity = Activity::default();
        (0..tasks).for_each(|_| activity.add(Record::CREATED));
        activity
    }

    fn spans(rows: &[ActivityRow]) -> Vec<(i64, Unit, i64, u64)> {
        let seconds = |start: Timestamp| start.as_micros() / 1_000_000;
        let span = |row: &ActivityRow| {
            (row.queue.0, row.span.unit, seconds(row.span.start), row.activity.counts.of(Event::Created))
        };
        rows.iter().map(span).collect()
    }

    #[test]
    fn what_happens_counts_for_its_minute_and_its_hour_until_both_are_saved() {
        let log = ActivityLog::default();
        log.add(at(3_601), &[created(1), created(2), created(1)]);
        log.add(at(3_665), &[created(1)]);
        use Unit::{Hour, Minute};
        let expected = [
            (1, Minute, 3_600, 2),
            (1, Minute, 3_660, 1),
            (1, Hour, 3_600, 3),
            (2, Minute, 3_600, 1),
            (2, Hour, 3_600, 1),
        ];
        let unsaved = log.unsaved();
        assert_eq!(spans(&unsaved), expected);

        log.add(at(3_666), &[created(1)]);
        log.saved(&unsaved);
        log.forget_saved(at(3_670));
        assert_eq!(spans(&log.unsaved()), [(1, Minute, 3_660, 2), (1, Hour, 3_600, 4)], "with what came meanwhile");
        log.saved(&log.unsaved());
        log.forget_saved(at(7_200));
        assert_eq!(log.unsaved(), []);
        assert_eq!(log.counted.lock().spans.len(), 0, "saved spans that are over leave the memory");
    }

    #[test]
    fn a_sum_has_the_rows_of_others_and_what_is_newer_in_memory() {
        let log = ActivityLog::default();
        log.add(at(60), &[created(1), created(1), created(2)]);
        let range = (at(0), at(600));
        let in_memory = log.in_memory(QueueKey(1), Unit::Minute, range);
        assert_eq!(in_memory, [(at(60), activity(2))]);
        let (own, other) = (log.process, ProcessId(log.process.0.wrapping_add(1)));
        let rows = [(at(0), own, activity(7)), (at(60), own, activity(1)), (at(60), other, activity(5))];
        assert_eq!(log.sum(in_memory, rows), [(at(0), activity(7)), (at(60), activity(7))]);
        assert_eq!(log.in_memory(QueueKey(1), Unit::Minute, (at(61), at(600))), []);
        assert_eq!(log.in_memory(QueueKey(1), Unit::Minute, (at(600), at(0))), []);
    }

    #[test]
    fn totals_and_spans_of_very_many_queues_are_bounded() {
        let log = ActivityLog::default();
        let queues = 15_000;
        (0..queues).for_each(|queue| log.add(at(60), &[created(queue)]));
        let totals = log.totals();
        assert_eq!(totals.queues.len(), MAX_TOTALS);
        assert_eq!(totals.others, activity(queues as usize - MAX_TOTALS));
        assert_eq!(log.counted.lock().spans.len(), MAX_SPANS);
        log.add(at(60), &[created(0)]);
        assert_eq!(log.totals().queues[&QueueKey(0)], activity(2), "queues that have a place keep it");
    }

    #[test]
    fn totals_of_deleted_queues_are_forgotten_and_those_of_new_ones_kept() {
        let log = ActivityLog::default();
        (1..=4).for_each(|queue| log.add(at(60), &[created(queue)]));
        log.forget_totals_except(&[QueueKey(1), QueueKey(3)]);
        let totals = |log: &ActivityLog| log.totals().queues.into_keys().map(|queue| queue.0).collect::<Vec<_>>();
        assert_eq!(totals(&log), [1, 3, 4]);
        log.forget_totals_except(&[]);
        assert_eq!(totals(&log), [1, 3, 4], "where no queue is known all may be new");
    }

    #[test]
    fn every_process_has_an_id_of_its_own() {
        assert_ne!(ActivityLog::default().process, ActivityLog::default().process);
    }
}
