//! The tasks around a task: what it waits for, and what waits for it.

use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::scheduling::OnDependencyFailure;
use taskqueue_core::task::Task;
use taskqueue_store::related::{Related, RelatedTask};
use taskqueue_store::{Store, StoreError};

use super::address;
use crate::show;

/// Tasks of each kind that are shown.
const SHOWN: usize = 100;
/// Tasks that wait for this one which are counted.
const COUNTED: u16 = 1_000;
const NAME_CHARS: usize = 120;

/// Both kinds; nothing of a kind that there is none of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RelatedView {
    pub(super) dependencies: Vec<Relative>,
    pub(super) more_dependencies: Option<String>,
    /// What becomes of the task if one of them fails.
    pub(super) on_failure: &'static str,
    pub(super) dependents: Vec<Relative>,
    pub(super) more_dependents: Option<String>,
}

/// A task beside this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relative {
    pub(super) id: String,
    pub(super) address: String,
    pub(super) name: Option<String>,
    /// None if there is no such task.
    pub(super) status: Option<String>,
}

impl RelatedView {
    pub(super) async fn read(store: &dyn Store, queue: &QueueName, task: &Task) -> Result<Self, StoreError> {
        let ids = task.definition.scheduling.dependencies.as_slice();
        let shown: Vec<TaskId> = ids.iter().take(SHOWN).copied().collect();
        let sought = Related { id: task.id, dependencies: shown.clone(), most_dependents: COUNTED + 1 };
        let found = store.related_tasks(queue, sought).await?;
        let dependencies = shown.iter().zip(found.dependencies).map(|(id, task)| Relative::of(queue, *id, task));
        let counted = found.dependents.len();
        let dependents = found.dependents.into_iter().take(SHOWN).map(|task| Relative::of(queue, task.id, Some(task)));
        Ok(Self {
            dependencies: dependencies.collect(),
            more_dependencies: more(ids.len(), usize::MAX),
            on_failure: match task.definition.scheduling.on_dependency_failure {
                OnDependencyFailure::Wait => {
                    "If one of them fails, is cancelled or deleted, this task goes on waiting until it has succeeded after all."
                }
                OnDependencyFailure::Cancel => {
                    "If one of them fails for good, is cancelled or deleted, this task is cancelled."
                }
            },
            dependents: dependents.collect(),
            more_dependents: more(counted, COUNTED.into()),
        })
    }
}

/// How many are not shown, as far as they were counted.
fn more(found: usize, counted: usize) -> Option<String> {
    let more = |count: usize| show::number(count.saturating_sub(SHOWN) as u64);
    match found {
        found if found <= SHOWN => None,
        found if found > counted => Some(format!("and more than {} more", more(counted))),
        found => Some(format!("and {} more", more(found))),
    }
}

impl Relative {
    fn of(queue: &QueueName, id: TaskId, task: Option<RelatedTask>) -> Self {
        let name = task.as_ref().and_then(|task| task.name.as_deref()).filter(|name| !name.trim().is_empty());
        Self {
            id: id.to_string(),
            address: address(queue, id),
            name: name.map(|name| show::cut(name, NAME_CHARS).into_owned()),
            status: task.as_ref().map(|task| task.status.as_str().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_not_shown_is_said_as_far_as_it_is_known() {
        let cases = [
            (0, None),
            (100, None),
            (101, Some("and 1 more")),
            (1_000, Some("and 900 more")),
            (1_001, Some("and more than 900 more")),
        ];
        for (found, text) in cases {
            assert_eq!(more(found, 1_000).as_deref(), text, "{found}");
        }
    }
}
