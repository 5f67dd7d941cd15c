//! The tasks around a task, by the keys of their rows.

use rusqlite::{OptionalExtension, params};
use taskqueue_core::ids::QueueName;
use taskqueue_store::related::{Related, RelatedTasks};

use crate::each_row::CONTINUE;
use crate::reads::{Read, existing_queue};
use crate::rows;
use crate::snapshot::Snapshot;
use crate::statements as sql;

pub(crate) fn related_tasks(file: &Snapshot<'_>, queue: &QueueName, related: &Related) -> Read<RelatedTasks> {
    let key = existing_queue(file, queue)?;
    let mut found = RelatedTasks::default();
    let mut statement = file.connection.prepare_cached(sql::GET_RELATED)?;
    for id in &related.dependencies {
        let task = statement.query_row(params![key.0, id.as_str()], rows::related_task).optional()?;
        found.dependencies.push(task);
    }
    let params = params![key.0, related.id.as_str(), related.most_dependents];
    file.each_row(sql::LIST_RELATED, params, |row| {
        found.dependents.push(rows::related_task(row)?);
        Ok(CONTINUE)
    })?;
    Ok(found)
}
