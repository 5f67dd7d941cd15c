//! The fields of the form that edits a task: what is typed, what is wrong with it, and the update that it makes. Only what differs
//! from the task is written.

use taskqueue_api::body::Body;
use taskqueue_core::fields::TaskField;
use taskqueue_core::json::{self, JsonObject, ObjectWriter};
use taskqueue_core::task::Task;
use taskqueue_core::update::Update;

use crate::address::Query;
use crate::field::{self, Field};
use crate::waiting_fields::WaitingFields;
use crate::{json_field, show, time_field};

/// All fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) name: Field,
    pub(super) args: Field,
    pub(super) metadata: Field,
    pub(super) priority: Field,
    pub(super) max_attempts: Field,
    pub(super) routes: Field,
    pub(super) waiting: WaitingFields,
}

impl Fields {
    /// The values of a task.
    pub(super) fn of(task: &Task) -> Self {
        let definition = &task.definition;
        Self {
            name: Field::with(definition.name.as_deref().unwrap_or_default()),
            args: Field::with(json_field::write(&definition.args)),
            metadata: Field::with(json_field::write(&definition.metadata)),
            priority: Field::with(definition.priority.to_string()),
            max_attempts: Field::with(definition.max_attempts.to_string()),
            routes: Field::with(definition.routes.iter().collect::<Vec<_>>().join(", ")),
            waiting: WaitingFields::with(&definition.scheduling, task.lifecycle.not_before),
        }
    }

    /// What was typed. A field that was not sent is as the task has it.
    pub(super) fn typed(form: &Query, task: &Task) -> Self {
        let mut fields = Self::of(task);
        for (name, field) in fields.all() {
            if let Some(typed) = form.get(name) {
                field.value = typed.replace("\r\n", "\n");
            }
        }
        fields
    }

    fn all(&mut self) -> impl Iterator<Item = (&'static str, &mut Field)> {
        let own = [
            ("name", &mut self.name),
            ("args", &mut self.args),
            ("metadata", &mut self.metadata),
            ("priority", &mut self.priority),
            ("max_attempts", &mut self.max_attempts),
            ("routes", &mut self.routes),
        ];
        own.into_iter().chain(self.waiting.all())
    }

    /// The update to these values: nothing of what the task has already. Nothing at all if a field is wrong; then it says so.
    pub(super) fn update(&mut self, task: &Task) -> Option<Update> {
        let (definition, shown) = (&task.definition, Self::of(task));
        let name = changed(&mut self.name, &shown.name, field::name);
        let args = changed(&mut self.args, &shown.args, object);
        let metadata = changed(&mut self.metadata, &shown.metadata, object);
        let priority = changed(&mut self.priority, &shown.priority, |text| field::integer(text, i64::MIN));
        let max_attempts = changed(&mut self.max_attempts, &shown.max_attempts, |text| field::integer(text, 1));
        let routes = changed(&mut self.routes, &shown.routes, field::routes);
        // Fields that show what the task has read back as that.
        let (scheduling, now) = (self.waiting.scheduling(), task.lifecycle.updated_at.max(show::now()));
        let not_before = changed(&mut self.waiting.not_before, &shown.waiting.not_before, |text| {
            if text.trim().is_empty() { Ok(None) } else { time_field::moment(text, now).map(Some) }
        });
        if self.all().any(|(_, field)| field.error.is_some()) {
            return None;
        }
        Some(Update {
            name: name.filter(|name| *name != definition.name),
            args: args.filter(|args| *args != definition.args),
            metadata: metadata.filter(|metadata| *metadata != definition.metadata),
            priority: priority.filter(|priority| *priority != definition.priority),
            max_attempts: max_attempts.filter(|count| *count != definition.max_attempts),
            routes: routes.filter(|routes| *routes != definition.routes),
            not_before: not_before.filter(|at| *at != task.lifecycle.not_before),
            ..Update::of_scheduling(&definition.scheduling, &scheduling?)
        })
    }
}

/// What stands in a field, unless it is what was shown; keeps what is wrong with it.
fn changed<T>(field: &mut Field, shown: &Field, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
    if field.value == shown.value {
        return None;
    }
    let read = read(&field.value);
    field.keep(read)
}

