//! JSON from the command line: whole objects, files, and single members `KEY=VALUE`, whose keys may have dots: `--arg model.layers=2` is the
//! member `layers` of the object `model` (`taskqueue_core::dotted_keys`; a key that contains a dot itself is given as JSON with `--args`). And
//! what the flags describe: definitions, for one task, for many and for a sweep; when a task may run; and updates: new values, and merge patches
//! of args and metadata (RFC 7396), which keep the members that they do not name.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use taskqueue_client::{
    Definition, Dependencies, JsonObject, Route, Routes, Scheduling, SchedulingFields, TaskId, Timestamp, Update,
};
use taskqueue_core::definition::task_name;
use taskqueue_core::dotted_keys::{KeyError, Members, Overlap, insert, overlaps, scalar, steps};
use taskqueue_core::json::{ObjectError, ParseError, Value, parse};
use taskqueue_core::limits::{DEPENDENCIES_MAX, JSON_DEPTH, TASK_ROUTES};
use taskqueue_core::name_template::{NameError, NameTemplate};
use taskqueue_core::sweep::{AxisError, COMBINATIONS_MAX, Sweep, SweepError};

use crate::args::{ChangeArgs, DefinitionArgs, ObjectArgs, PatchArgs, SchedulingArgs, SchedulingChangeArgs};
use crate::failure::Failure;

/// The file name that means standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Returns the args that the flags describe.
pub(crate) fn args_object(given: &ObjectArgs) -> Result<JsonObject, Failure> {
    let file = given.args_file.as_deref().map(read).transpose()?;
    let (whole, flag) = match &file {
        Some(text) => (Some(text.as_str()), "--args-file"),
        None => (given.args.as_deref(), "--args"),
    };
    object_with(whole.map_or(Ok(Vec::new()), |text| object_members(text, flag))?, "--arg", &given.arg)
}

/// Returns the object that has these members, set in those of `base`, if a task may have it.
pub(crate) fn object_with<'a>(
    mut base: Members<'a>,
    flag: &'static str,
    given: &'a [String],
) -> Result<JsonObject, Failure> {
    set_members(&mut base, dotted_members(flag, given)?)?;
    checked(&Value::Object(base), flag)
}

/// Reads the `KEY=VALUE` texts of a repeatable flag.
pub(crate) fn dotted_members<'a>(flag: &'static str, given: &'a [String]) -> Result<Vec<DottedMember<'a>>, Failure> {
    let members = given.iter().map(|text| {
        let (key, value) = pair(flag, text)?;
        Ok(DottedMember { flag, key, value: scalar(value) })
    });
    members.collect()
}

/// Returns the definition of a new task with these args.
pub(crate) fn definition(given: &DefinitionArgs, args: JsonObject) -> Result<Definition, Failure> {
    let default = Definition::default();
    Ok(Definition {
        name: given.name.as_deref().map(checked_name).transpose()?,
        args,
        metadata: given.metadata.as_deref().map_or(Ok(default.metadata), |text| object(text, "--metadata"))?,
        priority: given.priority.unwrap_or(default.priority),
        max_attempts: given.max_attempts.unwrap_or(default.max_attempts),
        routes: routes(&given.routes)?.unwrap_or(default.routes),
        scheduling: default.scheduling,
    })
}

pub(crate) fn checked_name(text: &str) -> Result<Arc<str>, Failure> {
    task_name(text).map_err(|_| Failure::Usage(format!("--name: {}", NameError::Invalid)))
}

/// Returns the routes, if any are given. Repeated routes count once.
pub(crate) fn routes(given: &[Route]) -> Result<Option<Routes>, Failure> {
    let routes: BTreeSet<Route> = given.iter().cloned().collect();
    let requested = (!routes.is_empty()).then(|| Routes::requested(routes.into_iter().collect()));
    requested.transpose().map_err(|_| Failure::Usage(format!("--route: name at most {TASK_ROUTES} routes")))
}

