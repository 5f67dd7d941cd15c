//! The lines of an output as a terminal would show them, as far as they are not given away yet: a progress bar is its last state and not
//! each of them. Pure: what is given away when is decided in `sender.rs`.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use taskqueue_core::terminal::{self, Sequences, Step, Styles};

/// A line that is longer is given away in pieces.
const LINE_CELLS: usize = 16 * 1024;
/// A cursor goes no further to the right than this, or to the end of what is written there: no terminal is wider, and a few bytes would
/// become thousands of blanks.
const SCREEN_COLUMNS: usize = 1024;
/// The rows that are held for a cursor that moves up.
const HELD_ROWS: usize = 256;
const HELD_CELLS: usize = LINE_CELLS;

/// A character and the number of its style.
type Cell = terminal::Cell<u16>;

const BLANK: Cell = Cell { character: ' ', look: 0 };

type Row = Vec<Cell>;

#[derive(Debug)]
pub(super) struct LineState {
    decoder: Decoder,
    sequences: Sequences,
    styles: Styles,
    /// The rows that are not given away. There is always one row, the last of which has no line end yet.
    rows: VecDeque<Row>,
    row: usize,
    column: usize,
    held_cells: usize,
    /// The part of the first row that was given away.
    shown: String,
    /// The number of rows above the last one that are being rewritten, by a cursor that moves up.
    live_rows: usize,
    /// The cursor moved up since the last time that finished rows were taken.
    has_moved_up: bool,
    /// Pieces that had to be given away.
    ready: String,
}

impl Default for LineState {
    fn default() -> Self {
        Self {
            decoder: Decoder::default(),
            sequences: Sequences::default(),
            styles: Styles::default(),
            rows: VecDeque::from([Row::new()]),
            row: 0,
            column: 0,
            held_cells: 0,
            shown: String::new(),
            live_rows: 0,
            has_moved_up: false,
            ready: String::new(),
        }
    }
}

