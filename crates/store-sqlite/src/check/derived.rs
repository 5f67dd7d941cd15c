//! Checks what holds over all tasks: that the counts are the numbers of tasks, and that a run id belongs to one task. Memory stays
//! the same with any number of tasks: with many, the run ids and counts are divided by a digest, and each part is one more walk
//! over the narrow table. Also what lets a start and a claim do without all tasks.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::{Connection, Result, Row};
use taskqueue_core::ids::ID_BYTES;
use taskqueue_core::soundness::Rule;
use taskqueue_core::{RunId, Status, lease};
use taskqueue_store::QueueKey;
use taskqueue_store::check::Step;

use super::Checked;
use crate::history::{HistoryOptions, LivingReader, Marks};
use crate::queries::{CONTINUE, each_row, is_unreadable};
use crate::used_runs::{self, UsedRuns};
use crate::{rows, statements as sql};

/// Run ids in memory at a time: 36 MB.
const RUNS_AT_ONCE: u64 = 4_000_000;
/// Counts in memory at a time: about 100 MB.
const COUNTS_AT_ONCE: u64 = 500_000;
/// Characters of routes that a problem shows.
const ROUTES_SHOWN: usize = 200;

/// One part of what is divided.
#[derive(Clone, Copy)]
struct Share {
    number: u64,
    of: u64,
}

impl Share {
    fn holds(self, digest: u64) -> bool {
        digest % self.of == self.number
    }
}

/// Returns a digest that is the same in every run of the program, so that a problem is found again.
fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn check(checked: &mut Checked<'_, '_>) -> Result<()> {
    check_in_shares(checked, RUNS_AT_ONCE, COUNTS_AT_ONCE)
}

pub(super) fn check_in_shares(checked: &mut Checked<'_, '_>, runs: u64, counts: u64) -> Result<()> {
    let count = |of: &str| checked.connection.query_row(of, [], |row| row.get::<_, i64>(0).map(i64::cast_unsigned));
    // Each task has at most two, besides those in tables of their own.
    let all_runs = 2 * count("SELECT count(*) FROM tasks")?
        + count("SELECT count(*) FROM past_runs")?
        + count("SELECT count(*) FROM deleted_runs")?;
    let all_counts = count("SELECT count(*) FROM tally")?;
    let of = all_runs.div_ceil(runs).max(all_counts.div_ceil(counts)).max(1);
    for number in 0..of {
        check_share(checked, Share { number, of })?;
        if checked.watch.is_stopped() {
            break;
        }
    }
    Ok(())
}

/// A count that is kept, less the tasks that were found.
struct KeptCount {
    queue: QueueKey,
    /// The beginning.
    routes: Box<str>,
    kept: i64,
    left: i64,
}

/// By the digest of queue and routes, the state, and whether it is the count of archived tasks, which are counted among all.
type Counts = HashMap<(u64, Status, bool), KeptCount>;

fn check_share(checked: &mut Checked<'_, '_>, share: Share) -> Result<()> {
    let mut counts = load_counts(checked, share)?;
    let mut runs: Vec<[u8; ID_BYTES]> = Vec::new();
    let mut add = |run_id: RunId| {
        let run = run_id.to_bytes();
        if share.holds(digest(run)) {
            runs.push(run);
        }
    };
    let (mut done, connection) = (share.number * checked.tasks, checked.connection);
    each_row(connection, &sql::LIST_HEADS, [], |row| {
        done += 1;
        // What cannot be read was found with the tasks.
        if let (Ok(task), Ok(run_ids)) = (rows::claim_index(row), rows::run_ids(row)) {
            run_ids.into_iter().flatten().for_each(&mut add);
            let (queue, routes) = (QueueKey(task.queue_key), task.head.routes);
            let digest = digest((queue.0, routes));
            if share.holds(digest) && checked.queues.contains_key(&queue) {
                // One that is missing is added only with its first task, so damage does not fill the memory with text.
                let missing = || KeptCount { queue, routes: shown(routes), kept: 0, left: 0 };
                let archived = task.head.extended.archived.then_some(true);
                for of_archived in [false].into_iter().chain(archived) {
                    counts.entry((digest, task.status, of_archived)).or_insert_with(missing).left -= 1;
                }
            }
        }
        Ok(checked.watch.row(Step::Derived, done, share.of * checked.tasks))
    })?;
    for statement in [PAST_RUNS, &**sql::CHECK_DELETED_RUNS] {
        each_row(connection, statement, [], |row| {
            match rows::run_id(row) {
                Ok(run_id) => add(run_id),
                Err(_) if share.number == 0 => checked.findings.add(Rule::Readable, "a run id cannot be read"),
                Err(_) => {}
            }
            Ok(CONTINUE)
        })?;
    }
    report_counts(checked, counts);
    report_runs(checked, runs);
    Ok(())
}

const PAST_RUNS: &str = "SELECT run_id FROM past_runs";

fn load_counts(checked: &mut Checked<'_, '_>, share: Share) -> Result<Counts> {
    let mut counts = Counts::new();
    each_row(checked.connection, &sql::CHECK_TALLY, [], |row| {
        let (queue, routes) = (QueueKey(row.get("queue_key")?), row.get_ref("routes")?.as_str()?);
        let digest = digest((queue.0, routes));
        let Ok(status) = rows::status(row) else {
            if share.number == 0 {
                checked.findings.add(Rule::Readable, format!("a count of queue number {} cannot be read", queue.0));
            }
            return Ok(CONTINUE);
        };
        if share.holds(digest) && checked.queues.contains_key(&queue) {
            for (column, of_archived) in [("tasks", false), ("archived", true)] {
                let kept = row.get(column)?;
                let count = KeptCount { queue, routes: shown(routes), kept, left: kept };
                counts.insert((digest, status, of_archived), count);
            }
        }
        Ok(CONTINUE)
    })?;
    Ok(counts)
}

