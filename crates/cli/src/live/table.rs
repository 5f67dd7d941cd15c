//! The tables of list commands in a live view: the same columns, cells and layout.

use anstyle::Style;
use ratatui::text::{Line, Span};
use taskqueue_core::time::Timestamp;

use super::theme::Theme;
use crate::output::{Cell, Column, Layout, Record, Terminal};

#[derive(Debug)]
pub(crate) struct Table<'h> {
    columns: Vec<Column<'h>>,
    rows: Vec<Vec<Cell>>,
}

impl<'h> Table<'h> {
    pub(crate) fn new(columns: &[Column<'h>], rows: Vec<Vec<Cell>>) -> Self {
        Self { columns: columns.to_vec(), rows }
    }

    /// The table that a list command prints.
    pub(crate) fn of<'r, R: Record + 'r>(records: impl IntoIterator<Item = &'r R>, now: Timestamp) -> Self {
        Self::new(R::COLUMNS, records.into_iter().map(|record| record.cells(now)).collect())
    }

    /// The head and the rows as lines of at most `width`. Columns are left out in the order of `leave_out` until the others
    /// fit.
    pub(crate) fn lines(self, width: u16, leave_out: &[&str], theme: Theme) -> (Line<'static>, Vec<Line<'static>>) {
        let terminal = Terminal { colour: false, width: Some(width.into()) };
        let layout = Layout::fitting(&self.columns, &self.rows, leave_out, terminal);
        let line = |pieces: Vec<(String, Style)>| -> Line<'static> {
            pieces.into_iter().map(|(text, style)| Span::styled(text, theme.cell(style))).collect()
        };
        (line(layout.head_pieces()), self.rows.iter().map(|row| line(layout.row_pieces(row))).collect())
    }
}

/// The index of the first row to show, so that row `marked` is visible and the window is as full as possible.
pub(crate) fn first_visible_row(marked: usize, rows: usize, height: usize) -> usize {
    let last_start = rows.saturating_sub(height);
    marked.saturating_sub(height / 2).min(last_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_important_columns_go_first_and_only_where_there_is_no_room() {
        let columns = [Column::text("ID"), Column::number("RUNNING"), Column::number("CANCELLED")];
        let shown = |width| {
            let table = Table::new(&columns, vec![vec![Cell::new("t_1"), Cell::number(7), Cell::number(8)]]);
            let (head, rows) = table.lines(width, &["CANCELLED", "RUNNING"], Theme::PLAIN);
            [head.to_string(), rows[0].to_string()]
        };
        assert_eq!(shown(23), ["ID   RUNNING  CANCELLED", "t_1        7          8"]);
        assert_eq!(shown(22), ["ID   RUNNING", "t_1        7"]);
        assert_eq!(shown(5), ["ID", "t_1"]);
    }

    #[test]
    fn the_marked_row_is_always_in_the_window() {
        let cases =
            [(0, 10, 4, 0), (1, 10, 4, 0), (5, 10, 4, 3), (9, 10, 4, 6), (3, 4, 9, 0), (0, 0, 3, 0), (2, 5, 1, 2)];
        for (marked, rows, height, expected) in cases {
            assert_eq!(first_visible_row(marked, rows, height), expected, "{marked} {rows} {height}");
        }
    }
}
