//! What can be printed, in the chosen format: a record knows itself as a row, as details, as JSON, as fields and as its key. Lists are
//! streamed: memory does not grow with their length. Here are also the columns that the user names with `--columns`, and CSV: every character of
//! a value is kept, and what a spreadsheet would run is made a text, as in the files of the dashboard (`taskqueue_core::csv`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use taskqueue_client::{Status, Timestamp};
use taskqueue_core::csv::{text, write_line};
use taskqueue_core::fields::{Kind, TaskField};
use taskqueue_core::json::Value;
use taskqueue_core::words;

use super::table::{Cell, Column, Columns, Layout, Terminal, escape, escape_csv, escape_json, joined};
use super::{note, now};
use crate::args::{Format, OutputArgs};
use crate::failure::Failure;
use crate::field_path::{FieldPath, read_record, written};

/// The number of rows that decide the layout; later rows are printed as they come.
const ROWS_MEASURED: usize = 1000;

/// Prints to standard output.
#[derive(Debug)]
pub(crate) struct Printer {
    pub(crate) format: Format,
    csv: CsvStyle,
    terminal: Terminal,
    now: Timestamp,
}

impl Printer {
    pub(crate) fn new(output: OutputArgs) -> Self {
        let csv = CsvStyle::of_stdout(output.raw_csv);
        Self { format: output.format(), csv, terminal: Terminal::of_stdout(), now: now() }
    }

    /// Prints one record with all its fields.
    pub(crate) fn one<R: Record>(&self, record: &R) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table => details(&record.details(self.now), self.terminal),
            Format::Json | Format::Jsonl => escape_json(&record.json()).into_owned(),
            Format::Csv => return self.list(std::slice::from_ref(record)),
            Format::Quiet => escape(&record.key()).into_owned(),
        };
        self.text(&text)
    }

    /// Prints the result of a change: a sentence for people, the record for programs.
    pub(crate) fn done<R: Record>(&self, record: &R, sentence: &str) -> Result<(), Failure> {
        if self.format == Format::Table { self.text(&escape(sentence)) } else { self.one(record) }
    }

    /// Prints text as it is, with a line end.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush());
        written.map_err(|error| Failure::from_output(&error))
    }

    pub(crate) fn list<R: Record>(&self, records: &[R]) -> Result<(), Failure> {
        let mut listing = self.listing::<R>();
        records.iter().try_for_each(|record| listing.push(record))?;
        listing.finish().map(drop)
    }

    /// Prints a table that only people get.
    pub(crate) fn table(&self, (columns, rows): (Columns, Vec<Vec<Cell>>)) -> Result<(), Failure> {
        let layout = Layout::fitting(columns, &rows, &[], self.terminal);
        let lines: Vec<String> = [layout.head()].into_iter().chain(rows.iter().map(|row| layout.row(row))).collect();
        self.text(&lines.join("\n"))
    }

    /// Prints records with all their fields, one below the other; for programs a list.
    pub(crate) fn several<R: Record>(&self, records: &[R]) -> Result<(), Failure> {
        if self.format != Format::Table {
            return self.list(records);
        }
        let texts: Vec<String> =
            records.iter().map(|record| details(&record.details(self.now), self.terminal)).collect();
        if texts.is_empty() { Ok(()) } else { self.text(&texts.join("\n")) }
    }

    /// Starts a list whose records come one by one.
    pub(crate) fn listing<R: Record>(&self) -> Listing<'_> {
        self.listing_of::<R>(None)
    }

    /// Starts a list with these columns in tables and in CSV, instead of those of the record.
    pub(crate) fn listing_of<'p, R: Record>(&'p self, fields: Option<&'p [FieldPath]>) -> Listing<'p> {
        Listing {
            printer: self,
            out: BufWriter::new(io::stdout().lock()),
            columns: fields.map_or_else(|| R::COLUMNS.to_vec(), field_columns),
            // The user named these, so none of them is left out.
            leave_out: if fields.is_some() { &[] } else { R::LEAVE_OUT },
            fields: fields.map(Cow::Borrowed),
            fields_of_none: R::FIELDS,
            seen: vec![false; fields.map_or(0, <[FieldPath]>::len)],
            measured: Vec::new(),
            layout: None,
            count: 0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Listing<'p> {
    printer: &'p Printer,
    out: BufWriter<StdoutLock<'static>>,
    columns: Vec<Column<'p>>,
    leave_out: &'static [&'static str],
    /// Those that the user named or, in CSV, those of the first record.
    fields: Option<Cow<'p, [FieldPath]>>,
    /// The columns of CSV without records.
    fields_of_none: &'static str,
    /// True for each field that the user named and that a record has a value for.
    seen: Vec<bool>,
    /// Rows that are held back until the layout is known.
    measured: Vec<Vec<Cell>>,
    layout: Option<Layout<'p>>,
    /// The number of records that the list has so far.
    pub(crate) count: u64,
}

