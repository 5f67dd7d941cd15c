//! What an update may change and when it is refused (docs/reference/http-api.md §6.6 and §6.7). The same rule serves
//! the single and the bulk update; reading an update from a request body is the business of the `api` crate.

use std::sync::Arc;

use crate::definition::{Definition, Routes, check_stored_size, not_before_bytes};
use crate::filter::TaskFilter;
use crate::json::{JsonObject, merge_patch};
use crate::refusal::Refusal;
use crate::scheduling::{Dependencies, OnDependencyFailure, RetryDelay, Scheduling, SchedulingFields};
use crate::selection::TaskSelection;
use crate::status::Statuses;
use crate::task::{Lifecycle, Outcome, Status, Task, TaskHead};
use crate::time::Timestamp;

/// New values for some fields of a task; every supplied one replaces the old value completely. Args and metadata may be
/// changed by a merge patch instead (RFC 7396; docs/decisions/0033).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// A name, or none.
    pub name: Option<Option<Arc<str>>>,
    pub args: Option<JsonObject>,
    pub metadata: Option<JsonObject>,
    pub priority: Option<i64>,
    /// New attempt budget.
    pub max_attempts: Option<i64>,
    pub routes: Option<Routes>,
    pub result: Option<JsonObject>,
    /// A merge patch of the args. A request gives either this or new args.
    pub args_patch: Option<JsonObject>,
    /// A merge patch of the metadata. A request gives either this or new metadata.
    pub metadata_patch: Option<JsonObject>,
    /// A time, or none.
    pub not_before: Option<Option<Timestamp>>,
    /// A delay, or none.
    pub retry_delay: Option<Option<RetryDelay>>,
    /// A limit, or none.
    pub timeout_seconds: Option<Option<i64>>,
    pub dependencies: Option<Dependencies>,
    pub on_dependency_failure: Option<OnDependencyFailure>,
    pub archived: Option<bool>,
}

/// The documents that merge patches apply to: the JSON of a task that its definition has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    pub args: JsonObject,
    pub metadata: JsonObject,
}

/// The effect of an update on one task, decided once: with it, and as long as the task stays as it was, the update can be saved
/// without the heavy JSON. Small, because a plan of a bulk update has one for each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Of the definition after the update.
    pub definition_bytes: u32,
    /// True if the args change.
    pub args: bool,
    /// True if the metadata changes.
    pub metadata: bool,
    /// True if the result changes.
    pub result: bool,
}

impl Update {
    /// Returns what a bulk update changes of the tasks that match a filter. A running task takes no update, and is left alone.
    pub fn selection(filter: TaskFilter, include_archived: bool) -> TaskSelection {
        TaskSelection::among(Statuses::NOT_RUNNING, filter, include_archived)
    }

    /// The update that makes `after` of `before`: nothing of what is the same already.
    pub fn of_scheduling(before: &Scheduling, after: &Scheduling) -> Self {
        let SchedulingFields { retry_delay, timeout_seconds, dependencies, on_dependency_failure } =
            SchedulingFields::clone(after);
        Self {
            retry_delay: Some(retry_delay).filter(|delay| *delay != before.retry_delay),
            timeout_seconds: Some(timeout_seconds).filter(|limit| *limit != before.timeout_seconds),
            dependencies: Some(dependencies).filter(|ids| *ids != before.dependencies),
            on_dependency_failure: Some(on_dependency_failure).filter(|choice| *choice != before.on_dependency_failure),
            ..Self::default()
        }
    }

    /// Returns whether what a task waits for may change: then its dependencies are looked up again.
    pub fn changes_waiting(&self) -> bool {
        self.dependencies.is_some() || self.on_dependency_failure.is_some()
    }

    fn changes_scheduling(&self) -> bool {
        self.retry_delay.is_some() || self.timeout_seconds.is_some() || self.changes_waiting()
    }

    /// Returns whether it changes what only extensions of the contract know.
    pub fn uses_extensions(&self) -> bool {
        self.has_patches() || self.changes_scheduling() || self.not_before.is_some() || self.archived.is_some()
    }

    /// The scheduling of a task after this update.
    pub fn scheduling_after(&self, before: &Scheduling) -> Scheduling {
        if !self.changes_scheduling() {
            return before.clone();
        }
        let fields = SchedulingFields {
            retry_delay: self.retry_delay.unwrap_or(before.retry_delay),
            timeout_seconds: self.timeout_seconds.unwrap_or(before.timeout_seconds),
            dependencies: self.dependencies.as_ref().unwrap_or(&before.dependencies).clone(),
            on_dependency_failure: self.on_dependency_failure.unwrap_or(before.on_dependency_failure),
        };
        fields.into()
    }

