//! Objects from flags with dotted keys: `--arg model.layers=2` is the member `layers` of the object `model`, as filters and
//! the templates of workers reach it. A key that contains a dot itself is given as JSON with `--args`.

use std::borrow::Cow;

use taskqueue_core::json::Value;
use taskqueue_core::limits::JSON_DEPTH;

use crate::failure::Failure;

/// The members of an object, sorted by key.
pub(crate) type Members<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// One value for a dotted key, and the flag that gives it, for messages.
#[derive(Clone, Debug)]
pub(crate) struct DottedMember<'a> {
    pub(crate) flag: &'static str,
    pub(crate) key: &'a str,
    pub(crate) value: Value<'a>,
}

/// Where one member goes.
#[derive(Debug)]
struct Path<'a> {
    flag: &'static str,
    key: &'a str,
    steps: Vec<&'a str>,
}

/// Sets members of `base`, which is sorted. A key that is given twice, a key and a part of it (`a=1` and `a.b=2`), and a key
/// inside something that is no object in `base` are refused.
pub(crate) fn set_members<'a>(base: &mut Members<'a>, given: Vec<DottedMember<'a>>) -> Result<(), Failure> {
    let paths = paths(given.iter().map(|member| (member.flag, member.key)))?;
    for (path, DottedMember { flag, key, value }) in paths.iter().zip(given) {
        insert(base, path, value)
            .map_err(|parent| Failure::Usage(format!("{flag} {key}: {parent} is given too, and is not an object")))?;
    }
    Ok(())
}

/// The steps of each key, if all of them can be members of one object.
pub(crate) fn paths<'a>(keys: impl Iterator<Item = (&'static str, &'a str)>) -> Result<Vec<Vec<&'a str>>, Failure> {
    let paths = keys.map(|(flag, key)| Ok(Path { flag, key, steps: steps(flag, key)? }));
    let paths = paths.collect::<Result<Vec<Path<'a>>, Failure>>()?;
    let mut sorted: Vec<&Path<'a>> = paths.iter().collect();
    // A key stands directly before the keys inside it.
    sorted.sort_by(|a, b| a.steps.cmp(&b.steps));
    sorted.windows(2).try_for_each(|pair| check_together(pair[0], pair[1]))?;
    Ok(paths.into_iter().map(|path| path.steps).collect())
}

fn steps<'a>(flag: &'static str, key: &'a str) -> Result<Vec<&'a str>, Failure> {
    let refuse = |rule: &str| Failure::Usage(format!("{flag} {key}: {rule}"));
    let steps: Vec<&str> = key.split('.').collect();
    if steps.len() > JSON_DEPTH {
        return Err(refuse(&format!("nest JSON at most {JSON_DEPTH} levels deep")));
    }
    if steps.iter().any(|step| step.is_empty()) {
        return Err(refuse("a name is missing beside a dot; give keys that contain dots as JSON, with --args"));
    }
    Ok(steps)
}

fn check_together(first: &Path<'_>, second: &Path<'_>) -> Result<(), Failure> {
    let ((flag, key), (other_flag, inside)) = ((first.flag, first.key), (second.flag, second.key));
    let rule = if first.steps == second.steps {
        // To remove a member twice is no contradiction.
        if flag == other_flag && flag.starts_with("--unset") {
            return Ok(());
        }
        if flag == other_flag {
            let tasks = if flag == "--arg" { ", several tasks by taskqueue task sweep" } else { "" };
            return Err(Failure::Usage(format!(
                "{flag} {key} is given twice; give it once, several values as a list ({flag} '{key}=[1, 2]'){tasks}"
            )));
        }
        "give one of them".to_owned()
    } else if second.steps.starts_with(&first.steps) {
        format!("{inside} is a part of {key}; give one of them")
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!("{flag} {key} and {other_flag} {inside}: {rule}")))
}

/// Sets the member at the end of these steps. Fails with the key of what is no object on the way.
pub(crate) fn insert<'a>(members: &mut Members<'a>, path: &[&'a str], value: Value<'a>) -> Result<(), String> {
    let Some((&step, inner)) = path.split_first() else { return Ok(()) };
    let at = match members.binary_search_by(|(key, _)| (**key).cmp(step)) {
        Ok(at) => at,
        Err(at) => {
            members.insert(at, (step.into(), Value::Object(Vec::new())));
            at
        }
    };
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
