//! Lines of CSV (RFC 4180; they end as those of `taskqueue task list --output csv` do).

use std::borrow::Cow;

/// Appends a line. Fields are in quotes where they have to be; an empty first one, too, because readers skip empty lines.
pub(crate) fn write_line<F: AsRef<str>>(out: &mut Vec<u8>, fields: impl IntoIterator<Item = F>) {
    for (place, field) in fields.into_iter().enumerate() {
        let field = field.as_ref();
        if place > 0 {
            out.push(b',');
        }
        if field.contains([',', '"', '\n', '\r']) || (field.is_empty() && place == 0) {
            out.push(b'"');
            out.extend_from_slice(field.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        } else {
            out.extend_from_slice(field.as_bytes());
        }
    }
    out.push(b'\n');
}

/// A text as a field. One that a spreadsheet would take for a formula, and perhaps obey, begins with an apostrophe, which makes it a
/// text there. Numbers are never formulas.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be_and_texts_are_never_formulas() {
        let cases: [(&[&str], &str); 6] = [
            (&["a", "b"], "a,b\n"),
            (&["a,b", ""], "\"a,b\",\n"),
            (&["a\"b"], "\"a\"\"b\"\n"),
            (&["=1+1", "-x", "a=1"], "'=1+1,'-x,a=1\n"),
            (&["@x,\n"], "\"'@x,\n\"\n"),
            (&[""], "\"\"\n"),
        ];
        for (fields, expected) in cases {
            let mut out = Vec::new();
            write_line(&mut out, fields.iter().map(|field| text(field)));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
