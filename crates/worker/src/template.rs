//! The argv template: `%{name}` and `%{object.field}` stand for values of a task's args, `%{name:text}` for the text where a task
//! has no such value, `%{slot}` for the number of the slot, `%{{` for the two characters `%{`. There is no shell: an element stays one argument, whatever a value contains.

use std::ffi::{OsStr, OsString};

use taskqueue_core::json::{Found, JsonObject, lookup, members};

/// This name stands for the slot number, not for an argument.
const SLOT: &str = "slot";

/// The number of values of a task that are looked at for one that may be meant.
const PATHS_LOOKED_AT: usize = 1000;

/// A command with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Vec<Piece>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(OsString),
    Argument {
        path: Vec<String>,
        /// For tasks without this value.
        default: Option<String>,
    },
    Slot,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("element {element} of the command, column {column}: {advice}")]
pub struct TemplateError {
    /// The number of the element in the command, the program being 1.
    pub element: usize,
    /// The character within the element, from 1.
    pub column: usize,
    pub advice: &'static str,
}

/// The reason for which the args of a task do not fill a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillError {
    /// The args have no such value: its path.
    Missing(String),
    /// The value at this path contains U+0000, which no argument of a program can.
    Nul(String),
}

impl Template {
    /// Parses a command, the program first. Elements that are not UTF-8 have no placeholders.
    pub fn parse<S: AsRef<OsStr>>(command: &[S]) -> Result<Self, TemplateError> {
        if command.is_empty() {
            return Err(TemplateError { element: 1, column: 1, advice: "name the command to run after --" });
        }
        let elements = command.iter().enumerate().map(|(index, element)| {
            let element = element.as_ref();
            let Some(text) = element.to_str() else { return Ok(vec![Piece::Text(element.to_owned())]) };
            pieces(text).map_err(|(at, advice)| TemplateError {
                element: index + 1,
                column: text[..at].chars().count() + 1,
                advice,
            })
        });
        elements.collect::<Result<_, _>>().map(Self)
    }

    /// The program, if it is the same for all tasks.
    pub fn program(&self) -> Option<&OsStr> {
        match self.0.first()?.as_slice() {
            [Piece::Text(program)] => Some(program),
            [] => Some(OsStr::new("")),
            _ => None,
        }
    }

    /// The command for a task with these args in this slot.
    pub fn fill(&self, args: &JsonObject, slot: usize) -> Result<Vec<OsString>, FillError> {
        let element = |pieces: &Vec<Piece>| {
            let mut filled = OsString::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => filled.push(text),
                    Piece::Slot => filled.push(slot.to_string()),
                    Piece::Argument { path, default } => filled.push(value(args, path, default.as_deref())?),
                }
            }
            Ok(filled)
        };
        self.0.iter().map(element).collect()
    }
}

/// Parses one element. Errors carry their byte position.
fn pieces(text: &str) -> Result<Vec<Piece>, (usize, &'static str)> {
    let (mut pieces, mut literal, mut at) = (Vec::new(), String::new(), 0);
    while let Some(found) = text[at..].find("%{") {
        literal.push_str(&text[at..at + found]);
        let (open, inside) = (at + found, at + found + 2);
        if text[inside..].starts_with('{') {
            literal.push_str("%{");
            at = inside + 1;
            continue;
        }
        let Some(length) = text[inside..].find('}') else {
            return Err((open, "close this with }, or write %{{ for a literal %{"));
        };
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
        }
        pieces.push(placeholder(&text[inside..inside + length]).map_err(|(offset, advice)| (inside + offset, advice))?);
        at = inside + length + 1;
    }
    literal.push_str(&text[at..]);
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal.into()));
    }
    Ok(pieces)
}

/// The paths of the values that these args have, of objects within objects too: those that a placeholder may mean.
pub(crate) fn paths(args: &JsonObject) -> Vec<String> {
    let (mut found, mut objects) = (Vec::new(), vec![(String::new(), args.as_str())]);
    while let Some((prefix, object)) = objects.pop() {
        for (key, value) in members(object).take(PATHS_LOOKED_AT - found.len()) {
            let path = format!("{prefix}{}", key.to_text());
            if let Found::Object(object) = value {
                objects.push((format!("{path}."), object));
            }
            found.push(path);
        }
    }
    found
}

/// Parses the text between the braces.
fn placeholder(text: &str) -> Result<Piece, (usize, &'static str)> {
    let (path, default) = text.split_once(':').map_or((text, None), |(path, default)| (path, Some(default)));
    if path == SLOT && default.is_none() {
        return Ok(Piece::Slot);
    }
    if path == SLOT {
        return Err((path.len(), "a slot always has a number: write %{slot}"));
    }
    if let Some(at) = default.and_then(|default| default.find("%{")) {
        return Err((path.len() + 1 + at, "a default has no placeholders in it"));
    }
    let (mut names, mut offset) = (Vec::new(), 0);
    for name in path.split('.') {
        if name.is_empty() {
            return Err((offset, "a name is missing here: write %{name} or %{object.field}"));
        }
        if let Some(at) = name.find(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '{' | '%')) {
            return Err((offset + at, "names have no blanks and none of { and %"));
        }
        names.push(name.to_owned());
        offset += name.len() + 1;
    }
    Ok(Piece::Argument { path: names, default: default.map(str::to_owned) })
}

