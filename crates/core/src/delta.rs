//! What a change of a task means for everything that is derived from tasks: the counts, the pending order, the running tasks
//! and the run ids. Derived here once; each storage applies it to its own tables and indexes.

use crate::definition::Routes;
use crate::ids::RunId;
use crate::task::{Lifecycle, Status, TaskHead};
use crate::time::Timestamp;

/// The difference between a task before and after a change. A task that is created has no state before, one that is deleted
/// has none after.
#[derive(Debug, PartialEq, Eq)]
pub struct Delta<'a> {
    pub tally: Difference<TallyLine<'a>>,
    pub pending: Difference<PendingEntry<'a>>,
    /// The run that owns the task. It is among the running tasks as long as it has one.
    pub run: Difference<RunId>,
    /// The previous latest finished run, replaced by this change; record its id as used.
    pub past_run: Option<RunId>,
}

/// A difference: what no longer holds and what holds instead. Both are empty if nothing changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference<T> {
    pub removed: Option<T>,
    pub added: Option<T>,
}

/// Tasks are counted by routes and status, archived ones apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyLine<'a> {
    pub routes: &'a Routes,
    pub status: Status,
    pub archived: bool,
}

/// A pending task. In the order in which each of its routes is claimed, highest priority first, then by `pending_seq`; or beside
/// it, as long as it cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry<'a> {
    pub routes: &'a Routes,
    pub priority: i64,
    pub pending_seq: i64,
    pub not_before: Option<Timestamp>,
    /// True if a dependency of it has not succeeded.
    pub blocked: bool,
}

/// Where a pending task is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingPlace {
    /// In the pending order: a claim may take it.
    Order,
    /// Among the delayed tasks, until then.
    Delayed(Timestamp),
    /// Among the blocked tasks, until its dependencies have succeeded.
    Blocked,
}

impl PendingEntry<'_> {
    pub fn place(&self, now: Timestamp) -> PendingPlace {
        match self.not_before {
            _ if self.blocked => PendingPlace::Blocked,
            Some(not_before) if not_before > now => PendingPlace::Delayed(not_before),
            _ => PendingPlace::Order,
        }
    }
}

impl<'a> Delta<'a> {
    pub fn between(before: Option<&'a TaskHead>, after: Option<&'a TaskHead>) -> Self {
        let active_run = |head: &TaskHead| head.lifecycle.run.map(|run| run.run_id);
        let finished_run = |head: &TaskHead| head.lifecycle.finished_run.map(|run| run.run_id);
        Self {
            tally: Difference::between(before.map(tally_line), after.map(tally_line)),
            pending: Difference::between(before.and_then(pending_entry), after.and_then(pending_entry)),
            run: Difference::between(before.and_then(active_run), after.and_then(active_run)),
            past_run: Difference::between(before.and_then(finished_run), after.and_then(finished_run)).removed,
        }
    }
}

impl<T: PartialEq> Difference<T> {
    fn between(before: Option<T>, after: Option<T>) -> Self {
        if before == after { Self { removed: None, added: None } } else { Self { removed: before, added: after } }
    }
}

fn tally_line(head: &TaskHead) -> TallyLine<'_> {
    TallyLine { routes: &head.routes, status: head.lifecycle.status, archived: head.lifecycle.archived }
}

