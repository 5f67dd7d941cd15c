//! Objects from flags with dotted keys: `--arg model.layers=2` is the member `layers` of the object `model`
//! (`taskqueue_core::dotted_keys`). A key that contains a dot itself is given as JSON with `--args`.

use taskqueue_core::dotted_keys::{KeyError, Members, Overlap, insert, overlaps, steps};
use taskqueue_core::json::Value;
use taskqueue_core::limits::JSON_DEPTH;

use crate::failure::Failure;

/// One value for a dotted key, and the flag that gives it, for messages.
#[derive(Clone, Debug)]
pub(crate) struct DottedMember<'a> {
    pub(crate) flag: &'static str,
    pub(crate) key: &'a str,
    pub(crate) value: Value<'a>,
}

/// Sets members of `base`, which is sorted. A key that is given twice, a key and a part of it (`a=1` and `a.b=2`), and a key
/// inside something that is no object in `base` are refused.
pub(crate) fn set_members<'a>(base: &mut Members<'a>, given: Vec<DottedMember<'a>>) -> Result<(), Failure> {
    let paths = given.iter().map(|DottedMember { flag, key, .. }| {
        steps(key).map_err(|error| Failure::Usage(format!("{flag} {key}: {}", key_rule(error))))
    });
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    for (first, second, overlap) in overlaps(&paths) {
        check_overlap(&given[first], &given[second], overlap)?;
    }
    for (path, DottedMember { flag, key, value }) in paths.iter().zip(given) {
        insert(base, path, value)
            .map_err(|parent| Failure::Usage(format!("{flag} {key}: {parent} is given too, and is not an object")))?;
    }
    Ok(())
}

pub(crate) fn key_rule(error: KeyError) -> String {
    match error {
        KeyError::TooDeep => format!("nest JSON at most {JSON_DEPTH} levels deep"),
        KeyError::NameMissing => {
            "a name is missing beside a dot; give keys that contain dots as JSON, with --args".to_owned()
        }
    }
}

fn check_overlap(first: &DottedMember<'_>, second: &DottedMember<'_>, overlap: Overlap) -> Result<(), Failure> {
    let ((flag, key), (other_flag, inside)) = ((first.flag, first.key), (second.flag, second.key));
    Err(Failure::Usage(match overlap {
        // To remove a member twice is no contradiction.
        Overlap::Same if flag == other_flag && flag.starts_with("--unset") => return Ok(()),
        Overlap::Same if flag == other_flag => {
            let tasks = if flag == "--arg" { ", several tasks by taskqueue task sweep" } else { "" };
            format!(
                "{flag} {key} is given twice; give it once, several values as a list ({flag} '{key}=[1, 2]'){tasks}"
            )
        }
        Overlap::Same => format!("{flag} {key} and {other_flag} {inside}: give one of them"),
        Overlap::Inside => together((flag, key), (other_flag, inside)),
    }))
}

/// Refuses a key and one inside it, each with its flag.
pub(crate) fn together((flag, key): (&str, &str), (other_flag, inside): (&str, &str)) -> String {
    format!("{flag} {key} and {other_flag} {inside}: {inside} is a part of {key}; give one of them")
}

#[cfg(test)]
mod tests {
    use taskqueue_core::json::{parse, write_value};

    use super::*;

    fn set(base: &str, given: &[(&'static str, &'static str)]) -> Result<String, String> {
        let Ok(Value::Object(mut members)) = parse(base.as_bytes()) else { panic!("{base}") };
        let given = given.iter().enumerate();
        let given = given.map(|(n, &(flag, key))| DottedMember { flag, key, value: Value::Int(n as i64 + 1) });
        match set_members(&mut members, given.collect()) {
            Ok(()) => {
                let mut text = Vec::new();
                write_value(&mut text, &Value::Object(members));
                Ok(String::from_utf8(text).unwrap())
            }
            Err(failure) => Err(failure.message().unwrap_or_default().to_owned()),
        }
    }

    #[test]
    fn dots_reach_inside_and_keep_what_else_is_there() {
        let cases: [(&str, &[&str], &str); 6] = [
            ("{}", &["a"], r#"{"a":1}"#),
            ("{}", &["m.layers", "m.width", "a"], r#"{"a":3,"m":{"layers":1,"width":2}}"#),
            ("{}", &["a.b.c", "a.b.d", "a.c"], r#"{"a":{"b":{"c":1,"d":2},"c":3}}"#),
            // Neighbours in the alphabet are no parts of each other.
            ("{}", &["a", "a-b.c", "ab", "a0"], r#"{"a":1,"a-b":{"c":2},"a0":4,"ab":3}"#),
            (r#"{"a":{"x":0,"y":0},"z":0}"#, &["a.x"], r#"{"a":{"x":1,"y":0},"z":0}"#),
            (r#"{"a":{"x":0}}"#, &["a"], r#"{"a":1}"#),
        ];
        for (base, keys, expected) in cases {
            let given: Vec<_> = keys.iter().map(|&key| ("--arg", key)).collect();
            assert_eq!(set(base, &given).as_deref(), Ok(expected), "{base} {keys:?}");
        }
    }

    /// What is there, the flags with their keys, and what the message says.
    type Contradiction = (&'static str, &'static [(&'static str, &'static str)], &'static str);

    #[test]
    fn what_contradicts_itself_is_refused_and_names_both_flags() {
        let cases: [Contradiction; 9] = [
            ("{}", &[("--arg", "a.b"), ("--arg", "a.b")], "--arg a.b is given twice; give it once"),
            ("{}", &[("--arg", "a"), ("--arg", "a.b")], "--arg a and --arg a.b: a.b is a part of a"),
            ("{}", &[("--arg", "a.b.c"), ("--arg", "x"), ("--arg", "a")], "--arg a and --arg a.b.c: "),
            ("{}", &[("--arg", "a.b"), ("--unset-arg", "a")], "--unset-arg a and --arg a.b: "),
            ("{}", &[("--arg", "a"), ("--unset-arg", "a")], "--arg a and --unset-arg a: give one of them"),
            (r#"{"a":{"b":1}}"#, &[("--arg", "a.b.c")], "--arg a.b.c: a.b is given too, and is not an object"),
            ("{}", &[("--arg", "a..b")], "--arg a..b: a name is missing"),
            ("{}", &[("--arg", ".a")], "a name is missing"),
            ("{}", &[("--arg", "a.")], "with --args"),
        ];
        for (base, given, expected) in cases {
            let message = set(base, given).unwrap_err();
            assert!(message.contains(expected), "{given:?}: {message}");
        }
        assert_eq!(set("{}", &[("--unset-arg", "a"), ("--unset-arg", "a")]).as_deref(), Ok(r#"{"a":2}"#));
        let deep: &'static str = Box::leak("a.".repeat(1_000_000).into_boxed_str());
        assert!(set("{}", &[("--arg", deep)]).unwrap_err().contains("64 levels"));
    }
}
