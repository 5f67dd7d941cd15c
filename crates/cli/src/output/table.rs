//! The layout of tables, of list commands and of live views. Where the terminal is too narrow, the widest columns that may
//! shrink are cut, and then the least important columns are left out.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use super::cell::{Cell, Column};
use super::terminal::Terminal;

const GAP: &str = "  ";

/// The columns that are shown and their widths, decided by the first rows and used for all.
#[derive(Debug)]
pub(crate) struct Layout<'h> {
    columns: Vec<Placed<'h>>,
    colour: bool,
}

#[derive(Clone, Copy, Debug)]
struct Placed<'h> {
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
        let fitted = |kept: &[Placed<'h>]| {
            let mut columns = kept.to_vec();
            if let Some(available) = terminal.width {
                shrink(&mut columns, available);
            }
            Self { columns, colour: terminal.colour }
        };
        let mut layout = fitted(&kept);
        for head in leave_out {
            if terminal.width.is_none_or(|available| layout.width() <= available) {
                break;
            }
            kept.retain(|placed| placed.column.head != *head);
            layout = fitted(&kept);
        }
        layout
    }

    /// The width of a line; wider than the terminal if nothing more can be cut.
    fn width(&self) -> usize {
        line_width(&self.columns)
    }

    pub(crate) fn head(&self) -> String {
        self.line(|placed| Cell::new(placed.column.head).bold())
    }

    /// One line of cells, of which there is one for each column, also for those that are left out.
    pub(crate) fn row(&self, cells: &[Cell]) -> String {
        self.line(|placed| cell_of(cells, placed))
    }

    /// The head as texts with styles, for live views.
    pub(crate) fn head_pieces(&self) -> Vec<(String, Style)> {
        self.pieces(|placed| Cell::new(placed.column.head).bold())
    }

    /// One line as texts with styles.
    pub(crate) fn row_pieces(&self, cells: &[Cell]) -> Vec<(String, Style)> {
        self.pieces(|placed| cell_of(cells, placed))
    }

    fn pieces(&self, cell: impl Fn(&Placed<'h>) -> Cell) -> Vec<(String, Style)> {
        let mut pieces = Vec::new();
        for (place, placed) in self.columns.iter().enumerate() {
            let (cell, mut text) = (cell(placed), String::new());
            self.write(&mut text, place, &cell, false);
            pieces.push((text, cell.style()));
            pieces.push((GAP.to_owned(), Style::new()));
        }
        pieces.pop();
        pieces
    }

    fn line(&self, cell: impl Fn(&Placed<'h>) -> Cell) -> String {
        let mut out = String::new();
        for (place, placed) in self.columns.iter().enumerate() {
            if place > 0 {
                out.push_str(GAP);
            }
            self.write(&mut out, place, &cell(placed), self.colour);
        }
        out.truncate(out.trim_end_matches(' ').len());
        out
    }

    fn write(&self, out: &mut String, place: usize, cell: &Cell, colour: bool) {
        let Some(placed) = self.columns.get(place) else { return };
        let right_aligned = placed.column.right_aligned;
        let is_last = place + 1 == self.columns.len() && !right_aligned;
        // A cell of a later row may be wider than those that decided the layout. Only shrinking columns cut it.
        let width = match (placed.column.shrinks_to, is_last) {
            (Some(_), _) => placed.width,
            (None, true) => cell.width(),
            (None, false) => placed.width.max(cell.width()),
        };
        cell.write(out, width, right_aligned, colour);
    }
}

fn cell_of(cells: &[Cell], placed: &Placed<'_>) -> Cell {
    debug_assert!(placed.index < cells.len(), "each column has a cell");
    cells.get(placed.index).cloned().unwrap_or_else(|| Cell::new(""))
}

/// All columns that have something to show, as wide as their widest cell.
fn uncut<'h>(columns: &[Column<'h>], rows: &[Vec<Cell>]) -> Vec<Placed<'h>> {
    let cells = |index: usize| rows.iter().filter_map(move |row| row.get(index));
    let has_value = |index: usize| cells(index).any(|cell| !cell.is_missing());
    let shown = columns.iter().enumerate().filter(|(index, column)| !column.needs_value || has_value(*index));
    shown
        .map(|(index, column)| {
            let width = cells(index).map(Cell::width).max().unwrap_or(0).max(column.head.width()).max(column.min_width);
            Placed { column: *column, index, width }
        })
        .collect()
}

fn line_width(columns: &[Placed<'_>]) -> usize {
    columns.iter().map(|placed| placed.width).sum::<usize>() + GAP.len() * columns.len().saturating_sub(1)
}

/// Narrows the widest of the shrinking columns until the line fits or all are at their minimum.
fn shrink(columns: &mut [Placed<'_>], available: usize) {
    let mut excess = line_width(columns).saturating_sub(available);
    while excess > 0 {
        let can_shrink = |placed: &&mut Placed<'_>| placed.column.shrinks_to.is_some_and(|least| placed.width > least);
        let Some(widest) = columns.iter_mut().filter(can_shrink).max_by_key(|placed| placed.width) else {
            return;
        };
        widest.width -= 1;
        excess -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column<'static>] = &[Column::text("ID"), Column::shrinking("NAME"), Column::number("COUNT")];

    fn lines(rows: &[[&str; 3]], width: Option<usize>) -> Vec<String> {
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(Cell::new).collect()).collect();
        let layout = Layout::fitting(COLUMNS, &rows, &["COUNT"], Terminal { colour: false, width });
        std::iter::once(layout.head()).chain(rows.iter().map(|row| layout.row(row))).collect()
    }

    #[test]
    fn columns_are_aligned_and_numbers_end_at_the_same_place() {
        let shown = lines(&[["t_1", "ä", "7"], ["t_22", "longer name", "12345678"]], None);
        assert_eq!(
            shown,
            ["ID    NAME            COUNT", "t_1   ä                   7", "t_22  longer name  12345678"]
        );
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
}
