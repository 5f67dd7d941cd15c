//! How a read finds the tasks that it may select. If only tasks of a few states come into question, and few tasks have
//! those states, then it looks at these alone (docs/decisions/0004): tables beside `tasks` have the keys of all pending,
//! running, failed and cancelled tasks. Succeeded tasks are in none; most tasks succeed.

use taskqueue_core::selection::TaskSelection;
use taskqueue_core::sparse::{Need, StatusCounts, is_sparse_by_keys};
use taskqueue_core::status::{Status, Statuses};
use taskqueue_store::transaction::QueueKey;

use crate::dialect::{self, Condition};
use crate::long_reader::Snapshot;
use crate::reads::{Read, next_parameter};
use crate::rows;
use crate::session::Sql;
use crate::statements as sql;

/// The keys of all tasks that have a state which is selected, if it is cheaper to look these up than to visit the queue
/// (docs/decisions/0004). Nothing if they are too many to collect, or if the tables do not have all of them: the counts tell,
/// in the same snapshot.
pub(crate) async fn few_keys(
    snapshot: &Snapshot<'_>,
    key: QueueKey,
    selection: &TaskSelection,
    need: Need,
) -> Read<Option<Vec<i64>>> {
    let wanted = selection.statuses();
    if wanted == Statuses::ALL {
        return Ok(None);
    }
    snapshot.release_slot();
    let mut counts = StatusCounts::default();
    for row in snapshot.session.query(&sql::COUNT_STATUSES, &[&key.0]).await? {
        counts.add(rows::get(&row, "status")?, rows::get(&row, "tasks")?);
    }
    let statuses = counts.present(wanted);
    let matching = counts.of(statuses);
    if statuses.contains(Status::Succeeded) || !is_sparse_by_keys(matching, counts.total(), need) {
        return Ok(None);
    }
    let found = snapshot.session.query(&sql::LIST_KEYS_BY_STATUS, &[&key.0, &statuses.words()]).await?;
    snapshot.yield_if_due()?;
    let keys = found.iter().map(|row| Ok(rows::key(row)?.0)).collect::<Read<Vec<i64>>>()?;
    Ok((keys.len() as u64 == matching).then_some(keys))
}

/// The condition of a selection, among these tasks alone if there are any.
pub(crate) fn condition_among(selection: &TaskSelection, few: Option<&[i64]>, statement: &Sql) -> Condition {
    let condition = dialect::condition(selection, next_parameter(statement));
    match few {
        Some(keys) => dialect::among(condition, keys, next_parameter(statement)),
        None => condition,
    }
}
