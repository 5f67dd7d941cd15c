//! Checks each task of an existing queue with everything that belongs to it: whether its rows can be read, the rules of `core`,
//! and its output.

use std::collections::HashMap;

use taskqueue_core::ids::RunId;
use taskqueue_core::output::Part;
use taskqueue_core::soundness::{self, Broken, Rule};
use taskqueue_core::task::Task;
use taskqueue_store::check::Step;
use taskqueue_store::transaction::TaskKey;
use taskqueue_store::transfer::CHUNK_BYTES;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Checked, Stop};
use crate::output_rows::StoredOutput;
use crate::rows::{self, Damaged};
use crate::statements as sql;

pub(super) async fn check(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    let queues: Vec<i64> = checked.queues.keys().map(|queue| queue.0).collect();
    let (mut last, mut done, bytes) = (i64::MIN, 0, CHUNK_BYTES as i64);
    loop {
        let params: [&(dyn ToSql + Sync); 3] = [&last, &queues, &bytes];
        let found = checked.session.query(&sql::TRANSFER_TASKS, &params).await?;
        let Some(end) = found.last().and_then(|row| rows::key(row).ok()) else { return Ok(()) };
        let outputs = outputs(checked, last, end.0).await?;
        for row in &found {
            check_task(checked, row, &outputs);
            done += 1;
            checked.row(Step::Tasks, done)?;
        }
        last = end.0;
    }
}

/// What is known of the output of a task.
enum Output {
    Read { stored: StoredOutput, end: i64, bytes: i64, pieces: Vec<Part> },
    Unreadable,
}

async fn outputs(checked: &Checked<'_, '_>, after: i64, until: i64) -> Result<HashMap<TaskKey, Output>, Stop> {
    let found = checked.session.query(&sql::CHECK_OUTPUTS, &[&after, &until]).await?;
    let read = |row: &Row| Some((rows::output_key(row).ok()?, output(row).unwrap_or(Output::Unreadable)));
    Ok(found.iter().filter_map(read).collect())
}

fn output(row: &Row) -> Result<Output, Damaged> {
    let Some(stored) = rows::stored_output(row)? else { return Ok(Output::Unreadable) };
    let (end, bytes) = rows::output_sizes(row)?;
    Ok(Output::Read { stored, end, bytes, pieces: rows::places_of_pieces(row)? })
}

fn check_task(checked: &mut Checked<'_, '_>, row: &Row, outputs: &HashMap<TaskKey, Output>) {
    let (Ok(key), Ok(queue_key)) = (rows::key(row), rows::queue_key(row)) else { return };
    let Some(queue) = checked.queues.get(&queue_key).cloned() else { return };
    let read = (rows::task(row, &queue), rows::head(row), rows::identity(row), rows::runs(row));
    let (Ok(task), Ok(head), Ok(_), Ok(runs)) = read else {
        let id = rows::id(row).map_or_else(|_| format!("in row {}", key.0), |id| id.to_string());
        checked.findings.add(Rule::Readable, format!("task {id} of queue {queue} cannot be read"));
        return;
    };
    checked.findings.add_of_task(&queue, task.id, &soundness::task(&task, &head));
    let broken = outputs.get(&key).map_or_else(Vec::new, |output| check_output(output, &task, &runs));
    checked.findings.add_of_task(&queue, task.id, &broken);
}

fn check_output(output: &Output, task: &Task, runs: &[RunId]) -> Vec<Broken> {
    let Output::Read { stored: StoredOutput { kept, last_start }, end, bytes, pieces } = output else {
        return vec![(Rule::Readable, "has output of which nobody can read what is kept")];
    };
    let own = [task.lifecycle.run.map(|run| run.run_id), task.lifecycle.finished_run.map(|run| run.run_id)];
    let runs: Vec<RunId> = runs.iter().copied().chain(own.into_iter().flatten()).collect();
    let mut broken = soundness::output(kept, &runs, pieces);
    let kept_bytes: u64 = kept.parts.iter().map(|part| part.bytes()).sum();
    let noted = (u64::try_from(*end), u64::try_from(*bytes), pieces.last().map(|piece| piece.start));
    if noted != (Ok(kept.end()), Ok(kept_bytes), Some(*last_start)) {
        broken.push((Rule::Output, "has output of other sizes than noted"));
    }
    broken
}