/// A value as text: strings as they are, everything else as compact JSON.
fn value(args: &JsonObject, path: &[String], default: Option<&str>) -> Result<OsString, FillError> {
    let Some(found) = lookup(args.as_str(), path) else {
        return default.map(OsString::from).ok_or_else(|| FillError::Missing(path.join(".")));
    };
    let text = match found {
        Found::Null => "null".to_owned(),
        Found::Bool(value) => value.to_string(),
        Found::Int(value) => value.to_string(),
        Found::Float(value) => float(value),
        Found::Str(text) => text.to_text().into_owned(),
        Found::Array(text) | Found::Object(text) => text.to_owned(),
    };
    if text.contains('\0') { Err(FillError::Nul(path.join("."))) } else { Ok(text.into()) }
}

/// A float as it stands in the canonical text.
fn float(value: f64) -> String {
    let mut out = Vec::new();
    taskqueue_core::json::write_value(&mut out, &taskqueue_core::json::Value::Float(value));
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use taskqueue_core::json::parse;

    use super::*;

    fn args(text: &str) -> JsonObject {
        JsonObject::from_value(&parse(text.as_bytes()).unwrap()).unwrap()
    }

    fn fill(element: &str, text: &str) -> Result<String, FillError> {
        let filled = Template::parse(&[element]).unwrap().fill(&args(text), 3)?;
        Ok(filled[0].to_str().unwrap().to_owned())
    }

    #[test]
    fn values_are_filled_in() {
        let with = r#"{"s":"a b","i":7,"f":1.0,"e":1e30,"t":true,"n":null,"l":[1,"x"],"o":{"p":{"q":"deep"},"e":""},"é":"ü","":"e","slot":9}"#;
        for (element, expected) in [
            ("plain", "plain"),
            ("", ""),
            ("%{s}", "a b"),
            ("--x=%{i}", "--x=7"),
            ("%{f}", "1.0"),
            ("%{e}", "1e30"),
            ("%{t}%{n}", "truenull"),
            ("%{l}", r#"[1,"x"]"#),
            ("%{o.p}", r#"{"q":"deep"}"#),
            ("<%{o.p.q}>", "<deep>"),
            ("%{o.e}", ""),
            ("%{é}", "ü"),
            ("%{slot}", "3"),
            ("cuda:%{slot}", "cuda:3"),
            ("%{{s}", "%{s}"),
            ("%{{%{s}%{{", "%{a b%{"),
            ("100% {s} % %%", "100% {s} % %%"),
            ("%%{s}", "%a b"),
            ("%{i:64}", "7"),
            ("%{x:64}", "64"),
            ("%{o.x:a b:{\"c\" %}-%{o.p.q:1}", "a b:{\"c\" %-deep"),
            ("<%{x:}>", "<>"),
            ("%{n:64}", "null"),
        ] {
            assert_eq!(fill(element, with).as_deref(), Ok(expected), "{element}");
        }
    }

    #[test]
    fn values_never_become_several_arguments_or_templates() {
        let filled = Template::parse(&["%{a}", "%{b}"]).unwrap();
        let filled = filled.fill(&args(r#"{"a":"x; rm -rf $HOME `id` 'q'","b":"%{a}"}"#), 0).unwrap();
        assert_eq!(filled, ["x; rm -rf $HOME `id` 'q'", "%{a}"]);
    }

    #[test]
    fn missing_and_impossible_values_are_told_apart() {
        for (element, expected) in [
            ("%{x}", FillError::Missing("x".into())),
            ("%{o.x}", FillError::Missing("o.x".into())),
            ("%{i.x}", FillError::Missing("i.x".into())),
            ("%{o}%{z}", FillError::Nul("z".into())),
        ] {
            assert_eq!(fill(element, "{\"o\":{},\"i\":1,\"z\":\"a\\u0000b\"}"), Err(expected), "{element}");
        }
    }

    #[test]
    fn the_values_of_a_task_are_known_by_their_paths() {
        let mut found = paths(&args(r#"{"lr":1,"model":{"layers":3,"deep":{"n":1}},"list":[{"x":1}]}"#));
        found.sort();
        assert_eq!(found, ["list", "lr", "model", "model.deep", "model.deep.n", "model.layers"]);
        let many: Vec<String> = (0..2000).map(|n| format!("\"k{n}\":{{\"a\":1}}")).collect();
        assert_eq!(paths(&args(&format!("{{{}}}", many.join(",")))).len(), PATHS_LOOKED_AT);
    }

    #[test]
    fn mistakes_are_found_with_element_and_column() {
        for (element, column) in [
            ("%{", 1),
            ("é%{x", 2),
            ("%{}", 3),
            ("%{a.}", 5),
            ("%{.a}", 3),
            ("%{a b}", 4),
            ("ab%{a%{b}", 6),
            ("%{a..b}", 5),
            ("%{:64}", 3),
            ("%{slot:1}", 7),
            ("%{a:x%{b}", 6),
        ] {
            let error = Template::parse(&["true", element]).unwrap_err();
            assert_eq!((error.element, error.column), (2, column), "{element}: {error}");
        }
        let nothing: [&str; 0] = [];
        assert!(Template::parse(&nothing).is_err());
    }

    #[test]
    fn only_a_program_without_placeholders_is_known_before_there_is_a_task() {
        for (element, expected) in
            [("python", Some("python")), ("", Some("")), ("%{{x", Some("%{x")), ("%{p}", None), ("./run-%{slot}", None)]
        {
            let template = Template::parse(&[element, "%{x}"]).unwrap();
            assert_eq!(template.program(), expected.map(OsStr::new), "{element}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn elements_that_are_no_text_are_passed_on() {
        use std::os::unix::ffi::OsStrExt;
        let element = OsStr::from_bytes(b"\xff%{x}");
        assert_eq!(Template::parse(&[element]).unwrap().fill(&JsonObject::empty(), 0).unwrap(), [element]);
    }
}
