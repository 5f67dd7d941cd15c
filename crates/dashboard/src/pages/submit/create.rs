//! Creates planned tasks in batches, and counts what became of them.

use std::collections::BTreeSet;

use taskqueue_core::batch_label::is_same_metadata;
use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{ID_BYTES, QueueName, TaskId};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::command::{CreateTasks, NewTask};
use taskqueue_store::portions::write_items;

use crate::problem::Problem;
use crate::show;
use crate::state::Dashboard;

use crate::json_field::too_large;

/// Refusals that are listed; more are counted.
const REFUSALS_SHOWN: usize = 10;
/// Tasks that are written together.
const BATCH_TASKS: usize = 500;
const BATCH_BYTES: usize = 1_000_000;

/// A task that is to be created.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// The line or the combination that it is of, counted from 1.
    pub(super) number: u64,
    pub(super) id: TaskId,
    /// Whether the id was derived from the definition.
    pub(super) is_derived: bool,
    pub(super) definition: Definition,
    /// Before when it is not claimed.
    pub(super) not_before: Option<Timestamp>,
}

/// Tasks that are written together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    tasks: Vec<Planned>,
    bytes: usize,
}

impl Batch {
    /// Adds a task, and says whether the batch is full.
    pub(super) fn push(&mut self, task: Planned) -> bool {
        self.bytes += task.definition.stored_bytes();
        self.tasks.push(task);
        self.tasks.len() >= BATCH_TASKS || self.bytes >= BATCH_BYTES
    }
}

/// What became of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) created: u64,
    /// Were there already, the same.
    pub(super) existing: u64,
    /// Were there already, with another definition.
    pub(super) different: u64,
    pub(super) refused: u64,
    /// The fields in which those are different.
    fields: BTreeSet<&'static str>,
    /// The first refusals, with the numbers of their tasks.
    pub(super) refusals: Vec<(u64, String)>,
}

impl Tally {
    /// What an earlier request counted: created, existing, different, refused.
    pub(super) fn so_far([created, existing, different, refused]: [u64; 4]) -> Self {
        Self { created, existing, different, refused, ..Self::default() }
    }

    pub(super) fn refuse(&mut self, number: u64, reason: String) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_SHOWN {
            self.refusals.push((number, reason));
        }
    }

    /// Whether everything is there now as it was wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.different == 0 && self.refused == 0
    }

    /// All of it in one or a few sentences.
    pub(super) fn sentence(&self) -> String {
        let mut text = format!("Created {}.", show::count(self.created, "task"));
        let was = |count: u64| if count == 1 { "was" } else { "were" };
        if self.existing > 0 {
            text.push_str(&format!(" {} {} there already, the same.", show::number(self.existing), was(self.existing)));
        }
        if self.different > 0 {
            let fields: Vec<&str> = self.fields.iter().copied().collect();
            let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
            let (count, was) = (show::number(self.different), was(self.different));
            text.push_str(&format!(
                " {count} {was} there already with another definition{fields}, and stayed as they are. "
            ));
            text.push_str("Give a batch label to create them anew.");
        }
        if self.refused > 0 {
            text.push_str(&format!(" {} {} refused.", show::number(self.refused), was(self.refused)));
        }
        text
    }
}

/// Writes a batch. If it fails, nothing of it counts.
pub(super) async fn write(
    dashboard: &Dashboard,
    queue: &QueueName,
    batch: Batch,
    tally: &mut Tally,
) -> Result<(), StoreError> {
    if batch.tasks.is_empty() {
        return Ok(());
    }
    let new = |task: &Planned| Box::new(NewTask::new(task.definition.clone(), task.not_before));
    let tasks = batch.tasks.iter().map(|task| (task.id, new(task))).collect();
    let answers = write_items(dashboard.store(), CreateTasks { queue: queue.clone(), tasks }, None).await?;
    for (task, answer) in batch.tasks.into_iter().zip(answers) {
        match answer {
            Ok(true) => tally.created += 1,
            Ok(false) => tally.existing += 1,
            Err(Refusal::TaskIdConflict { .. }) if task.is_derived => compare(dashboard, queue, &task, tally).await?,
            Err(Refusal::TaskIdConflict { .. }) => {
                tally.refuse(task.number, format!("The id {} is taken by a task with another definition.", task.id));
            }
            Err(Refusal::TaskDataTooLarge) => tally.refuse(task.number, too_large()),
            Err(refusal) => return Err(StoreError::Refused(refusal)),
        }
    }
    Ok(())
}

/// Compares with the task as it is now: what another definition created may have been updated to this one since.
async fn compare(
    dashboard: &Dashboard,
    queue: &QueueName,
    task: &Planned,
    tally: &mut Tally,
) -> Result<(), StoreError> {
    let present = match dashboard.store().get_task(queue, task.id).await {
        Ok(present) => present.definition,
        Err(StoreError::Refused(Refusal::TaskNotFound { .. })) => {
            tally.refuse(task.number, "The task was deleted at this moment; try again.".to_owned());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let fields = different_fields(&present, &task.definition);
    if fields.is_empty() {
        tally.existing += 1;
    } else {
        tally.different += 1;
        tally.fields.extend(fields);
    }
    Ok(())
}

fn different_fields(present: &Definition, wanted: &Definition) -> Vec<&'static str> {
    let (is, wants) = (&present.scheduling, &wanted.scheduling);
    let fields = [
        ("name", present.name == wanted.name),
        ("args", present.args == wanted.args),
        ("metadata", is_same_metadata(&present.metadata, &wanted.metadata)),
        ("priority", present.priority == wanted.priority),
        ("max_attempts", present.max_attempts == wanted.max_attempts),
        ("routes", present.routes == wanted.routes),
        ("retry_delay", is.retry_delay == wants.retry_delay),
        ("timeout_seconds", is.timeout_seconds == wants.timeout_seconds),
        ("dependencies", is.dependencies == wants.dependencies),
        ("on_dependency_failure", is.on_dependency_failure == wants.on_dependency_failure),
    ];
    fields.into_iter().filter(|(_, is_equal)| !is_equal).map(|(field, _)| field).collect()
}

/// The id of a form that was not sent yet.
pub(super) fn random_id() -> Result<TaskId, Problem> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "there are no random numbers for an id");
        Problem::busy()
    })?;
    Ok(TaskId::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskqueue_core::scheduling::SchedulingFields;

    #[test]
    fn the_sentence_says_exactly_what_became_of_each() {
        let mut tally = Tally { created: 1_000, ..Tally::default() };
        assert_eq!((tally.sentence().as_str(), tally.is_complete()), ("Created 1,000 tasks.", true));
        tally.existing = 1;
        assert_eq!(tally.sentence(), "Created 1,000 tasks. 1 was there already, the same.");
        tally.different = 2;
        tally.fields.extend(["routes", "priority"]);
        assert!(tally.sentence().contains("2 were there already with another definition (priority, routes)"));
        assert!(!tally.is_complete());
        for number in 1..=20 {
            tally.refuse(number, "no".to_owned());
        }
        assert_eq!((tally.refused, tally.refusals.len()), (20, REFUSALS_SHOWN));
    }

    #[test]
    fn fields_that_differ_are_named() {
        let wanted = Definition::default();
        let limited = SchedulingFields { timeout_seconds: Some(5), ..SchedulingFields::default() };
        let present = Definition { priority: 5, max_attempts: 1, scheduling: limited.into(), ..Definition::default() };
        assert_eq!(different_fields(&present, &wanted), ["priority", "max_attempts", "timeout_seconds"]);
        assert!(different_fields(&wanted, &wanted).is_empty());
    }
}
