//! A value of a task: kept within a bound, shown as it is stored, compared exactly.

use std::cmp::Ordering;

use taskqueue_core::filter::Number;
use taskqueue_core::json::write_string;

use crate::columns::Value as Stored;

/// Longer values are cut; the task's own page has them whole.
pub(super) const VALUE_BYTES: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Number,
    Text,
    /// `true`, `false`.
    Word,
    /// An array or an object.
    Container,
}

/// One value, without the place where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) kind: Kind,
    /// The text itself of a text, else canonical JSON.
    pub(super) text: Box<str>,
    pub(super) is_cut: bool,
    /// The exact number; floats are finite.
    pub(super) number: Option<Number>,
}

impl Value {
    pub(super) fn new(kind: Kind, text: &str, is_cut: bool) -> Self {
        let number = (kind == Kind::Number).then(|| read_number(text)).flatten();
        let kind = if kind == Kind::Number && number.is_none() { Kind::Word } else { kind };
        Self { kind, text: text.into(), is_cut, number }
    }

    /// As people read it.
    pub(super) fn shown(&self) -> String {
        let end = if self.is_cut { "…" } else { "" };
        format!("{}{end}", self.text)
    }

    /// For drawing only: a 64-bit integer may be rounded.
    pub(super) fn approximate(&self) -> Option<f64> {
        self.number.map(approximate)
    }

    /// As a filter writes it, if it can.
    pub(super) fn literal(&self) -> Option<String> {
        match self.kind {
            _ if self.is_cut => None,
            Kind::Number | Kind::Word => Some(self.text.to_string()),
            Kind::Text => {
                let mut quoted = Vec::new();
                write_string(&mut quoted, &self.text);
                String::from_utf8(quoted).ok()
            }
            Kind::Container => None,
        }
    }

    /// Numbers first, by their exact value; then texts by code point; then everything else.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.compare(b),
            _ => self.kind.cmp(&other.kind).then_with(|| self.text.cmp(&other.text)),
        }
    }

    /// What equal values have in common: `1.0` and `1` are one number.
    pub(super) fn key(&self) -> (Kind, String) {
        match self.number {
            Some(Number::Float(float)) if float.fract() == 0.0 && float.abs() < 9e18 => {
                (self.kind, (float as i64).to_string())
            }
            _ => (self.kind, self.text.to_string()),
        }
    }
}

pub(super) fn approximate(number: Number) -> f64 {
    match number {
        Number::Int(int) => int as f64,
        Number::Float(float) => float,
    }
}

fn read_number(text: &str) -> Option<Number> {
    text.parse().map(Number::Int).or_else(|_| text.parse().map(Number::Float)).ok()
}

/// The kind of a stored value, and as much of its text as is kept.
pub(super) fn kept(value: &Stored<'_>) -> (Kind, String, bool) {
    let text = value.text();
    let kind = match value {
        Stored::Number(_) => return (Kind::Number, text.into_owned(), false),
        Stored::Text(_) | Stored::Time(_) | Stored::Status(_) => Kind::Text,
        Stored::Json(json) if json.starts_with(['[', '{']) => Kind::Container,
        Stored::Json(_) => Kind::Word,
    };
    let cut = prefix(&text, VALUE_BYTES);
    (kind, cut.to_owned(), cut.len() < text.len())
}

/// The beginning of a text, without a part of a character.
fn prefix(text: &str, most_bytes: usize) -> &str {
    if text.len() <= most_bytes {
        return text;
    }
    let end = (0..=most_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        let document = format!("{{\"a\":{json}}}");
        let found = taskqueue_core::json::lookup(&document, &["a"]).and_then(Stored::found).expect("a value");
        let (kind, text, is_cut) = kept(&found);
        Value::new(kind, &text, is_cut)
    }

    #[test]
    fn numbers_compare_exactly_and_come_before_texts() {
        let sorted = [
            "-1e300",
            "-0.5",
            "0",
            "9007199254740992",
            "9007199254740993",
            "9.007199254740994e15",
            "1e300",
            "\"1\"",
            "\"NaN\"",
            "true",
        ];
        for pair in sorted.windows(2) {
            assert_eq!(value(pair[0]).compare(&value(pair[1])), Ordering::Less, "{pair:?}");
            assert_eq!(value(pair[1]).compare(&value(pair[0])), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(value("1.0").compare(&value("1")), Ordering::Equal);
        assert_eq!(value("1.0").key(), value("1").key());
        assert_ne!(value("\"1\"").key(), value("1").key());
    }

    #[test]
    fn a_value_is_shown_as_stored_and_a_long_one_is_cut_between_characters() {
        assert_eq!(value("9007199254740993").shown(), "9007199254740993");
        assert_eq!(value("\"a\\nb\"").shown(), "a\nb");
        let long = value(&format!("\"{}\"", "é".repeat(1000)));
        assert_eq!((long.shown(), long.literal()), (format!("{}…", "é".repeat(80)), None));
        assert!(value(&format!("[{}1]", "1,".repeat(100_000))).shown().len() < 200);
    }

    #[test]
    fn a_filter_can_name_numbers_texts_and_words() {
        for (json, literal) in
            [("0.1", Some("0.1")), ("\"a\\\"b\"", Some("\"a\\\"b\"")), ("true", Some("true")), ("[]", None)]
        {
            assert_eq!(value(json).literal().as_deref(), literal, "{json}");
        }
    }
}
