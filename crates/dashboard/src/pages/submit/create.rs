//! Creates planned tasks in batches, and counts what became of them.

use std::collections::BTreeSet;

use taskqueue_core::fields::{self, TimeComparison};
use taskqueue_core::ids::ID_BYTES;
use taskqueue_core::{Definition, QueueName, Refusal, Task, TaskId, TaskView, Timestamp};
use taskqueue_store::command::{CreateTasks, NewTask};
use taskqueue_store::portions::write_items;
use taskqueue_store::{Store, StoreError};

use crate::address::Query;
use crate::json_field::too_large;
use crate::problem::Problem;
use crate::selected::find_task;
use crate::show;
use crate::state::Dashboard;

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
    /// How that time is compared with the one of a task that is there already.
    pub(super) times: TimeComparison,
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

/// What is refused: the first ones with the numbers of their lines or tasks, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusals {
    pub(super) count: u64,
    pub(super) first: Vec<(u64, String)>,
}

impl Refusals {
    /// Counts one, and keeps it if it is among the first.
    pub(super) fn add(&mut self, number: u64, reason: String, most: usize) {
        self.count += 1;
        if self.first.len() < most {
            self.first.push((number, reason));
        }
    }

    /// How many are not shown.
    pub(super) fn more(&self) -> u64 {
        self.count - self.first.len() as u64
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
    /// The fields in which those are different.
    fields: BTreeSet<&'static str>,
    pub(super) refused: Refusals,
}

impl Tally {
    fn refuse(&mut self, number: u64, reason: String) {
        self.refused.add(number, reason, REFUSALS_SHOWN);
    }

    /// Returns whether everything is there now as it was wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.different == 0 && self.refused.count == 0
    }

    /// All of it in one or a few sentences.
    pub(super) fn sentence(&self) -> String {
        let mut text = format!("Created {}.", show::count(self.created, "task"));
        let was = |count: u64| if count == 1 { "was" } else { "were" };
        if self.existing > 0 {
            text += &format!(" {} {} there already, the same.", show::number(self.existing), was(self.existing));
        }
        if self.different > 0 {
            let fields: Vec<&str> = self.fields.iter().copied().collect();
            let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
            let (count, was) = (show::number(self.different), was(self.different));
            text += &format!(" {count} {was} there already with another definition{fields}, and stayed as they are. ");
            text += "Give a batch label to create them anew.";
        }
        let refused = self.refused.count;
        if refused > 0 {
            text += &format!(" {} {} refused.", show::number(refused), was(refused));
        }
        text
    }
}

/// The fields of a form that carry how far a creation came, and what became of its tasks.
const COUNTS: [&str; 5] = ["done", "created", "existing", "different", "refused"];

/// How far a creation of tasks came: what became of them, and why it did not go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) done: usize,
    pub(super) tally: Tally,
    pub(super) stopped: Option<String>,
}

impl Outcome {
    /// Returns what an earlier request came to. It travels in the form.
    pub(super) fn so_far(form: &Query) -> Self {
        let number =
            |name: &str| form.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0).min(1_000_000_000);
        let [done, created, existing, different, refused] = COUNTS.map(number);
        let refused = Refusals { count: refused, first: Vec::new() };
        let tally = Tally { created, existing, different, refused, ..Tally::default() };
        Self { done: usize::try_from(done).unwrap_or(0), tally, stopped: None }
    }

    /// The hidden fields that [`Outcome::so_far`] reads.
    pub(super) fn hidden(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Tally { created, existing, different, refused, .. } = &self.tally;
        COUNTS.into_iter().zip([self.done as u64, *created, *existing, *different, refused.count])
    }

    /// Returns whether everything is there now as it was wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.stopped.is_none() && self.tally.is_complete()
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
    let store = dashboard.store();
    let answers = write_items(store, CreateTasks { queue: queue.clone(), tasks }, None).await?;
    for (task, answer) in batch.tasks.into_iter().zip(answers) {
        match answer {
            Ok(true) => tally.created += 1,
            Ok(false) => tally.existing += 1,
            Err(Refusal::TaskIdConflict { .. }) if task.is_derived => compare(store, queue, &task, tally).await?,
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
async fn compare(store: &dyn Store, queue: &QueueName, task: &Planned, tally: &mut Tally) -> Result<(), StoreError> {
    let Some(present) = find_task(store, queue, task.id).await? else {
        tally.refuse(task.number, "The task was deleted at this moment; try again.".to_owned());
        return Ok(());
    };
    let fields = different_fields(&present, task);
    if fields.is_empty() {
        tally.existing += 1;
    } else {
        tally.different += 1;
        tally.fields.extend(fields);
    }
    Ok(())
}

fn different_fields(present: &Task, wanted: &Planned) -> Vec<&'static str> {
    let view = TaskView::planned(wanted.id, &wanted.definition, wanted.not_before);
    fields::different_fields(&present.view(), &view, wanted.times)
}

/// Returns why a batch was not written. What was written before stays, and to go on creates nothing twice.
pub(super) fn write_error(error: &StoreError) -> String {
    match error {
        StoreError::Busy => "The server has more to do than it can do at once.",
        StoreError::Refused(_) => "The queue was deleted meanwhile.",
        _ => "The database does not answer. The log of the server says why.",
    }
    .to_owned()
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
    use taskqueue_core::task::Lifecycle;

    use super::*;
    use crate::selected::tests::task;

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
        assert_eq!((tally.refused.count, tally.refused.first.len()), (20, REFUSALS_SHOWN));
    }

    #[test]
    fn how_far_it_came_travels_in_the_form_and_nonsense_is_the_beginning() {
        let form = Query::parse("done=7&created=4&existing=1&different=1&refused=1");
        let so_far = Outcome::so_far(&form);
        assert_eq!((so_far.done, so_far.tally.created, so_far.tally.refused.count), (7, 4, 1));
        let back = so_far.hidden().fold(Query::default(), |form, (name, value)| form.and(name, value));
        assert_eq!(back, form);
        assert_eq!(Outcome::so_far(&Query::parse("done=-1&created=x")), Outcome::default());
    }

    #[test]
    fn fields_that_differ_are_named_and_the_time_is_one_of_them() {
        let wanted = |seconds: Option<i64>, times| Planned {
            number: 1,
            id: TaskId::parse("t_exampletask0").unwrap(),
            is_derived: true,
            definition: Definition::default(),
            not_before: seconds.map(|seconds| Timestamp::from_micros(0).plus_seconds(seconds)),
            times,
        };
        let present = |definition: Definition, seconds: Option<i64>| {
            let not_before = seconds.map(|seconds| Timestamp::from_micros(0).plus_seconds(seconds));
            task(definition, Lifecycle { not_before, ..Lifecycle::created(Timestamp::from_micros(0), 1) })
        };
        let other = Definition { priority: 5, max_attempts: 1, ..Definition::default() };
        let exact = |seconds| wanted(seconds, TimeComparison::Exact);
        assert_eq!(different_fields(&present(other, None), &exact(None)), ["priority", "max_attempts"]);
        let same = |seconds| present(Definition::default(), seconds);
        assert_eq!(different_fields(&same(Some(5)), &exact(Some(6))), ["not_before"]);
        assert!(different_fields(&same(Some(5)), &exact(Some(5))).is_empty());
        assert!(different_fields(&same(Some(5)), &wanted(Some(6), TimeComparison::Presence)).is_empty());
    }
}
