//! Activity: what happened to the tasks of a queue, counted by minute and by hour. Which change of a task is which event is
//! decided here, and how the counts are stored as bytes, the same on every backend. They are statistics: nothing else depends on them.

use crate::durations::Durations;
use crate::status::word_enum;
use crate::task::{Lifecycle, RunEnd, Status};
use crate::time::Timestamp;
use crate::varint;

word_enum! {
    /// An event in the life of a task. `Failed`, `Released` and `Expired` are ends of runs: the task may be tried again. In
    /// the order of the wire and of the stored counts.
    pub enum Event {
        Created = "created",
        Claimed = "claimed",
        Succeeded = "succeeded",
        Failed = "failed",
        Released = "released",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

impl From<RunEnd> for Event {
    fn from(end: RunEnd) -> Self {
        match end {
            RunEnd::Complete => Self::Succeeded,
            RunEnd::Fail => Self::Failed,
            RunEnd::Unclaim => Self::Released,
            RunEnd::Cancel => Self::Cancelled,
            RunEnd::HeartbeatExpired | RunEnd::Timeout => Self::Expired,
        }
    }
}

/// One event, with what it says about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub event: Event,
    /// Of the first claim of a task, how long it had waited since its creation; of a run that succeeded or failed, how long
    /// it took. Other ends say nothing about how long the work takes.
    pub micros: Option<u64>,
}

impl Record {
    pub const CREATED: Self = Self { event: Event::Created, micros: None };

    /// The event that a change of a task is, if it is one.
    pub fn of_change(before: &Lifecycle, after: &Lifecycle, now: Timestamp) -> Option<Self> {
        let micros_since = |since: Timestamp| u64::try_from(now.as_micros() - since.as_micros()).unwrap_or(0);
        match (before.run, after.run) {
            (None, Some(_)) => {
                let is_first = before.finished_run.is_none();
                let micros = is_first.then(|| micros_since(before.created_at));
                Some(Self { event: Event::Claimed, micros })
            }
            (Some(_), None) => {
                let event = Event::from(after.finished_run?.end);
                let is_measured = matches!(event, Event::Succeeded | Event::Failed);
                let micros = before.started_at.filter(|_| is_measured).map(micros_since);
                Some(Self { event, micros })
            }
            _ if before.status != Status::Cancelled && after.status == Status::Cancelled => {
                Some(Self { event: Event::Cancelled, micros: None })
            }
            _ => None,
        }
    }
}

/// How often each event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Event::ALL.len()]);

impl Counts {
    pub const fn of(&self, event: Event) -> u64 {
        self.0[event as usize]
    }

    pub fn add(&mut self, event: Event, by: u64) {
        let count = &mut self.0[event as usize];
        *count = count.saturating_add(by);
    }

    pub fn merge(&mut self, other: &Self) {
        Event::ALL.into_iter().for_each(|event| self.add(event, other.of(event)));
    }

    fn since(&self, earlier: &Self) -> Self {
        Self(Event::ALL.map(|event| self.of(event).saturating_sub(earlier.of(event))))
    }

    /// The counts of a part of the time, `numerator / denominator` of it, rounded.
    pub(crate) fn share(&self, numerator: u64, denominator: u64) -> Self {
        let part = |count: u64| {
            let (count, numerator, denominator) = (u128::from(count), u128::from(numerator), u128::from(denominator));
            u64::try_from((count * numerator + denominator / 2) / denominator).unwrap_or(u64::MAX)
        };
        Self(self.0.map(part))
    }
}

/// The events of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub counts: Counts,
    /// From the creation of a task to its first claim.
    pub waits: Durations,
    /// From the claim to the end, of runs that succeeded or failed.
    pub runs: Durations,
}

