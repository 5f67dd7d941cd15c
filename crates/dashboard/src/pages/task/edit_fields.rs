//! The fields of the form that edits a task: what is typed, what is wrong with it, and the update that it makes. Only what differs
//! from the task is written.

use std::fmt::Display;

use taskqueue_core::definition::{InvalidRoutes, Routes, task_name};
use taskqueue_core::ids::Route;
use taskqueue_core::json::{JsonObject, ObjectError, ParseError, PathStep, Unusable, parse};
use taskqueue_core::limits::{JSON_DEPTH, NAME_CHARS, TASK_NAME_CHARS, TASK_ROUTES};
use taskqueue_core::task::Task;
use taskqueue_core::update::Update;

use crate::address::Query;
use crate::show::json::indented;

/// Beyond this a text is not indented: it would be too large for a form.
const INDENTED_BYTES: usize = 256 * 1024;

/// A field as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) typed: String,
    pub(super) error: Option<String>,
}

/// All fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) name: Field,
    pub(super) args: Field,
    pub(super) metadata: Field,
    pub(super) priority: Field,
    pub(super) max_attempts: Field,
    pub(super) routes: Field,
}

impl Fields {
    /// The values of a task.
    pub(super) fn of(task: &Task) -> Self {
        let field = |typed: String| Field { typed, error: None };
        let definition = &task.definition;
        Self {
            name: field(definition.name.as_deref().unwrap_or_default().to_owned()),
            args: field(text(&definition.args)),
            metadata: field(text(&definition.metadata)),
            priority: field(definition.priority.to_string()),
            max_attempts: field(definition.max_attempts.to_string()),
            routes: field(definition.routes.iter().collect::<Vec<_>>().join(", ")),
        }
    }

    /// What was typed. A field that was not sent is as the task has it.
    pub(super) fn typed(form: &Query, task: &Task) -> Self {
        let mut fields = Self::of(task);
        for (name, field) in fields.all() {
            if let Some(typed) = form.get(name) {
                field.typed = typed.replace("\r\n", "\n");
            }
        }
        fields
    }

