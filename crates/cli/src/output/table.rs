//! The layout of tables. Where the terminal is too narrow, the widest columns that may shrink are cut.

use anstyle::Style;

use super::cell::{Cell, Column};
use super::terminal::Terminal;

const GAP: &str = "  ";
/// A column does not shrink below this.
const SHRUNK_WIDTH_MIN: usize = 6;

/// The widths of the columns, decided by the first rows and used for all.
#[derive(Debug)]
pub(crate) struct Layout {
    columns: Vec<Column>,
    widths: Vec<usize>,
    colour: bool,
}

impl Layout {
    /// Fits the head and these rows.
    pub(crate) fn fitting(columns: &[Column], rows: &[Vec<Cell>], terminal: Terminal) -> Self {
        let widest = |index: usize, head: &str| {
            rows.iter().filter_map(|row| row.get(index)).map(Cell::width).max().unwrap_or(0).max(head.len())
        };
        let mut widths: Vec<usize> =
            columns.iter().enumerate().map(|(index, column)| widest(index, column.head)).collect();
        if let Some(available) = terminal.width {
            shrink(&mut widths, columns, available);
        }
        Self { columns: columns.to_vec(), widths, colour: terminal.colour }
    }

    /// The width of a line; wider than the terminal if nothing more can be cut.
    pub(crate) fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1)
    }

    pub(crate) fn head(&self) -> String {
        self.line(&self.heads(), true)
    }

    pub(crate) fn heads(&self) -> Vec<Cell> {
        self.columns.iter().map(|column| Cell::new(column.head).bold()).collect()
    }

    pub(crate) fn row(&self, cells: &[Cell]) -> String {
        self.line(cells, false)
    }

    /// One line as texts with styles, for live views.
    pub(crate) fn pieces(&self, cells: &[Cell]) -> Vec<(String, Style)> {
        let mut pieces = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            let mut text = String::new();
            self.write(&mut text, index, cell, false);
            pieces.push((text, cell.style()));
            pieces.push((GAP.to_owned(), Style::new()));
        }
        pieces.pop();
        pieces
    }

    fn line(&self, cells: &[Cell], is_head: bool) -> String {
        let mut out = String::new();
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                out.push_str(GAP);
            }
            self.write(&mut out, index, cell, self.colour);
        }
        debug_assert!(is_head || cells.len() == self.columns.len());
        out.truncate(out.trim_end_matches(' ').len());
        out
    }

    fn write(&self, out: &mut String, index: usize, cell: &Cell, colour: bool) {
        let Some(column) = self.columns.get(index) else { return };
        let is_last = index + 1 == self.columns.len();
        let width = self.cell_width(index, cell, column, is_last && !column.right_aligned);
        cell.write(out, width, column.right_aligned, colour);
    }

    /// A cell of a later row may be wider than those that decided the layout. Only shrinking columns cut it.
    fn cell_width(&self, index: usize, cell: &Cell, column: &Column, is_last: bool) -> usize {
        let width = self.widths[index];
        match (column.shrinks, is_last) {
            (true, _) => width,
            (false, true) => cell.width(),
            (false, false) => width.max(cell.width()),
        }
    }
}

/// Narrows the widest of the shrinking columns until the line fits or all are at their minimum.
fn shrink(widths: &mut [usize], columns: &[Column], available: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(available);
    while excess > 0 {
        let shrinking = (0..widths.len()).filter(|index| columns[*index].shrinks);
        let Some(widest) =
            shrinking.max_by_key(|index| widths[*index]).filter(|index| widths[*index] > SHRUNK_WIDTH_MIN)
        else {
            return;
        };
        widths[widest] -= 1;
        excess -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[Column::text("ID"), Column::shrinking("NAME"), Column::number("COUNT")];

    fn lines(rows: &[[&str; 3]], width: Option<usize>) -> Vec<String> {
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(Cell::new).collect()).collect();
        let layout = Layout::fitting(COLUMNS, &rows, Terminal { colour: false, width });
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
}