impl Activity {
    pub fn add(&mut self, record: Record) {
        self.counts.add(record.event, 1);
        if let Some(micros) = record.micros {
            let durations = if record.event == Event::Claimed { &mut self.waits } else { &mut self.runs };
            durations.add(micros);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.waits.merge(&other.waits);
        self.runs.merge(&other.runs);
    }

    /// Returns what was added since it was `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let (waits, runs) = (self.waits.since(&earlier.waits), self.runs.since(&earlier.runs));
        Self { counts: self.counts.since(&earlier.counts), waits, runs }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        self.counts.0.iter().for_each(|count| varint::write(&mut bytes, *count));
        for durations in [&self.waits, &self.runs] {
            varint::write(&mut bytes, durations.buckets().len() as u64);
            for (bucket, count) in durations.buckets() {
                bytes.push(*bucket);
                varint::write(&mut bytes, *count);
            }
            varint::write(&mut bytes, durations.sum_micros());
        }
        bytes
    }

    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, Unreadable> {
        read(&mut bytes).filter(|_| bytes.is_empty()).ok_or(Unreadable)
    }
}

word_enum! {
    /// Activity is counted by minutes, which are kept for a day, and by hours, which are kept for a year.
    #[derive(PartialOrd, Ord)]
    pub enum Unit {
        Minute = "minute",
        Hour = "hour",
    }
}

impl Unit {
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }

    /// How long it is kept.
    pub const fn kept_seconds(self) -> i64 {
        match self {
            Self::Minute => 86_400,
            Self::Hour => 366 * 86_400,
        }
    }

    /// The first span that is still kept.
    pub fn kept_from(self, now: Timestamp) -> Timestamp {
        Span::of(self, now.plus_seconds(-self.kept_seconds())).start
    }
}

/// One minute or hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub unit: Unit,
    pub start: Timestamp,
}

impl Span {
    /// The one that a moment is in.
    pub fn of(unit: Unit, at: Timestamp) -> Self {
        let length = unit.seconds() * 1_000_000;
        Self { unit, start: Timestamp::from_micros(at.as_micros().div_euclid(length) * length) }
    }

    pub fn is_over(self, now: Timestamp) -> bool {
        self.start.plus_seconds(self.unit.seconds()) <= now
    }
}

/// The version of the stored bytes: behind it come the counts, then waits and runs as the number of buckets, each bucket with its
/// count, and the sum. A change of the layout takes the next number, and what has this one stays readable.
const VERSION: u8 = 1;

/// Why stored activity cannot be read: it is damaged, or was written by a program that this one does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

fn read(bytes: &mut &[u8]) -> Option<Activity> {
    if bytes.split_off_first()? != &VERSION {
        return None;
    }
    let mut counts = Counts::default();
    for count in &mut counts.0 {
        *count = varint::read(bytes)?;
    }
    Some(Activity { counts, waits: read_durations(bytes)?, runs: read_durations(bytes)? })
}

