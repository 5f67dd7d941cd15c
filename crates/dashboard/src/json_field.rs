//! A JSON object in a field of a form: read with errors that say where, and written so that people can edit it.

use std::collections::HashSet;

use taskqueue_core::json::{
    JsonObject, ObjectError, ParseError, PathStep, Reader, Unusable, Value, parse, write_string, write_value,
};
use taskqueue_core::limits::{JSON_DEPTH, REQUEST_BODY_BYTES, TASK_DATA_BYTES};

use crate::show::json::escape_bidi;

/// What would be longer when it is indented is not: the indentation of deep values is many times as long as they are.
const INDENTED_BYTES: usize = 64 * 1024;
/// Characters of a key that a message shows.
const KEY_CHARS: usize = 60;
/// What to write instead of something that is no object.
pub(crate) const EXAMPLE: &str = "Write a JSON object, such as {\"lr\": 0.1}.";

/// The object that a text is; an empty text is `{}`. The error says where something is wrong, and what.
pub(crate) fn read(text: &str) -> Result<JsonObject, String> {
    if text.trim().is_empty() {
        return Ok(JsonObject::empty());
    }
    check_length(text)?;
    let value = parse(text.as_bytes()).map_err(|error| match error {
        ParseError::Malformed { message, byte } => format!("{}: {message}.", place(text, byte)),
        ParseError::TooDeep => too_deep(),
    })?;
    let object = JsonObject::from_value(&value).map_err(|error| match error {
        ObjectError::NotAnObject => EXAMPLE.to_owned(),
        ObjectError::TooDeep => too_deep(),
        ObjectError::Unusable { path, what } => format!("{}: {}.", path_text(&path), unusable(what)),
    })?;
    match twice(text) {
        Some((key, byte)) => Err(format!("{}: {} stands here for the second time.", place(text, byte), short(&key))),
        None => Ok(object),
    }
}

/// Refuses what no request may have, before it is parsed: that takes many times as much.
pub(crate) fn check_length(text: &str) -> Result<(), String> {
    if text.len() <= REQUEST_BODY_BYTES { Ok(()) } else { Err(too_large()) }
}

/// Returns what is said of a task that is larger than any may be.
pub(crate) fn too_large() -> String {
    format!(
        "The task is too large: its definition may have {} KiB. Put large data into a file and its path into args.",
        TASK_DATA_BYTES / 1024
    )
}

/// `Line 3, column 7`, counted from 1, columns in characters.
fn place(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("Line {line}, column {column}")
}

fn too_deep() -> String {
    format!("Nest JSON at most {JSON_DEPTH} levels deep.")
}

fn unusable(what: Unusable) -> &'static str {
    match what {
        Unusable::IntegerRange => "an integer must fit into 64 bits; put larger ones in quotes",
        Unusable::FloatRange => "this number is too large",
        Unusable::LoneSurrogate | Unusable::LoneSurrogateKey => "half a character (a lone surrogate) cannot be kept",
    }
}

