//! The bodies of creation, update and bulk update: what clients set of a task.

use std::borrow::BorrowMut;
use std::sync::Arc;

use taskqueue_core::json::{JsonObject, ObjectWriter, Value};
use taskqueue_core::limits::{MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, ROUTE_DEFAULT};
use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure, RetryDelay};
use taskqueue_core::{Definition, Routes, Scheduling, Timestamp, Update};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;
use utoipa::openapi::{ObjectBuilder, Type};

use crate::body::{Body, BodyErrors, Location, Members, field, request_body};
use crate::object_reader::WireValue;
use crate::scheduling::{self, RetryDelaySchema};
use crate::{ErrorCode, schema};

/// Declares a body whose fields may all be left out: its schema, the reader and the writer. An entry has the schema of a
/// field, its name, its type and the function that reads it. What it gives is an [`Update`]: of a task that is there, or of one
/// that has all defaults. What concerns several fields is checked by one function.
macro_rules! task_body {
    (
        $(#[$attribute:meta])* $schema:ident for $body:ty, $code:ident $(, checked by $check:path)?;
        $( $(#[$field_attribute:meta])* $field:ident: $kind:ty = $read:expr, )*
    ) => {
        #[derive(ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$attribute])*
        pub struct $schema {
            $( $(#[$field_attribute])* pub $field: Option<$kind>, )*
        }

        impl Body for $body {
            const CODE: ErrorCode = ErrorCode::$code;
            const FIELDS: &'static [&'static str] = &[$( stringify!($field) ),*];

            fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
                let mut members = Members::of(value, at, Self::FIELDS, errors)?;
                $( $check(&mut members); )?
                let mut update = Update::default();
                // A field that is wrong counts as left out here; its finding refuses the whole body.
                $( update.$field = members.optional(stringify!($field), $read); )*
                Some(update.into())
            }

            fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
                let update = Update::from(self.clone());
                $( let object = object.optional(update.$field.as_ref(), |object, value| {
                    object.field(stringify!($field), |out| <$kind as WireValue>::write(out, value.view()))
                }); )*
                object
            }
        }
    };
}

task_body! {
    /// A task to be created. Repeating it with the same id is recognised and changes nothing.
    CreateTaskRequest for Creation, InvalidTask;
    /// A label for people.
    #[schema(value_type = Option<schema::TaskName>, default = json!(null))]
    name: Option<Arc<str>> = field::name,
    #[schema(schema_with = empty_args)]
    args: JsonObject = field::object,
    #[schema(schema_with = empty_metadata)]
    metadata: JsonObject = field::object,
    /// Higher is claimed first.
    #[schema(
        nullable = false, default = json!(PRIORITY_DEFAULT),
        minimum = -9_223_372_036_854_775_808i64, maximum = 9_223_372_036_854_775_807i64
    )]
    priority: i64 = field::integer,
    /// The attempt budget.
    #[schema(
        nullable = false, default = json!(MAX_ATTEMPTS_DEFAULT), minimum = 1, maximum = 9_223_372_036_854_775_807i64
    )]
    max_attempts: i64 = field::max_attempts,
    /// Who may claim it: distinct.
    #[schema(
        value_type = Option<BTreeSet<schema::Route>>, nullable = false, default = json!([ROUTE_DEFAULT]),
        min_items = 1, max_items = 256
    )]
    routes: Routes = field::routes,
    /// It can be claimed from then on.
    #[schema(value_type = Option<schema::Timestamp>)]
    not_before: Option<Timestamp> = field::or_null(field::time),
    /// How long it waits after an attempt that failed.
    #[schema(value_type = Option<RetryDelaySchema>)]
    retry_delay: Option<RetryDelay> = field::or_null(scheduling::retry_delay),
    /// How long a run of it may be active, in seconds.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    timeout_seconds: Option<i64> = field::or_null(scheduling::timeout_seconds),
    /// Tasks of the queue that must have succeeded first: at most 1,000 different ones.
    #[schema(value_type = Option<Vec<schema::TaskId>>, nullable = false)]
    dependencies: Dependencies = scheduling::dependencies,
    /// What becomes of it when one of these cannot succeed any more.
    #[schema(value_type = Option<schema::OnDependencyFailure>)]
    on_dependency_failure: OnDependencyFailure = field::or_absent(scheduling::on_dependency_failure),
}

/// A task to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    pub definition: Definition,
    /// It can be claimed from then on.
    pub not_before: Option<Timestamp>,
}

impl From<Definition> for Creation {
    fn from(definition: Definition) -> Self {
        Self { definition, not_before: None }
    }
}

impl From<&Definition> for Creation {
    fn from(definition: &Definition) -> Self {
        definition.clone().into()
    }
}

impl From<&Self> for Creation {
    fn from(creation: &Self) -> Self {
        creation.clone()
    }
}

impl From<Update> for Creation {
    fn from(update: Update) -> Self {
        Self { definition: update.definition_after(&Definition::default()), not_before: update.not_before.flatten() }
    }
}

impl From<Creation> for Update {
    /// Those beyond the contract only where they are used: a server that does not know them refuses them.
    fn from(Creation { definition, not_before }: Creation) -> Self {
        let Definition { name, args, metadata, priority, max_attempts, routes, scheduling } = definition;
        Self {
            name: Some(name),
            args: Some(args),
            metadata: Some(metadata),
            priority: Some(priority),
            max_attempts: Some(max_attempts),
            routes: Some(routes),
            not_before: not_before.map(Some),
            ..Self::of_scheduling(&Scheduling::default(), &scheduling)
        }
    }
}

