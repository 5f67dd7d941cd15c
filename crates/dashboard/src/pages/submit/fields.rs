//! What all tasks have beside their args, as fields of a form: name, metadata, routes, priority, attempts. Nothing that was typed is
//! lost when something is wrong with it.

use taskqueue_core::definition::{Definition, InvalidRoutes, Routes, task_name};
use taskqueue_core::ids::Route;
use taskqueue_core::json::JsonObject;
use taskqueue_core::limits::{TASK_NAME_CHARS, TASK_ROUTES};

use crate::address::Query;
use crate::json_field;

/// A field: what stands in it, and what is wrong with that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) value: String,
    pub(super) error: Option<String>,
}

impl Field {
    pub(super) fn of(form: &Query, name: &str) -> Self {
        Self { value: form.get(name).unwrap_or_default().to_owned(), error: None }
    }

    pub(super) fn with(value: impl Into<String>) -> Self {
        Self { value: value.into(), error: None }
    }

    /// Keeps the error of what was read from it.
    pub(super) fn keep<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|error| self.error = Some(error)).ok()
    }

    /// What stands in it, unless that is nothing.
    pub(super) fn filled(&self) -> Option<&str> {
        Some(self.value.trim()).filter(|text| !text.is_empty())
    }
}

/// The definition of a task without its args.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) name: Field,
    pub(super) metadata: Field,
    pub(super) routes: Field,
    pub(super) priority: Field,
    pub(super) max_attempts: Field,
}

impl Fields {
    pub(super) fn of(form: &Query) -> Self {
        let field = |name| Field::of(form, name);
        Self {
            name: field("name"),
            metadata: field("metadata"),
            routes: field("routes"),
            priority: field("priority"),
            max_attempts: field("max_attempts"),
        }
    }

    /// The fields that give this definition.
    pub(super) fn from_definition(definition: &Definition) -> Self {
        let default = Definition::default();
        let unless_default =
            |text: String, is_default: bool| Field::with(if is_default { String::new() } else { text });
        Self {
            name: Field::with(definition.name.as_deref().unwrap_or_default()),
            metadata: unless_default(json_field::write(&definition.metadata), definition.metadata.is_empty_object()),
            routes: unless_default(
                definition.routes.iter().collect::<Vec<_>>().join(", "),
                definition.routes == default.routes,
            ),
            priority: unless_default(definition.priority.to_string(), definition.priority == default.priority),
            max_attempts: unless_default(
                definition.max_attempts.to_string(),
                definition.max_attempts == default.max_attempts,
            ),
        }
    }

    /// The definition without name and args; none if a field is wrong, which then says so.
    pub(super) fn definition(&mut self) -> Option<Definition> {
        let default = Definition::default();
        let metadata = json_field::read(&self.metadata.value);
        let metadata = self.metadata.keep(metadata);
        let routes = read_routes(&self.routes.value);
        let routes = self.routes.keep(routes);
        let priority = read_integer(&self.priority, default.priority, i64::MIN);
        let priority = self.priority.keep(priority);
        let max_attempts = read_integer(&self.max_attempts, default.max_attempts, 1);
        let max_attempts = self.max_attempts.keep(max_attempts);
        Some(Definition {
            name: None,
            args: JsonObject::empty(),
            metadata: metadata?,
            routes: routes?,
            priority: priority?,
            max_attempts: max_attempts?,
        })
    }

    /// The name of a single task; an empty field is no name.
    pub(super) fn plain_name(&mut self) -> Option<Option<std::sync::Arc<str>>> {
        if self.name.value.is_empty() {
            return Some(None);
        }
        let rule = || format!("Use at most {TASK_NAME_CHARS} characters without control characters.");
        let name = task_name(&self.name.value).map_err(|_| rule());
        self.name.keep(name).map(Some)
    }

    /// The address parameters that bring these fields back.
    pub(super) fn parameters(&self, query: Query) -> Query {
        let pairs = [
            ("name", &self.name),
            ("metadata", &self.metadata),
            ("routes", &self.routes),
            ("priority", &self.priority),
            ("max_attempts", &self.max_attempts),
        ];
        pairs
            .into_iter()
            .filter(|(_, field)| !field.value.is_empty())
            .fold(query, |query, (name, field)| query.and(name, &field.value))
    }

    /// Whether a field that is folded at first has to be seen.
    pub(super) fn has_more(&self) -> bool {
        [&self.metadata, &self.routes, &self.priority, &self.max_attempts].iter().any(|field| !field.value.is_empty())
    }
}

/// Routes between commas or white space; none are the default. Repeated routes count once.
fn read_routes(text: &str) -> Result<Routes, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let rule = |word: &str| {
        let word: String = word.chars().take(60).collect();
        format!("{word}: a route has 1 to 128 of A-Z a-z 0-9 . _ - and begins with a letter or digit.")
    };
    let mut routes = words.map(|word| Route::parse(word).ok_or_else(|| rule(word))).collect::<Result<Vec<_>, _>>()?;
    routes.sort();
    routes.dedup();
    if routes.is_empty() {
        return Ok(Routes::default());
    }
    Routes::requested(routes).map_err(|error| match error {
        InvalidRoutes::TooMany => format!("Name at most {TASK_ROUTES} routes."),
        InvalidRoutes::NoSet => "Name each route once.".to_owned(),
    })
}

fn read_integer(field: &Field, default: i64, least: i64) -> Result<i64, String> {
    let Some(text) = field.filled() else { return Ok(default) };
    let rule = || match least {
        1 => "Write a whole number, at least 1.".to_owned(),
        _ => "Write a whole number of 64 bits, such as 5 or -1.".to_owned(),
    };
    text.parse().ok().filter(|number| *number >= least).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_the_defaults() {
        let mut fields = Fields::default();
        assert_eq!(fields.definition(), Some(Definition::default()));
        assert_eq!(fields.plain_name(), Some(None));
        assert_eq!(Fields::from_definition(&Definition::default()), Fields::default());
    }

    #[test]
    fn each_wrong_field_says_what_is_wrong_and_keeps_its_text() {
        let form = Query::parse("name=a%07b&metadata=%7B&routes=gpu,-x&priority=1e3&max_attempts=0");
        let mut fields = Fields::of(&form);
        assert_eq!((fields.definition(), fields.plain_name()), (None, None));
        let errors = [&fields.name, &fields.metadata, &fields.routes, &fields.priority, &fields.max_attempts];
        let expected = ["control characters", "Line 1, column 2", "-x: a route", "64 bits", "at least 1"];
        for (field, expected) in errors.into_iter().zip(expected) {
            assert!(field.error.as_deref().is_some_and(|error| error.contains(expected)), "{field:?}");
        }
        assert_eq!(fields.priority.value, "1e3");
    }

    #[test]
    fn a_definition_comes_back_from_its_fields() {
        let definition = Definition {
            name: None,
            metadata: JsonObject::from_canonical(r#"{"m":9007199254740993}"#),
            routes: read_routes("h100, a100 a100").unwrap(),
            priority: i64::MIN,
            max_attempts: i64::MAX,
            ..Definition::default()
        };
        assert_eq!(Fields::from_definition(&definition).definition(), Some(definition));
    }
}
