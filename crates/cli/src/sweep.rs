//! Parses the values of a sweep, such as `lr=0.1,0.01` and `seed=1..5`, and makes all combinations of them.

use taskqueue_client::JsonObject;
use taskqueue_core::json::Value;

use crate::failure::Failure;
use crate::json_args::{checked, pair, scalar};

/// More are probably a mistake, such as a range with a digit too many.
const COMBINATIONS_MAX: usize = 1_000_000;

/// One member of args and the values that it takes.
#[derive(Debug)]
struct Axis<'a> {
    key: &'a str,
    values: Vec<Value<'a>>,
}

/// Every combination, as args. The last axis changes fastest.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    axes: Vec<Axis<'a>>,
    count: usize,
}

impl<'a> Sweep<'a> {
    pub(crate) fn parse(given: &'a [String]) -> Result<Self, Failure> {
        let axes = given.iter().map(|text| axis(text)).collect::<Result<Vec<_>, _>>()?;
        let mut keys: Vec<&str> = axes.iter().map(|axis| axis.key).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::Usage(format!("--arg {}: give all its values in one list", twice[0])));
        }
        let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
        match count.filter(|count| *count <= COMBINATIONS_MAX) {
            Some(count) => Ok(Self { axes, count }),
            None => Err(Failure::Usage(format!("these are more than {COMBINATIONS_MAX} combinations"))),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn combinations(&self) -> impl Iterator<Item = Result<JsonObject, Failure>> {
        (0..self.count).map(|index| self.combination(index))
    }

    fn combination(&self, mut index: usize) -> Result<JsonObject, Failure> {
        let mut members = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            members.push((axis.key.into(), axis.values[index % axis.values.len()].clone()));
            index /= axis.values.len();
        }
        members.sort_by(|(a, _): &(std::borrow::Cow<'_, str>, _), (b, _)| a.cmp(b));
        checked(&Value::Object(members), "--arg")
    }
}

fn axis(text: &str) -> Result<Axis<'_>, Failure> {
    let (key, list) = pair("--arg", text)?;
    let mut values = Vec::new();
    for item in split(list) {
        match range(item) {
            Some(range) => values.extend(range.map_err(|rule| Failure::Usage(format!("--arg {text}: {rule}")))?),
            None => values.push(scalar(item)),
        }
    }
    Ok(Axis { key, values })
}

/// The items of a list: commas inside brackets, braces and quotes do not separate.
fn split(list: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in list.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items
}

/// The numbers of `A..B` or `A..B..S`, both ends included as in the shell; none if the item is not a range.
fn range(item: &str) -> Option<Result<Vec<Value<'static>>, &'static str>> {
    let parts: Option<Vec<i64>> = item.split("..").map(|part| part.parse().ok()).collect();
    let (first, last, step) = match parts?.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => (*first, *last, step.unsigned_abs()),
        _ => return None,
    };
    let Ok(step) = usize::try_from(step) else { return Some(Err("the step is too large")) };
    if step == 0 {
        return Some(Err("the step must not be 0"));
    }
    if first.abs_diff(last) / step as u64 >= COMBINATIONS_MAX as u64 {
        return Some(Err("the range has too many numbers"));
    }
    Some(Ok(if first <= last {
        (first..=last).step_by(step).map(Value::Int).collect()
    } else {
        (last..=first).rev().step_by(step).map(Value::Int).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combinations(given: &[&str]) -> Result<Vec<String>, Failure> {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        let sweep = Sweep::parse(&given)?;
        sweep.combinations().map(|args| args.map(|args| args.as_str().to_owned())).collect()
    }

    #[test]
    fn values_are_lists_and_ranges() {
        let cases = [
            ("x=1,2.5,a", vec![r#"{"x":1}"#, r#"{"x":2.5}"#, r#"{"x":"a"}"#]),
            ("x=1..3", vec![r#"{"x":1}"#, r#"{"x":2}"#, r#"{"x":3}"#]),
            ("x=-1..1,9", vec![r#"{"x":-1}"#, r#"{"x":0}"#, r#"{"x":1}"#, r#"{"x":9}"#]),
            ("x=3..1", vec![r#"{"x":3}"#, r#"{"x":2}"#, r#"{"x":1}"#]),
            ("x=0..10..5", vec![r#"{"x":0}"#, r#"{"x":5}"#, r#"{"x":10}"#]),
            ("x=10..1..4", vec![r#"{"x":10}"#, r#"{"x":6}"#, r#"{"x":2}"#]),
            ("x=[1,2],{\"a\":[3,4]}", vec![r#"{"x":[1,2]}"#, r#"{"x":{"a":[3,4]}}"#]),
            ("x=\"a,b\",\"c\\\",d\"", vec![r#"{"x":"a,b"}"#, r#"{"x":"c\",d"}"#]),
            ("x=../data", vec![r#"{"x":"../data"}"#]),
            ("x=a..b", vec![r#"{"x":"a..b"}"#]),
            ("x=", vec![r#"{"x":""}"#]),
        ];
        for (given, expected) in cases {
            assert_eq!(combinations(&[given]).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn every_combination_occurs_once_the_last_axis_fastest() {
        let found = combinations(&["lr=0.1,0.01", "seed=1..3"]).unwrap();
        let expected = [(0.1, 1), (0.1, 2), (0.1, 3), (0.01, 1), (0.01, 2), (0.01, 3)];
        assert_eq!(found, expected.map(|(lr, seed)| format!(r#"{{"lr":{lr},"seed":{seed}}}"#)));
    }

    #[test]
    fn mistakes_are_refused() {
        for given in [&["x"][..], &["x=1", "x=2"], &["x=1..5..0"], &["x=1..99999999"], &["x=1..2000", "y=1..2000"]] {
            assert!(matches!(combinations(given), Err(Failure::Usage(_))), "{given:?}");
        }
    }
}
