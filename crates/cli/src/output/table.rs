//! Tables, of list commands and of live views: columns, cells with escaped text and a style, and the layout. Where the terminal is too
//! narrow, the widest columns that may shrink are cut, and then the least important columns are left out. And what a terminal shows: the width
//! and colours of standard output, and the escaping of characters in text from others that would control a terminal or reorder a line.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use taskqueue_core::task::Status;
use taskqueue_core::terminal::is_harmful;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Shown for a missing value.
const EMPTY: &str = "-";
const ELLIPSIS: char = '…';
/// Most columns do not shrink below this.
const SHRUNK_WIDTH: usize = 6;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'h> {
    pub(crate) head: &'h str,
    pub(crate) right_aligned: bool,
    /// The width to which cells may be cut where the terminal is too narrow. Without it they are never cut.
    pub(crate) shrinks_to: Option<usize>,
    /// True if the column is left out where no row has a value for it.
    pub(crate) needs_value: bool,
    /// The column is at least so wide, where there is room.
    pub(crate) min_width: usize,
}

impl<'h> Column<'h> {
    pub(crate) const fn text(head: &'h str) -> Self {
        Self { head, right_aligned: false, shrinks_to: None, needs_value: false, min_width: 0 }
    }

    pub(crate) const fn number(head: &'h str) -> Self {
        Self { right_aligned: true, ..Self::text(head) }
    }

    pub(crate) const fn shrinking(head: &'h str) -> Self {
        Self::shrinking_to(head, SHRUNK_WIDTH)
    }

    /// A column whose cells are cut to no less than this width.
    pub(crate) const fn shrinking_to(head: &'h str, width: usize) -> Self {
        Self { shrinks_to: Some(width), ..Self::text(head) }
    }

    /// A column that is there only if a row has a value, and that is of use only with this width.
    pub(crate) const fn with_values(head: &'h str, shrinks_to: usize) -> Self {
        Self { needs_value: true, ..Self::shrinking_to(head, shrinks_to) }
    }

    /// The column where rows that are not known yet may have a value: it is there, and has room for one.
    pub(super) fn with_later_values(self) -> Self {
        if !self.needs_value {
            return self;
        }
        Self { needs_value: false, min_width: self.shrinks_to.unwrap_or(0), ..self }
    }
}

/// The columns of a kind of table.
pub(crate) type Columns = &'static [Column<'static>];

/// Columns, each as the name of its constructor and its head: `columns![text "ID", shrinking "NAME", with_values "ERROR" 10]`.
macro_rules! columns {
    ($($kind:ident $head:literal $($width:literal)?),*) => { &[$($crate::output::Column::$kind($head $(, $width)?)),*] };
}

pub(crate) use columns;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: escape(text.as_ref()).into_owned(), style: Style::new() }
    }

    pub(crate) fn optional(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(Self::missing, Self::new)
    }

    fn missing() -> Self {
        Self::new(EMPTY).dimmed()
    }

    pub(super) fn is_missing(&self) -> bool {
        *self == Self::missing()
    }

    pub(crate) fn number(number: impl ToString) -> Self {
        Self::new(number.to_string())
    }

    pub(crate) fn status(status: Status) -> Self {
        let colour = match status {
            Status::Pending => AnsiColor::Yellow,
            Status::Running => AnsiColor::Cyan,
            Status::Succeeded => AnsiColor::Green,
            Status::Failed => AnsiColor::Red,
            Status::Cancelled => AnsiColor::BrightBlack,
        };
        Self::new(status.as_str()).coloured(colour)
    }

    /// The cell with the style of another one.
    pub(crate) fn with_style_of(self, other: &Self) -> Self {
        Self { style: other.style, ..self }
    }

    pub(crate) fn coloured(self, colour: AnsiColor) -> Self {
        Self { style: Style::new().fg_color(Some(colour.into())), ..self }
    }

    pub(crate) fn bold(self) -> Self {
        Self { style: self.style.bold(), ..self }
    }

    pub(crate) fn dimmed(self) -> Self {
        Self { style: self.style.dimmed(), ..self }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// In columns of a terminal.
    pub(crate) fn width(&self) -> usize {
        self.text.width()
    }

    /// The text with its style, cut to `width`, and the blanks that fill the rest.
    pub(crate) fn pieces(&self, width: usize, right_aligned: bool) -> [(String, Style); 2] {
        let text = cut(&self.text, width);
        let blanks = (" ".repeat(width.saturating_sub(text.width())), Style::new());
        let text = (text, self.style);
        if right_aligned { [blanks, text] } else { [text, blanks] }
    }
}

