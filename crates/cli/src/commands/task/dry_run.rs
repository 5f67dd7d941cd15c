//! `--dry-run` of commands that create or update tasks: shows what would be created or changed, and sends nothing that changes anything.

use std::collections::BTreeMap;

use taskqueue_client::{ErrorCode, Status, Task, TaskId, TaskSelection, Update};
use taskqueue_core::json::Value;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::{task as stored, words};

use super::change::{Change, in_state};
use super::named_tasks;
use super::planned_tasks::{PlannedTask, Refusals, WrongTask};
use crate::args::Format;
use crate::config::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::field_path::{json_text, read_record, written};
use crate::output::{self, ChangedRecord, FieldChange, Listing, PlannedRecord, Record};

/// Rows of the table. Programs get all tasks.
const ROWS_SHOWN: u64 = 10;

/// A list of tasks that would be created or changed, of which a table shows the first.
#[derive(Debug)]
struct DryRunListing<'s> {
    listing: Listing<'s>,
    rows_max: u64,
    count: u64,
}

impl<'s> DryRunListing<'s> {
    fn new<R: Record>(context: &'s ClientContext) -> Self {
        let rows_max = if context.printer.format == Format::Table { ROWS_SHOWN } else { u64::MAX };
        Self { listing: context.printer.listing::<R>(), rows_max, count: 0 }
    }

    fn push<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        self.count += 1;
        if self.count <= self.rows_max { self.listing.push(record) } else { Ok(()) }
    }

    /// Ends the list, with a sentence below it.
    fn finish(self, sentence: &str) -> Result<(), Failure> {
        self.listing.finish()?;
        let more = match self.count > self.rows_max {
            true => format!("; these are the first {}, --output jsonl shows all", self.rows_max),
            false => String::new(),
        };
        output::note(&format!("{sentence}{more}"));
        Ok(())
    }
}

/// Tasks that would be created.
#[derive(Debug)]
pub(super) struct CreationPreview<'s> {
    listing: DryRunListing<'s>,
    refusals: Refusals,
}

