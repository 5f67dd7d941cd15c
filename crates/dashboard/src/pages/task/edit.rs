//! The form that edits a task: what is typed, what is wrong with it, and the update that it makes. Only what differs from the task is
//! written. A task that runs cannot be edited, and one that somebody else has changed since the form was opened is not overwritten unseen.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use taskqueue_api::body::Body as _;
use taskqueue_core::fields::TaskField;
use taskqueue_core::json::{self, JsonObject, ObjectWriter};
use taskqueue_core::{Refusal, Scope, Status, Task, Update};
use taskqueue_store::command::UpdateTask;
use taskqueue_store::{StoreError, StoreExt};

use crate::address::{self, Query};
use crate::field::{self, Field};
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::task_fields::TaskFields;
use crate::visit::{LargeForm, Visit};
use crate::{json_field, show};

/// The largest task, with every byte of it written as three.
const FORM_BYTES: usize = 4 * 1024 * 1024;

#[derive(Template)]
#[template(path = "task_edit.html")]
struct EditPage {
    shell: Shell,
    task: Task,
    fields: TaskFields,
    /// What is wrong with all of it.
    problem: Option<String>,
    /// How many attempts are used.
    used: String,
}

/// The form.
pub(crate) async fn form(visit: Visit) -> PageResult {
    visit.queue_for(Scope::Submit)?;
    let task = visit.task().await?;
    let fields = fields_of(&task);
    show_form(&visit, task, fields, None, StatusCode::OK).await
}

