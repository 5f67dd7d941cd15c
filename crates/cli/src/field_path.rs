//! Fields of a record by their path in its JSON, such as `args.lr`: their values, their texts, and the order by which
//! records are sorted.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use taskqueue_core::filter::Number;
use taskqueue_core::json::{self, Value, write_value};

/// Fields of a task that are computed, in seconds: how long its latest run took, and how long it waited for it.
pub(crate) const DURATION: &str = "duration";
pub(crate) const WAITED: &str = "waited";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPath {
    /// The head of its column.
    pub(crate) head: String,
    pub(crate) steps: Vec<String>,
}

impl FieldPath {
    /// Reads the path that dots separate, which is also its head.
    pub(crate) fn new(path: &str) -> Self {
        Self { head: path.to_owned(), steps: path.split('.').map(str::to_owned).collect() }
    }

    /// Returns whether it stands for all members of an object, as `args.*` does.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.steps.len() > 1 && self.steps.last().is_some_and(|step| step == "*")
    }

    /// Adds the members of the object that a wildcard stands for.
    pub(crate) fn add_members(&self, record: &Value<'_>, names: &mut BTreeSet<String>) {
        let steps = self.steps.split_last().map_or([].as_slice(), |(_, object)| object);
        if let Some(Value::Object(members)) = found(steps, record) {
            names.extend(members.iter().map(|(name, _)| name.to_string()));
        }
    }

    /// Returns the path of one of these members, whose name may have dots itself.
    pub(crate) fn member(&self, name: &str) -> Self {
        let mut steps = self.steps.clone();
        steps.pop();
        steps.push(name.to_owned());
        Self { head: steps.join("."), steps }
    }

    /// Returns the value of the field; `None` if it is missing or null.
    pub(crate) fn value<'v, 'j>(&self, record: &'v Value<'j>) -> Option<&'v Value<'j>> {
        found(&self.steps, record).filter(|value| **value != Value::Null)
    }

    /// Returns the value as text: strings without quotes, everything else as JSON. The routes of a task are joined, because they
    /// cannot have commas.
    pub(crate) fn text(&self, record: &Value<'_>) -> Option<String> {
        Some(match self.value(record)? {
            Value::Array(items) if self.steps == ["routes"] => {
                items.iter().map(plain_text).collect::<Vec<_>>().join(",")
            }
            value => plain_text(value),
        })
    }

    pub(crate) fn sort_key(&self, record: &Value<'_>) -> SortKey {
        match self.value(record) {
            None => SortKey::Missing,
            Some(Value::Int(int)) => SortKey::Number(Number::Int(*int)),
            Some(Value::Float(float)) => SortKey::Number(Number::Float(*float)),
            Some(Value::Str(text)) => SortKey::Text(text.to_string()),
            Some(Value::Bool(value)) => SortKey::Bool(*value),
            Some(other) => SortKey::Json(json_text(other)),
        }
    }
}

fn found<'v, 'j>(steps: &[String], record: &'v Value<'j>) -> Option<&'v Value<'j>> {
    steps.iter().try_fold(record, |value, step| value.get(step))
}

/// Reads the JSON of a record as a tree. Records write valid JSON; anything else has no fields.
pub(crate) fn read_record(json: &str) -> Value<'_> {
    json::parse(json.as_bytes()).unwrap_or(Value::Null)
}

/// Returns a string without quotes, and everything else as JSON.
pub(crate) fn plain_text(value: &Value<'_>) -> String {
    if let Value::Str(text) = value { text.to_string() } else { json_text(value) }
}

/// Returns a value as JSON.
pub(crate) fn json_text(value: &Value<'_>) -> String {
    written(|out| write_value(out, value))
}

/// Returns the JSON that `write` appends.
pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    // JSON is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// The value that a record is sorted by. Numbers come first, then text, then false and true, then lists and objects by their JSON,
/// and records without a value last. The direction reverses the order among values of one kind only, so that records
/// without a usable value are never in the way.
#[derive(Clone, Debug)]
pub(crate) enum SortKey {
    Number(Number),
    Text(String),
    Bool(bool),
    Json(String),
    Missing,
}

impl SortKey {
    pub(crate) fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let directed = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => directed(a.compare(*b)),
            (Self::Text(a), Self::Text(b)) | (Self::Json(a), Self::Json(b)) => directed(a.cmp(b)),
            (Self::Bool(a), Self::Bool(b)) => directed(a.cmp(b)),
            (a, b) => a.kind().cmp(&b.kind()),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::Text(_) => 1,
            Self::Bool(_) => 2,
            Self::Json(_) => 3,
            Self::Missing => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"id":"t_1","name":null,"args":{"lr":1e300,"deep":{"x":[1,"a"]},"on":true,"text":"a,\"b\""},
        "routes":["cpu","gpu"],"n":1.0}"#;

    #[test]
    fn fields_are_found_and_shown_as_they_are() {
        let record = read_record(RECORD);
        let cases = [
            ("id", Some("t_1")),
            ("name", None),
            ("args.lr", Some("1e300")),
            ("args.deep.x", Some(r#"[1,"a"]"#)),
            ("args.deep", Some(r#"{"x":[1,"a"]}"#)),
            ("args.on", Some("true")),
            ("args.text", Some(r#"a,"b""#)),
            ("args.missing", None),
            ("args.lr.deeper", None),
            ("routes", Some("cpu,gpu")),
            ("n", Some("1.0")),
        ];
        for (path, expected) in cases {
            assert_eq!(FieldPath::new(path).text(&record).as_deref(), expected, "{path}");
        }
        assert_eq!(FieldPath::new("id").text(&read_record("no JSON")), None);
    }

    #[test]
    fn a_wildcard_stands_for_the_members_of_an_object() {
        let mut names = BTreeSet::new();
        let wildcard = FieldPath::new("args.*");
        for record in [r#"{"args":{"lr":1,"a.b":2}}"#, r#"{"args":{"seed":1}}"#, r#"{"args":5}"#, "{}"] {
            wildcard.add_members(&read_record(record), &mut names);
        }
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a.b", "lr", "seed"]);
        let dotted = wildcard.member("a.b");
        assert_eq!(dotted.head, "args.a.b");
        assert_eq!(dotted.text(&read_record(r#"{"args":{"a.b":2}}"#)).as_deref(), Some("2"));
        assert!(wildcard.is_wildcard() && !dotted.is_wildcard() && !FieldPath::new("*").is_wildcard());
    }

    #[test]
    fn the_order_is_total_and_only_values_of_one_kind_change_places_with_the_direction() {
        let texts = ["-1.5", "2", "9007199254740993", "1e300", r#""10""#, r#""9""#, r#""NaN""#, "false", "true"];
        let texts: Vec<&str> = texts.into_iter().chain(["[1]", r#"{"a":1}"#, "null"]).collect();
        let records: Vec<String> = texts.iter().map(|text| format!(r#"{{"x":{text}}}"#)).collect();
        let sorted = |descending: bool| {
            let mut keys: Vec<(SortKey, &str)> = records
                .iter()
                .zip(&texts)
                .rev()
                .map(|(record, text)| (FieldPath::new("x").sort_key(&read_record(record)), *text))
                .collect();
            keys.sort_by(|a, b| a.0.compare(&b.0, descending));
            keys.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(sorted(false), texts);
        let numbers = ["1e300", "9007199254740993", "2", "-1.5"];
        let others = [r#""NaN""#, r#""9""#, r#""10""#, "true", "false", r#"{"a":1}"#, "[1]", "null"];
        assert_eq!(sorted(true), [&numbers[..], &others[..]].concat());
    }
}