/// A JSON object. A field that was emptied is a mistake rather than the wish for an empty object.
fn object(text: &str) -> Result<JsonObject, String> {
    if text.trim().is_empty() { Err(json_field::EXAMPLE.to_owned()) } else { json_field::read(text) }
}

/// The names of the fields that an update writes, in sentences.
pub(super) fn written(update: &Update) -> Vec<&'static str> {
    let changes = update.write_fields(ObjectWriter::new()).into_text();
    let names = json::members(&changes).map(|(name, _)| name.to_text());
    names.filter_map(|name| TaskField::find(&name)).map(|field| field.label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskqueue_core::definition::Definition;
    use taskqueue_core::ids::{QueueName, TaskId};
    use taskqueue_core::task::{Lifecycle, Outcome};
    use taskqueue_core::time::Timestamp;

    fn task() -> Task {
        let args = JsonObject::from_canonical(r#"{"lr":0.1,"seed":9007199254740993}"#);
        Task {
            queue: QueueName::parse("q").unwrap(),
            id: TaskId::parse("t_abcdefghijkl").unwrap(),
            definition: Definition { args, name: Some("a".into()), ..Definition::default() },
            lifecycle: Lifecycle::created(Timestamp::from_micros(0), 1),
            outcome: Outcome::empty(),
        }
    }

    fn form(pairs: &[(&str, &str)]) -> Query {
        pairs.iter().fold(Query::default(), |query, (name, value)| query.and(name, value))
    }

    #[test]
    fn a_form_that_was_not_changed_writes_nothing() {
        let task = task();
        assert_eq!(Fields::of(&task).update(&task), Some(Update::default()));
        let same = form(&[
            ("args", "{\r\n  \"seed\" : 9007199254740993, \"lr\":1e-1}"),
            ("routes", "default"),
            ("priority", " 0 "),
        ]);
        assert_eq!(
            Fields::typed(&same, &task).update(&task),
            Some(Update::default()),
            "the same values in other words"
        );
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
        let update = Fields::typed(&changed, &task).update(&task).unwrap();
        assert_eq!(written(&update), ["name", "args", "priority", "attempts", "routes"]);
        assert_eq!((update.name.as_ref(), update.priority, update.max_attempts), (Some(&None), Some(-5), Some(7)));
        assert_eq!(update.routes.unwrap().as_json(), r#"["a","b"]"#);
    }

    #[test]
    fn what_a_task_waits_for_is_changed_field_by_field_and_emptied() {
        let waits = form(&[("timeout", "2 h"), ("dependencies", "t_exampletask0"), ("not_before", "in 1 h")]);
        let update = Fields::typed(&waits, &task()).update(&task()).unwrap();
        assert_eq!(written(&update), ["not before", "time limit", "dependencies"]);
        assert!(update.not_before.flatten() > Some(show::now()));
        let mut waiting = task();
        waiting.definition.scheduling = Fields::typed(&waits, &task()).waiting.scheduling().unwrap();
        waiting.lifecycle.not_before = Some(Timestamp::from_micros(5));
        assert_eq!(Fields::of(&waiting).update(&waiting), Some(Update::default()), "as it is shown");
        let emptied = form(&[("timeout", ""), ("dependencies", " "), ("not_before", "")]);
        let update = Fields::typed(&emptied, &waiting).update(&waiting).unwrap();
        assert_eq!(written(&update), ["not before", "time limit", "dependencies"]);
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
            let mut fields = Fields::typed(&form(&[(name, typed)]), &task);
            assert_eq!(fields.update(&task), None, "{typed}");
            let wrong: Vec<Field> =
                fields.all().filter(|(_, field)| field.error.is_some()).map(|(_, field)| field.clone()).collect();
            assert_eq!(wrong.len(), 1, "{typed}");
            assert_eq!(wrong[0].value, typed);
            assert!(wrong[0].error.as_deref().unwrap_or_default().starts_with(expected), "{:?}", wrong[0]);
        }
        let mut long = Fields::typed(&form(&[("name", &"x".repeat(257))]), &task());
        assert!(long.update(&task()).is_none() && long.name.error.is_some());
    }
}
