//! Queues and their settings.

use std::borrow::BorrowMut;
use std::collections::BTreeMap;

use taskqueue_core::json::{ObjectWriter, Unusable, Value, write_array};
use taskqueue_core::limits::ROUTE_LIMITS_MAX;
use taskqueue_core::settings::{RetentionPatch, RouteLimitsPatch};
use taskqueue_core::{QueueName, QueueSettings, Route, SettingsPatch};
use utoipa::ToSchema;

use crate::body::{Body, BodyErrors, Location, Members, field};
use crate::object_reader::{ObjectReader, Unreadable};
use crate::{ErrorCode, schema};

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct Queue {
    /// Its name.
    #[schema(value_type = schema::QueueName)]
    pub name: QueueName,
}

impl Queue {
    pub fn write(out: &mut Vec<u8>, name: &QueueName) {
        ObjectWriter::append_to(out).text("name", name.as_str()).end();
    }

    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        Ok(Self { name: ObjectReader::of(value, "queue")?.parsed("name", QueueName::parse)? })
    }

    pub fn write_all(out: &mut Vec<u8>, names: &[QueueName]) {
        write_array(out, names, Self::write);
    }

    pub fn read_all(value: &Value<'_>) -> Result<Vec<Self>, Unreadable> {
        match value {
            Value::Array(items) => items.iter().map(Self::read).collect(),
            _ => Err(Unreadable("the list of queues is not a list".to_owned())),
        }
    }
}

/// How much of a queue is claimed, and how long ended tasks are kept.
#[derive(ToSchema)]
#[schema(as = QueueSettings)]
pub struct QueueSettingsSchema {
    /// Whether new claims find nothing. Runs go on.
    #[schema(example = false)]
    pub paused: bool,
    /// How many tasks of the queue may be running; null for any number.
    #[schema(value_type = Option<i64>, minimum = 0, required = true)]
    pub max_running: Option<u64>,
    /// How many tasks that were claimed for a route may be running, for each route that has a limit.
    #[schema(example = json!({"gpu": 8}))]
    pub route_limits: BTreeMap<String, u64>,
    /// For how long tasks are kept after their end.
    pub retention: RetentionSchema,
}

/// For how many seconds tasks are kept after their end; null for ever.
#[derive(ToSchema)]
#[schema(as = Retention)]
pub struct RetentionSchema {
    /// Tasks that have succeeded.
    #[schema(value_type = Option<i64>, minimum = 0, required = true)]
    pub succeeded_seconds: Option<u64>,
    /// Tasks that have failed.
    #[schema(value_type = Option<i64>, minimum = 0, required = true)]
    pub failed_seconds: Option<u64>,
    /// Tasks that were cancelled.
    #[schema(value_type = Option<i64>, minimum = 0, required = true)]
    pub cancelled_seconds: Option<u64>,
}

/// What changes of the settings of a queue: what is left out stays, and null sets the default.
#[derive(ToSchema)]
#[schema(as = SettingsPatch)]
#[serde(deny_unknown_fields)]
pub struct SettingsPatchSchema {
    /// Whether new claims find nothing.
    pub paused: Option<bool>,
    /// How many tasks of the queue may be running.
    pub max_running: Option<u64>,
    /// New limits by route; null removes one. At most 256 routes may have a limit. Null instead of the object removes all.
    #[schema(example = json!({"gpu": 8, "cpu": null}))]
    pub route_limits: Option<BTreeMap<String, Option<u64>>>,
    /// For how long tasks are kept after their end.
    pub retention: Option<RetentionPatchSchema>,
}

/// What changes of the retention: what is left out stays, and null keeps tasks for ever.
#[derive(ToSchema)]
#[schema(as = RetentionPatch)]
#[serde(deny_unknown_fields)]
pub struct RetentionPatchSchema {
    /// Tasks that have succeeded.
    pub succeeded_seconds: Option<u64>,
    /// Tasks that have failed.
    pub failed_seconds: Option<u64>,
    /// Tasks that were cancelled.
    pub cancelled_seconds: Option<u64>,
}

/// Reads the settings of an answer.
pub fn read_settings(value: &Value<'_>) -> Result<QueueSettings, Unreadable> {
    QueueSettings::from_value(value).ok_or_else(|| Unreadable("these are no settings of a queue".to_owned()))
}

