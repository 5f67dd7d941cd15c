//! Names of tasks that are filled in from their args: `vit-{seed}`, `vit-{model.layers}`. `{{` and `}}` stand for braces.

use std::sync::Arc;

use crate::definition::task_name;
use crate::fields::Value;
use crate::json::{Found, JsonObject, lookup};

/// A name with placeholders, or without any.
#[derive(Clone, Debug)]
pub struct NameTemplate(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(Vec<String>),
}

/// Why a text is no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace alone.
    #[error("write {{KEY}} for a value of the args, {{{{ and }}}} for braces")]
    Brace,
    /// Nothing between braces, or beside a dot there.
    #[error("a key is missing between braces; write {{KEY}}, and {{{{ and }}}} for braces")]
    KeyMissing,
}

/// Why a task gets no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Its args do not have this key.
    #[error("the args have no {0}; write {{{{ and }}}} for braces")]
    Missing(String),
    /// It would be no name.
    #[error("use at most 256 characters without control characters")]
    Invalid,
}

impl NameTemplate {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, behind) = rest.split_at(at);
            literal.push_str(before);
            if let Some(after) = behind.strip_prefix("{{").or_else(|| behind.strip_prefix("}}")) {
                literal.push_str(&behind[..1]);
                rest = after;
                continue;
            }
            let inside = behind.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            let Some((key, after)) = inside else {
                return Err(TemplateError::Brace);
            };
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            if path.iter().any(String::is_empty) {
                return Err(TemplateError::KeyMissing);
            }
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            pieces.push(Piece::Argument(path));
            rest = after;
        }
        literal.push_str(rest);
        pieces.push(Piece::Text(literal));
        Ok(Self(pieces))
    }

    /// Returns whether the name depends on the args.
    pub fn has_placeholders(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Argument(_)))
    }

    /// The name of a task with these args.
    pub fn fill(&self, args: &JsonObject) -> Result<Arc<str>, NameError> {
        let mut name = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Argument(path) => {
                    let found = lookup(args.as_str(), path);
                    name.push_str(&text(found.ok_or_else(|| NameError::Missing(path.join(".")))?));
                }
            }
        }
        task_name(&name).map_err(|_| NameError::Invalid)
    }
}

/// Returns a value as text: strings as they are, everything else as compact JSON, as in the commands of workers.
fn text(found: Found<'_>) -> String {
    Value::found(found).map_or_else(|| "null".to_owned(), |value| value.text().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn fill(template: &str) -> Result<String, String> {
        let args = parse(br#"{"seed":7,"lr":1e-5,"m":{"layers":2,"kind":"vit"},"ok":true,"l":[1,"x"],"s":"a\nb"}"#);
        let args = JsonObject::from_value(&args.unwrap()).unwrap();
        let template = NameTemplate::parse(template).map_err(|error| error.to_string())?;
        template.fill(&args).map(|name| name.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_filled_in() {
        let cases = [
            ("plain", "plain"),
            ("", ""),
            ("vit-{seed}", "vit-7"),
            ("{m.kind}-{m.layers}-{lr}", "vit-2-1e-5"),
            ("{ok}{l}", "true[1,\"x\"]"),
            ("{{seed}} {{{seed}}}", "{seed} {7}"),
        ];
        for (template, expected) in cases {
            assert_eq!(fill(template).as_deref(), Ok(expected), "{template}");
        }
        assert!(!NameTemplate::parse("{{x}}").unwrap().has_placeholders());
    }

    #[test]
    fn what_cannot_be_filled_in_is_refused() {
        let cases = [
            ("{seeds}", "the args have no seeds"),
            ("{m.depth}", "the args have no m.depth"),
            ("{seed.x}", "the args have no seed.x"),
            ("{}", "a key is missing"),
            ("{m.}", "a key is missing"),
            ("{seed", "write {KEY}"),
            ("seed}", "write {KEY}"),
            ("{s}", "control characters"),
        ];
        for (template, expected) in cases {
            let message = fill(template).unwrap_err();
            assert!(message.contains(expected), "{template}: {message}");
        }
    }
}
