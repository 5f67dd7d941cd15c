//! One line of a JSON Lines file: a creation body that may also have an `id`. Whoever reads says what a line has that does not say
//! it itself.

use std::borrow::Cow;

use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::filter::suggest::nearest;
use taskqueue_core::json::{self, JsonObject, ObjectWriter, Value, write_value};
use taskqueue_core::name_template::{NameError, NameTemplate};
use taskqueue_core::{Definition, TaskId, Timestamp};

use crate::body::{self, Body, Invalid, LocationStep, RequestError};
use crate::task::{Creation, Task};

/// Messages name at most so many members, and show them only if they are short.
const MEMBERS_NAMED: usize = 5;
const EXAMPLE_BYTES: usize = 200;

/// A member of the object that a line is.
type Member<'v> = (Cow<'v, str>, Value<'v>);

/// Makes tasks of lines.
#[derive(Debug)]
pub struct LineReader {
    /// The name of a line that has none.
    name: Option<NameTemplate>,
    /// The other members of a line that lacks them: a creation body.
    defaults: String,
    ids: DerivedIds,
}

/// The task of a line.
#[derive(Debug)]
pub struct LineTask {
    pub id: TaskId,
    /// The line has no id of its own.
    pub is_derived: bool,
    pub definition: Definition,
    /// It can be claimed from then on.
    pub not_before: Option<Timestamp>,
}

/// The mistake in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line itself, in a sentence.
    #[error("{0}")]
    Line(String),
    /// The name that it gets because it has none.
    #[error("name: {0}")]
    Name(NameError),
}

impl LineReader {
    /// A reader that gives each line the name and the other fields of `defaults` that it does not have. Args are its own.
    pub fn new(name: Option<NameTemplate>, mut defaults: Creation, ids: DerivedIds) -> Self {
        defaults.definition.args = JsonObject::empty();
        Self { name, defaults: defaults.write_fields(ObjectWriter::new()).into_text(), ids }
    }

    /// The task of a line, or what is wrong with it.
    pub fn read(&mut self, line: &[u8]) -> Result<LineTask, LineError> {
        let wrong = |invalid: &Invalid| LineError::Line(describe(invalid));
        let mut value = json::parse(line).map_err(|error| wrong(&body::unreadable(error)))?;
        let given = take_id(&mut value).map_err(LineError::Line)?;
        if let Some(advice) = misplaced_args(&value) {
            return Err(LineError::Line(advice));
        }
        let is_named = matches!(&value, Value::Object(members) if members.iter().any(|(key, _)| key == "name"));
        self.add_defaults(&mut value);
        let Creation { mut definition, not_before } = body::read(&value).map_err(|invalid| wrong(&invalid))?;
        if let Some(name) = self.name.as_ref().filter(|_| !is_named) {
            definition.name = Some(name.fill(&definition.args).map_err(LineError::Name)?);
        }
        let id = given.unwrap_or_else(|| self.ids.next(&definition));
        Ok(LineTask { id, is_derived: given.is_none(), definition, not_before })
    }

    /// Adds the members that a line lacks. Members are sorted by their keys.
    fn add_defaults<'v>(&'v self, line: &mut Value<'v>) {
        let (Value::Object(members), Ok(Value::Object(defaults))) = (line, json::parse(self.defaults.as_bytes()))
        else {
            return;
        };
        for (key, value) in defaults {
            if let Err(at) = members.binary_search_by(|(other, _)| other.cmp(&key)) {
                members.insert(at, (key, value));
            }
        }
    }
}

fn take_id(value: &mut Value<'_>) -> Result<Option<TaskId>, String> {
    let Value::Object(members) = value else { return Ok(None) };
    let Some(at) = members.iter().position(|(key, _)| key == "id") else { return Ok(None) };
    let id = if let Value::Str(text) = members.remove(at).1 { TaskId::parse(&text) } else { None };
    id.map(Some).ok_or_else(|| "id: a task id is t_ and 12 of A-Z a-z 0-9 _ -".to_owned())
}

