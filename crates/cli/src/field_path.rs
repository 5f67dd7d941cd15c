//! Fields of a record by their path in its JSON, such as `args.lr`: their values, their texts, and the order by which
//! records are sorted.

use std::borrow::Cow;
use std::cmp::Ordering;

use taskqueue_core::filter::Number;
use taskqueue_core::json::{self, Value, write_value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPath {
    /// The head of its column.
    pub(crate) head: String,
    steps: Vec<String>,
}

impl FieldPath {
    /// The path that dots separate, which is also its head.
    pub(crate) fn new(path: &str) -> Self {
        Self { head: path.to_owned(), steps: path.split('.').map(str::to_owned).collect() }
    }

    pub(crate) fn with_head(self, head: &str) -> Self {
        Self { head: head.to_owned(), ..self }
    }

    pub(crate) fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The value of the field; none if it is missing or null.
    pub(crate) fn value<'v, 'j>(&self, record: &'v Value<'j>) -> Option<&'v Value<'j>> {
        let found = self.steps.iter().try_fold(record, |value, step| match value {
            Value::Object(members) => members.iter().find(|(key, _)| key == step).map(|(_, member)| member),
            _ => None,
        });
        found.filter(|value| **value != Value::Null)
    }

    /// The value as text: strings without quotes, everything else as JSON. The routes of a task are joined, because they
    /// cannot have commas.
    pub(crate) fn text(&self, record: &Value<'_>) -> Option<String> {
        match self.value(record)? {
            Value::Str(text) => Some(text.to_string()),
            Value::Array(items) if self.steps == ["routes"] => Some(joined(items)),
            value => Some(json_text(value)),
        }
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

/// The JSON of a record as a tree. Records write valid JSON; anything else has no fields.
pub(crate) fn read_record(json: &str) -> Value<'_> {
    json::parse(json.as_bytes()).unwrap_or(Value::Null)
}

fn joined(items: &[Value<'_>]) -> String {
    let texts: Vec<Cow<'_, str>> = items
        .iter()
        .map(|item| match item {
            Value::Str(text) => Cow::Borrowed(text.as_ref()),
            other => Cow::Owned(json_text(other)),
        })
        .collect();
    texts.join(",")
}

fn json_text(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    // JSON is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// What a record is sorted by. Numbers come first, then text, then false and true, then lists and objects by their JSON,
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