/// Saves what changed.
pub(crate) async fn save(visit: Visit, body: Body) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    let LargeForm { fields: form, turn, reserved: _reserved } = visit.large_form(body, FORM_BYTES).await?;
    let task = visit.task().await?;
    let mut fields = typed_fields(&form, &task);
    let is_current =
        form.get("updated_at").and_then(|text| text.parse().ok()) == Some(task.lifecycle.updated_at.as_micros());
    let update = update_of(&mut fields, &task);
    drop(turn);
    if !is_current {
        let problem = conflict(update.as_ref());
        return show_form(&visit, task, fields, Some(problem), StatusCode::CONFLICT).await;
    }
    let Some(update) = update else {
        return show_form(&visit, task, fields, None, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    let names = written_fields(&update);
    let place = address::of_task(&queue, task.id);
    if names.is_empty() {
        return Ok(layout::done(&visit, &place, "Nothing was changed: the task has these values already."));
    }
    let command = UpdateTask { queue, id: task.id, update: Box::new(update) };
    match visit.dashboard.store().write(command).await {
        Ok(_) => Ok(layout::done(&visit, &place, &format!("Saved: {}.", names.join(", ")))),
        Err(StoreError::Refused(refusal)) => {
            let problem = refused(refusal, &mut fields)?;
            show_form(&visit, task, fields, problem, StatusCode::CONFLICT).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns what to say of a task that has changed since the form was opened.
fn conflict(update: Option<&Update>) -> String {
    let told = |names: Vec<&str>| format!(" What is typed here differs from the task in: {}.", names.join(", "));
    let differing = update.map(written_fields).filter(|names| !names.is_empty()).map(told).unwrap_or_default();
    format!(
        "The task has changed since this form was opened, so nothing was saved.{differing} Look at the task in another tab; \
         saving again overwrites it with what is typed here."
    )
}

/// Returns what to say of a refusal, at the field that it is about. Refusals about no field are pages of their own.
fn refused(refusal: Refusal, fields: &mut TaskFields) -> Result<Option<String>, Problem> {
    match refusal {
        Refusal::UpdateConflict { attempt, .. } => {
            fields.max_attempts.error = Some(format!(
                "{attempt} are used already, and a pending task needs one more: use at least {}.",
                attempt + 1
            ));
            Ok(None)
        }
        Refusal::TaskDataTooLarge => {
            Ok(Some("The task is too large: args, metadata, result and progress may have 1 MiB together. Put large data into a file and its path into args.".to_owned()))
        }
        Refusal::TaskRunning { .. } => {
            Ok(Some("The task has been claimed meanwhile and runs. Nothing was saved. Cancel it, or wait for its end, and save again.".to_owned()))
        }
        other => Err(other.into()),
    }
}

/// The form with these fields, and with what is wrong.
async fn show_form(
    visit: &Visit,
    task: Task,
    fields: TaskFields,
    problem: Option<String>,
    status: StatusCode,
) -> PageResult {
    let title = show::title(task.definition.name.as_deref(), &task.id);
    let page = EditPage {
        shell: Shell::new(visit, format!("Edit {title}"), Section::Tasks, Some(&task.queue)).await?,
        used: match task.lifecycle.attempt {
            0 => String::new(),
            used => format!("{used} of them used already."),
        },
        task,
        fields,
        problem,
    };
    layout::page_with(visit, status, &page)
}

/// The fields with the values of a task.
fn fields_of(task: &Task) -> TaskFields {
    TaskFields::with(&task.definition, task.lifecycle.not_before)
}

/// Returns what was typed. A field that was not sent is as the task has it.
fn typed_fields(form: &Query, task: &Task) -> TaskFields {
    let mut fields = fields_of(task);
    field::take_typed(form, fields.all());
    fields
}

/// The update to these values: nothing of what the task has already. Nothing at all if a field is wrong; then it says so.
fn update_of(fields: &mut TaskFields, task: &Task) -> Option<Update> {
    let (definition, shown) = (&task.definition, fields_of(task));
    let name = changed(&mut fields.name, &shown.name, &definition.name, field::name);
    let args = changed(&mut fields.args, &shown.args, &definition.args, required_object);
    let metadata = changed(&mut fields.metadata, &shown.metadata, &definition.metadata, required_object);
    let integer = |least: i64| move |text: &str| field::integer(text, least);
    let priority = changed(&mut fields.priority, &shown.priority, &definition.priority, integer(i64::MIN));
    let max_attempts = changed(&mut fields.max_attempts, &shown.max_attempts, &definition.max_attempts, integer(1));
    let routes = changed(&mut fields.routes, &shown.routes, &definition.routes, field::routes);
    // Fields that show what the task has read back as that.
    let (scheduling, now) = (fields.waiting.scheduling(), task.lifecycle.updated_at.max(show::now()));
    let moment = |text: &str| if text.trim().is_empty() { Ok(None) } else { field::moment(text, now).map(Some) };
    let (field, shown) = (&mut fields.waiting.not_before, &shown.waiting.not_before);
    let not_before = changed(field, shown, &task.lifecycle.not_before, moment);
    if fields.all().any(|(_, field)| field.error.is_some()) {
        return None;
    }
    let scheduling = Update::of_scheduling(&definition.scheduling, &scheduling?);
    Some(Update { name, args, metadata, priority, max_attempts, routes, not_before, ..scheduling })
}

/// Returns what stands in a field, unless it is what was shown, or the value that the task has; keeps what is wrong with it.
fn changed<T: PartialEq>(
    field: &mut Field,
    shown: &Field,
    present: &T,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    if field.value == shown.value { None } else { field.read(read).filter(|value| value != present) }
}

/// A JSON object. A field that was emptied is a mistake rather than the wish for an empty object.
fn required_object(text: &str) -> Result<JsonObject, String> {
    if text.trim().is_empty() { Err(json_field::EXAMPLE.to_owned()) } else { json_field::read(text) }
}

/// The names of the fields that an update writes, in sentences.
fn written_fields(update: &Update) -> Vec<&'static str> {
    let changes = update.write_fields(ObjectWriter::new()).into_text();
    let names = json::members(&changes).map(|(name, _)| name.to_text());
    names.filter_map(|name| TaskField::find(&name)).map(|field| field.label).collect()
}

#[cfg(test)]
mod tests {
    use taskqueue_core::definition::Definition;
    use taskqueue_core::task::Lifecycle;
    use taskqueue_core::time::Timestamp;

    use super::*;
    use crate::selected::tests;

    fn task() -> Task {
        let args = JsonObject::from_canonical(r#"{"lr":0.1,"seed":9007199254740993}"#);
        let definition = Definition { args, name: Some("a".into()), ..Definition::default() };
        tests::task(definition, Lifecycle::created(Timestamp::from_micros(0), 1))
    }

    fn form(pairs: &[(&str, &str)]) -> Query {
        pairs.iter().copied().collect()
    }

    #[test]
    fn a_form_that_was_not_changed_writes_nothing() {
        let task = task();
        assert_eq!(update_of(&mut fields_of(&task), &task), Some(Update::default()));
        let same = form(&[
            ("args", "{\r\n  \"seed\" : 9007199254740993, \"lr\":1e-1}"),
            ("routes", "default"),
            ("priority", " 0 "),
        ]);
        let expected = Some(Update::default());
        assert_eq!(update_of(&mut typed_fields(&same, &task), &task), expected, "the same values in other words");
    }

    #[test]
    fn only_what_changed_is_written() {
        let task = task();
        let changed = form(&[
            ("name", ""),
            ("args", "{\"lr\": 1}"),
            ("priority", "-5"),
            ("routes", "b, a"),
            ("max_attempts", "7"),
        ]);
        let update = update_of(&mut typed_fields(&changed, &task), &task).unwrap();
        assert_eq!(written_fields(&update), ["name", "args", "priority", "attempts", "routes"]);
        assert_eq!((update.name.as_ref(), update.priority, update.max_attempts), (Some(&None), Some(-5), Some(7)));
        assert_eq!(update.routes.unwrap().as_json(), r#"["a","b"]"#);
    }

    #[test]
    fn what_a_task_waits_for_is_changed_field_by_field_and_emptied() {
        let waits = form(&[("timeout", "2 h"), ("dependencies", "t_exampletask0"), ("not_before", "in 1 h")]);
        let update = update_of(&mut typed_fields(&waits, &task()), &task()).unwrap();
        assert_eq!(written_fields(&update), ["not before", "time limit", "dependencies"]);
        assert!(update.not_before.flatten() > Some(show::now()));
        let mut waiting = task();
        waiting.definition.scheduling = typed_fields(&waits, &task()).waiting.scheduling().unwrap();
        waiting.lifecycle.not_before = Some(Timestamp::from_micros(5));
        assert_eq!(update_of(&mut fields_of(&waiting), &waiting), Some(Update::default()), "as it is shown");
        let emptied = form(&[("timeout", ""), ("dependencies", " "), ("not_before", "")]);
        let update = update_of(&mut typed_fields(&emptied, &waiting), &waiting).unwrap();
        assert_eq!(written_fields(&update), ["not before", "time limit", "dependencies"]);
        let after = update.apply(&waiting, show::now()).unwrap().unwrap();
        assert_eq!((after.definition, after.lifecycle.not_before), (task().definition, None));
    }

    #[test]
    fn what_is_wrong_is_said_at_the_field_and_nothing_typed_is_lost() {
        let cases = [
            ("args", "{\n  \"a\": 1,\n  oops\n}", "Line 3, column 3: "),
            ("args", "{\"ü\": }", "Line 1, column 7: "),
            ("args", "[1]", "Write a JSON object"),
            ("args", "", "Write a JSON object"),
            ("metadata", "{\"a\":{\"b\":99999999999999999999}}", "a.b: an integer must fit"),
            ("priority", "1.5", "Write a whole number"),
            ("priority", "9223372036854775808", "Write a whole number"),
            ("max_attempts", "0", "Write a whole number, at least 1"),
            ("routes", "a b/c", "b/c: a route has"),
            ("routes", " , ", "Name at least one route"),
            ("timeout", "0", "Write at least 1 s"),
            ("not_before", "soon", "Write a time such as"),
            ("dependencies", "t_x", "t_x: an id of a task"),
        ];
        for (name, typed, expected) in cases {
            let task = task();
            let mut fields = typed_fields(&form(&[(name, typed)]), &task);
            assert_eq!(update_of(&mut fields, &task), None, "{typed}");
            let wrong: Vec<Field> =
                fields.all().filter(|(_, field)| field.error.is_some()).map(|(_, field)| field.clone()).collect();
            assert_eq!(wrong.len(), 1, "{typed}");
            assert_eq!(wrong[0].value, typed);
            assert!(wrong[0].error.as_deref().unwrap_or_default().starts_with(expected), "{:?}", wrong[0]);
        }
        let mut long = typed_fields(&form(&[("name", &"x".repeat(257))]), &task());
        assert!(update_of(&mut long, &task()).is_none() && long.name.error.is_some());
    }
}
