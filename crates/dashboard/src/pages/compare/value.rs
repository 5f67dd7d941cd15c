//! A value of a task: kept within a bound, shown as it is stored, compared exactly; mean and deviation of numbers; and where a value
//! stands: a column as everywhere (`args.lr`, `result.loss`, `status`), or one of the two times that only exist here.

use std::cmp::Ordering;

use taskqueue_core::filter::Number;
use taskqueue_core::json::write_string;

use crate::columns::{Column, Value as Stored};

/// Longer values are cut; the task's own page has them whole.
const VALUE_BYTES: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ValueKind {
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
    pub(super) kind: ValueKind,
    /// The text itself of a text, else canonical JSON.
    pub(super) text: Box<str>,
    pub(super) is_cut: bool,
    /// The exact number; floats are finite.
    pub(super) number: Option<Number>,
}

impl Value {
    /// A stored value, as much of its text as is kept.
    pub(super) fn of(value: &Stored<'_>) -> Self {
        let text = value.text();
        let kind = match value {
            Stored::Number(number) => {
                return Self { kind: ValueKind::Number, text: text.into(), is_cut: false, number: Some(*number) };
            }
            Stored::Text(_) | Stored::Time(_) | Stored::Status(_) => ValueKind::Text,
            Stored::Json(json) if json.starts_with(['[', '{']) => ValueKind::Container,
            Stored::Json(_) => ValueKind::Word,
        };
        let cut = &text[..text.floor_char_boundary(VALUE_BYTES)];
        Self::new(kind, cut, cut.len() < text.len())
    }

    pub(super) fn new(kind: ValueKind, text: &str, is_cut: bool) -> Self {
        let read = || text.parse().map(Number::Int).or_else(|_| text.parse().map(Number::Float)).ok();
        let number = (kind == ValueKind::Number).then(read).flatten();
        let kind = if kind == ValueKind::Number && number.is_none() { ValueKind::Word } else { kind };
        Self { kind, text: text.into(), is_cut, number }
    }

    /// As people read it.
    pub(super) fn shown(&self) -> String {
        let end = if self.is_cut { "…" } else { "" };
        format!("{}{end}", self.text)
    }

    /// For drawing only: a 64-bit integer may be rounded.
    pub(super) fn approximate(&self) -> Option<f64> {
        Some(match self.number? {
            Number::Int(int) => int as f64,
            Number::Float(float) => float,
        })
    }

    /// As a filter writes it, if it can.
    pub(super) fn literal(&self) -> Option<String> {
        match self.kind {
            _ if self.is_cut => None,
            ValueKind::Number | ValueKind::Word => Some(self.text.to_string()),
            ValueKind::Text => {
                let mut quoted = Vec::new();
                write_string(&mut quoted, &self.text);
                String::from_utf8(quoted).ok()
            }
            ValueKind::Container => None,
        }
    }

    /// Numbers first, by their exact value; then texts by code point; then everything else.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.compare(b),
            _ => self.kind.cmp(&other.kind).then_with(|| self.text.cmp(&other.text)),
        }
    }

    /// Returns what equal values have in common: `1.0` and `1` are one number.
    pub(super) fn key(&self) -> (ValueKind, String) {
        match self.number {
            Some(Number::Float(float)) if float.fract() == 0.0 && float.abs() < 9e18 => {
                (self.kind, (float as i64).to_string())
            }
            _ => (self.kind, self.text.to_string()),
        }
    }
}

/// Numbers of seconds: how long the last run took, and how long the task waited for it.
const TIMES: [&str; 2] = ["duration", "wait"];
/// The beginnings of paths, in the order in which they are offered. Everything else comes behind.
pub(super) const ROOTS: [&str; 5] = ["args.", "result.", "progress.", "metadata.", "last_run.worker."];

/// A path that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) text: String,
    /// None for a time.
    pub(super) column: Option<Column>,
}

impl Path {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if is_time(text) {
            return Some(Self { text: text.to_owned(), column: None });
        }
        Column::parse(text).map(|column| Self { text: column.path().to_owned(), column: Some(column) })
    }
}

/// Returns whether this is one of the times that only exist here: no filter knows them, and they are shown as durations.
pub(super) fn is_time(path: &str) -> bool {
    TIMES.contains(&path)
}

/// The last key, in lower case and in words: `args.valLoss` is `val` and `loss`.
pub(super) fn words(path: &str) -> Vec<String> {
    let last = path.rsplit('.').next().unwrap_or_default();
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in last.chars() {
        let begins = !character.is_alphanumeric() || (was_lower && character.is_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns whether this is the seed of a random generator: runs that differ in nothing else are repetitions.
pub(super) fn is_seed(path: &str) -> bool {
    path.starts_with("args.") && words(path).iter().any(|word| word == "seed" || word == "seeds")
}

/// What is known of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) count: usize,
    pub(super) mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Summary {
    /// Adds a number, without the sums that grow beyond what a float holds exactly (Welford).
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// The standard deviation of the sample (divided by n - 1); none of fewer than two numbers.
    pub(super) fn deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}

impl FromIterator<f64> for Summary {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut summary = Self::default();
        values.into_iter().for_each(|value| summary.add(value));
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        let document = format!("{{\"a\":{json}}}");
        Value::of(&taskqueue_core::json::lookup(&document, &["a"]).and_then(Stored::found).expect("a value"))
    }

    #[test]
    fn numbers_compare_exactly_and_come_before_texts() {
        let sorted = "-1e300 -0.5 0 9007199254740992 9007199254740993 9.007199254740994e15 1e300 \"1\" \"NaN\" true";
        let sorted: Vec<&str> = sorted.split(' ').collect();
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
        let cases = [("0.1", Some("0.1")), ("\"a\\\"b\"", Some("\"a\\\"b\"")), ("true", Some("true")), ("[]", None)];
        for (json, literal) in cases {
            assert_eq!(value(json).literal().as_deref(), literal, "{json}");
        }
    }

    #[test]
    fn the_last_key_is_split_into_words() {
        assert_eq!(words("result.best.valLoss"), ["val", "loss"]);
        assert_eq!(words("result.top_1-acc"), ["top", "1", "acc"]);
        assert!(is_seed("args.model.random_seed") && !is_seed("result.seed") && !is_seed("args.seeded"));
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_sample() {
        let summary: Summary = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().collect();
        assert_eq!((summary.count, summary.mean), (8, 5.0));
        assert!((summary.deviation().unwrap() - 2.138_089_935).abs() < 1e-9);
        assert_eq!(Summary::from_iter([3.0]).deviation(), None);
        assert_eq!(Summary::from_iter([3.0, 3.0, 3.0]).deviation(), Some(0.0));
    }

    #[test]
    fn a_large_offset_does_not_spoil_the_deviation() {
        let summary: Summary = [1e15, 1e15 + 1.0, 1e15 + 2.0].into_iter().collect();
        assert_eq!((summary.mean, summary.deviation()), (1e15 + 1.0, Some(1.0)));
    }
}
