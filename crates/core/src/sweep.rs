//! The tasks of a sweep: every combination of the values of its keys, or zipped the first values together, then the second ones,
//! and so on. What a value is stands in `values`. Nothing is built before it is counted: a range with ten digits too many is
//! refused as quickly as any other mistake. What all tasks have is written once, with gaps for the values.

mod values;

use crate::dotted_keys::{self, KeyError, Members, Overlap, insert};
use crate::json::{JsonObject, ObjectError, Value, write_string, write_value};

/// More are probably a mistake, such as a range with a digit too many. Also bounds the values of all keys together.
pub const COMBINATIONS_MAX: usize = 1_000_000;
/// The most combinations of a sweep that a server makes for a browser: what it holds of one is some megabytes.
pub const BROWSER_COMBINATIONS_MAX: usize = 100_000;

/// One member of args and the values that it takes.
#[derive(Debug)]
struct Axis<'a> {
    key: &'a str,
    path: Vec<&'a str>,
    values: Vec<Value<'a>>,
}

/// The args of each task. Unless it is zipped the last axis changes fastest.
#[derive(Debug)]
pub struct Sweep<'a> {
    /// The args of all tasks, without the values.
    args: Gapped,
    axes: Vec<Axis<'a>>,
    is_zip: bool,
    count: usize,
}

/// Why there is no such sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepError {
    /// One of the keys with its values.
    Axis { key: String, error: AxisError },
    /// Two keys that do not go together.
    Together { first: String, second: String, overlap: Overlap },
    /// More than there may be.
    TooMany,
    /// Zipped, the keys have different numbers of values: these.
    Lengths(Vec<(String, usize)>),
    /// The base of all tasks is nothing that a task may have.
    Base(ObjectError),
}

/// A mistake in a key and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisError {
    /// The key stands there twice.
    Twice,
    Key(KeyError),
    /// The list of values, in a sentence.
    Values(String),
    /// The base of all tasks at this key, or above it, is no object.
    NotAnObject(String),
    /// A value that no task may have.
    Value(ObjectError),
}

impl<'a> Sweep<'a> {
    /// The sweep over these keys, each with the list of its values; `most` tasks, and values of all keys together. `base` is
    /// what all tasks have, and something that a task may have.
    pub fn new(base: Members<'a>, given: &[(&'a str, &'a str)], is_zip: bool, most: usize) -> Result<Self, SweepError> {
        let axes = axes(given, most)?;
        let count = if is_zip { zipped(&axes)? } else { multiplied(&axes, most)? };
        let args = args_with_gaps(base, &axes)?;
        Ok(Self { args, axes, is_zip, count })
    }

    /// How many tasks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Each key with how many values it has.
    pub fn axes(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.axes.iter().map(|axis| (axis.key, axis.values.len()))
    }

    /// The args of all tasks.
    pub fn combinations(&self) -> impl Iterator<Item = JsonObject> {
        (0..self.count).map(|index| self.combination(index))
    }

    /// The args of the task at `index`, which is less than [`Sweep::count`].
    pub fn combination(&self, index: usize) -> JsonObject {
        self.args.filled(&self.values_at(index))
    }

    /// The values of the keys of the task at `index`, in the order of the keys.
    pub fn values_at(&self, index: usize) -> Vec<&Value<'a>> {
        let mut values: Vec<_> = self.places(index).map(|(axis, at)| &axis.values[at]).collect();
        values.reverse();
        values
    }

    /// Which value each axis has at `index`; the last axis comes first.
    fn places(&self, index: usize) -> impl Iterator<Item = (&Axis<'a>, usize)> {
        let mut rest = index;
        self.axes.iter().rev().map(move |axis| {
            let at = if self.is_zip { index } else { rest % axis.values.len() };
            rest /= axis.values.len();
            (axis, at)
        })
    }
}

fn wrong(key: &str, error: AxisError) -> SweepError {
    SweepError::Axis { key: key.to_owned(), error }
}

fn axes<'a>(given: &[(&'a str, &'a str)], most: usize) -> Result<Vec<Axis<'a>>, SweepError> {
    let mut keys: Vec<&str> = given.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(wrong(twice[0], AxisError::Twice));
    }
    let steps =
        |&(key, _): &(&'a str, &'a str)| dotted_keys::steps(key).map_err(|error| wrong(key, AxisError::Key(error)));
    let paths = given.iter().map(steps).collect::<Result<Vec<_>, _>>()?;
    if let Some(&(first, second, overlap)) = dotted_keys::overlaps(&paths).first() {
        let key = |at: usize| given[at].0.to_owned();
        return Err(SweepError::Together { first: key(first), second: key(second), overlap });
    }
    let (mut axes, mut left) = (Vec::new(), most);
    for (&(key, list), path) in given.iter().zip(paths) {
        let values = values::values(list, left).map_err(|rule| wrong(key, AxisError::Values(rule)))?;
        left -= values.len();
        axes.push(Axis { key, path, values });
    }
    Ok(axes)
}