impl<'s> CreationPreview<'s> {
    pub(super) fn new(context: &'s ClientContext) -> Self {
        Self { listing: DryRunListing::new::<PlannedRecord<'_>>(context), refusals: Refusals::default() }
    }

    /// Adds a task, or prints why there would be none.
    pub(super) fn add(&mut self, task: Result<PlannedTask, WrongTask>) -> Result<(), Failure> {
        match task {
            Ok(planned) => self.listing.push(&PlannedRecord { id: planned.id, creation: &planned.creation }),
            Err(wrong) => {
                self.refusals.add(wrong.origin, || wrong.reason);
                self.refusals.take_before(u64::MAX).iter().for_each(|line| output::warning(line));
                Ok(())
            }
        }
    }

    pub(super) fn finish(self) -> Result<(), CommandError> {
        let (count, refusals) = (self.listing.count, self.refusals);
        let them = if count == 1 { "it is not" } else { "none of them" };
        if refusals.not_shown() > 0 {
            output::warning(&format!("{} more would be refused", refusals.not_shown()));
        }
        self.listing.finish(&format!("{}, {them} created", words::count(count, "task")))?;
        if refusals.count == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }
}

/// Previews an update of named tasks, each of which is changed or not.
pub(super) async fn preview_ids(context: &ClientContext, ids: &[TaskId], update: &Update) -> Result<(), CommandError> {
    let (mut preview, mut is_complete) = (UpdatePreview::new(context, update), true);
    for id in ids {
        match named_tasks::existing(&context.client, &context.queue, *id).await? {
            Some(task) => preview.add(&task)?,
            None => {
                is_complete = false;
                output::warning(&named_tasks::missing(*id));
            }
        }
    }
    is_complete &= preview.counts.running == 0 && preview.counts.refused.is_empty();
    preview.finish(false)?;
    if is_complete { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// Previews an update of selected tasks, which are changed together.
pub(super) async fn preview_selection(
    context: &ClientContext,
    selection: TaskSelection,
    update: &Update,
) -> Result<(), CommandError> {
    let mut preview = UpdatePreview::new(context, update);
    let mut walk = named_tasks::walk(context, selection);
    while let Some(task) = walk.next().await? {
        preview.add(&task)?;
    }
    let is_refused = !preview.counts.refused.is_empty();
    preview.finish(true)?;
    if is_refused { Err(Failure::Unfinished.into()) } else { Ok(()) }
}

/// Tasks that would be changed, and how, by the rule of the server. The server decides again when the update is made.
struct UpdatePreview<'s> {
    update: &'s Update,
    listing: DryRunListing<'s>,
    counts: UpdateCounts,
}

/// The numbers of tasks that an update would change and not change.
#[derive(Debug, Default)]
struct UpdateCounts {
    changed: u64,
    unchanged: u64,
    running: u64,
    /// By the reason.
    refused: BTreeMap<String, u64>,
}

impl<'s> UpdatePreview<'s> {
    fn new(context: &'s ClientContext, update: &'s Update) -> Self {
        Self { update, listing: DryRunListing::new::<ChangedRecord>(context), counts: UpdateCounts::default() }
    }

    fn add(&mut self, task: &Task) -> Result<(), Failure> {
        let counts = &mut self.counts;
        match changes(task, self.update) {
            Err(Refusal::TaskRunning { .. }) => counts.running += 1,
            Err(refusal) => *counts.refused.entry(reason(&refusal)).or_default() += 1,
            Ok(changes) if changes.is_empty() => counts.unchanged += 1,
            Ok(changes) => {
                counts.changed += 1;
                return self.listing.push(&ChangedRecord { id: task.id, status: task.status, changes });
            }
        }
        Ok(())
    }

    fn finish(self, is_atomic: bool) -> Result<(), Failure> {
        self.listing.finish(&self.counts.sentence(is_atomic))
    }
}

impl UpdateCounts {
    /// Returns the sentence below the list. `is_atomic` says that one task that is refused keeps the others from being changed.
    fn sentence(&self, is_atomic: bool) -> String {
        let mut said = vec![format!("{} would be updated", words::count(self.changed, "task"))];
        said.extend((self.unchanged > 0).then(|| format!("{} would stay the same", self.unchanged)));
        let running =
            || format!("{}: {}", in_state(self.running, Status::Running), Change::Update.reason(Status::Running));
        said.extend((self.running > 0).then(running));
        said.extend(self.refused.iter().map(|(reason, count)| format!("{count} would be refused: {reason}")));
        let is_none = is_atomic && !self.refused.is_empty();
        let all = if is_none { "; all are updated or none, so it would be none" } else { "" };
        format!("{}{all}; nothing was changed", said.join(", "))
    }
}

/// Returns why the server would not take an update, in a few words.
fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::UpdateConflict { field, .. } => {
            format!("pending, and {field} would leave no attempt ({})", ErrorCode::UpdateConflict)
        }
        Refusal::TaskDataTooLarge => format!("more than 1 MiB of data ({})", ErrorCode::TaskDataTooLarge),
        Refusal::NotArchivable { .. } => format!("not ended ({})", ErrorCode::UpdateConflict),
        _ => "the server does not take it".to_owned(),
    }
}

/// Returns what an update changes of a task, by path.
fn changes(task: &Task, update: &Update) -> Result<Vec<FieldChange>, Refusal> {
    let before = as_stored(task);
    let mut changes = Vec::new();
    // The time of the change is none of what is changed.
    if let Some(after) = update.apply(&before, task.updated_at)? {
        let json = |task: &stored::Task| written(|out| Task::write(out, &task.view()));
        let (before, after) = (json(&before), json(&after));
        add_changes("", Some(&read_record(&before)), Some(&read_record(&after)), &mut changes);
    }
    Ok(changes)
}

/// Returns the task as the rule of updates knows it. What is left out is neither changed by an update nor decides about it.
fn as_stored(task: &Task) -> stored::Task {
    let Task { status, attempt, updated_at, not_before, archived, .. } = *task;
    let progress = task.progress.clone().map(|value| stored::Progress {
        value,
        updated_at: task.progress_updated_at.unwrap_or(updated_at),
        attempt: task.progress_attempt.unwrap_or(attempt),
    });
    let created = stored::Lifecycle::created(task.created_at, 0);
    let lifecycle = stored::Lifecycle { status, attempt, updated_at, not_before, archived, ..created };
    let outcome = stored::Outcome { result: task.result.clone(), progress, ..stored::Outcome::empty() };
    stored::Task { queue: task.queue.clone(), id: task.id, definition: task.definition(), lifecycle, outcome }
}

