//! The tasks of a sweep: every combination of the values of its keys, or with `--zip` the first values together, then the
//! second ones, and so on. What a value is stands in `sweep_values.rs`.

use taskqueue_client::JsonObject;
use taskqueue_core::json::Value;

use crate::dotted_keys::{Members, insert, paths};
use crate::failure::Failure;
use crate::json_args::{checked, object_members, pair};
use crate::sweep_values::values;

/// More are probably a mistake, such as a range with a digit too many. Also bounds the values of all keys together.
const COMBINATIONS_MAX: usize = 1_000_000;

/// One member of args and the values that it takes.
#[derive(Debug)]
struct Axis<'a> {
    key: &'a str,
    path: Vec<&'a str>,
    values: Vec<Value<'a>>,
}

/// The args of each task. Without `--zip` the last axis changes fastest.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    /// What all tasks have.
    base: Members<'a>,
    axes: Vec<Axis<'a>>,
    is_zip: bool,
    count: usize,
}

impl<'a> Sweep<'a> {
    pub(crate) fn parse(base: Option<&'a str>, given: &'a [String], is_zip: bool) -> Result<Self, Failure> {
        let base = base.map_or(Ok(Vec::new()), |text| object_members(text, "--args"))?;
        let axes = axes(given)?;
        check(&base, &axes)?;
        let count = if is_zip { zipped(&axes)? } else { multiplied(&axes)? };
        Ok(Self { base, axes, is_zip, count })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn combinations(&self) -> impl Iterator<Item = Result<JsonObject, Failure>> {
        (0..self.count).map(|index| self.combination(index))
    }

    fn combination(&self, index: usize) -> Result<JsonObject, Failure> {
        let (mut members, mut rest) = (self.base.clone(), index);
        for axis in self.axes.iter().rev() {
            let count = axis.values.len();
            let at = if self.is_zip { index } else { rest % count };
            rest /= count;
            put(&mut members, axis, axis.values[at].clone())?;
        }
        checked(&Value::Object(members), "--arg")
    }
}

fn axes(given: &[String]) -> Result<Vec<Axis<'_>>, Failure> {
    let pairs = given.iter().map(|text| pair("--arg", text)).collect::<Result<Vec<_>, _>>()?;
    let mut keys: Vec<&str> = pairs.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::Usage(format!("--arg {}: give all its values in one list", twice[0])));
    }
    let paths = paths(pairs.iter().map(|(key, _)| ("--arg", *key)))?;
    let (mut axes, mut left) = (Vec::new(), COMBINATIONS_MAX);
    for ((key, list), path) in pairs.into_iter().zip(paths) {
        let refuse = |rule| Failure::Usage(format!("--arg {key}: {rule}"));
        let values = values(list, left).map_err(refuse)?;
        left -= values.len();
        axes.push(Axis { key, path, values });
    }
    Ok(axes)
}

/// Finds now what would otherwise stop the sweep half-way: values that no task may have, and keys that do not go together
/// with what all tasks have.
fn check(base: &Members<'_>, axes: &[Axis<'_>]) -> Result<(), Failure> {
    for axis in axes {
        // Numbers of ranges are many, and each is as good as the first.
        let is_number = |value: &&Value<'_>| matches!(value, Value::Int(_) | Value::Float(_));
        let others = axis.values.iter().filter(|value| !is_number(value));
        for value in axis.values.first().into_iter().chain(others) {
            let mut members = base.clone();
            put(&mut members, axis, value.clone())?;
            checked(&Value::Object(members), &format!("--arg {}", axis.key))?;
        }
    }
    Ok(())
}

fn put<'a>(members: &mut Members<'a>, axis: &Axis<'a>, value: Value<'a>) -> Result<(), Failure> {
    insert(members, &axis.path, value).map_err(|parent| {
        Failure::Usage(format!("--arg {}: {parent} is given in --args, and is not an object", axis.key))
    })
}

