//! `tasks.packed`: what rules about actions need of a task and SQL does not. In this order:
//!
//! 1. the version; 1 if a run has finished, else 0; if so, its id (14 bytes, always at this place: SQL reads it there);
//! 2. flags ([`STARTED`] to [`EXTENDED`]); the numbers attempt, attempt budget, priority, place in the pending order, size of
//!    the definition, each of variable length; `updated_at`, and those of `started_at`, `finished_at` and the end of the lease
//!    that there are; what ended the finished run, as its place in `RunEnd::ALL`; the length of the last route; the size of
//!    the progress;
//! 3. of tasks that use any of it: flags ([`DELAYED`] to [`SCHEDULED`]), and what there is of `not_before`, the time at which the
//!    active run times out, the number of unmet dependencies, and the length of the text of the scheduling;
//! 4. the texts: id of the active run, last route, scheduling as JSON, routes as JSON.

use rusqlite::Row;
use taskqueue_core::task::{ActiveRun, FinishedRun};
use taskqueue_core::{Lifecycle, Route, RunEnd, RunId, Scheduling, Status, TaskHead, Timestamp};

use super::packed::{Packer, Unpacker, Unreadable, run_id};

const STARTED: u8 = 1;
const FINISHED: u8 = 1 << 1;
const RUNNING: u8 = 1 << 2;
const ROUTED: u8 = 1 << 3;
const PROGRESS: u8 = 1 << 4;
const EXTENDED: u8 = 1 << 5;

/// Flags of the extended part.
const DELAYED: u8 = 1;
const LIMITED: u8 = 1 << 1;
const UNMET: u8 = 1 << 2;
const ARCHIVED: u8 = 1 << 3;
const SCHEDULED: u8 = 1 << 4;

/// Enough for a usual task while it is running.
const USUAL_BYTES: usize = 128;

/// The SQL expression for the id of the finished run in `tasks.packed`, which is null if there is none.
pub(crate) const FINISHED_RUN_ID: &str =
    "iif(substr(tasks.packed, 2, 1) = x'01', CAST(substr(tasks.packed, 3, 14) AS TEXT), NULL)";

/// `tasks.packed`, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedHead<'a> {
    pub attempt: i64,
    pub max_attempts: i64,
    pub priority: i64,
    pub pending_seq: i64,
    pub definition_bytes: i64,
    pub updated_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// The id of the active run, and the end of its lease.
    pub run: Option<(&'a str, Timestamp)>,
    pub finished_run: Option<(&'a str, RunEnd)>,
    pub last_route: Option<&'a str>,
    /// 0 if there is no progress.
    pub progress_bytes: i64,
    pub extended: Extended<'a>,
    pub routes: &'a str,
}

/// The part that only tasks have which use any of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extended<'a> {
    pub not_before: Option<Timestamp>,
    /// Of the active run.
    pub times_out_at: Option<Timestamp>,
    pub unmet: u32,
    pub archived: bool,
    /// As JSON.
    pub scheduling: Option<&'a str>,
}

impl<'a> Extended<'a> {
    fn of(head: &'a TaskHead) -> Self {
        let lifecycle = &head.lifecycle;
        Self {
            not_before: lifecycle.not_before,
            times_out_at: lifecycle.run.and_then(|run| run.times_out_at),
            unmet: lifecycle.unmet,
            archived: lifecycle.archived,
            scheduling: head.scheduling.as_json(),
        }
    }

    fn flags(&self) -> u8 {
        flag(self.not_before.is_some(), DELAYED)
            | flag(self.times_out_at.is_some(), LIMITED)
            | flag(self.unmet != 0, UNMET)
            | flag(self.archived, ARCHIVED)
            | flag(self.scheduling.is_some(), SCHEDULED)
    }

    fn pack(&self, packer: &mut Packer) {
        packer.byte(self.flags());
        for at in [self.not_before, self.times_out_at].into_iter().flatten() {
            packer.time(at);
        }
        if self.unmet != 0 {
            packer.count(self.unmet.into());
        }
        if let Some(text) = self.scheduling {
            packer.length(text);
        }
    }