/// The args of all tasks. Finds now what would otherwise stop the sweep half-way: values that no task may have, and keys that
/// do not go together with what all tasks have.
fn args_with_gaps<'a>(mut base: Members<'a>, axes: &[Axis<'a>]) -> Result<Gapped, SweepError> {
    for axis in axes {
        // Numbers of ranges are many, and each is as good as the first.
        let is_number = |value: &&Value<'_>| matches!(value, Value::Int(_) | Value::Float(_));
        let others = axis.values.iter().filter(|value| !is_number(value));
        for value in axis.values.first().into_iter().chain(others) {
            // Alone: what all tasks have may be large.
            let mut alone = Members::new();
            put(&mut alone, axis, value.clone())?;
            let refuse = |error| wrong(axis.key, AxisError::Value(error));
            JsonObject::from_value(&Value::Object(alone)).map_err(refuse)?;
        }
        put(&mut base, axis, Value::Null)?;
    }
    let base = Value::Object(base);
    JsonObject::from_value(&base).map_err(SweepError::Base)?;
    Ok(Gapped::new(&base, &axes.iter().map(|axis| &*axis.path).collect::<Vec<_>>()))
}

fn put<'a>(members: &mut Members<'a>, axis: &Axis<'a>, value: Value<'a>) -> Result<(), SweepError> {
    insert(members, &axis.path, value).map_err(|parent| wrong(axis.key, AxisError::NotAnObject(parent)))
}

