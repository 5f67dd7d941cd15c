//! `task update --dry-run`: which tasks would be changed, and how, by the rule of the server. Nothing is sent that changes anything;
//! the server decides again when the update is made.

use std::borrow::Cow;
use std::collections::BTreeMap;

use taskqueue_client::{ErrorCode, OrderField, Status, Task, TaskId, TaskQuery, TaskSelection, Update};
use taskqueue_core::json::Value;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task as stored;
use taskqueue_core::words;

use super::bulk_change::Change;
use crate::args::Format;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::field_path::{json_text, read_record};
use crate::output::{self, ChangedRecord, FieldChange, Listing};

/// Rows of the table. Programs get all tasks.
const ROWS_SHOWN: u64 = 10;
/// The largest page.
const PAGE_LIMIT: u16 = 1000;

/// What was found so far.
struct Preview<'s> {
    update: &'s Update,
    listing: Listing<'s>,
    rows_max: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    changed: u64,
    unchanged: u64,
    running: u64,
    /// By the reason.
    refused: BTreeMap<String, u64>,
}

/// Whether one task that is refused keeps the others from being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    EachAlone,
    AllOrNone,
}

pub(super) async fn of_ids(context: &ClientContext, ids: &[TaskId], update: &Update) -> Result<(), CommandError> {
    let (mut preview, mut missing) = (Preview::new(context, update), 0_u64);
    for id in ids {
        match context.client.task(&context.queue, *id).await {
            Ok(task) => preview.add(&task)?,
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                missing += 1;
                output::warning(&format!("{id} does not exist ({})", ErrorCode::TaskNotFound));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let is_complete = missing == 0 && preview.counts.running == 0 && preview.counts.refused.is_empty();
    preview.finish(Together::EachAlone)?;
    if is_complete { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

pub(super) async fn of_selection(
    context: &ClientContext,
    selection: TaskSelection,
    update: &Update,
) -> Result<(), CommandError> {
    let mut preview = Preview::new(context, update);
    let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
    let mut walk = context.client.walk_tasks(&context.queue, query);
    while let Some(task) = walk.next().await? {
        preview.add(&task)?;
    }
    let is_refused = !preview.counts.refused.is_empty();
    preview.finish(Together::AllOrNone)?;
    if is_refused { Err(Failure::Unfinished.into()) } else { Ok(()) }
}

impl<'s> Preview<'s> {
    fn new(context: &'s ClientContext, update: &'s Update) -> Self {
        let printer = &context.printer;
        let rows_max = if printer.format() == Format::Table { ROWS_SHOWN } else { u64::MAX };
        let listing = printer.listing::<ChangedRecord>();
        Self { update, listing, rows_max, counts: Counts::default() }
    }

    fn add(&mut self, task: &Task) -> Result<(), Failure> {
        let counts = &mut self.counts;
        match changes(task, self.update) {
            Err(Refusal::TaskRunning { .. }) => counts.running += 1,
            Err(refusal) => *counts.refused.entry(reason(&refusal)).or_default() += 1,
            Ok(changes) if changes.is_empty() => counts.unchanged += 1,
            Ok(changes) => {
                counts.changed += 1;
                if counts.changed <= self.rows_max {
                    return self.listing.push(&ChangedRecord { id: task.id, status: task.status, changes });
                }
            }
        }
        Ok(())
    }

    fn finish(self, together: Together) -> Result<(), Failure> {
        self.listing.finish()?;
        let mut sentence = self.counts.sentence(together);
        if self.counts.changed > self.rows_max {
            sentence.push_str(&format!("; these are the first {}, --output jsonl shows all", self.rows_max));
        }
        output::note(&sentence);
        Ok(())
    }
}

impl Counts {
    fn sentence(&self, together: Together) -> String {
        let mut said = vec![format!("{} would be updated", words::count(self.changed, "task"))];
        said.extend((self.unchanged > 0).then(|| format!("{} would stay the same", self.unchanged)));
        said.extend((self.running > 0).then(|| {
            format!("{} {} running: {}", self.running, if self.running == 1 { "is" } else { "are" }, running_reason())
        }));
        said.extend(self.refused.iter().map(|(reason, count)| format!("{count} would be refused: {reason}")));
        let all = match together {
            Together::AllOrNone if !self.refused.is_empty() => "; all are updated or none, so it would be none",
            _ => "",
        };
        format!("{}{all}; nothing was changed", said.join(", "))
    }
}

/// Why the server would not take an update, in a few words.
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

fn running_reason() -> &'static str {
    Change::Update.reason(Status::Running)
}

/// What an update changes of a task, by path.
fn changes(task: &Task, update: &Update) -> Result<Vec<FieldChange>, Refusal> {
    let before = as_stored(task);
    let mut changes = Vec::new();
    // The time of the change is none of what is changed.
    if let Some(after) = update.apply(&before, task.updated_at)? {
        let (before, after) = (json(&before), json(&after));
        add_changes("", Some(&read_record(&before)), Some(&read_record(&after)), &mut changes);
    }
    Ok(changes)
}

/// The task as the rule of updates knows it. What is left out is neither changed by an update nor decides about it.
fn as_stored(task: &Task) -> stored::Task {
    let Task { status, attempt, updated_at, not_before, archived, .. } = *task;
    let progress = task.progress.clone().map(|value| stored::Progress {
        value,
        updated_at: task.progress_updated_at.unwrap_or(updated_at),
        attempt: task.progress_attempt.unwrap_or(attempt),
    });
    stored::Task {
        queue: task.queue.clone(),
        id: task.id,
        definition: task.definition(),
        lifecycle: stored::Lifecycle {
            status,
            attempt,
            updated_at,
            not_before,
            archived,
            ..stored::Lifecycle::created(task.created_at, 0)
        },
        outcome: stored::Outcome { result: task.result.clone(), progress, ..stored::Outcome::empty() },
    }
}

fn json(task: &stored::Task) -> String {
    let mut out = Vec::new();
    Task::write(&mut out, &task.view());
    // JSON is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Objects are compared by their members.
fn add_changes(path: &str, before: Option<&Value<'_>>, after: Option<&Value<'_>>, out: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) else {
        let text = |value: Option<&Value<'_>>| value.map(json_text);
        out.push(FieldChange { path: path.to_owned(), from: text(before), to: text(after) });
        return;
    };
    let added = new.iter().filter(|(name, _)| member(old, name).is_none());
    for (name, _) in old.iter().chain(added) {
        let inner = if path.is_empty() { step(name) } else { format!("{path}.{}", step(name)) };
        add_changes(&inner, member(old, name), member(new, name), out);
    }
}

/// A name as a step of a path: in quotes where it could be taken for several, so that no two paths are the same.
fn step(name: &str) -> String {
    if name.is_empty() || name.contains(['.', '"']) { json_text(&Value::Str(name.into())) } else { name.to_owned() }
}

fn member<'m, 'v>(members: &'m [(Cow<'v, str>, Value<'v>)], name: &str) -> Option<&'m Value<'v>> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use taskqueue_client::JsonObject;
    use taskqueue_core::limits::TASK_DATA_BYTES;

    use super::*;
    use crate::live::testing::task;

    #[test]
    fn changes_are_told_by_member() {
        let before = read_record(r#"{"args":{"lr":0.1,"model":{"layers":2,"kind":"vit"}},"priority":0,"name":null}"#);
        let after = read_record(r#"{"args":{"model":{"layers":4,"kind":"vit"},"seed":1},"priority":0,"name":"x"}"#);
        let mut changes = Vec::new();
        add_changes("", Some(&before), Some(&after), &mut changes);
        let told: Vec<String> =
            changes.iter().map(|change| format!("{} {:?} {:?}", change.path, change.from, change.to)).collect();
        assert_eq!(
            told,
            [
                r#"args.lr Some("0.1") None"#,
                r#"args.model.layers Some("2") Some("4")"#,
                r#"args.seed None Some("1")"#,
                r#"name Some("null") Some("\"x\"")"#,
            ]
        );
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
        let counts = Counts { changed: 3, refused, ..Counts::default() };
        let said = "3 tasks would be updated, 2 would be refused: more than 1 MiB of data (task_data_too_large)";
        assert_eq!(counts.sentence(Together::EachAlone), format!("{said}; nothing was changed"));
        let none = "all are updated or none, so it would be none";
        assert_eq!(counts.sentence(Together::AllOrNone), format!("{said}; {none}; nothing was changed"));
        let counts = Counts { changed: 1, ..Counts::default() };
        assert_eq!(counts.sentence(Together::AllOrNone), "1 task would be updated; nothing was changed");
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
