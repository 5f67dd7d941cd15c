//! What can be printed: a record knows itself as a row, as details, as JSON, as fields and as its key. Here are also the columns that
//! the user names with `--columns`, and CSV: every character of a value is kept, and what a spreadsheet would run is made a text, as in
//! the files of the dashboard (`taskqueue_core::csv`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};

use taskqueue_core::csv::{text, write_line};
use taskqueue_core::fields::{Kind, TaskField};
use taskqueue_core::json::Value;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;

use super::table::{Cell, Column, Columns};
use super::terminal::escape_csv;
use crate::field_path::{FieldPath, read_record, written};

/// One result of a command.
pub(crate) trait Record: Sized {
    /// The columns of a table of such records; none of what is a sentence for people.
    const COLUMNS: Columns = &[];

    /// The heads of columns that are left out where the terminal is too narrow, the least important first.
    const LEAVE_OUT: &'static [&'static str] = &[];

    /// The columns of `--output csv`: paths in its JSON with commas between them; none where they depend on the record.
    const FIELDS: &'static str = "";

    /// The cells of its row, one for each column; ages are counted from `now`. Its fields, where they are not something else.
    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        field_cells(&self.fields(), self, now)
    }

    /// Appends the object that programs get.
    fn write_json(&self, out: &mut Vec<u8>);

    /// The object that programs get.
    fn json(&self) -> String {
        written(|out| self.write_json(out))
    }

    /// The columns of `--output csv`, where they depend on the record.
    fn fields(&self) -> Vec<FieldPath> {
        field_paths(Self::FIELDS)
    }

    /// The text that `--output quiet` leaves of it: an id, a name or a count, which is mostly its first cell.
    fn key(&self) -> String {
        self.cells(Timestamp::from_micros(0)).first().map(Cell::text).unwrap_or_default().to_owned()
    }

    /// The cell of a field that the user named, where that is not the value itself.
    fn field_cell(&self, _field: &FieldPath, _now: Timestamp) -> Option<Cell> {
        None
    }

    /// The values that can be columns besides the fields of its JSON.
    fn computed(&self, _now: Timestamp) -> Vec<(&'static str, Value<'static>)> {
        Vec::new()
    }

    /// Everything about it, one field per line, where it is shown alone.
    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        Self::COLUMNS.iter().map(|column| column.head).zip(self.cells(now)).collect()
    }
}

/// The paths that commas separate.
pub(super) fn field_paths(paths: &str) -> Vec<FieldPath> {
    paths.split(',').filter(|path| !path.is_empty()).map(FieldPath::new).collect()
}

/// The values that columns find by their paths, in the JSON of a record and in what is computed besides.
pub(crate) fn values<'j, R: Record>(record: &R, json: &'j str, now: Timestamp) -> Value<'j> {
    let mut values = read_record(json);
    if let Value::Object(members) = &mut values {
        members.extend(record.computed(now).into_iter().map(|(name, value)| (Cow::Borrowed(name), value)));
    }
    values
}

/// The columns with those in place of each wildcard that one of these records has. One that nothing has stays.
pub(crate) fn expanded<R: Record>(fields: &[FieldPath], records: &[&R]) -> Vec<FieldPath> {
    if !fields.iter().any(FieldPath::is_wildcard) {
        return fields.to_vec();
    }
    let mut names: Vec<BTreeSet<String>> = vec![BTreeSet::new(); fields.len()];
    for record in records {
        let json = record.json();
        let values = read_record(&json);
        for (field, names) in fields.iter().zip(&mut names).filter(|(field, _)| field.is_wildcard()) {
            field.add_members(&values, names);
        }
    }
    let columns = fields.iter().zip(names).flat_map(|(field, names)| match names.is_empty() {
        true => vec![field.clone()],
        false => names.iter().map(|name| field.member(name)).collect(),
    });
    columns.collect()
}

/// One column for each field. Ids and statuses are never cut.
pub(crate) fn field_columns(fields: &[FieldPath]) -> Vec<Column<'_>> {
    let heads = fields.iter().map(|field| field.head.as_str());
    heads
        .map(|head| if matches!(head, "id" | "status") { Column::text(head) } else { Column::shrinking(head) })
        .collect()
}

/// The cells of a record. As in every table, times are shown relative to `now`.
pub(crate) fn field_cells<R: Record>(fields: &[FieldPath], record: &R, now: Timestamp) -> Vec<Cell> {
    let json = record.json();
    let values = values(record, &json, now);
    let cell = |field: &FieldPath| {
        if let Some(cell) = record.field_cell(field, now) {
            return cell;
        }
        let text = field.text(&values);
        let is_time = TaskField::find(&field.head).is_some_and(|field| field.kind == Kind::Time);
        let time = text.as_deref().filter(|_| is_time).and_then(Timestamp::parse);
        let status = text.as_deref().filter(|_| field.head == "status").and_then(Status::parse);
        match (time, status) {
            (Some(time), _) => Cell::new(words::age(time, now)),
            (_, Some(status)) => Cell::status(status),
            _ => Cell::optional(text),
        }
    };
    fields.iter().map(cell).collect()
}

/// The changes that may be made to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CsvStyle {
    /// Texts that a spreadsheet would run begin with an apostrophe.
    Harmless,
    /// As harmless, and characters that would control the terminal are escaped, because this is no file.
    Terminal,
    /// Nothing.
    Raw,
}

impl CsvStyle {
    /// The style for standard output.
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
