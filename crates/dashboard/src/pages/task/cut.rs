//! The ends of texts and the members of objects of users, as much of them as a page has room for. Beginnings are cut by `show::cut`.

use taskqueue_core::json::{ParseError, Reader, Value, parse};

use crate::show::cut;

/// The last characters of a text, and a sign if there are more before them.
pub(super) fn last(text: &str, chars: usize) -> String {
    match text.char_indices().rev().nth(chars.saturating_sub(1)) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        _ => text.to_owned(),
    }
}

/// The members of a canonical object with their values as they are stored; strings without quotes.
pub(super) fn members(object: &str, most: usize, chars: usize) -> Vec<(String, String)> {
    let mut members = Vec::new();
    let read = Reader::new(object.as_bytes()).and_then(|mut reader| {
        reader.skip_space();
        reader.members(|reader, key| {
            let value = reader.skip()?;
            if members.len() < most {
                let key = key.as_deref().unwrap_or_default();
                members.push((cut(key, chars).into_owned(), cut(&plain(value), chars).into_owned()));
            }
            Ok::<(), ParseError>(())
        })
    });
    read.map(|()| members).unwrap_or_default()
}

/// A string without its quotes and escapes; everything else as it is.
fn plain(value: &str) -> String {
    match parse(value.as_bytes()) {
        Ok(Value::Str(text)) => text.into_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!((last("äöü", 3).as_str(), last("äöü", 2).as_str(), last("", 2).as_str()), ("äöü", "…öü", ""));
    }

    #[test]
    fn members_have_the_values_that_are_stored() {
        let read = members(r#"{"a":9007199254740993,"b":"x\"y","c":{"d":[1]},"e":0.10}"#, 3, 100);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(read, [pair("a", "9007199254740993"), pair("b", "x\"y"), pair("c", r#"{"d":[1]}"#)]);
        assert_eq!(members("[]", 3, 3), []);
        assert_eq!(members("{}", 3, 3), []);
    }
}