    fn all(&mut self) -> [(&'static str, &mut Field); 6] {
        [
            ("name", &mut self.name),
            ("args", &mut self.args),
            ("metadata", &mut self.metadata),
            ("priority", &mut self.priority),
            ("max_attempts", &mut self.max_attempts),
            ("routes", &mut self.routes),
        ]
    }

    /// The update to these values: nothing of what the task has already. Nothing at all if a field is wrong; then it says so.
    pub(super) fn update(&mut self, task: &Task) -> Option<Update> {
        let (definition, shown) = (&task.definition, Self::of(task));
        let name = self.name.read(&shown.name, |typed| match typed {
            "" => Ok(None),
            _ => task_name(typed)
                .map(Some)
                .map_err(|_| format!("Use at most {TASK_NAME_CHARS} characters, and no control characters.")),
        });
        let args = self.args.read(&shown.args, object);
        let metadata = self.metadata.read(&shown.metadata, object);
        let priority = self.priority.read(&shown.priority, integer);
        let max_attempts = self.max_attempts.read(&shown.max_attempts, |typed| {
            integer(typed).and_then(|count| if count < 1 { Err("Use at least 1.".to_owned()) } else { Ok(count) })
        });
        let routes = self.routes.read(&shown.routes, routes);
        if self.all().iter().any(|(_, field)| field.error.is_some()) {
            return None;
        }
        Some(Update {
            name: name.filter(|name| *name != definition.name),
            args: args.filter(|args| *args != definition.args),
            metadata: metadata.filter(|metadata| *metadata != definition.metadata),
            priority: priority.filter(|priority| *priority != definition.priority),
            max_attempts: max_attempts.filter(|count| *count != definition.max_attempts),
            routes: routes.filter(|routes| *routes != definition.routes),
            ..Update::default()
        })
    }
}

impl Field {
    /// Reads what is typed, unless it is what was shown; keeps what is wrong with it.
    fn read<T>(&mut self, shown: &Self, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if self.typed == shown.typed {
            return None;
        }
        match read(&self.typed) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    pub(super) fn refuse(&mut self, error: impl Display) {
        self.error = Some(error.to_string());
    }

    /// Lines of a text area that shows it.
    pub(super) fn rows(&self) -> usize {
        self.typed.lines().count().clamp(4, 24)
    }
}

/// The names of the fields that an update writes.
pub(super) fn written(update: &Update) -> Vec<&'static str> {
    let all = [
        (update.name.is_some(), "name"),
        (update.args.is_some(), "args"),
        (update.metadata.is_some(), "metadata"),
        (update.priority.is_some(), "priority"),
        (update.max_attempts.is_some(), "attempts"),
        (update.routes.is_some(), "routes"),
    ];
    all.into_iter().filter(|(is_written, _)| *is_written).map(|(_, name)| name).collect()
}

fn text(object: &JsonObject) -> String {
    let text = object.as_str();
    if text.len() > INDENTED_BYTES { text.to_owned() } else { indented(text) }
}

fn integer(typed: &str) -> Result<i64, String> {
    typed.trim().parse().map_err(|_| "Use a whole number of 64 bits.".to_owned())
}

fn routes(typed: &str) -> Result<Routes, String> {
    let words = typed.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
    let mut routes = Vec::new();
    for word in words.take(TASK_ROUTES + 1) {
        let wrong = || {
            format!(
                "{} is no route: use letters, digits and . _ -, at most {NAME_CHARS}, the first one a letter or a digit.",
                super::cut::first(word, 40)
            )
        };
        routes.push(Route::parse(word).ok_or_else(wrong)?);
    }
    Routes::requested(routes).map_err(|error| match error {
        InvalidRoutes::TooMany => format!("Name at most {TASK_ROUTES} routes."),
        InvalidRoutes::NoSet => "Name at least one route, and each only once.".to_owned(),
    })
}

/// A JSON object, or where and why it is none.
fn object(typed: &str) -> Result<JsonObject, String> {
    let value = parse(typed.as_bytes()).map_err(|error| match error {
        ParseError::Malformed { message, byte } => {
            let (line, column) = place(typed, byte);
            format!("Line {line}, column {column}: {message}.")
        }
        ParseError::TooDeep => format!("It is nested deeper than {JSON_DEPTH} levels."),
    })?;
    JsonObject::from_value(&value).map_err(|error| match error {
        ObjectError::NotAnObject => "Use an object: { ... }.".to_owned(),
        ObjectError::TooDeep => format!("It is nested deeper than {JSON_DEPTH} levels."),
        ObjectError::Unusable { path, what } => {
            let wrong = match what {
                Unusable::IntegerRange => "an integer does not fit into 64 bits; write it as a string",
                Unusable::FloatRange => "a number is too large",
                Unusable::LoneSurrogate | Unusable::LoneSurrogateKey => "a text has half a surrogate pair",
            };
            format!("At {}: {wrong}.", steps(&path))
        }
    })
}

fn steps(path: &[PathStep]) -> String {
    let step = |step: &PathStep| match step {
        PathStep::Key(key) => super::cut::first(key, 40),
        PathStep::Index(index) => index.to_string(),
    };
    match path {
        [] => "the object".to_owned(),
        _ => path.iter().take(20).map(step).collect::<Vec<_>>().join("."),
    }
}

/// Line and column of a byte, both from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
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
    fn what_is_wrong_is_said_at_the_field_and_nothing_typed_is_lost() {
        let cases = [
            ("args", "{\n  \"a\": 1,\n  oops\n}", "Line 3, column 3: "),
            ("args", "{\"ü\": }", "Line 1, column 7: "),
            ("args", "[1]", "Use an object"),
            ("args", "", "Line 1, column 1: "),
            ("metadata", "{\"a\":{\"b\":99999999999999999999}}", "At a.b: an integer does not fit"),
            ("priority", "1.5", "Use a whole number"),
            ("priority", "9223372036854775808", "Use a whole number"),
            ("max_attempts", "0", "Use at least 1"),
            ("routes", "a b/c", "b/c is no route"),
            ("routes", " , ", "Name at least one route"),
            ("routes", "a,a", "Name at least one route"),
        ];
        for (name, typed, expected) in cases {
            let task = task();
            let mut fields = Fields::typed(&form(&[(name, typed)]), &task);
            assert_eq!(fields.update(&task), None, "{typed}");
            let wrong: Vec<Field> = fields
                .all()
                .into_iter()
                .filter(|(_, field)| field.error.is_some())
                .map(|(_, field)| field.clone())
                .collect();
            assert_eq!(wrong.len(), 1, "{typed}");
            assert_eq!(wrong[0].typed, typed);
            assert!(wrong[0].error.as_deref().unwrap_or_default().starts_with(expected), "{:?}", wrong[0]);
        }
        let mut long = Fields::typed(&form(&[("name", &"x".repeat(257))]), &task());
        assert!(long.update(&task()).is_none() && long.name.error.is_some());
    }
}