    /// Everything but the text of the scheduling, and the length of that.
    fn unpack(packed: &mut Unpacker<'a>) -> Result<(Self, Option<usize>), Unreadable> {
        let flags = packed.byte()?;
        let mut time = |flag: u8| if flags & flag == 0 { Ok(None) } else { packed.time().map(Some) };
        let (not_before, times_out_at) = (time(DELAYED)?, time(LIMITED)?);
        let unmet = if flags & UNMET == 0 { 0 } else { packed.count()? };
        let unmet = u32::try_from(unmet).map_err(|_| Unreadable)?;
        let length = if flags & SCHEDULED == 0 { None } else { Some(packed.length()?) };
        let archived = flags & ARCHIVED != 0;
        Ok((Self { not_before, times_out_at, unmet, archived, scheduling: None }, length))
    }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

impl<'a> PackedHead<'a> {
    /// A head, except what columns of their own hold.
    pub fn of(head: &'a TaskHead) -> Self {
        let lifecycle = &head.lifecycle;
        Self {
            attempt: lifecycle.attempt,
            max_attempts: head.max_attempts,
            priority: head.priority,
            pending_seq: lifecycle.pending_seq,
            definition_bytes: i64::try_from(head.definition_bytes).unwrap_or(i64::MAX),
            updated_at: lifecycle.updated_at,
            started_at: lifecycle.started_at,
            finished_at: lifecycle.finished_at,
            run: lifecycle.run.as_ref().map(|run| (run.run_id.as_str(), run.lease_expires_at)),
            finished_run: lifecycle.finished_run.as_ref().map(|run| (run.run_id.as_str(), run.end)),
            last_route: lifecycle.last_route.as_ref().map(Route::as_str),
            progress_bytes: i64::try_from(head.progress_bytes).unwrap_or(i64::MAX),
            extended: Extended::of(head),
            routes: head.routes.as_json(),
        }
    }

    /// The packed head in a column.
    pub(crate) fn of_row(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(Self::unpack(row.get_ref(column)?.as_blob()?)?)
    }

    pub fn pack(&self) -> Vec<u8> {
        let scheduling = self.extended.scheduling.unwrap_or_default();
        let is_extended = self.extended.flags() != 0;
        let mut packer = Packer::new(USUAL_BYTES + scheduling.len() + self.routes.len());
        packer.byte(u8::from(self.finished_run.is_some()));
        packer.text(self.finished_run.map_or("", |(run_id, _)| run_id));
        packer.byte(
            flag(self.started_at.is_some(), STARTED)
                | flag(self.finished_at.is_some(), FINISHED)
                | flag(self.run.is_some(), RUNNING)
                | flag(self.last_route.is_some(), ROUTED)
                | flag(self.progress_bytes != 0, PROGRESS)
                | flag(is_extended, EXTENDED),
        );
        for number in [self.attempt, self.max_attempts, self.priority, self.pending_seq, self.definition_bytes] {
            packer.int(number);
        }
        packer.time(self.updated_at);
        let lease_expires_at = self.run.map(|(_, lease_expires_at)| lease_expires_at);
        for at in [self.started_at, self.finished_at, lease_expires_at].into_iter().flatten() {
            packer.time(at);
        }
        if let Some((_, end)) = self.finished_run {
            packer.byte(end as u8);
        }
        if let Some(route) = self.last_route {
            packer.length(route);
        }
        if self.progress_bytes != 0 {
            packer.int(self.progress_bytes);
        }
        if is_extended {
            self.extended.pack(&mut packer);
        }
        packer.text(self.run.map_or("", |(run_id, _)| run_id));
        packer.text(self.last_route.unwrap_or_default());
        packer.text(scheduling);
        packer.text(self.routes);
        packer.into_bytes()
    }

