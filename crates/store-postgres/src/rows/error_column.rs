//! The column `outcomes.error`: type, message and traceback of a failure as one JSON array, because a PostgreSQL text cannot
//! hold the character U+0000.

use std::borrow::Cow;

use taskqueue_core::json::{self, Value};
use taskqueue_core::task::Failure;

pub(super) struct ErrorText<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) message: Cow<'a, str>,
    pub(super) traceback: Option<Cow<'a, str>>,
}

impl<'a> ErrorText<'a> {
    pub(super) fn read(column: &'a str) -> Option<Self> {
        let Value::Array(parts) = json::parse(column.as_bytes()).ok()? else { return None };
        match <[Value<'a>; 3]>::try_from(parts).ok()? {
            [Value::Str(kind), Value::Str(message), Value::Null] => Some(Self { kind, message, traceback: None }),
            [Value::Str(kind), Value::Str(message), Value::Str(traceback)] => {
                Some(Self { kind, message, traceback: Some(traceback) })
            }
            _ => None,
        }
    }
}

impl From<ErrorText<'_>> for Failure {
    fn from(text: ErrorText<'_>) -> Self {
        Self { kind: text.kind.into(), message: text.message.into(), traceback: text.traceback.map(Into::into) }
    }
}

pub(crate) fn error_text(failure: &Failure) -> String {
    let mut text = vec![b'['];
    json::write_string(&mut text, &failure.kind);
    text.push(b',');
    json::write_string(&mut text, &failure.message);
    text.push(b',');
    match &failure.traceback {
        Some(traceback) => json::write_string(&mut text, traceback),
        None => text.extend_from_slice(b"null"),
    }
    text.push(b']');
    // Only whole pieces of UTF-8 were written, so this does not fail.
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: &str, message: &str, traceback: Option<&str>) -> Failure {
        Failure { kind: kind.into(), message: message.into(), traceback: traceback.map(Into::into) }
    }

    #[test]
    fn an_error_reads_back_from_its_column_whatever_characters_it_holds() {
        let cases = [
            (failure("", "", None), r#"["","",null]"#),
            (failure("E", "a\0b", Some("")), r#"["E","a\u0000b",""]"#),
            (failure("\"],[", "é\n\\", Some("null")), r#"["\"],[","é\n\\","null"]"#),
        ];
        for (failure, column) in cases {
            assert_eq!(error_text(&failure), column);
            assert_eq!(ErrorText::read(column).map(Failure::from), Some(failure), "{column}");
        }
    }

    #[test]
    fn a_damaged_error_column_is_noticed() {
        for column in ["", "[", "{}", r#"["a","b"]"#, r#"["a","b",1]"#, r#"[null,"b",null]"#, r#"["a","b",null,null]"#]
        {
            assert!(ErrorText::read(column).is_none(), "{column}");
        }
    }
}