    /// The lifecycle of a task after this update, whose dependencies are looked up again elsewhere.
    fn lifecycle_after(&self, before: &Lifecycle) -> Lifecycle {
        Lifecycle {
            not_before: self.not_before.unwrap_or(before.not_before),
            archived: self.archived.unwrap_or(before.archived),
            ..before.clone()
        }
    }

    /// Returns whether the new values of a task depend on what it has.
    pub fn has_patches(&self) -> bool {
        self.args_patch.is_some() || self.metadata_patch.is_some()
    }

    /// Args and metadata of a task after this update.
    pub fn documents_after(&self, before: &Documents) -> Documents {
        Documents {
            args: after(&before.args, self.args.as_ref(), self.args_patch.as_ref()),
            metadata: after(&before.metadata, self.metadata.as_ref(), self.metadata_patch.as_ref()),
        }
    }

    /// Returns what this update does to a task: nothing when no value changes. The same decision as [`Update::apply`].
    pub fn effect(&self, task: &Task) -> Result<Option<Effect>, Refusal> {
        let after = self.apply(task, task.lifecycle.updated_at)?;
        Ok(after.map(|after| Effect {
            // The check of the size has bounded it.
            definition_bytes: u32::try_from(after.definition.stored_bytes()).unwrap_or(u32::MAX),
            args: after.definition.args != task.definition.args,
            metadata: after.definition.metadata != task.definition.metadata,
            result: after.outcome.result != task.outcome.result,
        }))
    }

    /// The head of a task after this update, from its head before and from what was decided about it.
    pub fn updated_head(&self, before: &TaskHead, effect: Effect, now: Timestamp) -> TaskHead {
        let updated_at = now.max(before.lifecycle.updated_at);
        let lifecycle = Lifecycle { updated_at, ..self.lifecycle_after(&before.lifecycle) };
        TaskHead {
            id: before.id,
            priority: self.priority.unwrap_or(before.priority),
            max_attempts: self.max_attempts.unwrap_or(before.max_attempts),
            routes: self.routes.as_ref().unwrap_or(&before.routes).clone(),
            scheduling: self.scheduling_after(&before.scheduling),
            definition_bytes: effect.definition_bytes as usize,
            progress_bytes: before.progress_bytes,
            lifecycle,
        }
    }

    /// The task after this update: nothing when no value changes. The check of the size comes last and is made for
    /// the resulting values even when nothing changes.
    pub fn apply(&self, task: &Task, now: Timestamp) -> Result<Option<Task>, Refusal> {
        if task.lifecycle.status == Status::Running {
            return Err(Refusal::TaskRunning { task_id: task.id });
        }
        if self.archived == Some(true) && !task.lifecycle.status.is_ended() {
            return Err(Refusal::NotArchivable { task_id: task.id, status: task.lifecycle.status });
        }
        let lifecycle = self.lifecycle_after(&task.lifecycle);
        let result = self.result.as_ref().unwrap_or(&task.outcome.result).clone();
        let definition = self.definition_after(&task.definition);
        let outcome = Outcome { result, ..task.outcome.clone() };
        let updated = Task { definition, lifecycle, outcome, ..task.clone() };
        let attempt = task.lifecycle.attempt;
        if task.lifecycle.status == Status::Pending && updated.definition.max_attempts <= attempt {
            return Err(Refusal::UpdateConflict { task_id: task.id, field: "max_attempts", attempt });
        }
        let (result_bytes, progress_bytes) = (updated.outcome.result.as_str().len(), updated.outcome.progress_bytes());
        let definition_bytes = updated.definition.stored_bytes() + not_before_bytes(updated.lifecycle.not_before);
        check_stored_size(definition_bytes, result_bytes, progress_bytes)?;
        if updated == *task {
            return Ok(None);
        }
        let updated_at = now.max(task.lifecycle.updated_at);
        Ok(Some(Task { lifecycle: Lifecycle { updated_at, ..updated.lifecycle }, ..updated }))
    }