/// The text, or as much of it as fits with an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let fits = |character: &char| {
        used += character.width().unwrap_or(0);
        // One column is for the ellipsis.
        used < width
    };
    text.chars().take_while(fits).chain([ELLIPSIS]).collect()
}

const GAP: &str = "  ";

/// The columns that are shown and their widths, decided by the first rows and used for all.
#[derive(Debug)]
pub(crate) struct Layout<'h> {
    columns: Vec<PlacedColumn<'h>>,
    colour: bool,
}

#[derive(Clone, Copy, Debug)]
struct PlacedColumn<'h> {
    column: Column<'h>,
    /// Its index among all columns, also those that are left out.
    index: usize,
    width: usize,
}

impl<'h> Layout<'h> {
    /// Fits the head and these rows. Where cut cells do not fit either, columns are left out in the order of `leave_out`
    /// until the others do.
    pub(crate) fn fitting(columns: &[Column<'h>], rows: &[Vec<Cell>], leave_out: &[&str], terminal: Terminal) -> Self {
        let mut kept = uncut(columns, rows);
        let fitted = |kept: &[PlacedColumn<'h>]| {
            let mut columns = kept.to_vec();
            if let Some(available) = terminal.width {
                shrink(&mut columns, available);
            }
            Self { columns, colour: terminal.colour }
        };
        let mut layout = fitted(&kept);
        for head in leave_out {
            if terminal.width.is_none_or(|available| line_width(&layout.columns) <= available) {
                break;
            }
            kept.retain(|placed| placed.column.head != *head);
            layout = fitted(&kept);
        }
        layout
    }

    pub(crate) fn head(&self) -> String {
        self.line(self.head_pieces())
    }

    /// One line of cells, of which there is one for each column, also for those that are left out.
    pub(crate) fn row(&self, cells: &[Cell]) -> String {
        self.line(self.row_pieces(cells))
    }

    /// The head as texts with styles, for live views.
    pub(crate) fn head_pieces(&self) -> Vec<(String, Style)> {
        self.pieces(|placed| Cell::new(placed.column.head).bold())
    }

    /// One line as texts with styles.
    pub(crate) fn row_pieces(&self, cells: &[Cell]) -> Vec<(String, Style)> {
        self.pieces(|placed| {
            debug_assert!(placed.index < cells.len(), "each column has a cell");
            cells.get(placed.index).cloned().unwrap_or_else(|| Cell::new(""))
        })
    }

    fn line(&self, pieces: Vec<(String, Style)>) -> String {
        let mut line = joined(pieces, self.colour);
        line.truncate(line.trim_end_matches(' ').len());
        line
    }

    fn pieces(&self, cell: impl Fn(&PlacedColumn<'h>) -> Cell) -> Vec<(String, Style)> {
        let mut pieces = Vec::new();
        for (place, placed) in self.columns.iter().enumerate() {
            if place > 0 {
                pieces.push((GAP.to_owned(), Style::new()));
            }
            let (cell, right_aligned) = (cell(placed), placed.column.right_aligned);
            let is_last = place + 1 == self.columns.len() && !right_aligned;
            // A cell of a later row may be wider than those that decided the layout. Only shrinking columns cut it.
            let width = match (placed.column.shrinks_to, is_last) {
                (Some(_), _) => placed.width,
                (None, true) => cell.width(),
                (None, false) => placed.width.max(cell.width()),
            };
            pieces.extend(cell.pieces(width, right_aligned));
        }
        pieces
    }
}

/// The text of pieces, with their styles if there are colours.
pub(super) fn joined(pieces: impl IntoIterator<Item = (String, Style)>, colour: bool) -> String {
    let styled = |(text, style): (String, Style)| match colour && style != Style::new() {
        true => format!("{style}{text}{style:#}"),
        false => text,
    };
    pieces.into_iter().map(styled).collect()
}

/// All columns that have something to show, as wide as their widest cell.
fn uncut<'h>(columns: &[Column<'h>], rows: &[Vec<Cell>]) -> Vec<PlacedColumn<'h>> {
    let cells = |index: usize| rows.iter().filter_map(move |row| row.get(index));
    let has_value = |index: usize| cells(index).any(|cell| !cell.is_missing());
    let shown = columns.iter().enumerate().filter(|(index, column)| !column.needs_value || has_value(*index));
    let placed = shown.map(|(index, column)| {
        let width = cells(index).map(Cell::width).max().unwrap_or(0).max(column.head.width()).max(column.min_width);
        PlacedColumn { column: *column, index, width }
    });
    placed.collect()
}

