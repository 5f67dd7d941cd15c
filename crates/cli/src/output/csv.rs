//! Comma-separated values (RFC 4180 with line feeds): a field that has a comma, a quote or a line end stands in quotes, and
//! quotes in it are doubled. Values are not changed otherwise, also where a spreadsheet would take them for formulas.

use taskqueue_core::json::Value;

use super::escape::escape_csv;
use crate::field_path::FieldPath;

pub(super) fn head(fields: &[FieldPath]) -> String {
    line(fields.iter().map(|field| field.head.clone()).collect())
}

/// The fields of a record; missing ones are empty.
pub(super) fn row(fields: &[FieldPath], record: &Value<'_>) -> String {
    line(fields.iter().map(|field| field.text(record).unwrap_or_default()).collect())
}

fn line(texts: Vec<String>) -> String {
    match texts.as_slice() {
        // Readers skip empty lines.
        [only] if only.is_empty() => "\"\"".to_owned(),
        texts => texts.iter().map(|text| quoted(&escape_csv(text))).collect::<Vec<_>>().join(","),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_path::read_record;

    fn shown(paths: &str, record: &str) -> String {
        let fields: Vec<FieldPath> = paths.split(',').map(FieldPath::new).collect();
        row(&fields, &read_record(record))
    }

    #[test]
    fn fields_are_quoted_where_they_must_be_and_missing_ones_are_empty() {
        let record = r#"{"a":"x,y","b":"say \"hi\"","c":"two\nlines\tof \u001b[31m\r","d":{"e":1},"f":"=1+1","g":"ä"}"#;
        assert_eq!(shown("a,b", record), r#""x,y","say ""hi""""#);
        assert_eq!(shown("c", record), "\"two\nlines\tof \\u{1b}[31m\\r\"");
        assert_eq!(shown("d,none,f,g", record), r#""{""e"":1}",,=1+1,ä"#);
        assert_eq!(shown("none", record), "\"\"");
    }
}