impl LineState {
    /// Adds what was printed. Bytes that are no text become U+FFFD; a character may come in parts.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let text = self.decoder.push(bytes);
        for character in text.chars() {
            if let Some(step) = self.sequences.push(character) {
                self.apply(step);
            }
        }
    }

    /// Returns whether nothing is held that was not given away.
    pub(super) fn is_shown(&self) -> bool {
        self.ready.is_empty() && self.rows.len() == 1 && self.styles.text(&self.rows[0]) == self.shown
    }

    /// Returns whether what is unfinished replaces something that was given away, or is about to be replaced itself.
    pub(super) fn is_rewritten(&self) -> bool {
        self.rows.len() > 1 || !self.styles.text(&self.rows[0]).starts_with(&self.shown)
    }

    /// Takes the lines that have ended and are not being rewritten.
    pub(super) fn take_finished(&mut self) -> String {
        let held = self.live_rows.min(self.rows.len() - 1);
        let count = (self.rows.len() - 1 - held).min(self.row);
        self.give_rows(count);
        std::mem::take(&mut self.ready)
    }

    /// Forgets a region that is no longer rewritten; to be called when some time has passed.
    pub(super) fn settle(&mut self) {
        if !std::mem::take(&mut self.has_moved_up) {
            self.live_rows = 0;
        }
    }

    /// Takes everything, also a line that has not ended: only what is new in it, or the whole line behind a carriage return.
    pub(super) fn take_all(&mut self) -> String {
        // Erased lines below the cursor are not there.
        while self.rows.len() - 1 > self.row && self.rows.back().is_some_and(Vec::is_empty) {
            self.rows.pop_back();
        }
        self.give_rows(self.rows.len() - 1);
        let text = self.styles.text(&self.rows[0]);
        add_behind(&mut self.ready, &self.shown, &text);
        self.shown = text;
        std::mem::take(&mut self.ready)
    }

    /// Ends the text: part of a character is none.
    pub(super) fn end(&mut self) {
        if self.decoder.end() {
            self.apply(Step::Print(char::REPLACEMENT_CHARACTER));
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Print(character) => self.print(character),
            Step::LineEnd => self.line_end(),
            Step::Return => self.column = 0,
            Step::Back(count) => self.column = self.column.saturating_sub(count),
            Step::Forward(count) => self.move_to(self.column.saturating_add(count)),
            Step::Column(column) => self.move_to(column),
            Step::Up(count) => {
                self.row = self.row.saturating_sub(count);
                self.live_rows = self.live_rows.max(count).min(HELD_ROWS);
                self.has_moved_up = true;
            }
            Step::Down(count) => self.row = self.row.saturating_add(count).min(self.rows.len() - 1),
            Step::EraseRight => self.truncate(),
            Step::EraseLeft => {
                let end = (self.column + 1).min(self.rows[self.row].len());
                self.rows[self.row][..end].fill(BLANK);
            }
            Step::EraseLine => {
                self.held_cells -= self.rows[self.row].len();
                self.rows[self.row].clear();
            }
            Step::EraseBelow => {
                self.truncate();
                self.held_cells -= self.rows.drain(self.row + 1..).map(|row| row.len()).sum::<usize>();
            }
            Step::Style(parameters) => self.styles.change(&parameters),
            Step::Control(_) => {}
        }
    }

    fn move_to(&mut self, column: usize) {
        self.column = column.min(self.rows[self.row].len().max(SCREEN_COLUMNS)).min(LINE_CELLS - 1);
    }

    fn truncate(&mut self) {
        let row = &mut self.rows[self.row];
        let kept = row.len().min(self.column);
        self.held_cells -= row.len() - kept;
        row.truncate(kept);
    }

    fn print(&mut self, character: char) {
        if self.column >= LINE_CELLS {
            // The piece is given away; a carriage return leads to the beginning of the next one.
            self.ready = self.take_all();
            self.start_anew();
        }
        let (cell, column) = (Cell { character, look: self.styles.present() }, self.column);
        let row = &mut self.rows[self.row];
        if column >= row.len() {
            self.held_cells += column + 1 - row.len();
            row.resize(column, BLANK);
            row.push(cell);
        } else {
            row[column] = cell;
        }
        self.column += 1;
    }

    fn line_end(&mut self) {
        self.column = 0;
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push_back(Row::new());
        }
        // The oldest are given away, whether a cursor would reach them or not.
        while self.row > 0 && (self.rows.len() > HELD_ROWS || self.held_cells > HELD_CELLS) {
            self.give_rows(1);
        }
    }

    /// Gives away the first rows, which have ended.
    fn give_rows(&mut self, count: usize) {
        for row in self.rows.drain(..count).collect::<Vec<_>>() {
            self.held_cells -= row.len();
            add_behind(&mut self.ready, &std::mem::take(&mut self.shown), &self.styles.text(&row));
            self.ready.push('\n');
        }
        self.row = self.row.saturating_sub(count);
        if self.held_cells == 0 {
            self.styles.forget_unused();
        }
    }

    /// Begins with an empty line, of which nothing was given away.
    fn start_anew(&mut self) {
        self.rows = VecDeque::from([Row::new()]);
        (self.row, self.column, self.held_cells) = (0, 0, 0);
        self.shown.clear();
        self.styles.forget_unused();
    }
}

/// Adds what is new in a line of which a part was given away, or the whole line behind a carriage return.
fn add_behind(ready: &mut String, shown: &str, text: &str) {
    match text.strip_prefix(shown) {
        Some(new) => ready.push_str(new),
        // A carriage return alone erases nothing.
        None if text.is_empty() => ready.push_str("\r\u{1b}[K"),
        None => {
            ready.push('\r');
            ready.push_str(text);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a character, at most 3 bytes.
    partial: Vec<u8>,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let rest = self.partial.split_off(self.partial.len() - partial_bytes(&self.partial));
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// Forgets the beginning of a character that does not come; whether there was one.
    pub(super) fn end(&mut self) -> bool {
        !std::mem::take(&mut self.partial).is_empty()
    }
}

/// Returns the number of bytes at the end that may be the beginning of a character.
pub(in crate::sent_output) fn partial_bytes(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    for (index, byte) in tail.iter().enumerate().rev() {
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        let there = &tail[index..];
        // One that cannot be completed, such as a surrogate, is not waited for.
        let may_continue = std::str::from_utf8(there).is_err_and(|error| error.error_len().is_none());
        return if there.len() < wanted && may_continue { there.len() } else { 0 };
    }
    0
}