/// Returns the width of a line; wider than the terminal if nothing more can be cut.
fn line_width(columns: &[PlacedColumn<'_>]) -> usize {
    columns.iter().map(|placed| placed.width).sum::<usize>() + GAP.len() * columns.len().saturating_sub(1)
}

/// Narrows the widest of the shrinking columns until the line fits or all are at their minimum.
fn shrink(columns: &mut [PlacedColumn<'_>], available: usize) {
    let mut excess = line_width(columns).saturating_sub(available);
    while excess > 0 {
        let can_shrink =
            |placed: &&mut PlacedColumn<'_>| placed.column.shrinks_to.is_some_and(|least| placed.width > least);
        let Some(widest) = columns.iter_mut().filter(can_shrink).max_by_key(|placed| placed.width) else {
            return;
        };
        widest.width -= 1;
        excess -= 1;
    }
}

/// Tables are not made narrower than this; narrower terminals wrap lines.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) colour: bool,
    /// In columns; none means that lines may have any length.
    pub(crate) width: Option<usize>,
}

impl Terminal {
    /// Pipes and files get plain, complete lines.
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        Self { colour: colours_allowed(), width: width_of(&stdout).map(|width| width.max(WIDTH_MIN)) }
    }
}

/// The width of a terminal; none if it is not a terminal or does not report it.
pub(super) fn width_of(terminal: &impl AsFd) -> Option<usize> {
    tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns whether this process is in the foreground of a terminal: after Ctrl-Z, the line of the cursor belongs to the shell.
pub(crate) fn is_in_foreground(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp())
}

/// Returns whether the environment allows colours (no-color.org: any value of NO_COLOR that is not empty forbids them).
pub(crate) fn colours_allowed() -> bool {
    let is_forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !is_forbidden && !is_dumb
}

/// Escapes text for people: `\n`, `\t`, `\u{1b}`.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    replaced(text, |out, character| {
        out.extend(character.escape_default());
    })
}

/// Escapes CSV for a terminal: line ends and tabs stay, because quotes hold them.
pub(super) fn escape_csv(text: &str) -> Cow<'_, str> {
    replaced(text, |out, character| match character {
        '\n' | '\t' => out.push(character),
        _ => out.extend(character.escape_default()),
    })
}

/// JSON with harmful characters as `\uXXXX`, which is the same value. They occur inside strings only: outside, JSON allows
/// just line ends and tabs, which we do not write.
pub(super) fn escape_json(text: &str) -> Cow<'_, str> {
    replaced(text, |out, character| {
        // All of them have at most four digits. Writing to memory does not fail.
        let _ = write!(out, "\\u{:04x}", u32::from(character));
    })
}

