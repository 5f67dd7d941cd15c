//! Colours of points and lines: a class for each of a few values, or five steps over many numbers.

use std::collections::HashMap;

use super::collection::{Collection, PathIndex, Row};
use super::value::{Kind, Value};
use crate::show;

/// Colours for values that have no order, and the one for all others.
const COLORS: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
const OTHER: &str = "cx";
/// Colours for numbers, from the smallest to the largest.
pub(super) const STEPS: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];
/// Characters of a label.
pub(super) const LABEL_CHARS: usize = 24;

/// A colour with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) css: &'static str,
    pub(super) label: String,
    pub(super) count: usize,
}

/// The classes, and the class of each task by its place.
pub(super) struct Classes {
    pub(super) classes: Vec<Class>,
    pub(super) of: Vec<usize>,
}

impl Classes {
    /// Everything in one colour.
    pub(super) fn one(rows: usize) -> Self {
        Self { classes: vec![Class { css: COLORS[0], label: String::new(), count: rows }], of: vec![0; rows] }
    }

    /// By the values at a path.
    pub(super) fn by(collection: &Collection, rows: &[&Row], path: PathIndex) -> Self {
        let values: Vec<Option<&Value>> = rows.iter().map(|row| collection.value(row, path)).collect();
        let is_status = collection.paths[path as usize] == "status";
        let mut counts: HashMap<(Kind, String), (usize, &Value)> = HashMap::new();
        for value in values.iter().flatten() {
            counts.entry(value.key()).or_insert((0, value)).0 += 1;
        }
        let numbers = values.iter().flatten().filter(|value| value.number.is_some()).count();
        if counts.len() > COLORS.len() && numbers * 2 > values.iter().flatten().count() {
            return Self::steps(&values);
        }
        Self::few(&values, counts.into_values().collect(), is_status)
    }

    /// A class for each of the most frequent values.
    fn few(values: &[Option<&Value>], mut counts: Vec<(usize, &Value)>, is_status: bool) -> Self {
        counts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.compare(b.1)));
        counts.truncate(COLORS.len());
        counts.sort_by(|a, b| a.1.compare(b.1));
        let css = |number: usize, value: &Value| if is_status { status_css(&value.text) } else { COLORS[number] };
        let mut classes: Vec<Class> = counts
            .iter()
            .enumerate()
            .map(|(number, (count, value))| Class { css: css(number, value), label: short(value), count: *count })
            .collect();
        let places: HashMap<(Kind, String), usize> =
            counts.iter().enumerate().map(|(place, (_, value))| (value.key(), place)).collect();
        let rest = classes.len();
        let of: Vec<usize> = values
            .iter()
            .map(|value| value.and_then(|value| places.get(&value.key()).copied()).unwrap_or(rest))
            .collect();
        let others = of.iter().filter(|class| **class == rest).count();
        if others > 0 {
            let label =
                if values.iter().any(Option::is_none) && counts.len() < COLORS.len() { "no value" } else { "others" };
            classes.push(Class { css: OTHER, label: label.to_owned(), count: others });
        }
        Self { classes, of }
    }

    /// Five steps with as many tasks each, as far as equal values let them.
    pub(super) fn steps(values: &[Option<&Value>]) -> Self {
        let mut numbers: Vec<&Value> =
            values.iter().flatten().copied().filter(|value| value.number.is_some()).collect();
        numbers.sort_by(|a, b| a.compare(b));
        let mut limits: Vec<&Value> =
            (1..STEPS.len()).filter_map(|step| numbers.get(numbers.len() * step / STEPS.len()).copied()).collect();
        limits.dedup_by(|a, b| a.compare(b).is_eq());
        limits.retain(|limit| numbers.first().is_some_and(|first| limit.compare(first).is_gt()));
        let none = limits.len() + 1;
        let step = |value: &&Value| limits.iter().filter(|limit| value.compare(limit).is_ge()).count();
        let number = |value: &Value| value.number.is_some();
        let of: Vec<usize> =
            values.iter().map(|value| value.filter(|value| number(value)).map_or(none, |value| step(&value))).collect();
        let mut classes: Vec<Class> = (0..none)
            .map(|step| Class { css: spread(step, none), label: step_label(&limits, step), count: 0 })
            .collect();
        classes.push(Class { css: OTHER, label: "no number".to_owned(), count: 0 });
        of.iter().for_each(|class| classes[*class].count += 1);
        Self { classes, of }
    }
}

/// The colour of a step among fewer than five.
fn spread(step: usize, steps: usize) -> &'static str {
    let last = STEPS.len() - 1;
    STEPS[if steps <= 1 { last } else { step * last / (steps - 1) }]
}

fn step_label(limits: &[&Value], step: usize) -> String {
    match (step.checked_sub(1).and_then(|before| limits.get(before)), limits.get(step)) {
        (None, Some(high)) => format!("below {}", short(high)),
        (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
        (Some(low), None) => format!("from {}", short(low)),
        (None, None) => "all".to_owned(),
    }
}

fn status_css(word: &str) -> &'static str {
    taskqueue_core::status::Status::parse(word).map_or(OTHER, |status| status.as_str())
}

/// A value in a legend, at an axis, in the text of a point.
pub(super) fn short(value: &Value) -> String {
    show::cut(&value.shown(), LABEL_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| Value::new(Kind::Number, text, false)).collect()
    }

    #[test]
    fn steps_have_as_many_numbers_each() {
        let numbers: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let numbers = values(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
        let mut all: Vec<Option<&Value>> = numbers.iter().map(Some).collect();
        all.push(None);
        let classes = Classes::steps(&all);
        assert_eq!(classes.classes.iter().map(|class| class.count).collect::<Vec<_>>(), [20, 20, 20, 20, 20, 1]);
        assert_eq!((classes.of[0], classes.of[99], classes.of[100]), (0, 4, 5));
        assert_eq!(classes.classes[1].label, "20 to 40");
    }

    #[test]
    fn equal_numbers_are_one_step() {
        let numbers = values(&["7"; 9]);
        let classes = Classes::steps(&numbers.iter().map(Some).collect::<Vec<_>>());
        assert_eq!((classes.classes[0].count, classes.classes[0].label.as_str()), (9, "all"));
    }
}