impl Listing<'_> {
    /// All records of a list have the type that it was started for.
    pub(crate) fn push<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        self.write(record).map_err(|error| Failure::from_output(&error))?;
        self.count += 1;
        Ok(())
    }

    /// The members that the user named and no record has, if there are records.
    fn absent(&self) -> Vec<&str> {
        let fields = self.fields.iter().flat_map(|fields| fields.iter()).zip(&self.seen);
        let absent = fields.filter(|(field, seen)| !**seen && field.steps.len() > 1 && self.count > 0);
        absent.map(|(field, _)| field.head.as_str()).collect()
    }

    fn write<R: Record>(&mut self, record: &R) -> io::Result<()> {
        match self.printer.format {
            Format::Table => self.write_row(record),
            Format::Json => {
                let separator = if self.count == 0 { "[\n" } else { ",\n" };
                write!(self.out, "{separator}{}", escape_json(&record.json()))
            }
            Format::Jsonl => writeln!(self.out, "{}", escape_json(&record.json())),
            Format::Csv => self.write_csv(record),
            Format::Quiet => writeln!(self.out, "{}", escape(&record.key())),
        }
    }

    fn write_row<R: Record>(&mut self, record: &R) -> io::Result<()> {
        let now = self.printer.now;
        let cells = if let Some(fields) = &self.fields { field_cells(fields, record, now) } else { record.cells(now) };
        self.seen.iter_mut().zip(&cells).for_each(|(seen, cell)| *seen |= !cell.is_missing());
        if let Some(layout) = &self.layout {
            return writeln!(self.out, "{}", layout.row(&cells));
        }
        if self.measured.len() < ROWS_MEASURED {
            self.measured.push(cells);
            return Ok(());
        }
        // The list goes on, and a later row may have a value for a column that has none yet.
        self.columns = self.columns.iter().map(|column| column.with_later_values()).collect();
        self.measured.push(cells);
        self.write_measured()
    }

    fn write_csv<R: Record>(&mut self, record: &R) -> io::Result<()> {
        let fields = self.fields.get_or_insert_with(|| Cow::Owned(record.fields()));
        if self.count == 0 {
            self.out.write_all(&self.printer.csv.head(fields))?;
        }
        let json = record.json();
        let values = values(record, &json, self.printer.now);
        self.seen.iter_mut().zip(fields.iter()).for_each(|(seen, field)| *seen |= field.value(&values).is_some());
        self.out.write_all(&self.printer.csv.row(fields, &values))
    }

    /// Prints the head and the rows that decide the layout.
    fn write_measured(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.measured);
        let layout = Layout::fitting(&self.columns, &rows, self.leave_out, self.printer.terminal);
        writeln!(self.out, "{}", layout.head())?;
        rows.iter().try_for_each(|row| writeln!(self.out, "{}", layout.row(row)))?;
        self.layout = Some(layout);
        Ok(())
    }

    /// A table without rows has no head either; CSV has one, so that programs find the columns. Of columns without a value it is said that
    /// this is not for want of room: their names may be wrong. Returns how many records the list has.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        let ended = match self.printer.format {
            Format::Table if self.layout.is_none() && !self.measured.is_empty() => self.write_measured(),
            Format::Json if self.count == 0 => writeln!(self.out, "[]"),
            Format::Json => writeln!(self.out, "\n]"),
            Format::Csv if self.count == 0 => {
                let fields = self.fields.take().unwrap_or_else(|| Cow::Owned(field_paths(self.fields_of_none)));
                self.out.write_all(&self.printer.csv.head(&fields))
            }
            _ => Ok(()),
        };
        ended.and_then(|()| self.out.flush()).map_err(|error| Failure::from_output(&error))?;
        let absent = self.absent();
        if !absent.is_empty() {
            note(&format!("no task that is shown has {}", absent.join(" or ")));
        }
        Ok(self.count)
    }
}

/// One field per line, the names aligned. Nothing is cut, also on a terminal.
fn details(fields: &[(&'static str, Cell)], terminal: Terminal) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, Cell)| {
        let (name, value) = (Cell::new(name).bold().pieces(width + 2, false), value.pieces(value.width(), false));
        joined(name.into_iter().chain(value), terminal.colour) + "\n"
    };
    fields.iter().map(line).collect()
}

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
