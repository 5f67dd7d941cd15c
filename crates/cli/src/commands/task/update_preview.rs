//! `task update --dry-run`: which tasks would be changed, and how. Nothing is sent that changes anything; the server decides again
//! when the update is made.

use std::borrow::Cow;

use taskqueue_client::{ErrorCode, OrderField, Status, Task, TaskId, TaskQuery, TaskSelection, Update};
use taskqueue_core::json::Value;
use taskqueue_core::update::Documents;

use super::bulk_change::Change;
use crate::args::Format;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::field_path::{json_text, read_record};
use crate::output::{self, ChangedRecord, FieldChange, Listing, Record};

/// Rows of the table. Programs get all tasks.
const ROWS_SHOWN: u64 = 10;
/// The largest page.
const PAGE_LIMIT: u16 = 1000;

/// What was found so far.
struct Preview<'s> {
    update: &'s Update,
    listing: Listing<'s>,
    rows_max: u64,
    changed: u64,
    unchanged: u64,
    running: u64,
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
    let is_complete = missing == 0 && preview.running == 0;
    preview.finish()?;
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
    Ok(preview.finish()?)
}

impl<'s> Preview<'s> {
    fn new(context: &'s ClientContext, update: &'s Update) -> Self {
        let printer = &context.printer;
        let rows_max = if printer.format() == Format::Table { ROWS_SHOWN } else { u64::MAX };
        let listing = printer.listing::<ChangedRecord>();
        Self { update, listing, rows_max, changed: 0, unchanged: 0, running: 0 }
    }

    fn add(&mut self, task: &Task) -> Result<(), Failure> {
        if !Change::Update.applies_to(task.status) {
            self.running += 1;
            return Ok(());
        }
        let changes = changes(task, self.update);
        if changes.is_empty() {
            self.unchanged += 1;
            return Ok(());
        }
        self.changed += 1;
        if self.changed > self.rows_max {
            return Ok(());
        }
        self.listing.push(&ChangedRecord { id: task.id, status: task.status, changes })
    }

    fn finish(self) -> Result<(), Failure> {
        self.listing.finish()?;
        let mut said = vec![format!("{} would be updated", output::counted(self.changed, "task"))];
        said.extend((self.unchanged > 0).then(|| format!("{} would stay the same", self.unchanged)));
        said.extend((self.running > 0).then(|| {
            format!("{} {} running: {}", self.running, if self.running == 1 { "is" } else { "are" }, running_reason())
        }));
        let mut sentence = format!("{}; nothing was changed", said.join(", "));
        if self.changed > self.rows_max {
            sentence.push_str(&format!("; these are the first {}, --output jsonl shows all", self.rows_max));
        }
        output::note(&sentence);
        Ok(())
    }
}

fn running_reason() -> &'static str {
    Change::Update.reason(Status::Running)
}

/// What an update changes of a task, by path.
fn changes(task: &Task, update: &Update) -> Vec<FieldChange> {
    let (before, after) = (task.json(), updated(task, update).json());
    let mut changes = Vec::new();
    add_changes("", Some(&read_record(&before)), Some(&read_record(&after)), &mut changes);
    changes
}

fn updated(task: &Task, update: &Update) -> Task {
    let documents = Documents { args: task.args.clone(), metadata: task.metadata.clone() };
    let Documents { args, metadata } = update.documents_after(&documents);
    Task {
        name: update.name.clone().unwrap_or_else(|| task.name.clone()),
        args,
        metadata,
        priority: update.priority.unwrap_or(task.priority),
        max_attempts: update.max_attempts.unwrap_or(task.max_attempts),
        routes: update.routes.clone().unwrap_or_else(|| task.routes.clone()),
        result: update.result.clone().unwrap_or_else(|| task.result.clone()),
        not_before: update.not_before.unwrap_or(task.not_before),
        scheduling: update.scheduling_after(&task.scheduling),
        ..task.clone()
    }
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
        let inner = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        add_changes(&inner, member(old, name), member(new, name), out);
    }
}

fn member<'m, 'v>(members: &'m [(Cow<'v, str>, Value<'v>)], name: &str) -> Option<&'m Value<'v>> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