    pub fn unpack(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let mut packed = Unpacker::new(bytes)?;
        let finished_run_id = match packed.byte()? {
            0 => None,
            1 => Some(packed.fixed_text(RunId::LENGTH)?),
            _ => return Err(Unreadable),
        };
        let flags = packed.byte()?;
        let [attempt, max_attempts, priority, pending_seq, definition_bytes] =
            [packed.int()?, packed.int()?, packed.int()?, packed.int()?, packed.int()?];
        let updated_at = packed.time()?;
        let mut time = |flag: u8| if flags & flag == 0 { Ok(None) } else { packed.time().map(Some) };
        let (started_at, finished_at, lease_expires_at) = (time(STARTED)?, time(FINISHED)?, time(RUNNING)?);
        let finished_run = match finished_run_id {
            Some(run_id) => Some((run_id, *RunEnd::ALL.get(usize::from(packed.byte()?)).ok_or(Unreadable)?)),
            None => None,
        };
        let last_route_length = if flags & ROUTED == 0 { None } else { Some(packed.length()?) };
        let progress_bytes = if flags & PROGRESS == 0 { 0 } else { packed.int()? };
        let (mut extended, scheduling_length) =
            if flags & EXTENDED == 0 { (Extended::default(), None) } else { Extended::unpack(&mut packed)? };
        let mut texts = packed.texts()?;
        let run = lease_expires_at.map(|until| texts.next(RunId::LENGTH).map(|id| (id, until))).transpose()?;
        let last_route = last_route_length.map(|length| texts.next(length)).transpose()?;
        extended.scheduling = scheduling_length.map(|length| texts.next(length)).transpose()?;
        let routes = texts.rest();
        Ok(Self {
            attempt,
            max_attempts,
            priority,
            pending_seq,
            definition_bytes,
            updated_at,
            started_at,
            finished_at,
            run,
            finished_run,
            last_route,
            progress_bytes,
            extended,
            routes,
        })
    }

    pub fn finished_run_id(&self) -> Option<&'a str> {
        self.finished_run.map(|(run_id, _)| run_id)
    }

    /// With what columns of their own hold.
    pub fn lifecycle(&self, status: Status, created_at: Timestamp) -> Result<Lifecycle, Unreadable> {
        let times_out_at = self.extended.times_out_at;
        let active =
            |(id, lease_expires_at)| run_id(id).map(|run_id| ActiveRun { run_id, lease_expires_at, times_out_at });
        let finished = |(id, end)| run_id(id).map(|run_id| FinishedRun { run_id, end });
        let (run, finished_run) = (self.run.map(active).transpose()?, self.finished_run.map(finished).transpose()?);
        let last_route = self.last_route.map(|route| Route::parse(route).ok_or(Unreadable)).transpose()?;
        Ok(Lifecycle {
            status,
            attempt: self.attempt,
            pending_seq: self.pending_seq,
            last_route,
            created_at,
            updated_at: self.updated_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            run,
            finished_run,
            not_before: self.extended.not_before,
            unmet: self.extended.unmet,
            archived: self.extended.archived,
        })
    }

    pub fn scheduling(&self) -> Result<Scheduling, Unreadable> {
        self.extended.scheduling.map_or(Ok(Scheduling::default()), |text| Scheduling::from_json(text).ok_or(Unreadable))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run_id() -> impl Strategy<Value = String> {
        "r_[A-Za-z0-9_-]{12}"
    }

    fn time() -> impl Strategy<Value = Timestamp> {
        any::<i64>().prop_map(Timestamp::from_micros)
    }

    fn run_end() -> impl Strategy<Value = RunEnd> {
        proptest::sample::select(RunEnd::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            numbers in any::<[i64; 6]>(),
            updated_at in time(),
            times in (proptest::option::of(time()), proptest::option::of(time())),
            run in proptest::option::of((run_id(), time())),
            finished in proptest::option::of((run_id(), run_end())),
            last_route in proptest::option::of("[A-Za-z0-9._-]{1,128}"),
            routes in r#"\["[a-z]{1,20}"(,"[a-z]{1,20}"){0,3}\]"#,
            extended_times in (proptest::option::of(time()), proptest::option::of(time())),
            unmet in prop_oneof![Just(0), any::<u32>()],
            archived in any::<bool>(),
            scheduling in proptest::option::of("\\PC{0,200}"),
        ) {
            let [attempt, max_attempts, priority, pending_seq, definition_bytes, progress_bytes] = numbers;
            let head = PackedHead {
                attempt,
                max_attempts,
                priority,
                pending_seq,
                definition_bytes,
                updated_at,
                started_at: times.0,
                finished_at: times.1,
                run: run.as_ref().map(|(run_id, until)| (run_id.as_str(), *until)),
                finished_run: finished.as_ref().map(|(run_id, end)| (run_id.as_str(), *end)),
                last_route: last_route.as_deref(),
                progress_bytes,
                extended: Extended {
                    not_before: extended_times.0,
                    times_out_at: extended_times.1,
                    unmet,
                    archived,
                    scheduling: scheduling.as_deref(),
                },
                routes: &routes,
            };
            let bytes = head.pack();
            prop_assert_eq!(PackedHead::unpack(&bytes), Ok(head));
            // Cut off anywhere before the routes it is refused, and never a panic.
            for end in 0..bytes.len() - routes.len() {
                prop_assert_eq!(PackedHead::unpack(&bytes[..end]), Err(Unreadable));
            }
        }

        #[test]
        fn bytes_of_any_kind_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = PackedHead::unpack(&bytes);
        }
    }

