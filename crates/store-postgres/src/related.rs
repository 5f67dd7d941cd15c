//! The tasks around a task, by the keys of their rows.

use std::collections::HashMap;

use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_store::related::{Related, RelatedTask, RelatedTasks};

use crate::reads::{Read, existing_queue};
use crate::rows;
use crate::session::Session;
use crate::statements as sql;

pub(crate) async fn related_tasks(session: &Session, queue: &QueueName, related: &Related) -> Read<RelatedTasks> {
    let key = existing_queue(session, queue).await?;
    let ids: Vec<&str> = related.dependencies.iter().map(TaskId::as_str).collect();
    let mut found: HashMap<TaskId, RelatedTask> = HashMap::new();
    if !ids.is_empty() {
        for row in session.query(&sql::GET_RELATED, &[&key.0, &ids]).await? {
            let task = rows::related_task(&row)?;
            found.insert(task.id, task);
        }
    }
    let most = i64::from(related.most_dependents);
    let dependents = session.query(&sql::LIST_RELATED, &[&key.0, &related.id.as_str(), &most]).await?;
    Ok(RelatedTasks {
        dependencies: related.dependencies.iter().map(|id| found.remove(id)).collect(),
        dependents: dependents.iter().map(rows::related_task).collect::<Result<_, _>>()?,
    })
}