impl Body for SettingsPatch {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["paused", "max_running", "route_limits", "retention"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        Some(Self {
            paused: body.optional("paused", field::or_null(field::flag)).map(Option::unwrap_or_default),
            max_running: body.optional("max_running", field::or_null(field::count)),
            route_limits: body.optional("route_limits", route_limits).unwrap_or_default(),
            retention: body.optional("retention", retention).unwrap_or_default(),
        })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        let object = object.optional(self.paused, |object, paused| object.boolean("paused", paused));
        let object = write_count(object, "max_running", self.max_running);
        let object = match &self.route_limits {
            RouteLimitsPatch::Clear => object.json("route_limits", "null"),
            RouteLimitsPatch::Merge(limits) if limits.is_empty() => object,
            RouteLimitsPatch::Merge(limits) => object.object("route_limits", |object| {
                limits.iter().fold(object, |object, (route, limit)| write_count(object, route.as_str(), Some(*limit)))
            }),
        };
        if self.retention == RetentionPatch::default() {
            return object;
        }
        object.object("retention", |object| {
            let fields = self.retention.fields().into_iter();
            fields.fold(object, |object, (name, seconds)| write_count(object, name, seconds))
        })
    }
}

fn route_limits(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<RouteLimitsPatch> {
    let members = match value {
        Value::Null => return Some(RouteLimitsPatch::Clear),
        Value::Object(members) => members,
        Value::LoneSurrogateKeys(_) => return errors.refuse(at, field::unusable(Unusable::LoneSurrogateKey)),
        _ => return errors.refuse(at, "use an object of limits by route, or null"),
    };
    let mut limits = BTreeMap::new();
    for (name, limit) in members {
        let at = Location::Key(at, name);
        let Some(route) = Route::parse(name) else {
            errors.add(&at, field::NAME_RULE);
            continue;
        };
        if let Some(limit) = field::or_null(field::count)(limit, &at, errors) {
            limits.insert(route, limit);
        }
    }
    // Together with what the queue has there would be even more. The store need not look.
    if limits.values().flatten().count() > ROUTE_LIMITS_MAX {
        errors.add(at, format!("limit at most {ROUTE_LIMITS_MAX} routes"));
    }
    Some(RouteLimitsPatch::Merge(limits))
}

fn retention(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<RetentionPatch> {
    if *value == Value::Null {
        return RetentionPatch::read(|_| Some(Some(None)));
    }
    let mut members = Members::of(value, *at, &RetentionPatch::FIELDS, errors)?;
    RetentionPatch::read(|name| Some(members.optional(name, field::or_null(field::count))))
}

/// Adds a number or null, if one is given.
fn write_count<B: BorrowMut<Vec<u8>>>(
    object: ObjectWriter<B>,
    name: &str,
    count: Option<Option<u64>>,
) -> ObjectWriter<B> {
    object.optional(count, |object, count| object.integer_or_null(name, count))
}

#[cfg(test)]
mod tests {
    use taskqueue_core::json;
    use taskqueue_core::settings::Retention;

    use super::*;
    use crate::body::{decode, encode};
    use crate::tests::{agree, check, reads_back};

    fn route(name: &str) -> Route {
        Route::parse(name).unwrap()
    }

    fn limits(limits: &[(&str, Option<u64>)]) -> SettingsPatch {
        let limits = limits.iter().map(|(name, limit)| (route(name), *limit)).collect();
        SettingsPatch { route_limits: RouteLimitsPatch::Merge(limits), ..SettingsPatch::default() }
    }

    fn retention(succeeded: Option<Option<u64>>, others: Option<Option<u64>>) -> SettingsPatch {
        let retention =
            RetentionPatch { succeeded_seconds: succeeded, failed_seconds: others, cancelled_seconds: others };
        SettingsPatch { retention, ..SettingsPatch::default() }
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_sets_the_default() {
        let of_queue = |paused, max_running| SettingsPatch { paused, max_running, ..SettingsPatch::default() };
        let cleared = SettingsPatch { route_limits: RouteLimitsPatch::Clear, ..SettingsPatch::default() };
        let cases = [
            ("{}", SettingsPatch::default()),
            (r#"{"paused":true}"#, of_queue(Some(true), None)),
            (r#"{"paused":null,"max_running":0}"#, of_queue(Some(false), Some(Some(0)))),
            (r#"{"max_running":9223372036854775807}"#, of_queue(None, Some(Some(i64::MAX.unsigned_abs())))),
            (r#"{"max_running":null}"#, of_queue(None, Some(None))),
            (r#"{"route_limits":null}"#, cleared),
            (r#"{"route_limits":{}}"#, limits(&[])),
            (r#"{"route_limits":{"gpu":8,"cpu":null}}"#, limits(&[("gpu", Some(8)), ("cpu", None)])),
            (r#"{"retention":null}"#, retention(Some(None), Some(None))),
            (r#"{"retention":{}}"#, SettingsPatch::default()),
            (r#"{"retention":{"succeeded_seconds":60}}"#, retention(Some(Some(60)), None)),
            (r#"{"retention":{"failed_seconds":null,"cancelled_seconds":null}}"#, retention(None, Some(None))),
        ];
        for (body, meant) in cases {
            assert_eq!(decode::<SettingsPatch>(body.as_bytes()), Ok(meant.clone()), "{body}");
            check::<SettingsPatchSchema>(body);
            reads_back(&meant);
        }
        let both = encode(&limits(&[("gpu", Some(8)), ("cpu", None)]));
        assert_eq!(String::from_utf8(both).unwrap(), r#"{"route_limits":{"cpu":null,"gpu":8}}"#);
    }

    #[test]
    fn everything_else_is_refused_at_its_place() {
        let cases = [
            ("null", r#"["body"]"#),
            ("[]", r#"["body"]"#),
            (r#"{"pause":true}"#, r#"["body","pause"]"#),
            (r#"{"paused":1}"#, r#"["body","paused"]"#),
            (r#"{"max_running":-1}"#, r#"["body","max_running"]"#),
            (r#"{"max_running":1.0}"#, r#"["body","max_running"]"#),
            (r#"{"max_running":9223372036854775808}"#, r#"["body","max_running"]"#),
            (r#"{"route_limits":[]}"#, r#"["body","route_limits"]"#),
            (r#"{"route_limits":{"gpu":-1}}"#, r#"["body","route_limits","gpu"]"#),
            (r#"{"route_limits":{"gpu":"8"}}"#, r#"["body","route_limits","gpu"]"#),
            (r#"{"route_limits":{"g p":8}}"#, r#"["body","route_limits","g p"]"#),
            (r#"{"route_limits":{"\ud800":8}}"#, r#"["body","route_limits"]"#),
            (r#"{"retention":60}"#, r#"["body","retention"]"#),
            (r#"{"retention":{"succeeded_seconds":-1}}"#, r#"["body","retention","succeeded_seconds"]"#),
            (r#"{"retention":{"pending_seconds":1}}"#, r#"["body","retention","pending_seconds"]"#),
        ];
        for (body, place) in cases {
            let invalid = decode::<SettingsPatch>(body.as_bytes()).unwrap_err();
            assert_eq!(invalid.code, ErrorCode::InvalidRequest, "{body}");
            let details: serde_json::Value = serde_json::from_slice(&invalid.details().end()).unwrap();
            assert_eq!(details["errors"][0]["location"].to_string(), place, "{body}");
        }
        let many = |count: usize, limit: &str| {
            let limits: Vec<String> = (0..count).map(|n| format!(r#""r{n}":{limit}"#)).collect();
            decode::<SettingsPatch>(format!(r#"{{"route_limits":{{{}}}}}"#, limits.join(",")).as_bytes())
        };
        assert!(many(256, "1").is_ok() && many(1_000, "null").is_ok(), "limits may be removed, however many");
        assert_eq!(many(257, "1").unwrap_err().errors.len(), 1);
        agree::<SettingsPatchSchema>(SettingsPatch::FIELDS, &[]);
    }

    #[test]
    fn settings_read_back_and_are_what_their_schema_describes() {
        let used = QueueSettings {
            paused: true,
            max_running: Some(0),
            route_limits: [(route("gpu"), 8)].into(),
            retention: Retention { failed_seconds: Some(60), ..Retention::default() },
        };
        for settings in [QueueSettings::default(), used] {
            let text = settings.to_json();
            check::<QueueSettingsSchema>(&text);
            assert_eq!(read_settings(&json::parse(text.as_bytes()).unwrap()), Ok(settings));
        }
        let text = QueueSettings::default().to_json();
        for (good, wrong) in [
            (r#""route_limits":{}"#, r#""route_limits":{"gpu":null}"#),
            (r#""max_running":null"#, r#""max_running":-1"#),
            (r#""paused":false"#, r#""paused":null"#),
            (r#""failed_seconds":null"#, r#""x":null"#),
        ] {
            let text = text.replace(good, wrong);
            assert!(read_settings(&json::parse(text.as_bytes()).unwrap()).is_err(), "{text}");
        }
        let newer = text.replacen('{', r#"{"more":1,"#, 1);
        assert_eq!(read_settings(&json::parse(newer.as_bytes()).unwrap()), Ok(QueueSettings::default()));
    }
}