fn pending_entry(head: &TaskHead) -> Option<PendingEntry<'_>> {
    let TaskHead { routes, priority, lifecycle, .. } = head;
    let Lifecycle { pending_seq, not_before, unmet, .. } = *lifecycle;
    let entry = PendingEntry { routes, priority: *priority, pending_seq, not_before, blocked: unmet > 0 };
    (lifecycle.status == Status::Pending).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Route;
    use crate::samples::{new_task, run};
    use crate::task::{ActiveRun, FinishedRun, RunEnd};

    /// A task with these values: status, route, priority, place in the pending order, and the last finished run.
    fn task(status: Status, route: &str, priority: i64, pending_seq: i64, finished: Option<&str>) -> TaskHead {
        let running =
            ActiveRun { run_id: run("active"), lease_expires_at: Timestamp::from_micros(9), times_out_at: None };
        TaskHead {
            priority,
            routes: Routes::new(vec![Route::parse(route).unwrap()]).unwrap(),
            lifecycle: Lifecycle {
                status,
                run: (status == Status::Running).then_some(running),
                finished_run: finished.map(|name| FinishedRun { run_id: run(name), end: RunEnd::Fail }),
                ..Lifecycle::created(Timestamp::from_micros(1), pending_seq)
            },
            ..new_task().head()
        }
    }

    /// The parts of a difference in words: what is removed from and added to the tally, the pending order and the runs.
    fn describe(before: Option<&TaskHead>, after: Option<&TaskHead>) -> String {
        let Delta { tally, pending, run, past_run } = Delta::between(before, after);
        let line = |line: TallyLine<'_>| format!("{} {}", line.status.as_str(), line.routes.as_json());
        let entry = |entry: PendingEntry<'_>| {
            format!("place {} {} {}", entry.routes.as_json(), entry.priority, entry.pending_seq)
        };
        let run_id = |run_id: RunId| run_id.as_str().trim_end_matches('_').to_owned();
        let signed =
            |sign: char, texts: [Option<String>; 3]| texts.map(|text| text.map(|text| format!("{sign}{text}")));
        let removed = signed('-', [tally.removed.map(line), pending.removed.map(entry), run.removed.map(run_id)]);
        let added = signed('+', [tally.added.map(line), pending.added.map(entry), run.added.map(run_id)]);
        let past = past_run.map(|run| format!("past {}", run_id(run)));
        let parts: Vec<String> = removed.into_iter().chain(added).chain([past]).flatten().collect();
        parts.join("; ").replace(['[', ']', '"'], "")
    }

    #[test]
    fn a_delta_says_what_every_kind_of_change_adds_and_removes() {
        use Status::{Cancelled, Failed, Pending, Running};
        let pending = &task(Pending, "a", 0, 1, None);
        let running = &task(Running, "a", 0, 1, None);
        let failed = &task(Failed, "a", 0, 1, Some("active"));
        let retried = &task(Pending, "a", 0, 2, Some("active"));
        let second_run = &task(Running, "a", 0, 1, Some("first"));
        let at_the_back = &task(Pending, "a", 0, 2, None);
        let [urgent, elsewhere] = &[task(Pending, "a", 5, 1, None), task(Pending, "b", 0, 1, None)];
        let [cancelled, moved] = &[task(Cancelled, "a", 0, 1, None), task(Cancelled, "b", 5, 1, None)];
        let cases = [
            ("create", None, Some(pending), "+pending a; +place a 0 1"),
            ("claim", Some(pending), Some(running), "-pending a; -place a 0 1; +running a; +r_active"),
            ("heartbeat", Some(running), Some(running), ""),
            ("fail", Some(running), Some(failed), "-running a; -r_active; +failed a"),
            ("retry", Some(running), Some(retried), "-running a; -r_active; +pending a; +place a 0 2"),
            ("second run", Some(second_run), Some(failed), "-running a; -r_active; +failed a; past r_first"),
            ("requeue", Some(failed), Some(retried), "-failed a; +pending a; +place a 0 2"),
            ("requeue of a pending task", Some(pending), Some(at_the_back), "-place a 0 1; +place a 0 2"),
            ("new priority", Some(pending), Some(urgent), "-place a 0 1; +place a 5 1"),
            ("new routes", Some(pending), Some(elsewhere), "-pending a; -place a 0 1; +pending b; +place b 0 1"),
            ("new routes, not pending", Some(cancelled), Some(moved), "-cancelled a; +cancelled b"),
            ("delete", Some(pending), None, "-pending a; -place a 0 1"),
            ("delete after a run", Some(failed), None, "-failed a; past r_active"),
            ("nothing", None, None, ""),
        ];
        for (change, before, after, expected) in cases {
            assert_eq!(describe(before, after), expected, "{change}");
        }
    }
}