    /// Files hold these bytes: this layout never changes.
    #[test]
    fn version_1_looks_like_this() {
        let head = PackedHead {
            attempt: 2,
            max_attempts: 3,
            priority: -1,
            pending_seq: 300,
            definition_bytes: 99,
            updated_at: Timestamp::from_micros(0x0102_0304_0506_0708),
            started_at: Some(Timestamp::from_micros(5)),
            finished_at: None,
            run: Some(("r_active000001", Timestamp::from_micros(6))),
            finished_run: Some(("r_finished0001", RunEnd::Fail)),
            last_route: Some("gpu"),
            progress_bytes: 0,
            extended: Extended::default(),
            routes: r#"["gpu"]"#,
        };
        let expected = [
            &[1, 1][..],
            b"r_finished0001",
            &[0b1101, 4, 6, 1, 0xd8, 4, 0xc6, 1],
            &[8, 7, 6, 5, 4, 3, 2, 1],
            &[5, 0, 0, 0, 0, 0, 0, 0],
            &[6, 0, 0, 0, 0, 0, 0, 0],
            &[1, 6],
            b"r_active000001gpu[\"gpu\"]",
        ];
        assert_eq!(head.pack(), expected.concat());
        assert_eq!(PackedHead::unpack(&expected.concat()), Ok(head));
        let with_progress = [&[1, 0, 0b1_0000, 0, 2, 0, 4, 6][..], &[7, 0, 0, 0, 0, 0, 0, 0], &[0xc8, 1], b"[\"gpu\"]"];
        let head = PackedHead {
            attempt: 0,
            max_attempts: 1,
            priority: 0,
            pending_seq: 2,
            definition_bytes: 3,
            updated_at: Timestamp::from_micros(7),
            started_at: None,
            run: None,
            finished_run: None,
            last_route: None,
            progress_bytes: 100,
            ..head
        };
        assert_eq!(head.pack(), with_progress.concat());
        let extended = Extended {
            not_before: Some(Timestamp::from_micros(8)),
            times_out_at: Some(Timestamp::from_micros(9)),
            unmet: 300,
            archived: true,
            scheduling: Some(r#"{"retry_delay":12345}"#),
        };
        let with_extended = [
            &[1, 0, 0b10_0000, 0, 2, 0, 4, 6][..],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            &[0b1_1111],
            &[8, 0, 0, 0, 0, 0, 0, 0],
            &[9, 0, 0, 0, 0, 0, 0, 0],
            &[0xd8, 4, 42],
            br#"{"retry_delay":12345}["gpu"]"#,
        ];
        let head = PackedHead { progress_bytes: 0, extended, ..head };
        assert_eq!(head.pack(), with_extended.concat());
        let archived = Extended { archived: true, ..Extended::default() };
        let only_archived = [&[1, 0, 0b10_0000, 0, 2, 0, 4, 6][..], &[7, 0, 0, 0, 0, 0, 0, 0], &[0b1000], b"[\"gpu\"]"];
        assert_eq!(PackedHead { extended: archived, ..head }.pack(), only_archived.concat());
    }
}
