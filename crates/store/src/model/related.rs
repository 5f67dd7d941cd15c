//! The tasks around a task.

use taskqueue_core::task::Task;

use super::state::State;
use crate::related::{Related, RelatedTask, RelatedTasks};
use crate::transaction::QueueKey;

impl State {
    pub(super) fn related_tasks(&self, queue: QueueKey, related: &Related) -> RelatedTasks {
        let shown = |task: &Task| RelatedTask {
            id: task.id,
            status: task.lifecycle.status,
            name: task.definition.name.clone(),
        };
        let found = |id| self.tasks_of(queue).find(|(_, task)| task.id == id).map(|(_, task)| shown(task));
        let dependents = self.dependents(queue, related.id, None, related.most_dependents.into()).tasks;
        let by_key = |key| self.tasks.get(&key).map(|row| shown(&row.task));
        RelatedTasks {
            dependencies: related.dependencies.iter().copied().map(found).collect(),
            dependents: dependents.into_iter().filter_map(|(key, _)| by_key(key)).collect(),
        }
    }
}