fn multiplied(axes: &[Axis<'_>]) -> Result<usize, Failure> {
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    let count = count.filter(|count| *count <= COMBINATIONS_MAX);
    count.ok_or_else(|| Failure::Usage(format!("these are more than {COMBINATIONS_MAX} combinations")))
}

fn zipped(axes: &[Axis<'_>]) -> Result<usize, Failure> {
    let count = axes.first().map_or(0, |axis| axis.values.len());
    if axes.iter().all(|axis| axis.values.len() == count) {
        return Ok(count);
    }
    let lengths: Vec<String> = axes.iter().map(|axis| format!("{} has {}", axis.key, axis.values.len())).collect();
    let rule = "all keys need the same number of values; what all tasks have goes into --args";
    Err(Failure::Usage(format!("--zip: {}; {rule}", lengths.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combinations(base: Option<&str>, given: &[&str], is_zip: bool) -> Result<Vec<String>, Failure> {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        let sweep = Sweep::parse(base, &given, is_zip)?;
        sweep.combinations().map(|args| args.map(|args| args.as_str().to_owned())).collect()
    }

    #[test]
    fn every_combination_occurs_once_the_last_axis_fastest() {
        let found = combinations(None, &["lr=0.1,0.01", "seed=1..3"], false).unwrap();
        let expected = [(0.1, 1), (0.1, 2), (0.1, 3), (0.01, 1), (0.01, 2), (0.01, 3)];
        assert_eq!(found, expected.map(|(lr, seed)| format!(r#"{{"lr":{lr},"seed":{seed}}}"#)));
    }

    #[test]
    fn dotted_keys_nest_beside_what_all_tasks_have() {
        let found =
            combinations(Some(r#"{"m": {"act": "relu"}, "a.b": 1}"#), &["m.layers=2,4", "seed=1"], false).unwrap();
        let expected = [2, 4].map(|n| format!(r#"{{"a.b":1,"m":{{"act":"relu","layers":{n}}},"seed":1}}"#));
        assert_eq!(found, expected);
    }

    #[test]
    fn zip_takes_the_values_together() {
        let found = combinations(Some(r#"{"model":"a"}"#), &["lr=0.1,0.01", "seed=1..2"], true).unwrap();
        assert_eq!(found, [r#"{"lr":0.1,"model":"a","seed":1}"#, r#"{"lr":0.01,"model":"a","seed":2}"#]);
    }

    /// `--args`, the `--arg`s, whether with `--zip`, and what the message says.
    type Mistake<'a> = (Option<&'a str>, &'a [&'a str], bool, &'a str);

    #[test]
    fn mistakes_are_refused_before_anything_is_made() {
        let cases: [Mistake<'_>; 11] = [
            (None, &["x"], false, "KEY=VALUE"),
            (None, &["x=1", "x=2"], false, "in one list"),
            (None, &["x=1", "x.y=2"], false, "--arg x and --arg x.y"),
            (None, &["x=1..5..0"], false, "--arg x: 1..5..0: the step"),
            (None, &["x=1..99999999"], false, "at most 1000000"),
            (None, &["x=1..2000", "y=1..2000"], false, "more than 1000000 combinations"),
            (None, &["x=1..700000", "y=1..700000"], true, "at most 300000"),
            (None, &["lr=1,2,3", "seed=1..5"], true, "lr has 3, seed has 5"),
            (None, &["x=1,2,99999999999999999999"], false, "--arg x: use integers of 64 bits"),
            (Some(r#"{"x":1}"#), &["x.y=1,2"], false, "--arg x.y: x is given in --args"),
            (Some("[]"), &["x=1"], false, "--args"),
        ];
        for (base, given, is_zip, expected) in cases {
            match combinations(base, given, is_zip) {
                Err(Failure::Usage(message)) => assert!(message.contains(expected), "{given:?}: {message}"),
                other => panic!("{given:?}: {other:?}"),
            }
        }
    }
}