fn path_text(path: &[PathStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if text.is_empty() => text.push_str(&short(key)),
            PathStep::Key(key) => text.push_str(&format!(".{}", short(key))),
            PathStep::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    if text.is_empty() { "The object".to_owned() } else { text.chars().take(4 * KEY_CHARS).collect() }
}

fn short(key: &str) -> String {
    key.chars().take(KEY_CHARS).collect()
}

/// The first key that an object has twice, and where. The API takes the last one; who types an object did not mean that.
fn twice(text: &str) -> Option<(String, usize)> {
    let mut found = None;
    let mut reader = Reader::new(text.as_bytes()).ok()?;
    // The text was parsed before, so it has no error, and its depth is bounded.
    let _ = visit(&mut reader, &mut found);
    found
}

fn visit(reader: &mut Reader<'_>, found: &mut Option<(String, usize)>) -> Result<(), ParseError> {
    match reader.skip_space() {
        Some(b'{') => {
            let mut keys = HashSet::new();
            reader.members(|reader, key| {
                let at = reader.position();
                if let Some(key) = key
                    && !keys.insert(key.clone())
                    && found.is_none()
                {
                    *found = Some((key.into_owned(), at));
                }
                visit(reader, found)
            })
        }
        Some(b'[') => reader.items(|reader| visit(reader, found)),
        _ => reader.skip().map(drop),
    }
}

/// The text of an object for a field: indented, unless that is too long. It is the same JSON; what would change the order of other
/// characters is written as an escape.
pub(crate) fn write(object: &JsonObject) -> String {
    let (text, mut out) = (object.as_str(), Vec::new());
    // Parsed, a large text takes many times as much.
    let short = Some(text).filter(|text| text.len() <= INDENTED_BYTES);
    let shown = short.and_then(|text| parse(text.as_bytes()).ok()).and_then(|value| {
        indented(&mut out, &value, 0);
        String::from_utf8(out).ok().filter(|out| out.len() <= INDENTED_BYTES)
    });
    // Outside of strings there are none.
    escape_bidi(shown.as_deref().unwrap_or(text)).into_owned()
}

/// Nothing more is written behind the most that an indented text may have.
fn indented(out: &mut Vec<u8>, value: &Value<'_>, depth: usize) {
    if out.len() > INDENTED_BYTES {
        return;
    }
    let is_container = |item: &Value<'_>| matches!(item, Value::Object(_) | Value::Array(_));
    let (entries, [open, close]): (Vec<_>, _) = match value {
        Value::Object(members) if !members.is_empty() => {
            (members.iter().map(|(key, member)| (Some(key), member)).collect(), [b'{', b'}'])
        }
        Value::Array(items) if items.iter().any(is_container) => {
            (items.iter().map(|item| (None, item)).collect(), [b'[', b']'])
        }
        _ => return write_value(out, value),
    };
    let line = |out: &mut Vec<u8>, sign: &[u8], depth: usize| {
        out.extend_from_slice(sign);
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (number, (key, entry)) in entries.into_iter().enumerate() {
        line(out, &[if number == 0 { open } else { b',' }], depth + 1);
        if let Some(key) = key {
            write_string(out, key);
            out.extend_from_slice(b": ");
        }
        indented(out, entry, depth + 1);
    }
    line(out, b"", depth);
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_and_what() {
        let cases = [
            ("{\"a\": 1,\n \"ü\" 2}", "Line 2, column 6: expected ':'."),
            ("{\r\n  \"a\": 1,\r\n}", "Line 3, column 1: expected a key in double quotes."),
            ("[1]", EXAMPLE),
            ("7", EXAMPLE),
            (
                "{\"a\": {\"b\": [1, 99999999999999999999]}}",
                "a.b[1]: an integer must fit into 64 bits; put larger ones in quotes.",
            ),
            ("{\"a\": 1e999}", "a: this number is too large."),
            ("{\"a\": 1, \"b\": {\"c\": 1,\n\"c\": 2}}", "Line 2, column 5: c stands here for the second time."),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        for levels in [64, 300, 500_000] {
            assert_eq!(read(&deep(levels)).unwrap_err(), "Nest JSON at most 64 levels deep.", "{levels}");
        }
        assert!(read(&deep(63)).is_ok());
    }

    #[test]
    fn what_no_request_may_have_is_not_parsed() {
        let long = format!("{{\"a\": [{}1]}}", "[1],".repeat(REQUEST_BODY_BYTES / 4));
        assert_eq!(read(&long).unwrap_err(), too_large());
    }

    #[test]
    fn args_that_would_be_too_long_indented_stand_as_they_are() {
        for (bytes, is_indented) in [(INDENTED_BYTES / 2, true), (INDENTED_BYTES + 1, false)] {
            let object = JsonObject::from_canonical(&format!("{{\"a\u{202e}\":\"{}\"}}", "x".repeat(bytes)));
            let shown = write(&object);
            assert_eq!(shown.contains('\n'), is_indented, "{bytes}");
            assert!(shown.contains("\\u202e"));
            assert_eq!(read(&shown), Ok(object));
        }
    }

    #[test]
    fn an_empty_field_is_the_empty_object_and_numbers_stay_exact() {
        assert_eq!(read(" \r\n"), Ok(JsonObject::empty()));
        assert_eq!(read("{\"seed\": 9007199254740993}").unwrap().as_str(), r#"{"seed":9007199254740993}"#);
    }

    #[test]
    fn what_is_written_for_a_field_reads_back_the_same() {
        let text = r#"{"a":{"b":[1,2.0],"c":{}},"d":[{"e":null},[]],"s":"a\nb"}"#;
        let object = JsonObject::from_canonical(text);
        assert_eq!(read(&write(&object)), Ok(object.clone()));
        let written = write(&object);
        assert!(written.starts_with("{\n  \"a\": {\n    \"b\": [1,2.0],\n    \"c\": {}\n  },\n"), "{written}");
        let deep = format!("{{\"a\":{}{}{}}}", "[".repeat(60), "[],".repeat(10_000) + "[]", "]".repeat(60));
        assert_eq!(write(&JsonObject::from_canonical(&deep)), deep, "a text is not made many times as long");
        let hidden = JsonObject::from_canonical("{\"a\u{202e}b\":\"\\\\\u{2066}\"}");
        assert_eq!(write(&hidden), "{\n  \"a\\u202eb\": \"\\\\\\u2066\"\n}");
        assert_eq!(read(&write(&hidden)), Ok(hidden));
    }
}