fn read_durations(bytes: &mut &[u8]) -> Option<Durations> {
    let mut buckets = Vec::new();
    for _ in 0..varint::read(bytes)? {
        buckets.push((*bytes.split_off_first()?, varint::read(bytes)?));
    }
    Durations::from_parts(buckets, varint::read(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RunId;
    use crate::lease;
    use crate::task::{ActiveRun, FinishedRun};

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn pending(finished: Option<RunEnd>) -> Lifecycle {
        let run_id = RunId::parse("r_finished0001").unwrap();
        let finished_run = finished.map(|end| FinishedRun { run_id, end });
        Lifecycle { finished_run, ..Lifecycle::created(at(100), 1) }
    }

    fn running(before: &Lifecycle) -> Lifecycle {
        let run_id = RunId::parse("r_active000001").unwrap();
        let run = Some(ActiveRun { run_id, lease_expires_at: lease::from(at(130)), times_out_at: None });
        Lifecycle { status: Status::Running, run, started_at: Some(at(130)), attempt: 1, ..before.clone() }
    }

    fn ended(status: Status, end: RunEnd) -> Lifecycle {
        Lifecycle { status, ..pending(Some(end)) }
    }

    #[test]
    fn every_change_of_a_task_is_one_event_or_none() {
        use Status::{Cancelled, Failed, Pending, Succeeded};
        let (new, tried) = (pending(None), pending(Some(RunEnd::Fail)));
        let run = running(&new);
        let record = |event, micros| Some(Record { event, micros });
        let cases = [
            ("first claim", &new, running(&new), record(Event::Claimed, Some(60))),
            ("second claim", &tried, running(&tried), record(Event::Claimed, None)),
            ("complete", &run, ended(Succeeded, RunEnd::Complete), record(Event::Succeeded, Some(30))),
            ("fail", &run, ended(Failed, RunEnd::Fail), record(Event::Failed, Some(30))),
            ("fail and try again", &run, ended(Pending, RunEnd::Fail), record(Event::Failed, Some(30))),
            ("unclaim", &run, ended(Pending, RunEnd::Unclaim), record(Event::Released, None)),
            ("expiry", &run, ended(Pending, RunEnd::HeartbeatExpired), record(Event::Expired, None)),
            ("expiry of the last attempt", &run, ended(Failed, RunEnd::HeartbeatExpired), record(Event::Expired, None)),
            ("cancel of a run", &run, ended(Cancelled, RunEnd::Cancel), record(Event::Cancelled, None)),
            ("cancel", &new, Lifecycle { status: Cancelled, ..new.clone() }, record(Event::Cancelled, None)),
            ("heartbeat", &run, run.clone(), None),
            ("requeue", &ended(Failed, RunEnd::Fail), tried.clone(), None),
        ];
        for (change, before, after, expected) in cases {
            assert_eq!(Record::of_change(before, &after, at(160)), expected, "{change}");
        }
    }

    #[test]
    fn a_clock_that_went_back_gives_no_negative_wait() {
        let new = pending(None);
        let record = Record::of_change(&new, &running(&new), at(50)).unwrap();
        assert_eq!(record.micros, Some(0));
    }

    #[test]
    fn a_span_holds_its_first_moment_and_not_its_last() {
        let minute = 60_000_000;
        for (moment, start) in [(0, 0), (minute - 1, 0), (minute, minute), (-1, -minute)] {
            assert_eq!(Span::of(Unit::Minute, at(moment)).start, at(start), "{moment}");
        }
        let span = Span::of(Unit::Hour, at(5));
        assert_eq!([span.is_over(at(60 * minute - 1)), span.is_over(at(60 * minute))], [false, true]);
    }

    #[test]
    fn words_lead_back_to_their_unit() {
        for unit in Unit::ALL {
            assert_eq!(Unit::parse(unit.as_str()), Some(unit));
        }
        assert_eq!(Unit::parse("day"), None);
    }

    #[test]
    fn counts_are_in_the_order_of_their_events() {
        let mut counts = Counts::default();
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place);
            counts.add(event, place as u64 + 1);
        }
        assert_eq!(counts, Counts([1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(counts.share(1, 2), Counts([1, 1, 2, 2, 3, 3, 4]));
    }
}

#[cfg(test)]
mod packed_tests {
    use super::*;
    use crate::activity::{Event, Record};
    use proptest::prelude::*;

    fn activity(records: &[(usize, u64)]) -> Activity {
        let mut activity = Activity::default();
        for (event, micros) in records {
            activity.add(Record { event: Event::ALL[*event], micros: Some(*micros) });
        }
        activity
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        assert_eq!(Activity::default().to_bytes(), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let one = activity(&[(1, 1_200), (2, 300)]);
        assert_eq!(one.to_bytes(), [1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0xb0, 9, 1, 0, 1, 0xac, 2]);
    }

    #[test]
    fn the_largest_numbers_are_kept() {
        let mut counts = Counts::default();
        counts.add(Event::Created, u64::MAX);
        let waits = Durations::from_parts(vec![(63, u64::MAX)], u64::MAX).unwrap();
        let activity = Activity { counts, waits, runs: Durations::default() };
        assert_eq!(Activity::from_bytes(&activity.to_bytes()), Ok(activity));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(records in prop::collection::vec((0..7_usize, any::<u64>()), 0..60)) {
            let activity = activity(&records);
            prop_assert_eq!(Activity::from_bytes(&activity.to_bytes()), Ok(activity));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(activity) = Activity::from_bytes(&bytes) {
                prop_assert_eq!(Activity::from_bytes(&activity.to_bytes()), Ok(activity));
            }
        }

        #[test]
        fn a_beginning_is_refused(records in prop::collection::vec((0..7_usize, any::<u64>()), 0..20), part in 0.0..1.0) {
            let bytes = activity(&records).to_bytes();
            let end = (bytes.len() as f64 * part) as usize;
            prop_assert_eq!(Activity::from_bytes(&bytes[..end]), Err(Unreadable));
        }
    }
}