/// Adds the differences of two values. Objects are compared by their members.
fn add_changes(path: &str, before: Option<&Value<'_>>, after: Option<&Value<'_>>, out: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let (Some(old @ Value::Object(old_members)), Some(new @ Value::Object(new_members))) = (before, after) else {
        let text = |value: Option<&Value<'_>>| value.map(json_text);
        out.push(FieldChange { path: path.to_owned(), from: text(before), to: text(after) });
        return;
    };
    let added = new_members.iter().filter(|(name, _)| old.get(name).is_none());
    for (name, _) in old_members.iter().chain(added) {
        let inner = if path.is_empty() { step(name) } else { format!("{path}.{}", step(name)) };
        add_changes(&inner, old.get(name), new.get(name), out);
    }
}

/// Returns a name as a step of a path: in quotes where it could be taken for several, so that no two paths are the same.
fn step(name: &str) -> String {
    if name.is_empty() || name.contains(['.', '"']) { json_text(&Value::Str(name.into())) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::JsonObject;
    use taskqueue_core::limits::TASK_DATA_BYTES;

    use super::*;
    use crate::live::tests::task;

    #[test]
    fn changes_are_told_by_member() {
        let before = read_record(r#"{"args":{"lr":0.1,"model":{"layers":2,"kind":"vit"}},"priority":0,"name":null}"#);
        let after = read_record(r#"{"args":{"model":{"layers":4,"kind":"vit"},"seed":1},"priority":0,"name":"x"}"#);
        let mut changes = Vec::new();
        add_changes("", Some(&before), Some(&after), &mut changes);
        let told: Vec<String> =
            changes.iter().map(|change| format!("{} {:?} {:?}", change.path, change.from, change.to)).collect();
        let expected = [
            r#"args.lr Some("0.1") None"#,
            r#"args.model.layers Some("2") Some("4")"#,
            r#"args.seed None Some("1")"#,
            r#"name Some("null") Some("\"x\"")"#,
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_the_server_refuses_is_not_announced() {
        let update = |max_attempts| Update { max_attempts: Some(max_attempts), ..Update::default() };
        let tried = |status| Task { status, attempt: 2, ..task(1) };
        let paths = |task: &Task, update: &Update| {
            changes(task, update).map(|changes| changes.into_iter().map(|change| change.path).collect::<Vec<_>>())
        };
        let expected = Ok(vec!["max_attempts".to_owned()]);
        assert_eq!(paths(&tried(Status::Pending), &update(7)), expected);
        assert_eq!(paths(&tried(Status::Failed), &update(2)), expected);
        assert!(matches!(paths(&tried(Status::Pending), &update(2)), Err(Refusal::UpdateConflict { .. })));
        assert!(matches!(paths(&tried(Status::Running), &update(7)), Err(Refusal::TaskRunning { .. })));
        let large = JsonObject::from_canonical(&format!(r#"{{"a":"{}"}}"#, "x".repeat(TASK_DATA_BYTES)));
        let large = Update { args: Some(large), ..Update::default() };
        assert_eq!(paths(&tried(Status::Pending), &large), Err(Refusal::TaskDataTooLarge));
        assert_eq!(paths(&tried(Status::Pending), &Update::default()), Ok(Vec::new()));
    }

    #[test]
    fn refused_tasks_are_counted_with_the_reason_and_keep_a_selection_from_being_changed() {
        let refused = BTreeMap::from([(reason(&Refusal::TaskDataTooLarge), 2)]);
        let counts = UpdateCounts { changed: 3, refused, ..UpdateCounts::default() };
        let said = "3 tasks would be updated, 2 would be refused: more than 1 MiB of data (task_data_too_large)";
        assert_eq!(counts.sentence(false), format!("{said}; nothing was changed"));
        let none = "all are updated or none, so it would be none";
        assert_eq!(counts.sentence(true), format!("{said}; {none}; nothing was changed"));
        let counts = UpdateCounts { changed: 1, ..UpdateCounts::default() };
        assert_eq!(counts.sentence(true), "1 task would be updated; nothing was changed");
    }

    #[test]
    fn no_two_changes_have_the_same_path() {
        let before = read_record(r#"{"a":{"b":1},"a.b":1,"":1,"\"a":1}"#);
        let after = read_record(r#"{"a":{"b":2},"a.b":2,"":2,"\"a":2}"#);
        let mut changes = Vec::new();
        add_changes("", Some(&before), Some(&after), &mut changes);
        let mut paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, [r#""""#, r#""\"a""#, r#""a.b""#, "a.b"]);
    }
}