task_body! {
    /// New values for some fields of a task: at least one. Each replaces the old value completely, except that a patch changes
    /// the members that it names.
    #[schema(min_properties = 1)]
    UpdateTaskRequest for Update, InvalidUpdate, checked by check_update;
    /// A label for people, or null for none.
    #[schema(value_type = Option<schema::TaskName>, default = json!(null))]
    name: Option<Arc<str>> = field::name,
    /// What the worker gets.
    #[schema(value_type = Option<Object>, nullable = false)]
    args: JsonObject = field::object,
    /// What the client keeps with the task.
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: JsonObject = field::object,
    /// Higher is claimed first.
    #[schema(nullable = false, minimum = -9_223_372_036_854_775_808i64, maximum = 9_223_372_036_854_775_807i64)]
    priority: i64 = field::integer,
    /// The attempt budget; a pending task must keep a remaining attempt.
    #[schema(nullable = false, minimum = 1, maximum = 9_223_372_036_854_775_807i64)]
    max_attempts: i64 = field::max_attempts,
    /// Who may claim it: distinct.
    #[schema(value_type = Option<BTreeSet<schema::Route>>, nullable = false, min_items = 1, max_items = 256)]
    routes: Routes = field::routes,
    /// The result of the task.
    #[schema(value_type = Option<Object>, nullable = false)]
    result: JsonObject = field::object,
    /// A JSON merge patch of the args (RFC 7396): members replace, nested objects merge, null removes a member. Not together
    /// with `args`.
    #[schema(value_type = Option<Object>)]
    args_patch: JsonObject = field::or_absent(field::object),
    /// A JSON merge patch of the metadata. Not together with `metadata`.
    #[schema(value_type = Option<Object>)]
    metadata_patch: JsonObject = field::or_absent(field::object),
    /// It can be claimed from then on; null for at once.
    #[schema(value_type = Option<schema::Timestamp>)]
    not_before: Option<Timestamp> = field::or_null(field::time),
    /// How long it waits after an attempt that failed; null for not at all.
    #[schema(value_type = Option<RetryDelaySchema>)]
    retry_delay: Option<RetryDelay> = field::or_null(scheduling::retry_delay),
    /// How long a run of it may be active, in seconds; null for any time.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    timeout_seconds: Option<i64> = field::or_null(scheduling::timeout_seconds),
    /// Tasks of the queue that must have succeeded first: at most 1,000 different ones.
    #[schema(value_type = Option<Vec<schema::TaskId>>, nullable = false)]
    dependencies: Dependencies = scheduling::dependencies,
    /// What becomes of it when one of these cannot succeed any more. Null and absent are the same.
    #[schema(value_type = Option<schema::OnDependencyFailure>)]
    on_dependency_failure: OnDependencyFailure = field::or_absent(scheduling::on_dependency_failure),
    /// Whether lists and counts leave it out; only for a task that has ended. Null and absent are the same.
    #[schema(value_type = Option<bool>)]
    archived: bool = field::flag,
}

/// Null for these is the same as leaving them out.
const ABSENT_IF_NULL: &[&str] = &["args_patch", "metadata_patch", "on_dependency_failure", "archived"];

fn check_update(members: &mut Members<'_, '_>) {
    members.require_one(Update::FIELDS, ABSENT_IF_NULL);
    members.refuse_both("args", "args_patch");
    members.refuse_both("metadata", "metadata_patch");
}

request_body! {
    /// An update of every task that matches and is not running, or of none.
    BulkUpdateRequest, InvalidUpdate;
    /// Which tasks, in the filter language; must not be blank.
    #[schema(
        value_type = String, min_length = 1, max_length = 8192, example = "status == \"pending\" and priority < 5"
    )]
    filter: Arc<str> = filter,
    /// What changes.
    #[schema(value_type = UpdateTaskRequest)]
    changes: Update = nested,
    /// Whether archived tasks are changed, too. False, null and absent are the same.
    #[schema(value_type = Option<bool>, default = false)]
    include_archived: bool = default(false, field::flag),
}

// The derive does not take over the comment of a field that has its own schema, so these describe themselves.

// An object with attributes has no default.

fn empty_args() -> Object {
    empty_object("What the worker gets.")
}

fn empty_metadata() -> Object {
    empty_object("What the client keeps with the task.")
}

fn empty_object(description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .default(Some(serde_json::json!({})))
        .description(Some(description))
        .build()
}

#[cfg(test)]
mod tests {
    use taskqueue_core::fields::{FIELDS, SetBy, TaskField};

    use super::*;
    use crate::task::Task;

    /// A field that is missing in one of them was forgotten there.
    #[test]
    fn bodies_and_tasks_have_the_fields_of_the_table() {
        let sorted = |mut names: Vec<&'static str>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        let set_by = |setters: &[SetBy]| -> Vec<&str> {
            FIELDS.iter().filter(|field| setters.contains(&field.set_by)).map(|field| field.path).collect()
        };
        assert_eq!(Creation::FIELDS, set_by(&[SetBy::CreationAndUpdate]));
        let replaced = Update::FIELDS.iter().copied().filter(|name| !name.ends_with("_patch")).collect();
        assert_eq!(sorted(replaced), sorted(set_by(&[SetBy::CreationAndUpdate, SetBy::Update])));
        assert_eq!(sorted(Task::FIELDS.to_vec()), sorted(FIELDS.iter().map(TaskField::head).collect()));
    }
}
