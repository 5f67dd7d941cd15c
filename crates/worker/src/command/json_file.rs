//! JSON objects in files that a command has written: its result, its progress.
//!
//! `NaN`, `Infinity` and `-Infinity`, as Python's `json.dump` writes them, are no JSON. They become the strings "NaN", "Infinity" and
//! "-Infinity": a training that diverged has a result.

use taskqueue_client::JsonObject;
use taskqueue_core::json::{ObjectError, ParseError, Value, parse};

const WORDS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Reads the object in a text, and a note for people if numbers that are no JSON were replaced.
///
/// # Errors
///
/// Says for people why it cannot be used.
pub(super) fn read_object(text: &[u8]) -> Result<(JsonObject, Option<String>), String> {
    let parsed = parse(text);
    if let Err(ParseError::Malformed { .. }) = parsed
        && let Some(replaced) = replace(text)
    {
        return Ok((to_object(parse(&replaced.text))?, Some(replaced.note())));
    }
    Ok((to_object(parsed)?, None))
}

fn to_object(parsed: Result<Value<'_>, ParseError>) -> Result<JsonObject, String> {
    let value = parsed.map_err(|error| match error {
        ParseError::Malformed { message, byte } => format!("it is not JSON ({message}, at byte {byte})"),
        ParseError::TooDeep => "it is nested too deeply".to_owned(),
    })?;
    JsonObject::from_value(&value).map_err(|error| {
        let why = match error {
            ObjectError::NotAnObject => "it is not a JSON object",
            ObjectError::TooDeep => "it is nested more than 64 levels deep",
            ObjectError::Unusable { .. } => "numbers must be integers of 64 bits or finite, and text whole characters",
        };
        why.to_owned()
    })
}

/// A text in which such values were replaced by strings.
#[derive(Debug, PartialEq, Eq)]
struct ReplacedText {
    text: Vec<u8>,
    /// The number of times that each of the words was replaced.
    counts: [usize; WORDS.len()],
}

impl ReplacedText {
    /// Names the values that were replaced, for people.
    fn note(&self) -> String {
        let found = WORDS.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        let found: Vec<String> = found.map(|(word, count)| format!("{word} ({count})")).collect();
        format!("the result contains numbers that are no JSON; they are stored as strings: {}", found.join(", "))
    }
}

/// Replaces the words where a value stands, never in a string and never as the name of a member; `None` if there is none. The text
/// need not be JSON otherwise: that is checked afterwards.
fn replace(text: &[u8]) -> Option<ReplacedText> {
    let mut replaced = ReplacedText { text: Vec::with_capacity(text.len()), counts: [0; WORDS.len()] };
    let mut at = 0;
    while at < text.len() {
        let end = if text[at] == b'"' { end_of_string(text, at) } else { at + 1 };
        if let Some((index, word)) = word_at(text, at) {
            replaced.counts[index] += 1;
            replaced.text.extend([b"\"", word.as_bytes(), b"\""].concat());
            at += word.len();
        } else {
            replaced.text.extend_from_slice(&text[at..end]);
            at = end;
        }
    }
    (replaced.counts.iter().sum::<usize>() > 0).then_some(replaced)
}

/// The position behind the string that begins here.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// The word that stands here as a value: between `:`, `[` or `,` and `,`, `]` or `}`.
fn word_at(text: &[u8], at: usize) -> Option<(usize, &'static str)> {
    let (index, word) = WORDS.iter().enumerate().find(|(_, word)| text[at..].starts_with(word.as_bytes()))?;
    let is_blank = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\n' | b'\r');
    let before = text[..at].iter().rev().find(|byte| !is_blank(byte));
    let after = text[at + word.len()..].iter().find(|byte| !is_blank(byte));
    let is_value = matches!(before, Some(b':' | b'[' | b',')) && matches!(after, Some(b',' | b']' | b'}'));
    is_value.then_some((index, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> Option<String> {
        replace(text.as_bytes()).map(|replaced| String::from_utf8(replaced.text).unwrap())
    }

    #[test]
    fn values_become_strings() {
        for (text, expected) in [
            (r#"{"loss": NaN}"#, r#"{"loss": "NaN"}"#),
            (
                r#"{"a":[NaN,Infinity , -Infinity],"b":-Infinity}"#,
                r#"{"a":["NaN","Infinity" , "-Infinity"],"b":"-Infinity"}"#,
            ),
            ("{\"a\":\n\tNaN\r\n}", "{\"a\":\n\t\"NaN\"\r\n}"),
            (
                r#"{"NaN":NaN,"\"":"\\","x":"ü: NaN, \\\" NaN","y":Infinity}"#,
                r#"{"NaN":"NaN","\"":"\\","x":"ü: NaN, \\\" NaN","y":"Infinity"}"#,
            ),
        ] {
            assert_eq!(replaced(text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "",
            "{}",
            "NaN",
            r#"{"a":"NaN"}"#,
            r#"{"a":": NaN,"}"#,
            r#"{NaN:1}"#,
            r#"{"a":1,NaN:1}"#,
            r#"{"a":NaN1}"#,
            r#"{"a":1NaN}"#,
            r#"{"a":--Infinity}"#,
            r#"{"a":+Infinity}"#,
            r#"{"a":nan}"#,
            r#"{"a":NaN"#,
            r#"{"a":"\"#,
        ] {
            assert_eq!(replaced(text), None, "{text}");
        }
    }

    #[test]
    fn the_note_says_what_was_found_and_how_often() {
        let note = replace(br#"{"a":[NaN,NaN],"b":-Infinity}"#).unwrap().note();
        assert!(note.ends_with("stored as strings: NaN (2), -Infinity (1)"), "{note}");
    }
}
