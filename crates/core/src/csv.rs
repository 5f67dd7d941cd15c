//! Lines of comma-separated values (RFC 4180 with line feeds), as the command line prints them and the dashboard sends them. Every
//! character of a value is kept, and no text begins as a formula (docs/reference/configuration.md); `--raw-csv` leaves that out.

use std::borrow::Cow;

/// Appends a line. Fields are in quotes where they have to be; a single empty one, too, because readers skip empty lines.
pub fn write_line<F: AsRef<str>>(out: &mut Vec<u8>, fields: impl IntoIterator<Item = F>) {
    let start = out.len();
    for (place, field) in fields.into_iter().enumerate() {
        let field = field.as_ref();
        if place > 0 {
            out.push(b',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push(b'"');
            out.extend_from_slice(field.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        } else {
            out.extend_from_slice(field.as_bytes());
        }
    }
    if out.len() == start {
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'\n');
}

/// A text as a field. One that a spreadsheet would take for a formula, and perhaps obey, begins with an apostrophe, which makes
/// it a text there. Numbers are never formulas.
pub fn text(text: &str) -> Cow<'_, str> {
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
        let cases: [(&[&str], &str); 8] = [
            (&["a", "b"], "a,b\n"),
            (&["a,b", ""], "\"a,b\",\n"),
            (&["a\"b"], "\"a\"\"b\"\n"),
            (&["=1+1", "-x", "a=1"], "'=1+1,'-x,a=1\n"),
            (&["@x,\n"], "\"'@x,\n\"\n"),
            (&["two\r\nlines\r"], "\"two\r\nlines\r\"\n"),
            (&["", "b"], ",b\n"),
            (&[""], "\"\"\n"),
        ];
        for (fields, expected) in cases {
            let mut out = Vec::new();
            write_line(&mut out, fields.iter().map(|field| text(field)));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