/// Splits `KEY=VALUE`.
fn pair<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str), Failure> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    split.ok_or_else(|| Failure::Usage(format!("{flag} {text}: write KEY=VALUE")))
}

pub(crate) fn object(text: &str, flag: &str) -> Result<JsonObject, Failure> {
    checked(&object_value(text, flag)?, flag)
}

/// Reads the members of an object that a task may have.
pub(crate) fn object_members<'a>(text: &'a str, flag: &str) -> Result<Members<'a>, Failure> {
    let value = object_value(text, flag)?;
    checked(&value, flag)?;
    Ok(if let Value::Object(members) = value { members } else { Vec::new() })
}

fn object_value<'a>(text: &'a str, flag: &str) -> Result<Value<'a>, Failure> {
    match parse(text.as_bytes()) {
        Ok(value @ (Value::Object(_) | Value::LoneSurrogateKeys(_))) => Ok(value),
        Ok(_) => Err(Failure::Usage(format!("{flag}: give a JSON object, such as '{{\"lr\": 0.1}}'"))),
        Err(ParseError::Malformed { message, byte }) => {
            Err(Failure::Usage(format!("{flag}: this is not JSON: {message} (at byte {byte})")))
        }
        Err(ParseError::TooDeep) => Err(Failure::Usage(format!("{flag}: the JSON is nested too deeply"))),
    }
}

/// Returns the object, if a task may have it.
pub(crate) fn checked(value: &Value<'_>, flag: &str) -> Result<JsonObject, Failure> {
    JsonObject::from_value(value).map_err(|error| Failure::Usage(format!("{flag}: {}", object_rule(&error))))
}

