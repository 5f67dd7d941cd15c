//! Keys with dots: `model.layers` is the member `layers` of the object `model`, as filters and the templates of workers reach it.
//! A key that contains a dot itself cannot be written so.

use std::borrow::Cow;

use crate::json::{Value, parse};
use crate::limits::JSON_DEPTH;

/// The members of an object, sorted by key.
pub type Members<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It reaches deeper than JSON may be nested.
    TooDeep,
    /// Nothing stands beside a dot.
    NameMissing,
}

/// How two keys contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    Same,
    /// The second is inside the first.
    Inside,
}

/// The steps of a key.
pub fn steps(key: &str) -> Result<Vec<&str>, KeyError> {
    let steps: Vec<&str> = key.split('.').collect();
    if steps.len() > JSON_DEPTH {
        return Err(KeyError::TooDeep);
    }
    if steps.iter().any(|step| step.is_empty()) {
        return Err(KeyError::NameMissing);
    }
    Ok(steps)
}

/// The keys that cannot be members of one object together, by their places.
pub fn overlaps(paths: &[Vec<&str>]) -> Vec<(usize, usize, Overlap)> {
    let mut sorted: Vec<(usize, &Vec<&str>)> = paths.iter().enumerate().collect();
    // A key stands directly before the keys inside it.
    sorted.sort_by(|a, b| a.1.cmp(b.1));
    let overlap = |pair: &[(usize, &Vec<&str>)]| {
        let ((first, outer), (second, inner)) = (pair[0], pair[1]);
        let how = if outer == inner { Overlap::Same } else { Overlap::Inside };
        inner.starts_with(outer).then_some((first, second, how))
    };
    sorted.windows(2).filter_map(overlap).collect()
}

/// Sets the member at the end of these steps. Fails with the key of what is no object on the way.
pub fn insert<'a>(members: &mut Members<'a>, path: &[&'a str], value: Value<'a>) -> Result<(), String> {
    let Some((&step, inner)) = path.split_first() else { return Ok(()) };
    let at = members.binary_search_by(|(key, _)| (**key).cmp(step)).unwrap_or_else(|at| {
        members.insert(at, (step.into(), Value::Object(Vec::new())));
        at
    });
    let slot = &mut members[at].1;
    if inner.is_empty() {
        *slot = value;
        return Ok(());
    }
    match slot {
        Value::Object(members) => insert(members, inner, value).map_err(|parent| format!("{step}.{parent}")),
        _ => Err(step.to_owned()),
    }
}

/// A JSON value if the text is JSON, else the text as a string.
pub fn scalar(text: &str) -> Value<'_> {
    parse(text.as_bytes()).unwrap_or(Value::Str(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_the_same_or_inside_each_other_overlap_and_neighbours_do_not() {
        let paths = |keys: &[&'static str]| keys.iter().map(|key| steps(key).unwrap()).collect::<Vec<_>>();
        assert_eq!(overlaps(&paths(&["a", "a-b.c", "ab", "a0", "b.a"])), []);
        assert_eq!(overlaps(&paths(&["x", "a.b", "a.b"])), [(1, 2, Overlap::Same)]);
        assert_eq!(overlaps(&paths(&["a.b.c", "x", "a"])), [(2, 0, Overlap::Inside)]);
    }

    #[test]
    fn a_key_has_a_name_beside_each_dot_and_a_bounded_depth() {
        assert_eq!(steps("m.layers"), Ok(vec!["m", "layers"]));
        for key in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(steps(key), Err(KeyError::NameMissing), "{key}");
        }
        assert_eq!(steps(&"a.".repeat(1_000_000)), Err(KeyError::TooDeep));
    }

    #[test]
    fn a_value_is_json_where_it_is_json_and_text_otherwise() {
        assert_eq!(scalar("0.1"), Value::Float(0.1));
        assert_eq!(scalar("resnet50"), Value::Str("resnet50".into()));
        assert_eq!(scalar("\"7\""), Value::Str("7".into()));
    }
}
