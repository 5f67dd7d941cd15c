//! The bodies of creation, update and bulk update: what clients set of a task. And the members that say when it may run and what it waits
//! for, in bodies and in answers.

use std::borrow::BorrowMut;
use std::sync::Arc;

use taskqueue_core::json::{JsonObject, ObjectWriter, Value, write_array, write_string};
use taskqueue_core::limits::{
    DEPENDENCIES_MAX, MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, ROUTE_DEFAULT, TIMEOUT_SECONDS_MAX,
};
use taskqueue_core::scheduling::{self, Dependencies, OnDependencyFailure, RetryDelay, SchedulingFields};
use taskqueue_core::{Definition, Routes, Scheduling, TaskId, Timestamp, Update};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;
use utoipa::openapi::{ObjectBuilder, Type};

use crate::body::{Body, BodyErrors, Location, Members, field, request_body};
use crate::object_reader::{ObjectReader, Unreadable, WireValue, wire_values, write_given};
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
                $( let object = write_given::<B, $kind>(object, stringify!($field), update.$field.as_ref()); )*
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
    retry_delay: Option<RetryDelay> = field::or_null(retry_delay),
    /// How long a run of it may be active, in seconds.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    timeout_seconds: Option<i64> = field::or_null(timeout_seconds),
    /// Tasks of the queue that must have succeeded first: at most 1,000 different ones.
    #[schema(value_type = Option<Vec<schema::TaskId>>, nullable = false)]
    dependencies: Dependencies = dependencies,
    /// What becomes of it when one of these cannot succeed any more.
    #[schema(value_type = Option<schema::OnDependencyFailure>)]
    on_dependency_failure: OnDependencyFailure = field::or_absent(on_dependency_failure),
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
    retry_delay: Option<RetryDelay> = field::or_null(retry_delay),
    /// How long a run of it may be active, in seconds; null for any time.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    timeout_seconds: Option<i64> = field::or_null(timeout_seconds),
    /// Tasks of the queue that must have succeeded first: at most 1,000 different ones.
    #[schema(value_type = Option<Vec<schema::TaskId>>, nullable = false)]
    dependencies: Dependencies = dependencies,
    /// What becomes of it when one of these cannot succeed any more. Null and absent are the same.
    #[schema(value_type = Option<schema::OnDependencyFailure>)]
    on_dependency_failure: OnDependencyFailure = field::or_absent(on_dependency_failure),
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

/// How long a task waits after an attempt that failed: `seconds` after the first one, `factor` times as long after each further
/// one, and never longer than `max_seconds`.
#[derive(ToSchema)]
#[schema(as = RetryDelay)]
#[serde(deny_unknown_fields)]
pub struct RetryDelaySchema {
    /// After the first attempt.
    #[schema(minimum = 0)]
    pub seconds: f64,
    /// How much longer each time.
    #[schema(minimum = 1, default = 2)]
    pub factor: Option<f64>,
    /// The longest delay.
    #[schema(minimum = 0, default = 86_400)]
    pub max_seconds: Option<f64>,
}