fn object_rule(error: &ObjectError) -> &'static str {
    match error {
        ObjectError::NotAnObject => "give a JSON object",
        ObjectError::TooDeep => "nest JSON at most 64 levels deep",
        ObjectError::Unusable { .. } => "use integers of 64 bits, finite numbers and whole characters",
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let is_input = path.as_os_str() == STANDARD_INPUT;
    let text = if is_input { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    text.map_err(Failure::cannot_read(path.display()))
}

/// Returns what the flags say for many tasks: their name, which may have placeholders, and a definition without name and args.
pub(crate) fn named_definition(given: &DefinitionArgs) -> Result<(Option<NameTemplate>, Definition), Failure> {
    let parse =
        |text: &str| NameTemplate::parse(text).map_err(|error| Failure::Usage(format!("--name {text}: {error}")));
    let name = given.name.as_deref().map(parse).transpose()?;
    if let Some(name) = name.as_ref().filter(|name| !name.has_placeholders()) {
        name.fill(&JsonObject::empty()).map_err(|error| no_name(&error))?;
    }
    Ok((name, definition(&DefinitionArgs { name: None, ..given.clone() }, JsonObject::empty())?))
}

/// Returns why a task gets no name, in the words of the command.
pub(crate) fn no_name(error: &NameError) -> Failure {
    Failure::Usage(format!("--name: {error}"))
}

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

fn key_rule(error: KeyError) -> String {
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
fn together((flag, key): (&str, &str), (other_flag, inside): (&str, &str)) -> String {
    format!("{flag} {key} and {other_flag} {inside}: {inside} is a part of {key}; give one of them")
}

/// Returns the sweep that the flags describe. Its rules are in `taskqueue_core::sweep`; here their errors get the names of the flags.
pub(crate) fn sweep<'a>(base: Option<&'a str>, given: &'a [String], is_zip: bool) -> Result<Sweep<'a>, Failure> {
    let base = base.map_or(Ok(Vec::new()), |text| object_members(text, "--args"))?;
    let pairs = given.iter().map(|text| pair("--arg", text)).collect::<Result<Vec<_>, _>>()?;
    Sweep::new(base, &pairs, is_zip, COMBINATIONS_MAX).map_err(|error| sweep_failure(&error))
}

/// Returns the error in the words of the command.
fn sweep_failure(error: &SweepError) -> Failure {
    let message = match error {
        SweepError::Axis { key, error } => format!("--arg {key}: {}", axis_rule(error)),
        SweepError::Together { first, second, overlap: Overlap::Inside } => {
            together(("--arg", first), ("--arg", second))
        }
        // Keys that are the same are refused as twice before.
        SweepError::Together { first, overlap: Overlap::Same, .. } => {
            format!("--arg {first}: {}", axis_rule(&AxisError::Twice))
        }
        SweepError::TooMany => format!("these are more than {COMBINATIONS_MAX} combinations"),
        SweepError::Lengths(lengths) => {
            let lengths: Vec<String> = lengths.iter().map(|(key, count)| format!("{key} has {count}")).collect();
            let rule = "all keys need the same number of values; what all tasks have goes into --args";
            format!("--zip: {}; {rule}", lengths.join(", "))
        }
        SweepError::Base(error) => format!("--args: {}", object_rule(error)),
    };
    Failure::Usage(message)
}

fn axis_rule(error: &AxisError) -> String {
    match error {
        AxisError::Twice => "give all its values in one list".to_owned(),
        AxisError::Key(error @ (KeyError::TooDeep | KeyError::NameMissing)) => key_rule(*error),
        AxisError::Values(rule) => rule.clone(),
        AxisError::NotAnObject(parent) => format!("{parent} is given in --args, and is not an object"),
        AxisError::Value(error) => object_rule(error).to_owned(),
    }
}

/// The flags for one of the documents of a task.
#[derive(Clone, Copy, Debug)]
struct DocumentFlags {
    set: &'static str,
    unset: &'static str,
    replace: &'static str,
}

const ARGS: DocumentFlags = DocumentFlags { set: "--arg", unset: "--unset-arg", replace: "--args" };
const METADATA: DocumentFlags = DocumentFlags { set: "--meta", unset: "--unset-meta", replace: "--metadata" };

/// Returns what `task update` changes; at least something. `after` are the tasks that `--after` and `--after-batch` name.
pub(crate) fn update(given: &ChangeArgs, after: Vec<TaskId>, now: Timestamp) -> Result<Update, Failure> {
    let ChangeArgs { patch, args, args_file, metadata, no_name, result, .. } = given;
    let patches = patches(patch)?;
    let whole = ObjectArgs { args: args.clone(), arg: Vec::new(), args_file: args_file.clone() };
    refuse_both(ARGS, !whole.is_empty(), patches.args_patch.is_some())?;
    refuse_both(METADATA, metadata.is_some(), patches.metadata_patch.is_some())?;
    let new_name = given.name.as_deref().map(checked_name).transpose()?;
    let SchedulingChangeArgs { new, no_delay, no_retry_delay, no_timeout, no_after } = &given.scheduling;
    // Without a delay a task can be claimed at once.
    let is_at_once = *no_delay || new.delay.is_some_and(|delay| delay.is_zero());
    let update = Update {
        name: if *no_name { Some(None) } else { new_name.map(Some) },
        args: (!whole.is_empty()).then(|| args_object(&whole)).transpose()?,
        metadata: metadata.as_deref().map(|text| object(text, METADATA.replace)).transpose()?,
        priority: given.priority,
        max_attempts: given.max_attempts,
        routes: routes(&given.routes)?,
        result: result.as_deref().map(|text| object(text, "--result")).transpose()?,
        not_before: if is_at_once { Some(None) } else { not_before(new, now).map(Some) },
        retry_delay: if *no_retry_delay { Some(None) } else { new.retry_delay.map(Some) },
        timeout_seconds: if *no_timeout { Some(None) } else { new.timeout.map(Some) },
        dependencies: Some(dependencies(after)?).filter(|after| *no_after || !after.is_empty()),
        on_dependency_failure: new.on_dependency_failure,
        ..patches
    };
    if update == Update::default() {
        return Err(Failure::Usage(
            "say what to change, for example --priority 5; see taskqueue task update --help".to_owned(),
        ));
    }
    Ok(update)
}

/// Returns an update that changes single members, or nothing.
pub(crate) fn patches(given: &PatchArgs) -> Result<Update, Failure> {
    let args_patch = patch(ARGS, &given.arg, &given.unset_arg)?;
    let metadata_patch = patch(METADATA, &given.meta, &given.unset_meta)?;
    Ok(Update { args_patch, metadata_patch, ..Update::default() })
}

fn patch(flags: DocumentFlags, set: &[String], unset: &[String]) -> Result<Option<JsonObject>, Failure> {
    let mut given = dotted_members(flags.set, set)?;
    given.iter().try_for_each(|member| refuse_null(flags, member))?;
    if let Some(key) = unset.iter().find(|key| key.contains('=')) {
        let DocumentFlags { unset, replace, .. } = flags;
        let rule = "give the key alone, without a value";
        return Err(Failure::Usage(format!(
            "{unset} {key}: {rule}; a key with = in it can only be removed by {replace} JSON"
        )));
    }
    given.extend(unset.iter().map(|key| DottedMember { flag: flags.unset, key, value: Value::Null }));
    if given.is_empty() {
        return Ok(None);
    }
    let mut members = Vec::new();
    set_members(&mut members, given)?;
    checked(&Value::Object(members), flags.set).map(Some)
}

/// Refuses null, which removes a member in a merge patch, so it cannot be set by one.
fn refuse_null(flags: DocumentFlags, member: &DottedMember<'_>) -> Result<(), Failure> {
    if !removes(&member.value) {
        return Ok(());
    }
    let (DocumentFlags { set, unset, replace }, key) = (flags, member.key);
    Err(Failure::Usage(format!(
        "{set} {key}: null cannot be set in this way; {unset} {key} removes the member, and {replace} JSON, which replaces \
         everything, can contain null"
    )))
}

/// Returns whether a merge patch with this value removes something. An array replaces what is there as a whole, nulls included.
fn removes(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.iter().any(|(_, value)| removes(value)),
        _ => false,
    }
}

/// Refuses a whole and its members together: who adds a member to `--args` may not expect that the others are lost.
fn refuse_both(flags: DocumentFlags, is_replaced: bool, is_patched: bool) -> Result<(), Failure> {
    let DocumentFlags { set, unset, replace } = flags;
    if is_replaced && is_patched {
        return Err(Failure::Usage(format!(
            "{replace} replaces everything, {set} and {unset} change single members and keep the others: use one or the other"
        )));
    }
    Ok(())
}

/// Returns from when on a task can be claimed, if that is not at once.
pub(crate) fn not_before(given: &SchedulingArgs, now: Timestamp) -> Option<Timestamp> {
    let delayed = given.delay.filter(|delay| !delay.is_zero()).map(|delay| now.plus(delay));
    delayed.or(given.not_before)
}

/// Returns what the flags say of when a task may run, for how long, and behind which others. `after` are the tasks that `--after` and `--after-batch` name.
pub(crate) fn scheduling(given: &SchedulingArgs, after: Vec<TaskId>) -> Result<Scheduling, Failure> {
    let fields = SchedulingFields {
        retry_delay: given.retry_delay,
        timeout_seconds: given.timeout,
        dependencies: dependencies(after)?,
        on_dependency_failure: given.on_dependency_failure.unwrap_or_default(),
    };
    Ok(fields.into())
}

fn dependencies(after: Vec<TaskId>) -> Result<Dependencies, Failure> {
    Dependencies::new(after).ok_or_else(too_many)
}

/// Returns the refusal of too many tasks. What to do instead is the same however they were named.
pub(crate) fn too_many() -> Failure {
    Failure::Usage(format!(
        "a task can wait for at most {DEPENDENCIES_MAX} others; wait for them here with taskqueue task wait, or let tasks \
         in between wait for parts of them"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_client::OnDependencyFailure;

    use super::*;
    use crate::field_path::json_text;

    fn args(whole: Option<&str>, members: &[&str]) -> Result<String, Failure> {
        let arg = members.iter().map(|&member| member.to_owned()).collect();
        args_object(&ObjectArgs { args: whole.map(str::to_owned), arg, args_file: None })
            .map(|object| object.as_str().to_owned())
    }

    #[test]
    fn members_are_json_where_they_are_json_and_text_otherwise() {
        let cases = [
            (vec!["lr=0.1", "n=3"], r#"{"lr":0.1,"n":3}"#),
            (vec!["model=resnet50"], r#"{"model":"resnet50"}"#),
            (vec!["ok=true", "no=null"], r#"{"no":null,"ok":true}"#),
            (vec!["list=[1, 2]"], r#"{"list":[1,2]}"#),
            (vec![r#"seven="7""#], r#"{"seven":"7"}"#),
            (vec!["eq=a=b", "empty="], r#"{"empty":"","eq":"a=b"}"#),
            (vec!["model.layers=2", "model.act=relu"], r#"{"model":{"act":"relu","layers":2}}"#),
            (vec![r#"m={"a.b": 1}"#], r#"{"m":{"a.b":1}}"#),
        ];
        for (members, expected) in cases {
            assert_eq!(args(None, &members).as_deref(), Ok(expected), "{members:?}");
        }
        assert_eq!(args(Some(r#"{"b": 1, "a": {"c": 1e2}}"#), &["b=2"]).as_deref(), Ok(r#"{"a":{"c":100.0},"b":2}"#));
        let nested = args(Some(r#"{"m": {"a": 1}, "x.y": 1}"#), &["m.b=2"]);
        assert_eq!(nested.as_deref(), Ok(r#"{"m":{"a":1,"b":2},"x.y":1}"#));
        assert_eq!(args(None, &[]).as_deref(), Ok("{}"));
    }

    #[test]
    fn what_cannot_be_args_is_refused() {
        for whole in ["", "[1]", "1", "{", "{\"a\":99999999999999999999}", r#"{"\ud800":1}"#] {
            assert!(matches!(args(Some(whole), &[]), Err(Failure::Usage(_))), "{whole}");
        }
        assert!(matches!(args(Some(r#"{"a": 1}"#), &["a.b=2"]), Err(Failure::Usage(_))));
        let Err(Failure::Usage(twice)) = args(None, &["x=1", "y=1", "x=2"]) else { panic!("the last one counts") };
        assert!(twice.contains("--arg x is given twice") && twice.contains("--arg 'x=[1, 2]'"), "{twice}");
        for member in ["noequals", "=1", "a..b=1", "big=99999999999999999999", "inf=1e999"] {
            assert!(matches!(args(None, &[member]), Err(Failure::Usage(_))), "{member}");
        }
    }

    #[test]
    fn a_name_that_cannot_be_is_refused_with_its_flag() {
        let message = |name: &str| {
            let given = DefinitionArgs { name: Some(name.to_owned()), ..DefinitionArgs::default() };
            named_definition(&given).err().and_then(|failure| failure.message().map(str::to_owned))
        };
        assert_eq!(message("vit-{seed}"), None);
        let expected = Some("--name {: write {KEY} for a value of the args, {{ and }} for braces");
        assert_eq!(message("{").as_deref(), expected);
        let long = message(&"x".repeat(257));
        assert_eq!(long.as_deref(), Some("--name: use at most 256 characters without control characters"));
    }

    fn set(base: &str, given: &[(&'static str, &'static str)]) -> Result<String, String> {
        let Ok(Value::Object(mut members)) = parse(base.as_bytes()) else { panic!("{base}") };
        let given = given.iter().enumerate();
        let given = given.map(|(n, &(flag, key))| DottedMember { flag, key, value: Value::Int(n as i64 + 1) });
        match set_members(&mut members, given.collect()) {
            Ok(()) => Ok(json_text(&Value::Object(members))),
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

    /// `--args`, the `--arg`s, whether with `--zip`, and what the message says.
    type Mistake<'a> = (Option<&'a str>, &'a [&'a str], bool, &'a str);

    #[test]
    fn mistakes_are_refused_before_anything_is_made() {
        let cases: [Mistake<'_>; 13] = [
            (None, &["x"], false, "KEY=VALUE"),
            (None, &["x=1", "x=2"], false, "--arg x: give all its values in one list"),
            (None, &["x=1", "x.y=2"], false, "--arg x and --arg x.y: x.y is a part of x; give one of them"),
            (None, &["x..y=2"], false, "--arg x..y: a name is missing beside a dot"),
            (None, &["x=1..5..0"], false, "--arg x: 1..5..0: the step"),
            (None, &["x=1..99999999"], false, "at most 1000000"),
            (None, &["x=1..2000", "y=1..2000"], false, "more than 1000000 combinations"),
            (None, &["x=1..700000", "y=1..700000"], true, "at most 300000"),
            (None, &["lr=1,2,3", "seed=1..5"], true, "lr has 3, seed has 5"),
            (None, &["x=1,2,99999999999999999999"], false, "--arg x: use integers of 64 bits"),
            (Some(r#"{"x":1}"#), &["x.y=1,2"], false, "--arg x.y: x is given in --args"),
            (Some("[]"), &["x=1"], false, "--args"),
            (Some(r#"{"x":1}"#), &["x.y=1,2", "x=3"], false, "--arg x and --arg x.y"),
        ];
        for (base, given, is_zip, expected) in cases {
            let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
            match sweep(base, &given, is_zip) {
                Err(Failure::Usage(message)) => assert!(message.contains(expected), "{given:?}: {message}"),
                other => panic!("{given:?}: {other:?}"),
            }
        }
    }

    fn args_patch(set: &[&str], unset: &[&str]) -> Result<String, String> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let given = PatchArgs { arg: owned(set), unset_arg: owned(unset), ..PatchArgs::default() };
        match patches(&given) {
            Ok(update) => Ok(update.args_patch.map_or_else(|| "nothing".to_owned(), |patch| patch.as_str().to_owned())),
            Err(failure) => Err(failure.message().unwrap_or_default().to_owned()),
        }
    }

    #[test]
    fn members_are_set_and_removed_also_inside_of_others() {
        let cases: [(&[&str], &[&str], &str); 5] = [
            (&["lr=0.1", "m.layers=4"], &["m.old", "x"], r#"{"lr":0.1,"m":{"layers":4,"old":null},"x":null}"#),
            (&[r#"m={"a": {}, "b": [null, {"c": null}]}"#], &[], r#"{"m":{"a":{},"b":[null,{"c":null}]}}"#),
            (&["name=none", "empty="], &[], r#"{"empty":"","name":"none"}"#),
            (&[r#"q="null""#], &[], r#"{"q":"null"}"#),
            (&[], &[], "nothing"),
        ];
        for (set, unset, expected) in cases {
            assert_eq!(args_patch(set, unset).as_deref(), Ok(expected), "{set:?} {unset:?}");
        }
    }

    #[test]
    fn what_a_merge_patch_cannot_say_is_refused_with_what_can() {
        for member in ["k=null", "k= null ", r#"k={"a": null}"#, r#"k={"a": {"b": null}}"#, "k.a=null"] {
            let message = args_patch(&[member], &[]).unwrap_err();
            assert!(message.contains("--unset-arg k") && message.contains("--args JSON"), "{member}: {message}");
        }
        for (set, unset) in [(vec!["a=1", "a.b=2"], vec![]), (vec!["a.b=1"], vec!["a"]), (vec!["a=1"], vec!["a"])] {
            assert!(args_patch(&set, &unset).unwrap_err().contains("give one of them"), "{set:?} {unset:?}");
        }
    }

    #[test]
    fn a_member_is_removed_by_its_key_alone() {
        assert!(args_patch(&[], &["a=1"]).unwrap_err().contains("give the key alone"));
    }

    #[test]
    fn a_whole_and_its_members_are_not_given_together() {
        let patch = PatchArgs { arg: vec!["a=1".to_owned()], ..PatchArgs::default() };
        let both = ChangeArgs { patch, args: Some("{}".to_owned()), ..ChangeArgs::default() };
        let update = |given: &ChangeArgs| update(given, Vec::new(), Timestamp::from_micros(0));
        assert!(matches!(update(&both), Err(Failure::Usage(message)) if message.contains("keep the others")));
        assert!(matches!(update(&ChangeArgs::default()), Err(Failure::Usage(message)) if message.contains("say what")));
    }

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn id(n: usize) -> TaskId {
        TaskId::parse(&format!("t_{n:0>12}")).unwrap()
    }

    fn delayed(seconds: u64) -> SchedulingArgs {
        SchedulingArgs { delay: Some(Duration::from_secs(seconds)), ..SchedulingArgs::default() }
    }

    #[test]
    fn a_delay_is_a_time_from_now_on_and_none_is_at_once() {
        assert_eq!(not_before(&delayed(600), NOW), Some(NOW.plus_seconds(600)));
        assert_eq!(not_before(&delayed(0), NOW), None);
        assert_eq!(not_before(&SchedulingArgs::default(), NOW), None);
        let at = SchedulingArgs { not_before: Some(NOW), ..SchedulingArgs::default() };
        assert_eq!(not_before(&at, NOW.plus_seconds(5)), Some(NOW));
        let latest = not_before(&delayed(u64::MAX), NOW).unwrap();
        assert!(latest.to_string().starts_with("9999-12-31T"), "{latest}");
    }

    #[test]
    fn a_task_is_waited_for_once_however_often_it_is_named() {
        let given = SchedulingArgs::default();
        let scheduling = scheduling(&given, vec![id(2), id(1), id(3), id(1)]).unwrap();
        assert_eq!(scheduling.dependencies.as_slice(), [id(1), id(2), id(3)]);
        let refused = super::scheduling(&given, (0..1001).map(id).collect());
        assert!(matches!(refused, Err(Failure::Usage(message)) if message.contains("at most 1000 others; wait")));
    }

    #[test]
    fn an_update_changes_what_is_named_and_takes_away_what_is_not_wanted() {
        let of_scheduling =
            |given: &SchedulingChangeArgs| ChangeArgs { scheduling: given.clone(), ..ChangeArgs::default() };
        let change_after = |given: &SchedulingChangeArgs, after| update(&of_scheduling(given), after, NOW).unwrap();
        let change = |given: &SchedulingChangeArgs| change_after(given, Vec::new());
        let nothing = update(&of_scheduling(&SchedulingChangeArgs::default()), Vec::new(), NOW);
        assert!(matches!(nothing, Err(Failure::Usage(_))), "{nothing:?}");
        let none = SchedulingChangeArgs {
            no_delay: true,
            no_retry_delay: true,
            no_timeout: true,
            no_after: true,
            ..SchedulingChangeArgs::default()
        };
        let cleared = Update {
            not_before: Some(None),
            retry_delay: Some(None),
            timeout_seconds: Some(None),
            dependencies: Some(Dependencies::default()),
            ..Update::default()
        };
        assert_eq!(change(&none), cleared);
        let on_dependency_failure = Some(OnDependencyFailure::Cancel);
        let new = SchedulingArgs { timeout: Some(60), on_dependency_failure, ..delayed(10) };
        let changed = Update {
            not_before: Some(Some(NOW.plus_seconds(10))),
            timeout_seconds: Some(Some(60)),
            dependencies: Dependencies::new(vec![id(1)]),
            on_dependency_failure: Some(OnDependencyFailure::Cancel),
            ..Update::default()
        };
        let given = SchedulingChangeArgs { new, ..SchedulingChangeArgs::default() };
        assert_eq!(change_after(&given, vec![id(1)]), changed);
        let at_once = SchedulingChangeArgs { new: delayed(0), ..SchedulingChangeArgs::default() };
        assert_eq!(change(&at_once).not_before, Some(None));
    }
}