    /// The definition of a task after this update.
    pub fn definition_after(&self, before: &Definition) -> Definition {
        Definition {
            name: self.name.as_ref().unwrap_or(&before.name).clone(),
            args: after(&before.args, self.args.as_ref(), self.args_patch.as_ref()),
            metadata: after(&before.metadata, self.metadata.as_ref(), self.metadata_patch.as_ref()),
            priority: self.priority.unwrap_or(before.priority),
            max_attempts: self.max_attempts.unwrap_or(before.max_attempts),
            routes: self.routes.as_ref().unwrap_or(&before.routes).clone(),
            scheduling: self.scheduling_after(&before.scheduling),
        }
    }
}

fn after(before: &JsonObject, replacement: Option<&JsonObject>, patch: Option<&JsonObject>) -> JsonObject {
    let replaced = replacement.unwrap_or(before);
    patch.map_or_else(|| replaced.clone(), |patch| merge_patch(replaced, patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Route;
    use crate::limits::TASK_DATA_BYTES;
    use crate::samples::{new_task, object};

    const NOW: Timestamp = Timestamp::from_micros(1_000);

    fn task(status: Status, attempt: i64) -> Task {
        let created = Lifecycle::created(Timestamp::from_micros(10), 1);
        Task { lifecycle: Lifecycle { status, attempt, ..created }, ..new_task() }
    }

    #[test]
    fn a_patch_is_refused_where_new_args_are() {
        let patch = Update { args_patch: Some(object(r#"{"a":1}"#)), ..Update::default() };
        assert!(matches!(patch.apply(&task(Status::Running, 1), NOW), Err(Refusal::TaskRunning { .. })));
        // What counts is the size of the result: it fits exactly, and not with one byte more.
        let mut before = task(Status::Pending, 0);
        let room = TASK_DATA_BYTES - before.definition.stored_bytes() - before.outcome.result.as_str().len();
        let text = "x".repeat(room - r#""a":1,"b":"""#.len());
        before.definition.args = object(&format!(r#"{{"b":"{text}"}}"#));
        assert!(matches!(patch.apply(&before, NOW), Ok(Some(_))));
        before.definition.args = object(&format!(r#"{{"b":"{text}x"}}"#));
        assert_eq!(patch.apply(&before, NOW), Err(Refusal::TaskDataTooLarge));
        let smaller = Update { args_patch: Some(object(r#"{"a":1,"b":null}"#)), ..Update::default() };
        assert!(matches!(smaller.apply(&before, NOW), Ok(Some(_))));
    }

    #[test]
    fn an_effect_says_the_same_as_the_update_itself() {
        let updates = [
            Update { name: Some(Some("n".into())), ..Update::default() },
            Update { args: Some(object(r#"{"a":1}"#)), priority: Some(7), ..Update::default() },
            Update { metadata: Some(object(r#"{"m":[]}"#)), max_attempts: Some(9), ..Update::default() },
            Update { routes: Routes::new(vec![Route::parse("x").unwrap()]), ..Update::default() },
            Update { result: Some(object(r#"{"r":null}"#)), ..Update::default() },
            Update { max_attempts: Some(1), ..Update::default() },
            Update { args: Some(object("{}")), ..Update::default() },
            Update { args_patch: Some(object(r#"{"a":{"b":null}}"#)), ..Update::default() },
            Update { metadata_patch: Some(object(r#"{"m":1}"#)), priority: Some(2), ..Update::default() },
            Update { args_patch: Some(object(r#"{"a":null}"#)), ..Update::default() },
        ];
        for (update, attempt) in updates.iter().flat_map(|update| [(update, 0), (update, 2)]) {
            let before = task(Status::Pending, attempt);
            match (update.apply(&before, NOW), update.effect(&before)) {
                (Ok(Some(after)), Ok(Some(effect))) => {
                    assert_eq!(update.updated_head(&before.head(), effect, NOW), after.head(), "{update:?}");
                    let (old, new) = (&before.definition, &after.definition);
                    let changes = (old.args != new.args, old.metadata != new.metadata);
                    assert_eq!((effect.args, effect.metadata), changes, "{update:?}");
                    assert_eq!(effect.result, before.outcome.result != after.outcome.result, "{update:?}");
                }
                (applied, decided) => assert_eq!(applied.map(|after| after.is_some()), decided.map(|e| e.is_some())),
            }
        }
        assert_eq!(size_of::<Effect>(), 8);
    }

    #[test]
    fn updated_at_never_decreases() {
        let update = Update { priority: Some(1), ..Update::default() };
        let changed = update.apply(&task(Status::Pending, 0), Timestamp::from_micros(1)).unwrap().unwrap();
        assert_eq!(changed.lifecycle.updated_at, Timestamp::from_micros(10));
    }
}