fn retry_delay(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<RetryDelay> {
    let mut delay = Members::of(value, *at, &["seconds", "factor", "max_seconds"], errors)?;
    let seconds = delay.required("seconds", field::number_from_0);
    let factor = delay.optional("factor", field::or_absent(factor));
    let max_seconds = delay.optional("max_seconds", field::or_absent(field::number_from_0));
    RetryDelay::new(seconds?, factor, max_seconds)
}

fn factor(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<f64> {
    let factor = field::number(value, at, errors)?;
    if factor < 1.0 { errors.refuse(at, "use a number from 1") } else { Some(factor) }
}

fn timeout_seconds(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<i64> {
    let seconds = scheduling::run_limit(field::integer(value, at, errors)?);
    seconds.or_else(|| errors.refuse(at, format!("use an integer from 1 to {TIMEOUT_SECONDS_MAX}")))
}

fn dependencies(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Dependencies> {
    let Value::Array(items) = value else { return errors.refuse(at, "use a list of task ids") };
    let read = |(index, item)| field::task_id(item, &Location::Index(at, index), errors);
    // All items are read, so that all wrong ones are reported.
    let ids: Vec<Option<TaskId>> = items.iter().enumerate().map(read).collect();
    let dependencies = Dependencies::new(ids.into_iter().collect::<Option<_>>()?);
    dependencies.or_else(|| errors.refuse(at, format!("name at most {DEPENDENCIES_MAX} different tasks")))
}

fn on_dependency_failure(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<OnDependencyFailure> {
    field::parsed(value, at, errors, OnDependencyFailure::parse, "use \"wait\" or \"cancel\"")
}

/// Reads these members of a task.
pub(crate) fn read_scheduling(task: &ObjectReader<'_>) -> Result<Scheduling, Unreadable> {
    let fields = SchedulingFields {
        retry_delay: task.optional("retry_delay", WireValue::read)?,
        timeout_seconds: task.optional("timeout_seconds", WireValue::read)?,
        dependencies: task.optional("dependencies", WireValue::read)?.unwrap_or_default(),
        on_dependency_failure: task.optional("on_dependency_failure", WireValue::read)?.unwrap_or_default(),
    };
    Ok(fields.into())
}

wire_values! {
    RetryDelay as Self: |delay| *delay, |out, delay| delay.write(out), |object, name| {
        let delay = object.object(name)?;
        let numbers = (delay.number("seconds")?, delay.number("factor")?, delay.number("max_seconds")?);
        Self::new(numbers.0, Some(numbers.1), Some(numbers.2)).map_or_else(|| object.wrong(name), Ok)
    };
    Dependencies as &'a Self: |dependencies| dependencies,
        |out, ids| write_array(out, ids.as_slice(), |out, id| write_string(out, id.as_str())),
        |object, name| Self::new(object.parsed_list(name, TaskId::parse)?).map_or_else(|| object.wrong(name), Ok);
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

#[cfg(test)]
mod scheduling_tests {
    use std::time::Duration;

    use taskqueue_core::definition::Definition;
    use taskqueue_core::scheduling::SchedulingFields;
    use taskqueue_core::task;
    use taskqueue_core::time::Timestamp;
    use taskqueue_core::update::Update;

    use super::*;
    use crate::body::{Body, decode};
    use crate::bulk_action::BulkActionRequest;
    use crate::run::{FailRequest, UnclaimRequest};
    use crate::task::{BulkUpdateRequest, CreateTaskRequest, Creation, Task, TaskSchema, UpdateTaskRequest};
    use crate::tests::{check, is_body, new_task, read as read_task, reads_back, run_id, text, written};

    fn id(n: usize) -> TaskId {
        TaskId::parse(&format!("t_{n:012}")).unwrap()
    }

    /// The code of a body that is refused with the places of what is wrong, or `ok`.
    fn outcome<B: Body>(body: &str) -> String {
        let Err(invalid) = decode::<B>(body.as_bytes()) else { return "ok".into() };
        let details: serde_json::Value = serde_json::from_slice(&invalid.details().end()).unwrap();
        let places = details["errors"].as_array().unwrap().iter().map(|error| error["location"].to_string());
        format!("{} {}", invalid.code, places.collect::<Vec<_>>().join(" "))
    }

    fn creation(fields: SchedulingFields) -> Creation {
        Definition { scheduling: fields.into(), ..Definition::default() }.into()
    }

    fn full() -> Creation {
        let fields = SchedulingFields {
            retry_delay: RetryDelay::new(0.5, Some(3.0), Some(60.0)),
            timeout_seconds: Some(31_536_000),
            dependencies: Dependencies::new(vec![id(2), id(1), id(2)]).unwrap(),
            on_dependency_failure: OnDependencyFailure::Cancel,
        };
        Creation { not_before: Timestamp::parse("2026-01-31T12:00:00Z"), ..creation(fields) }
    }

    const FULL: &str = concat!(
        r#"{"name":null,"args":{},"metadata":{},"priority":0,"max_attempts":3,"routes":["default"],"#,
        r#""not_before":"2026-01-31T12:00:00.000000Z","retry_delay":{"factor":3,"max_seconds":60,"seconds":0.5},"#,
        r#""timeout_seconds":31536000,"dependencies":["t_000000000001","t_000000000002"],"on_dependency_failure":"cancel"}"#
    );

    /// Good and bad values, between blanks, of the fields that creation and update have alike. With `null` for those that an update
    /// clears.
    const VALUES: &[(&str, bool, &str)] = &[
        ("not_before", true, r#""2026-01-31T12:00:00Z" "2026-01-31T14:00:00.5+02:00" null"#),
        ("not_before", false, r#""tomorrow" "2026-01-31" 1769860800"#),
        ("retry_delay", true, r#"{"seconds":0} {"seconds":1.5,"factor":1,"max_seconds":0} {"seconds":-0.0} null"#),
        ("retry_delay", true, r#"{"seconds":1e300,"factor":1e300,"max_seconds":1e300}"#),
        ("retry_delay", true, r#"{"seconds":1,"factor":null,"max_seconds":null}"#),
        ("retry_delay", false, r#"{} 10 {"seconds":null} {"seconds":"10"} {"seconds":-1} {"seconds":true}"#),
        ("retry_delay", false, r#"{"seconds":1e999} {"seconds":99999999999999999999} {"seconds":1,"factor":0.99}"#),
        ("retry_delay", false, r#"{"seconds":1,"max_seconds":-0.1} {"seconds":1,"jitter":1}"#),
        ("timeout_seconds", true, "1 31536000 null"),
        ("timeout_seconds", false, r#"0 31536001 1.0 "1""#),
        ("dependencies", true, r#"[] ["t_abcdefghijkl","t_abcdefghijkl"]"#),
        ("dependencies", false, r#"null "t_abcdefghijkl" {} ["t_short"] [null]"#),
        ("on_dependency_failure", true, r#""wait" "cancel""#),
        ("on_dependency_failure", false, r#""fail" true"#),
    ];

    #[test]
    fn creations_and_updates_take_the_same_values_and_name_the_place_of_a_wrong_one() {
        for (field, is_good, values) in VALUES {
            for value in values.split(' ') {
                let body = format!(r#"{{"{field}":{value}}}"#);
                let bulk = format!(r#"{{"filter":"priority == 0","changes":{body}}}"#);
                for (outcome, code, place) in [
                    (outcome::<Creation>(&body), "invalid_task", r#"["body""#),
                    (outcome::<Update>(&body), "invalid_update", r#"["body""#),
                    (outcome::<BulkUpdateRequest>(&bulk), "invalid_update", r#"["body","changes""#),
                ] {
                    let expected = format!(r#"{code} {place},"{field}""#);
                    assert_eq!(outcome == "ok", *is_good, "{body}: {outcome}");
                    assert!(*is_good || outcome.starts_with(&expected), "{body}: {outcome}");
                }
            }
        }
        let two = r#"{"retry_delay":{"seconds":-1,"factor":0,"x":1},"dependencies":["t_abcdefghijkl",1]}"#;
        let places = concat!(
            r#"["body","retry_delay","x"] ["body","retry_delay","seconds"] ["body","retry_delay","factor"] "#,
            r#"["body","dependencies",1]"#
        );
        assert_eq!(outcome::<Creation>(two), format!("invalid_task {places}"));
    }

    #[test]
    fn at_most_1000_different_dependencies_are_taken_and_duplicates_do_not_count() {
        let ids = |count: usize| {
            let ids: Vec<String> = (0..count).chain(0..count).map(|n| format!("\"{}\"", id(n))).collect();
            format!(r#"{{"dependencies":[{}]}}"#, ids.join(","))
        };
        assert_eq!(outcome::<Creation>(&ids(1_000)), "ok");
        assert_eq!(outcome::<Creation>(&ids(1_001)), r#"invalid_task ["body","dependencies"]"#);
        assert_eq!(outcome::<Update>(&ids(1_001)), r#"invalid_update ["body","dependencies"]"#);
    }

    #[test]
    fn an_explicit_default_is_the_same_as_a_field_that_is_left_out() {
        let explicit = r#"{"not_before":null,"retry_delay":null,"timeout_seconds":null,"dependencies":[],"on_dependency_failure":null}"#;
        assert_eq!(decode::<Creation>(explicit.as_bytes()), Ok(Creation::default()));
        let wait = decode::<Creation>(br#"{"on_dependency_failure":"wait"}"#);
        assert_eq!(wait, Ok(Creation::default()));
        let defaults = decode::<Creation>(br#"{"retry_delay":{"seconds":10.0,"factor":2,"max_seconds":86400}}"#);
        assert_eq!(decode::<Creation>(br#"{"retry_delay":{"seconds":10}}"#), defaults);
    }

    #[test]
    fn an_update_clears_by_null_what_may_be_cleared_and_takes_null_for_absent_elsewhere() {
        let cleared = Update {
            not_before: Some(None),
            retry_delay: Some(None),
            timeout_seconds: Some(None),
            dependencies: Some(Dependencies::default()),
            ..Update::default()
        };
        let text = r#"{"not_before":null,"retry_delay":null,"timeout_seconds":null,"dependencies":[]}"#;
        is_body::<UpdateTaskRequest, _>(&cleared, text);
        let absent = decode::<Update>(br#"{"priority":1,"on_dependency_failure":null,"archived":null}"#);
        assert_eq!(absent, Ok(Update { priority: Some(1), ..Update::default() }));
        for nothing in [r#"{"archived":null}"#, r#"{"on_dependency_failure":null}"#, "{}"] {
            assert_eq!(outcome::<Update>(nothing), r#"invalid_update ["body"]"#, "{nothing}");
        }
        for archived in [true, false] {
            let update = Update { archived: Some(archived), ..Update::default() };
            is_body::<UpdateTaskRequest, _>(&update, &format!(r#"{{"archived":{archived}}}"#));
        }
        assert_eq!(outcome::<Update>(r#"{"archived":1}"#), r#"invalid_update ["body","archived"]"#);
        assert_eq!(outcome::<Creation>(r#"{"archived":true}"#), r#"invalid_task ["body","archived"]"#);
    }

    #[test]
    fn a_creation_is_written_with_what_it_uses_and_reads_back_as_itself() {
        is_body::<CreateTaskRequest, _>(&full(), FULL);
        let unused = text(|out| out.extend_from_slice(&crate::body::encode(&Creation::default())));
        assert!(!unused.contains("not_before") && !unused.contains("dependencies"), "an older server refuses them");
        let delayed =
            SchedulingFields { retry_delay: RetryDelay::new(1e300, None, None), ..SchedulingFields::default() };
        for creation in [full(), Creation::default(), creation(delayed)] {
            reads_back(&creation);
        }
        let update = Update {
            not_before: Some(full().not_before),
            retry_delay: Some(RetryDelay::new(1.0, None, None)),
            timeout_seconds: Some(Some(1)),
            dependencies: Dependencies::new(vec![id(7)]),
            on_dependency_failure: Some(OnDependencyFailure::Wait),
            ..Update::default()
        };
        reads_back(&update);
    }

    fn used_task() -> task::Task {
        let Creation { definition, not_before } = full();
        let mut task = task::Task { definition, ..new_task() };
        task.lifecycle.not_before = not_before;
        task.lifecycle.archived = true;
        task
    }

    #[test]
    fn what_a_task_uses_stands_behind_all_other_fields_and_reads_back() {
        let json = written(&used_task());
        let expected = concat!(
            r#""finished_at":null,"not_before":"2026-01-31T12:00:00.000000Z","#,
            r#""dependencies":["t_000000000001","t_000000000002"],"on_dependency_failure":"cancel","#,
            r#""retry_delay":{"factor":3,"max_seconds":60,"seconds":0.5},"timeout_seconds":31536000,"archived":true}"#
        );
        assert!(json.ends_with(expected), "{json}");
        check::<TaskSchema>(&json);
        let task = read_task(&json).unwrap();
        assert_eq!((&task.scheduling, task.archived), (&used_task().definition.scheduling, true));
        assert_eq!(text(|out| Task::write(out, &task.view())), json, "the client writes the same");
        for (good, wrong) in [
            (r#""seconds":0.5"#, r#""seconds":-1"#),
            (r#""on_dependency_failure":"cancel""#, r#""on_dependency_failure":"fail""#),
            (r#""t_000000000001""#, r#""x""#),
            (r#""archived":true"#, r#""archived":1"#),
        ] {
            assert!(read_task(&json.replace(good, wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_run_says_how_long_its_task_waits_by_a_number_from_0() {
        let fail = |more: &str| {
            format!(r#"{{"run_id":"r_abcdefghijkl","error":{{"type":"E","message":"m","traceback":null}}{more}}}"#)
        };
        let unclaim = |more: &str| format!(r#"{{"run_id":"r_abcdefghijkl"{more}}}"#);
        let values = [
            ("0", Some(Some(Duration::ZERO))),
            ("90", Some(Some(Duration::from_secs(90)))),
            ("0.5", Some(Some(Duration::from_millis(500)))),
            ("1e300", Some(Some(Duration::MAX))),
            ("null", Some(None)),
            ("-1", None),
            ("1e999", None),
            (r#""90""#, None),
            ("true", None),
            ("[]", None),
        ];
        for (value, expected) in values {
            let failed = decode::<FailRequest>(fail(&format!(r#","retry_after_seconds":{value}"#)).as_bytes());
            assert_eq!(failed.ok().map(|fail| fail.retry_after_seconds), expected, "{value}");
            let unclaimed = decode::<UnclaimRequest>(unclaim(&format!(r#","delay_seconds":{value}"#)).as_bytes());
            assert_eq!(unclaimed.ok().map(|unclaim| unclaim.delay_seconds), expected, "{value}");
        }
        let seconds = Some(Duration::from_millis(1_500));
        let body = UnclaimRequest { run_id: run_id(), delay_seconds: seconds };
        is_body::<UnclaimRequest, _>(&body, &unclaim(r#","delay_seconds":1.5"#));
        let error = task::Failure { kind: "E".into(), message: "m".into(), traceback: None };
        let body = FailRequest { run_id: run_id(), error, retry: true, retry_after_seconds: seconds };
        is_body::<FailRequest, _>(&body, &fail(r#","retry_after_seconds":1.5"#));
        reads_back(&UnclaimRequest { run_id: run_id(), delay_seconds: Some(Duration::MAX) });
    }

    #[test]
    fn bulk_requests_say_whether_archived_tasks_are_meant() {
        let flags =
            [("", Ok(false)), (",\"include_archived\":null", Ok(false)), (",\"include_archived\":true", Ok(true))];
        for (given, expected) in flags.into_iter().chain([(",\"include_archived\":\"true\"", Err(()))]) {
            let update = format!(r#"{{"filter":"archived == true","changes":{{"priority":1}}{given}}}"#);
            let update = decode::<BulkUpdateRequest>(update.as_bytes()).map(|bulk| bulk.include_archived);
            assert_eq!(update.map_err(drop), expected, "{given}");
            let act = format!(r#"{{"filter":"archived == true"{given}}}"#);
            let act = decode::<BulkActionRequest>(act.as_bytes()).map(|act| act.include_archived);
            assert_eq!(act.map_err(drop), expected, "{given}");
        }
    }
}