fn multiplied(axes: &[Axis<'_>], most: usize) -> Result<usize, SweepError> {
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    count.filter(|count| *count <= most).ok_or(SweepError::TooMany)
}

fn zipped(axes: &[Axis<'_>]) -> Result<usize, SweepError> {
    let count = axes.first().map_or(0, |axis| axis.values.len());
    if axes.iter().all(|axis| axis.values.len() == count) {
        return Ok(count);
    }
    Err(SweepError::Lengths(axes.iter().map(|axis| (axis.key.to_owned(), axis.values.len())).collect()))
}

#[derive(Debug, Default)]
struct Gapped {
    /// Each text with the axis whose value stands behind it, in the order of the text.
    pieces: Vec<(Vec<u8>, usize)>,
    /// The text behind the last gap; while it is written, the text since then.
    end: Vec<u8>,
}

impl Gapped {
    /// The object with a gap at each of these paths, at which it has something.
    fn new(object: &Value<'_>, paths: &[&[&str]]) -> Self {
        let mut gapped = Self::default();
        gapped.write(object, paths.iter().copied().enumerate().collect());
        gapped
    }

    /// Writes a value in which these axes have their gaps, each with the rest of its path.
    fn write(&mut self, value: &Value<'_>, axes: Vec<(usize, &[&str])>) {
        match (value, &axes[..]) {
            (_, [(axis, [])]) => self.pieces.push((std::mem::take(&mut self.end), *axis)),
            (Value::Object(members), [_, ..]) => {
                for (number, (key, member)) in members.iter().enumerate() {
                    self.end.push(if number == 0 { b'{' } else { b',' });
                    write_string(&mut self.end, key);
                    self.end.push(b':');
                    // Of those whose path begins with this key.
                    let inner = axes.iter().filter_map(|&(axis, path)| Some((axis, path.strip_prefix(&[&**key])?)));
                    self.write(member, inner.collect());
                }
                self.end.push(b'}');
            }
            _ => write_value(&mut self.end, value),
        }
    }

    /// With the value of each axis.
    fn filled(&self, values: &[&Value<'_>]) -> JsonObject {
        let mut out =
            Vec::with_capacity(self.end.len() + self.pieces.iter().map(|(piece, _)| piece.len() + 16).sum::<usize>());
        for (piece, axis) in &self.pieces {
            out.extend_from_slice(piece);
            write_value(&mut out, values[*axis]);
        }
        out.extend_from_slice(&self.end);
        // Values are written as UTF-8.
        JsonObject::from_canonical(&String::from_utf8(out).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn combinations(base: &str, given: &[(&str, &str)], is_zip: bool) -> Result<Vec<String>, SweepError> {
        let Ok(Value::Object(base)) = parse(base.as_bytes()) else { panic!("{base}") };
        let sweep = Sweep::new(base, given, is_zip, COMBINATIONS_MAX)?;
        Ok(sweep.combinations().map(|args| args.as_str().to_owned()).collect())
    }

    #[test]
    fn every_combination_occurs_once_the_last_axis_fastest() {
        let found = combinations("{}", &[("lr", "0.1,0.01"), ("seed", "1..3")], false).unwrap();
        let expected = [(0.1, 1), (0.1, 2), (0.1, 3), (0.01, 1), (0.01, 2), (0.01, 3)];
        assert_eq!(found, expected.map(|(lr, seed)| format!(r#"{{"lr":{lr},"seed":{seed}}}"#)));
        let sweep = Sweep::new(Vec::new(), &[("lr", "0.1,0.01"), ("seed", "1..3")], false, COMBINATIONS_MAX).unwrap();
        assert_eq!(sweep.values_at(4), [&Value::Float(0.01), &Value::Int(2)]);
    }

    #[test]
    fn dotted_keys_nest_beside_what_all_tasks_have() {
        let base = r#"{"m": {"act": "relu"}, "a.b": 1}"#;
        let found = combinations(base, &[("m.layers", "2,4"), ("seed", "1")], false).unwrap();
        let expected = [2, 4].map(|n| format!(r#"{{"a.b":1,"m":{{"act":"relu","layers":{n}}},"seed":1}}"#));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_value_takes_the_place_of_what_all_tasks_have_and_is_written_as_everywhere() {
        let base = r#"{"b":{"c":1,"e":[null,2.0]},"a":"x"}"#;
        let given = [("b.c", r#""\u00e9\n",[1,{"k":null}],1e-7"#), ("z", "true"), ("a", "null,\"\"")];
        let found = combinations(base, &given, false).unwrap();
        let values = ["\"é\\n\"", r#"[1,{"k":null}]"#, "1e-7"];
        let expected = values.into_iter().flat_map(|c| ["null", "\"\""].map(|a| (a, c)));
        let expected: Vec<_> =
            expected.map(|(a, c)| format!(r#"{{"a":{a},"b":{{"c":{c},"e":[null,2.0]}},"z":true}}"#)).collect();
        assert_eq!(found, expected);
        for text in found {
            let parsed = JsonObject::from_value(&parse(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(parsed.as_str(), text, "it is canonical");
        }
    }

    #[test]
    fn what_no_task_may_have_is_refused_before_the_first_one() {
        let value = combinations("{}", &[("x", "1,99999999999999999999")], false).unwrap_err();
        assert!(matches!(value, SweepError::Axis { error: AxisError::Value(_), .. }), "{value:?}");
        let base = combinations(r#"{"y":99999999999999999999}"#, &[("x", "1")], false).unwrap_err();
        assert!(matches!(base, SweepError::Base(_)), "{base:?}");
        let inside = combinations(r#"{"y":1}"#, &[("y.z", "1")], false).unwrap_err();
        assert!(matches!(inside, SweepError::Axis { error: AxisError::NotAnObject(_), .. }), "{inside:?}");
        let deep = format!("{}1{}", "[".repeat(63), "]".repeat(63));
        assert!(combinations("{}", &[("x", &deep)], false).is_ok());
        assert!(combinations("{}", &[("x.y", &deep)], false).is_err(), "deeper than a task may be");
    }

    #[test]
    fn zip_takes_the_values_together() {
        let found = combinations(r#"{"model":"a"}"#, &[("lr", "0.1,0.01"), ("seed", "1..2")], true).unwrap();
        assert_eq!(found, [r#"{"lr":0.1,"model":"a","seed":1}"#, r#"{"lr":0.01,"model":"a","seed":2}"#]);
    }

    #[test]
    fn a_billion_combinations_are_refused_before_any_is_built() {
        let thousand = "1..1000";
        let given = [("x", thousand), ("y", thousand), ("z", thousand)];
        assert_eq!(combinations("{}", &given, false), Err(SweepError::TooMany));
        let many: Vec<(String, &str)> = (0..64).map(|n| (format!("k{n}"), "1..1000")).collect();
        let given: Vec<(&str, &str)> = many.iter().map(|(key, list)| (key.as_str(), *list)).collect();
        assert_eq!(combinations("{}", &given, false), Err(SweepError::TooMany), "the product does not fit into a word");
        let huge = combinations("{}", &[("x", "1..1000000000")], false).unwrap_err();
        let SweepError::Axis { error: AxisError::Values(rule), .. } = &huge else { panic!("{huge:?}") };
        assert!(rule.contains("at most 1000000"), "{rule}");
    }
}