fn replaced(text: &str, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) { write(&mut out, character) } else { out.push(character) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_what_a_terminal_shows() {
        let cases = [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢…"),
            ("abc", 1, "…"),
        ];
        for (text, width, expected) in cases {
            assert_eq!(cut(text, width), expected, "{text} {width}");
        }
    }

    #[test]
    fn colours_appear_only_where_they_are_allowed() {
        let shown = |colour| joined(Cell::status(Status::Failed).pieces(8, true), colour);
        assert_eq!(shown(false), "  failed");
        assert_eq!(shown(true), "  \u{1b}[31mfailed\u{1b}[0m");
    }

    const COLUMNS: &[Column<'static>] = &[Column::text("ID"), Column::shrinking("NAME"), Column::number("COUNT")];

    fn lines(rows: &[[&str; 3]], width: Option<usize>) -> Vec<String> {
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(Cell::new).collect()).collect();
        let layout = Layout::fitting(COLUMNS, &rows, &["COUNT"], Terminal { colour: false, width });
        std::iter::once(layout.head()).chain(rows.iter().map(|row| layout.row(row))).collect()
    }

    #[test]
    fn columns_are_aligned_and_numbers_end_at_the_same_place() {
        let shown = lines(&[["t_1", "ä", "7"], ["t_22", "longer name", "12345678"]], None);
        let expected = ["ID    NAME            COUNT", "t_1   ä                   7", "t_22  longer name  12345678"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_narrow_terminal_cuts_what_may_be_cut_and_nothing_else() {
        let shown = lines(&[["t_1234567890", "a very long name indeed", "7"]], Some(30));
        assert_eq!(shown[1], "t_1234567890  a very l…      7");
        assert!(lines(&[["t_1234567890", "a very long name indeed", "7"]], Some(10))[1].contains("t_1234567890"));
    }

    #[test]
    fn what_does_not_fit_even_when_it_is_cut_is_left_out() {
        let row = [["t_1234567890", "a very long name indeed", "7"]];
        assert_eq!(lines(&row, Some(27))[1], "t_1234567890  a ver…      7");
        assert_eq!(lines(&row, Some(26)), ["ID            NAME", "t_1234567890  a very long…"]);
    }

    #[test]
    fn a_column_that_needs_a_value_is_there_only_with_one() {
        let columns = [Column::text("ID"), Column::with_values("ERROR", 6)];
        let shown = |error: Option<&str>| {
            let row = vec![Cell::new("t_1"), Cell::optional(error)];
            let layout = Layout::fitting(&columns, std::slice::from_ref(&row), &[], Terminal::default());
            [layout.head(), layout.row(&row)]
        };
        assert_eq!(shown(None), ["ID", "t_1"]);
        assert_eq!(shown(Some("ValueError")), ["ID   ERROR", "t_1  ValueError"]);
        assert_eq!(shown(Some("-")), ["ID   ERROR", "t_1  -"]);
    }

    #[test]
    fn harmful_characters_are_shown_and_others_left_alone() {
        let cases = [
            ("plain ä 漢 \u{1f600} é", "plain ä 漢 \u{1f600} é"),
            ("a\nb\tc\r", r"a\nb\tc\r"),
            ("\u{1b}[31mred", r"\u{1b}[31mred"),
            ("\u{7f}\u{9b}x", r"\u{7f}\u{9b}x"),
            ("\u{202e}evil\u{2066}", r"\u{202e}evil\u{2066}"),
            ("\u{0}", r"\u{0}"),
            ("C:\\dir", "C:\\dir"),
        ];
        for (text, expected) in cases {
            assert_eq!(escape(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "{\"a\":\"\u{9b}\u{202e}ä\u{7f}\"}";
        let escaped = escape_json(text);
        assert_eq!(escaped, r#"{"a":"\u009b\u202eä\u007f"}"#);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(text));
    }
}
