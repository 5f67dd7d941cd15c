//! Prints records in the chosen format. Lists are streamed: memory does not grow with their length.

use std::borrow::Cow;
use std::io::{self, BufWriter, StdoutLock, Write};

use taskqueue_core::time::Timestamp;

use super::record::{CsvStyle, Record, field_cells, field_columns, field_paths, values};
use super::table::{Cell, Column, Columns, Layout, joined};
use super::terminal::{Terminal, escape, escape_json};
use super::{note, now};
use crate::args::{Format, OutputArgs};
use crate::failure::Failure;
use crate::field_path::FieldPath;

/// The number of rows that decide the layout; later rows are printed as they come.
const ROWS_MEASURED: usize = 1000;

/// Prints to standard output.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    csv: CsvStyle,
    terminal: Terminal,
    now: Timestamp,
}

impl Printer {
    pub(crate) fn new(output: OutputArgs) -> Self {
        let csv = CsvStyle::of_stdout(output.raw_csv);
        Self { format: output.format(), csv, terminal: Terminal::of_stdout(), now: now() }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
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
    count: u64,
}

impl Listing<'_> {
    /// All records of a list have the type that it was started for.
    pub(crate) fn push<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        self.write(record).map_err(|error| Failure::from_output(&error))?;
        self.count += 1;
        Ok(())
    }

    /// Returns how many records the list has so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The members that the user named and no record has, if there are records.
    fn absent(&self) -> Vec<&str> {
        let fields = self.fields.iter().flat_map(|fields| fields.iter()).zip(&self.seen);
        let absent = fields.filter(|(field, seen)| !**seen && field.steps().len() > 1 && self.count > 0);
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
        let cells = match &self.fields {
            Some(fields) => field_cells(fields, record, now),
            None => record.cells(now),
        };
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