fn shown(routes: &str) -> Box<str> {
    routes[..routes.floor_char_boundary(ROUTES_SHOWN)].into()
}

fn report_counts(checked: &mut Checked<'_, '_>, counts: Counts) {
    let mut wrong: Vec<((u64, Status, bool), KeptCount)> =
        counts.into_iter().filter(|(_, count)| count.left != 0).collect();
    wrong.sort_by_key(|(key, count)| (count.queue.0, count.routes.clone(), key.1.as_str(), key.2));
    for ((_, status, of_archived), KeptCount { queue, routes, kept, left }) in wrong {
        let (tasks, status) = (kept - left, status.as_str());
        let status = if of_archived { format!("archived {status}") } else { status.to_owned() };
        if let Some(queue) = checked.queues.get(&queue) {
            let what = format!("queue {queue} counts {kept} {status} tasks with routes {routes} and has {tasks}");
            checked.findings.add(Rule::Tally, what);
        }
    }
}

fn report_runs(checked: &mut Checked<'_, '_>, mut runs: Vec<[u8; ID_BYTES]>) {
    runs.sort_unstable();
    for same in runs.chunk_by(|one, other| one == other).filter(|same| same.len() > 1) {
        let run_id = RunId::from_bytes(same[0]);
        checked.findings.add(Rule::RunIds, format!("run {run_id} belongs to {} tasks", same.len()));
    }
}

/// The history that the rows are compared with.
struct KnownHistory {
    marks: Marks,
    living: LivingReader,
    /// Nothing if the segments cannot be read.
    runs: Option<UsedRuns>,
}

/// Checks what lets a start and a claim do without all tasks (docs/decisions/0002): every pending or running task is among those
/// that a start reads, every used run id is found, and the segments of run ids are as they were written.
pub(super) fn check_history(checked: &mut Checked<'_, '_>) -> Result<()> {
    let connection = checked.connection;
    let mut runs = UsedRuns::new(HistoryOptions::default().filter_bytes, None);
    let runs = match runs.reload(connection) {
        Ok(()) => Some(runs),
        Err(error) if is_unreadable(&error) => {
            checked.findings.add(Rule::RunIds, "the list of used run ids cannot be read");
            None
        }
        Err(error) => return Err(error),
    };
    if runs.is_some() {
        used_runs::check_segments(connection, |what| checked.findings.add(Rule::RunIds, what))?;
    }
    let mut known = KnownHistory { marks: Marks::load(connection)?, living: LivingReader::default(), runs };
    let mut done = 0;
    each_row(connection, &sql::LOAD_CLAIM_INDEX, [i64::MIN, i64::MAX], |row| {
        done += 1;
        check_known(checked, &mut known, row)?;
        Ok(checked.watch.row(Step::Derived, done, checked.tasks))
    })?;
    check_deleted_runs(checked, &known)
}

fn check_known(checked: &mut Checked<'_, '_>, known: &mut KnownHistory, row: &Row<'_>) -> Result<()> {
    let connection = checked.connection;
    let Ok(task) = rows::claim_index(row) else { return Ok(()) };
    let is_new = task.key.0 > known.marks.last_key;
    // A start reads these.
    let is_read = is_new || known.living.contains(connection, task.key)?;
    let exists = checked.queues.contains_key(&QueueKey(task.queue_key));
    if exists && !is_read && matches!(task.status, Status::Pending | Status::Running) {
        let what =
            format!("the {} task in row {} is not among those that a start reads", task.status.as_str(), task.key.0);
        checked.findings.add(Rule::LivingTasks, what);
    }
    let Marks { flushed_at, latest_at, .. } = known.marks;
    if !is_read && task.head.updated_at > latest_at.max(flushed_at) {
        let what = format!("the task in row {} changed after the latest time that is noted", task.key.0);
        checked.findings.add(Rule::LivingTasks, what);
    }
    // A start adds the runs of what has changed since the last flush.
    let is_added = is_read && task.head.updated_at >= flushed_at;
    let (Some(runs), Some(finished), false) = (&known.runs, task.finished_run_id, is_added) else { return Ok(()) };
    let mut unknown = !is_used(runs, connection, finished)?;
    each_row(connection, &sql::LOAD_PAST_RUNS, [task.key.0, task.key.0], |row| {
        if let Ok(run_id) = rows::run_id(row) {
            unknown |= !is_used(runs, connection, run_id)?;
        }
        Ok(CONTINUE)
    })?;
    if unknown {
        let what = format!("a run of the task in row {} is not known to be used", task.key.0);
        checked.findings.add(Rule::RunIds, what);
    }
    Ok(())
}

/// Returns what cannot be read has been found with the segments.
fn is_used(runs: &UsedRuns, connection: &Connection, run_id: RunId) -> Result<bool> {
    match runs.is_used(connection, run_id) {
        Err(error) if is_unreadable(&error) => Ok(true),
        asked => asked,
    }
}

/// A start adds those that are kept longest: of tasks that were deleted since the last flush.
fn check_deleted_runs(checked: &mut Checked<'_, '_>, known: &KnownHistory) -> Result<()> {
    let Some(runs) = &known.runs else { return Ok(()) };
    let (connection, added) = (checked.connection, lease::run_ids_kept_until(known.marks.flushed_at));
    each_row(connection, &sql::CHECK_DELETED_RUNS, [], |row| {
        if let Ok((kept_until, run_id)) = rows::deleted_run(row)
            && kept_until < added
            && !is_used(runs, connection, run_id)?
        {
            checked.findings.add(Rule::RunIds, "a run of a deleted task is not known to be used");
        }
        Ok(CONTINUE)
    })
}