/// Returns the advice about members that no task has: most often they are args.
fn misplaced_args(line: &Value<'_>) -> Option<String> {
    let Value::Object(members) = line else { return None };
    // A line with a field that the server sets is probably copied from a list of tasks.
    let others: Vec<_> = members.iter().filter(|(key, _)| !Task::FIELDS.contains(&&**key)).collect();
    if others.is_empty() {
        return None;
    }
    if let Some(advice) = misspelt(members, &others) {
        return Some(advice);
    }
    let mut keys: Vec<&str> = others.iter().map(|(key, _)| &**key).take(MEMBERS_NAMED).collect();
    keys.extend((others.len() > MEMBERS_NAMED).then_some("..."));
    let pairs = others.iter().map(|(key, value)| {
        let mut text = Vec::new();
        json::write_string(&mut text, key);
        text.extend_from_slice(b": ");
        write_value(&mut text, value);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut example = pairs.collect::<Vec<_>>().join(", ");
    if example.len() > EXAMPLE_BYTES {
        example = "...".to_owned();
    }
    let is = if keys.len() == 1 { "is no field" } else { "are no fields" };
    let fields = Creation::FIELDS.join(", ");
    Some(format!(
        "{} {is} of a task ({fields}, id); what the worker gets goes into args: {{\"args\": {{{example}}}}}",
        keys.join(", ")
    ))
}

/// Returns the advice if every member that no task has is like a field that the line lacks.
fn misspelt(members: &[Member<'_>], others: &[&Member<'_>]) -> Option<String> {
    let lacking: Vec<&str> =
        Creation::FIELDS.iter().copied().filter(|field| members.iter().all(|(key, _)| key != field)).collect();
    let meant = others.iter().map(|(key, _)| {
        // A short key that is only the beginning of a field is more often one of the args.
        let near = nearest(key, &lacking).filter(|near| near.len().abs_diff(key.len()) <= 2)?;
        Some(format!("{key} is no field of a task, did you mean {near}?"))
    });
    Some(meant.collect::<Option<Vec<_>>>()?.join(" "))
}

/// All errors, each with the path of its field.
fn describe(invalid: &Invalid) -> String {
    if invalid.errors.is_empty() {
        return format!("{} ({})", invalid.message(), invalid.code);
    }
    let described = |error: &RequestError| {
        // The first step is always the body.
        let path: Vec<String> = error.location.iter().skip(1).map(step).collect();
        if path.is_empty() { error.message.to_string() } else { format!("{}: {}", path.join("."), error.message) }
    };
    let errors: Vec<String> = invalid.errors.iter().map(described).collect();
    format!("{} ({})", errors.join("; "), invalid.code)
}

fn step(step: &LocationStep) -> String {
    match step {
        LocationStep::Key(key) => key.clone(),
        LocationStep::Index(index) => index.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::definition::Routes;
    use taskqueue_core::scheduling::Scheduling;

    use super::*;

    fn read(name: Option<&str>, definition: &Definition, line: &str) -> Result<LineTask, String> {
        let name = name.map(|text| NameTemplate::parse(text).unwrap());
        let mut reader = LineReader::new(name, definition.into(), DerivedIds::default());
        reader.read(line.as_bytes()).map_err(|error| error.to_string())
    }

    fn task(line: &str) -> Result<(String, i64), String> {
        read(None, &Definition::default(), line).map(|task| (task.id.to_string(), task.definition.priority))
    }

    #[test]
    fn a_line_is_a_creation_body_with_or_without_an_id() {
        assert_eq!(task(r#"{"id":"t_abcdefghijkl","priority":5}"#), Ok(("t_abcdefghijkl".to_owned(), 5)));
        let derived = task(r#"{"priority":5}"#).unwrap();
        assert_eq!(task(" { \"priority\" : 5, \"max_attempts\": 3 }\r\n").unwrap(), derived);
        assert_ne!(task(r#"{"args":{"x":1}}"#).unwrap().0, derived.0);
    }

    #[test]
    fn defaults_count_for_what_a_line_does_not_say() {
        let default = Definition {
            priority: 4,
            max_attempts: 9,
            metadata: JsonObject::from_canonical(r#"{"m":1}"#),
            routes: Routes::from_json(r#"["gpu"]"#),
            ..Definition::default()
        };
        let read = |line: &str| read(Some("n-{x}"), &default, line);
        let filled = read(r#"{"args":{"x":1}}"#).unwrap().definition;
        assert_eq!((filled.name.as_deref(), filled.priority, filled.max_attempts), (Some("n-1"), 4, 9));
        assert_eq!((filled.metadata.as_str(), filled.routes.as_json()), (r#"{"m":1}"#, r#"["gpu"]"#));
        let whole = r#"{"name":null,"args":{},"metadata":{},"priority":0,"max_attempts":3,"routes":["default"]}"#;
        assert_eq!(read(whole).unwrap().definition, Definition::default());
        assert!(read("{}").unwrap_err().contains("the args have no x"));
    }

    #[test]
    fn a_line_says_when_its_task_may_run_or_gets_it_from_the_defaults() {
        let scheduling = |text: &str| Scheduling::from_json(text).unwrap();
        let defaults = r#"{"dependencies":["t_abcdefghijkl"],"on_dependency_failure":"cancel","retry_delay":{"seconds":60},"timeout_seconds":7}"#;
        let definition = Definition { scheduling: scheduling(defaults), ..Definition::default() };
        let not_before = Timestamp::parse("2026-01-31T12:00:00Z");
        let mut reader = LineReader::new(None, Creation { definition, not_before }, DerivedIds::default());
        let mut read = |line: &str| {
            let LineTask { definition, not_before, .. } = reader.read(line.as_bytes()).unwrap();
            (definition.scheduling, not_before)
        };
        assert_eq!(read("{}"), (scheduling(defaults), not_before));
        let own = r#"{"not_before":null,"dependencies":[],"on_dependency_failure":"wait","retry_delay":null,"timeout_seconds":null}"#;
        assert_eq!(read(own), (Scheduling::default(), None));
        let (mixed, _) = read(r#"{"retry_delay":{"seconds":1}}"#);
        assert_eq!(mixed.retry_delay.map(|delay| delay.seconds()), Some(1.0));
        assert_eq!(mixed.dependencies.len(), 1);
        assert!(task(r#"{"dependencies":["x"]}"#).unwrap_err().contains("dependencies.0:"));
    }

    #[test]
    fn args_at_the_top_level_are_told_where_to_go() {
        let cases = [
            (r#"{"lr":0.1}"#, r#"lr is no field of a task (name, args, "#),
            (r#"{"lr":0.1}"#, r#"{"args": {"lr": 0.1}}"#),
            (r#"{"seed":1,"lr":0.1,"args":{}}"#, r#"lr, seed are no fields"#),
            (r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}"#, "a, b, c, d, e, ... are no fields"),
        ];
        for (line, expected) in cases {
            let error = task(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let misspelt = task(r#"{"arg":{"lr":0.1}}"#).unwrap_err();
        assert_eq!(misspelt, "arg is no field of a task, did you mean args?");
        assert!(task(r#"{"time":1}"#).unwrap_err().contains(r#"{"args": {"time": 1}}"#));
        // Who has args knows them, so this is one of them.
        assert!(task(r#"{"arg":1,"args":{}}"#).unwrap_err().contains(r#"{"args": {"arg": 1}}"#));
        // What a list of tasks shows is no argument.
        for copied in Task::FIELDS.iter().filter(|field| !Creation::FIELDS.contains(field) && **field != "id") {
            let error = task(&format!(r#"{{"{copied}":null}}"#)).unwrap_err();
            assert!(error.contains(copied) && !error.contains(r#"{"args""#), "{error}");
        }
        let long = format!(r#"{{"lr":"{}"}}"#, "x".repeat(1000));
        assert!(task(&long).unwrap_err().ends_with(r#"{"args": {...}}"#));
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            ("{", "JSON"),
            ("[]", "object"),
            (r#"{"id":"x"}"#, "id:"),
            (r#"{"id":7}"#, "id:"),
            (r#"{"priority":"high"}"#, "priority:"),
            (r#"{"args":{"a":99999999999999999999}}"#, "args.a:"),
            (r#"{"status":"pending"}"#, "status"),
        ];
        for (line, expected) in cases {
            let error = task(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
