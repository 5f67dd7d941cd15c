//! Checks each task of an existing queue with everything that belongs to it: whether its rows can be read, the rules of `core`,
//! its output, and what is noted of its dependencies.

use rusqlite::{OptionalExtension, Row, params};
use taskqueue_core::dependency::{DependencyState, unmet};
use taskqueue_core::ids::{QueueName, RunId};
use taskqueue_core::output::{KeptOutput, Part};
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::soundness::{self, Broken, Rule};
use taskqueue_core::task::Task;
use taskqueue_store::check::Step;
use taskqueue_store::transaction::{QueueKey, TaskKey};

use super::Checked;
use crate::each_row::{CONTINUE, each_row};
use crate::{rows, statements as sql};

pub(super) fn check(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    let mut done = 0;
    each_row(checked.connection, &sql::TRANSFER_TASKS, [i64::MIN], |row| {
        check_task(checked, row)?;
        done += 1;
        Ok(checked.row(Step::Tasks, done, checked.tasks))
    })?;
    if checked.watch.is_stopped() { Ok(()) } else { check_noted(checked) }
}

fn check_task(checked: &mut Checked<'_, '_>, row: &Row<'_>) -> rusqlite::Result<()> {
    let key = rows::key(row)?;
    let queue_key = rows::queue_key(row)?;
    let Some(queue) = checked.queues.get(&queue_key).cloned() else { return Ok(()) };
    let (Ok(task), Ok(head), Ok(_)) = (rows::task(row, &queue), rows::head(row), rows::identity(row)) else {
        let id = rows::id(row).map_or_else(|_| format!("in row {}", key.0), |id| id.to_string());
        checked.findings.add(Rule::Readable, format!("task {id} of queue {queue} cannot be read"));
        return Ok(());
    };
    checked.findings.add_of_task(&queue, task.id, &soundness::task(&task, &head));
    let broken = check_output(checked, key, &task)?;
    add(checked, &queue, &task, &broken);
    let broken = check_dependencies(checked, queue_key, key, &task)?;
    add(checked, &queue, &task, &broken);
    if !is_noted_if_needed(checked, queue_key, key, &task)? {
        add(checked, &queue, &task, &[(Rule::Settings, "has ended, and would never be deleted as the settings say")]);
    }
    Ok(())
}

/// A task that is kept for a limited time is noted with its end, unless the tasks of the queue are still being read.
fn is_noted_if_needed(
    checked: &Checked<'_, '_>,
    queue: QueueKey,
    key: TaskKey,
    Task { lifecycle, .. }: &Task,
) -> rusqlite::Result<bool> {
    let is_limited = |settings: &QueueSettings| settings.retention.seconds(lifecycle.status).is_some();
    let needs_note = checked.settings.get(&queue).is_some_and(is_limited) && !checked.reading.contains(&queue);
    let Some(ended_at) = lifecycle.ended_at().filter(|_| needs_note) else { return Ok(true) };
    let values = params![queue.0, lifecycle.status.as_str(), ended_at.as_micros(), key.0];
    checked.connection.prepare_cached(sql::HAS_ENDED)?.exists(values)
}

/// Each dependency of a task is noted, and those that are not met are counted.
fn check_dependencies(
    checked: &mut Checked<'_, '_>,
    queue: QueueKey,
    key: TaskKey,
    task: &Task,
) -> rusqlite::Result<Vec<Broken>> {
    let dependencies = task.definition.scheduling.dependencies.as_slice();
    let mut statement = checked.connection.prepare_cached(sql::FIND_DEPENDENCY)?;
    let (mut broken, mut states) = (Vec::new(), Vec::new());
    for id in dependencies {
        // Of a row, or of none: what it says may be unreadable.
        let values = params![queue.0, id.as_str(), key.0];
        match statement.query_row(values, |row| Ok(rows::dependency_state(row))).optional()? {
            Some(Ok(state)) => states.push((*id, state)),
            Some(Err(_)) => broken.push((Rule::Readable, "has a dependency of which nobody can read what is noted")),
            None => broken.push((Rule::Dependencies, "has a dependency of which nothing is noted")),
        }
    }
    checked.noted += (dependencies.len() - broken.len()) as u64;
    if broken.is_empty() && unmet(&states) != task.lifecycle.unmet {
        broken.push((Rule::Dependencies, "has another number of unmet dependencies than what is noted of them"));
    }
    Ok(broken)
}

/// Nothing is noted besides that, and what is noted of a dependency is what it is, or its dependents are to be looked at again.
fn check_noted(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    let (mut noted, mut done) = (0, 0);
    each_row(checked.connection, sql::LIST_NOTED_STATUSES, [], |row| {
        done += 1;
        // What cannot be read was found with the tasks.
        if let Ok((queue, id, state, status)) = rows::noted_status(row)
            && let Some(queue) = checked.queues.get(&queue)
        {
            // One of a task that does not exist is found with the references.
            noted += u64::from(row.get::<_, bool>("has_task")?);
            let is_unsettled: bool = row.get("is_unsettled")?;
            if !is_unsettled && DependencyState::looked_up(status, Some(state)) != state {
                let what = format!("task {id} of queue {queue} is not what is noted of it where it is waited for");
                checked.findings.add(Rule::Dependencies, what);
            }
        }
        Ok(checked.row(Step::Tasks, checked.tasks.max(done), checked.tasks.max(done)))
    })?;
    if noted != checked.noted && !checked.watch.is_stopped() {
        let (kept, of_tasks) = (noted, checked.noted);
        let what = format!("{kept} dependencies are noted, and tasks have {of_tasks} of them");
        checked.findings.add(Rule::Dependencies, what);
    }
    Ok(())
}

fn add(checked: &mut Checked<'_, '_>, queue: &QueueName, task: &Task, broken: &[Broken]) {
    checked.findings.add_of_task(queue, task.id, broken);
}

fn check_output(checked: &Checked<'_, '_>, key: TaskKey, task: &Task) -> rusqlite::Result<Vec<Broken>> {
    let connection = checked.connection;
    let mut statement = connection.prepare_cached(sql::LOAD_OUTPUT)?;
    // Of a row, or of none: what it says may be unreadable.
    let kept: Option<rusqlite::Result<Option<KeptOutput>>> =
        statement.query_row([key.0], |row| Ok(rows::kept_output(row, 0))).optional()?;
    let kept = match kept {
        None | Some(Ok(None)) => return Ok(Vec::new()),
        Some(Ok(Some(kept))) => kept,
        Some(Err(_)) => return Ok(vec![(Rule::Readable, "has output of which nobody can read what is kept")]),
    };
    let mut runs: Vec<RunId> = connection
        .prepare_cached(sql::LIST_PAST_RUNS)?
        .query_map([key.0], |row| Ok(rows::run_id(row).ok()))?
        .filter_map(Result::transpose)
        .collect::<rusqlite::Result<_>>()?;
    runs.extend(task.lifecycle.run.map(|run| run.run_id));
    runs.extend(task.lifecycle.finished_run.map(|run| run.run_id));
    let mut pieces = Vec::new();
    each_row(connection, sql::CHECK_OUTPUT_PIECES, [key.0], |row| {
        let (start, length): (i64, i64) = (row.get(0)?, row.get(1)?);
        let start = start.cast_unsigned();
        pieces.push(Part { start, end: start.saturating_add(length.cast_unsigned()) });
        Ok(CONTINUE)
    })?;
    Ok(soundness::output(&kept, &runs, &pieces))
}
