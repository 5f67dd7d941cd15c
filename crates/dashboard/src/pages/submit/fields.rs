//! What all tasks have beside their args, as fields of a form: name, metadata, routes, priority, attempts, and what they wait for.
//! What is left empty is the default.

use std::sync::Arc;

use taskqueue_core::definition::Definition;
use taskqueue_core::json::JsonObject;

use crate::address::Query;
use crate::field::{self, Field};
use crate::json_field;
use crate::waiting_fields::WaitingFields;

/// The definition of a task without its args.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) name: Field,
    pub(super) metadata: Field,
    pub(super) routes: Field,
    pub(super) priority: Field,
    pub(super) max_attempts: Field,
    pub(super) waiting: WaitingFields,
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
            waiting: WaitingFields::of(form),
        }
    }

    /// The fields that give this definition. Before when a task is not claimed is no part of it.
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
            waiting: WaitingFields::with(&definition.scheduling, None),
        }
    }

    /// The definition without name and args; none if a field is wrong, which then says so.
    pub(super) fn definition(&mut self) -> Option<Definition> {
        let default = Definition::default();
        let metadata = json_field::read(&self.metadata.value);
        let metadata = self.metadata.keep(metadata);
        let routes = self.routes.filled().map_or(Ok(default.routes), field::routes);
        let routes = self.routes.keep(routes);
        let priority = self.priority.filled().map_or(Ok(default.priority), |text| field::integer(text, i64::MIN));
        let priority = self.priority.keep(priority);
        let max_attempts = self.max_attempts.filled().map_or(Ok(default.max_attempts), |text| field::integer(text, 1));
        let max_attempts = self.max_attempts.keep(max_attempts);
        let scheduling = self.waiting.scheduling();
        Some(Definition {
            name: None,
            args: JsonObject::empty(),
            metadata: metadata?,
            routes: routes?,
            priority: priority?,
            max_attempts: max_attempts?,
            scheduling: scheduling?,
        })
    }

    /// The name of a single task; an empty field is no name.
    pub(super) fn plain_name(&mut self) -> Option<Option<Arc<str>>> {
        let name = field::name(&self.name.value);
        self.name.keep(name)
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
        let query = pairs
            .into_iter()
            .filter(|(_, field)| !field.value.is_empty())
            .fold(query, |query, (name, field)| query.and(name, &field.value));
        self.waiting.parameters(query)
    }

    /// Whether nothing was filled in.
    pub(super) fn is_empty(&self) -> bool {
        self.name.value.is_empty() && !self.has_more() && !self.waiting.is_used()
    }

    /// Whether a field that is folded at first has to be seen.
    pub(super) fn has_more(&self) -> bool {
        let fields = [&self.metadata, &self.routes, &self.priority, &self.max_attempts];
        fields.iter().any(|field| !field.value.is_empty())
    }
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
        assert!(fields.is_empty());
        for filled in ["name=a", "routes=gpu", "timeout=5+min", "metadata=%7B%7D"] {
            assert!(!Fields::of(&Query::parse(filled)).is_empty(), "{filled}");
        }
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
            routes: field::routes("h100, a100").unwrap(),
            priority: i64::MIN,
            max_attempts: i64::MAX,
            ..Definition::default()
        };
        assert_eq!(Fields::from_definition(&definition).definition(), Some(definition));
    }
}
