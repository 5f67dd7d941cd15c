//! Records as comma-separated values. Every character of a value is kept; what a spreadsheet would run is made a text, as in the
//! files of the dashboard (`taskqueue_core::csv`).

use std::io::{self, IsTerminal};

use taskqueue_core::csv::{text, write_line};
use taskqueue_core::json::Value;

use super::escape::escape_csv;
use crate::field_path::FieldPath;

/// What may be done to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CsvStyle {
    /// Texts that a spreadsheet would run begin with an apostrophe.
    Harmless,
    /// The same, and characters that would control the terminal are escaped, because this is no file.
    Terminal,
    /// Nothing.
    Raw,
}

impl CsvStyle {
    /// For standard output.
    pub(super) fn of_stdout(raw: bool) -> Self {
        match raw {
            true => Self::Raw,
            false if io::stdout().is_terminal() => Self::Terminal,
            false => Self::Harmless,
        }
    }

    pub(super) fn head(self, fields: &[FieldPath]) -> Vec<u8> {
        let mut out = Vec::new();
        write_line(&mut out, fields.iter().map(|field| self.shown(field.head.clone())));
        out
    }

    /// The fields of a record; missing ones are empty.
    pub(super) fn row(self, fields: &[FieldPath], record: &Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write_line(&mut out, fields.iter().map(|field| self.field(field, record)));
        out
    }

    fn field(self, field: &FieldPath, record: &Value<'_>) -> String {
        let value = field.text(record).unwrap_or_default();
        let is_number = matches!(field.value(record), Some(Value::Int(_) | Value::Float(_)));
        if self == Self::Raw || is_number { value } else { self.shown(text(&value).into_owned()) }
    }

    fn shown(self, value: String) -> String {
        if self == Self::Terminal { escape_csv(&value).into_owned() } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_path::read_record;

    fn shown(style: CsvStyle, paths: &str, record: &str) -> String {
        let fields: Vec<FieldPath> = paths.split(',').map(FieldPath::new).collect();
        String::from_utf8(style.row(&fields, &read_record(record))).unwrap()
    }

    #[test]
    fn fields_are_quoted_where_they_must_be_and_missing_ones_are_empty() {
        let record = r#"{"a":"x,y","b":"say \"hi\"","d":{"e":1},"g":"ä"}"#;
        assert_eq!(shown(CsvStyle::Harmless, "a,b", record), "\"x,y\",\"say \"\"hi\"\"\"\n");
        assert_eq!(shown(CsvStyle::Harmless, "d,none,g", record), "\"{\"\"e\"\":1}\",,ä\n");
        assert_eq!(shown(CsvStyle::Harmless, "none", record), "\"\"\n");
    }

    #[test]
    fn values_keep_every_character_and_only_a_terminal_is_spared_some() {
        let record = r#"{"c":"two\nlines\tof \u001b[31m\r"}"#;
        for style in [CsvStyle::Harmless, CsvStyle::Raw] {
            assert_eq!(shown(style, "c", record), "\"two\nlines\tof \u{1b}[31m\r\"\n");
        }
        assert_eq!(shown(CsvStyle::Terminal, "c", record), "\"two\nlines\tof \\u{1b}[31m\\r\"\n");
    }

    #[test]
    fn what_a_spreadsheet_would_run_is_a_text_unless_the_bytes_are_asked_for() {
        let record = r#"{"f":"=1+1","n":-5,"x":-0.5,"routes":["-r","s"]}"#;
        assert_eq!(shown(CsvStyle::Harmless, "f,n,x,routes", record), "'=1+1,-5,-0.5,\"'-r,s\"\n");
        assert_eq!(shown(CsvStyle::Raw, "f,n,x,routes", record), "=1+1,-5,-0.5,\"-r,s\"\n");
    }
}
