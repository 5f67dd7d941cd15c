//! JSON from the command line: whole objects, files, and single members `KEY=VALUE`; and the definitions that the flags
//! describe, for one task and for many. Updates are in `change_args.rs`.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use taskqueue_client::{Definition, JsonObject, Route, Routes};
use taskqueue_core::definition::task_name;
use taskqueue_core::dotted_keys::{Members, scalar};
use taskqueue_core::json::{ObjectError, ParseError, Value, parse};
use taskqueue_core::limits::TASK_ROUTES;
use taskqueue_core::name_template::{NameError, NameTemplate};

use crate::args::{DefinitionArgs, ObjectArgs};
use crate::dotted_keys::{DottedMember, set_members};
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
    let mut members = whole.map_or(Ok(Vec::new()), |text| object_members(text, flag))?;
    set_members(&mut members, dotted_members("--arg", &given.arg)?)?;
    checked(&Value::Object(members), "--arg")
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
    let mut routes = given.to_vec();
    routes.sort();
    routes.dedup();
    if routes.is_empty() {
        return Ok(None);
    }
    let too_many = |_| Failure::Usage(format!("--route: name at most {TASK_ROUTES} routes"));
    Routes::requested(routes).map(Some).map_err(too_many)
}

/// Splits `KEY=VALUE`.
pub(crate) fn pair<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str), Failure> {
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

pub(crate) fn object_rule(error: &ObjectError) -> &'static str {
    match error {
        ObjectError::NotAnObject => "give a JSON object",
        ObjectError::TooDeep => "nest JSON at most 64 levels deep",
        ObjectError::Unusable { .. } => "use integers of 64 bits, finite numbers and whole characters",
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let text = if path.as_os_str() == STANDARD_INPUT {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| Failure::Refused(format!("cannot read {}: {error}", path.display())))
}

/// Returns what the flags say for many tasks: their name, which may have placeholders, and a definition without name and args.
pub(crate) fn named_definition(given: &DefinitionArgs) -> Result<(Option<NameTemplate>, Definition), Failure> {
    let parse =
        |text: &str| NameTemplate::parse(text).map_err(|error| Failure::Usage(format!("--name {text}: {error}")));
    let name = given.name.as_deref().map(parse).transpose()?;
    if let Some(name) = name.as_ref().filter(|name| !name.has_placeholders()) {
        name.fill(&JsonObject::empty()).map_err(|error| no_name(&error))?;
    }
    let unnamed = DefinitionArgs { name: None, ..given.clone() };
    Ok((name, definition(&unnamed, JsonObject::empty())?))
}

/// Returns why a task gets no name, in the words of the command.
pub(crate) fn no_name(error: &NameError) -> Failure {
    Failure::Usage(format!("--name: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            message("{").as_deref(),
            Some("--name {: write {KEY} for a value of the args, {{ and }} for braces")
        );
        let long = message(&"x".repeat(257));
        assert_eq!(long.as_deref(), Some("--name: use at most 256 characters without control characters"));
    }
}
