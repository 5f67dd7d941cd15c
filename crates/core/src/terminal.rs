//! Text that was written for a terminal: which characters are never shown as they are, what control sequences do (`sequences.rs`), the
//! lines that a reader of an output sees, and their colours. A line is what is behind its last carriage return, because workers send a
//! line that has changed as a whole behind one (docs/decisions/0051). What else controls a terminal is left to whoever shows the lines.

mod sequences;

pub use self::sequences::{Sequences, Step};

/// Returns whether a character changes the order in which those after it are shown. These are named, not obeyed.
pub const fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character would control a terminal or reorder a line: control characters (C0, DEL, C1), line separators, and
/// marks that change the direction of text.
pub fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || is_bidi_control(character)
}

/// A character and how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<L> {
    pub character: char,
    pub look: L,
}

/// A taker of lines, which knows how characters look.
pub trait LineSink {
    type Look: Copy + Default;

    /// Returns the look of what is printed next.
    fn look(&self) -> Self::Look;

    /// Obeys `ESC [ parameters m`.
    fn change_look(&mut self, parameters: &str);

    /// Takes a line that has ended, or a piece of one that `is_too_long`.
    fn end_line(&mut self, line: &[Cell<Self::Look>], is_too_long: bool);

    /// Returns what is put into the line for a harmful character.
    fn shown(&self, harmful: char) -> String {
        if harmful.is_control() { String::new() } else { harmful.to_string() }
    }
}

/// A reader of lines. Text may come in pieces that end anywhere.
#[derive(Clone, Debug)]
pub struct OutputLines<L> {
    /// A longer line is given in pieces.
    most_cells: usize,
    sequences: Sequences,
    line: Vec<Cell<L>>,
    /// The place of the next character.
    column: usize,
    /// True if a carriage return was the last: what follows replaces the line.
    is_returned: bool,
    /// True if something in the line was written over.
    is_redrawn: bool,
}

impl<L: Copy + Default> OutputLines<L> {
    /// Returns a reader that gives a line with more than `most_cells` in pieces.
    pub fn new(most_cells: usize) -> Self {
        let sequences = Sequences::default();
        Self { most_cells, sequences, line: Vec::new(), column: 0, is_returned: false, is_redrawn: false }
    }

    /// Reads on.
    pub fn read(&mut self, text: &str, sink: &mut impl LineSink<Look = L>) {
        text.chars().for_each(|character| self.push(character, sink));
    }

    /// Reads one character.
    pub fn push(&mut self, character: char, sink: &mut impl LineSink<Look = L>) {
        let Some(step) = self.sequences.push(character) else { return };
        match step {
            Step::Print(character) if character == '\t' || !is_harmful(character) => self.put(character, sink),
            Step::Print(harmful) | Step::Control(harmful) => {
                sink.shown(harmful).chars().for_each(|character| self.put(character, sink));
            }
            Step::LineEnd => self.finish(sink, false),
            Step::Return => (self.column, self.is_returned) = (0, true),
            Step::Back(count) => self.go_to(self.column.saturating_sub(count)),
            Step::Forward(count) => self.go_to(self.column.saturating_add(count)),
            Step::Column(column) => self.go_to(column),
            Step::EraseRight | Step::EraseBelow => self.erase_from(self.column),
            Step::EraseLine => self.erase_from(0),
            Step::EraseLeft => self.erase_left(),
            Step::Style(parameters) => sink.change_look(&parameters),
            // A line that was given away is not changed any more.
            Step::Up(_) | Step::Down(_) => {}
        }
    }

    /// Returns the line that has not ended yet, without the blanks with which a longer state of it was erased.
    pub fn line(&self) -> &[Cell<L>] {
        let blanks = self.line.iter().rev().take_while(|cell| cell.character == ' ').count();
        if self.is_redrawn { &self.line[..self.line.len() - blanks] } else { &self.line }
    }

    fn go_to(&mut self, column: usize) {
        (self.column, self.is_returned) = (column.min(self.line.len()), false);
    }

    fn erase_from(&mut self, column: usize) {
        self.is_redrawn |= column < self.line.len();
        self.line.truncate(column);
        // What is written next stays where it would be on a terminal.
        self.line.resize(self.column, blank());
    }

    fn erase_left(&mut self) {
        let end = (self.column + 1).min(self.line.len());
        self.is_redrawn |= end > 0;
        self.line[..end].fill(blank());
    }

    fn put(&mut self, character: char, sink: &mut impl LineSink<Look = L>) {
        if self.column >= self.most_cells {
            self.finish(sink, true);
        }
        if std::mem::take(&mut self.is_returned) {
            self.is_redrawn |= !self.line.is_empty();
            self.line.clear();
        }
        let cell = Cell { character, look: sink.look() };
        match self.line.get_mut(self.column) {
            Some(old) => (*old, self.is_redrawn) = (cell, true),
            None => self.line.push(cell),
        }
        self.column += 1;
    }

    fn finish(&mut self, sink: &mut impl LineSink<Look = L>, is_too_long: bool) {
        sink.end_line(self.line(), is_too_long);
        self.line.clear();
        (self.column, self.is_returned, self.is_redrawn) = (0, false, false);
    }
}

fn blank<L: Default>() -> Cell<L> {
    Cell { character: ' ', look: L::default() }
}

/// The sequences of a style, one behind the other. What is longer is forgotten but for its last sequence.
const STYLE_BYTES: usize = 48;
/// More different styles than this at a time are shown without colours.
const STYLES: usize = 512;

const RESET: &str = "\u{1b}[0m";

/// The colours that cells name by number.
#[derive(Clone, Debug)]
pub struct Styles {
    /// Sequences that lead to a style from none. The first is no style.
    known: Vec<String>,
    present: u16,
}

impl Default for Styles {
    fn default() -> Self {
        Self { known: vec![String::new()], present: 0 }
    }
}

impl Styles {
    /// Returns the style of what is printed next.
    pub fn present(&self) -> u16 {
        self.present
    }

    /// Obeys a sequence with these parameters: none and 0 end all colours, everything else is added.
    pub fn change(&mut self, parameters: &str) {
        if parameters.trim_matches(['0', ';']).is_empty() {
            return self.reset();
        }
        // `0;31` begins anew.
        let before = if parameters.starts_with("0;") { "" } else { &*self.known[usize::from(self.present)] };
        let mut style = format!("{before}\u{1b}[{parameters}m");
        if style.len() > STYLE_BYTES {
            style = format!("\u{1b}[{parameters}m");
        }
        self.present = match self.known.iter().position(|known| *known == style) {
            Some(index) => u16::try_from(index).unwrap_or(0),
            None if self.known.len() >= STYLES || style.len() > STYLE_BYTES => 0,
            None => {
                self.known.push(style);
                u16::try_from(self.known.len() - 1).unwrap_or(0)
            }
        };
    }

    /// Ends all colours.
    pub fn reset(&mut self) {
        self.present = 0;
    }

    /// Returns a row as text.
    pub fn text(&self, row: &[Cell<u16>]) -> String {
        let mut text = String::with_capacity(row.len());
        let mut present = "";
        for cell in row {
            let wanted = self.known.get(usize::from(cell.look)).map_or("", String::as_str);
            if wanted != present {
                match wanted.strip_prefix(present) {
                    Some(more) => text.push_str(more),
                    None => {
                        text.push_str(RESET);
                        text.push_str(wanted);
                    }
                }
                present = wanted;
            }
            text.push(cell.character);
        }
        if !present.is_empty() {
            text.push_str(RESET);
        }
        text
    }

    /// Forgets all styles but the present one. To be called when no cell has one any more.
    pub fn forget_unused(&mut self) {
        if self.known.len() > 1 {
            let present = std::mem::take(&mut self.known[usize::from(self.present)]);
            *self = Self::default();
            if !present.is_empty() {
                self.known.push(present);
                self.present = 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines without looks, each with its end.
    #[derive(Default)]
    struct Plain(String);

    impl LineSink for Plain {
        type Look = ();

        fn look(&self) {}

        fn change_look(&mut self, _: &str) {}

        fn end_line(&mut self, line: &[Cell<()>], is_too_long: bool) {
            self.0.extend(line.iter().map(|cell| cell.character));
            self.0.push_str(if is_too_long { "|" } else { "\n" });
        }

        fn shown(&self, harmful: char) -> String {
            if harmful == '\0' { String::new() } else { format!("<{:x}>", u32::from(harmful)) }
        }
    }

    const CELLS: usize = 1000;

    /// The lines of a text, and the one that is left open.
    fn lines(text: &str) -> String {
        let (mut reader, mut plain) = (OutputLines::new(CELLS), Plain::default());
        reader.read(text, &mut plain);
        plain.0 + &reader.line().iter().map(|cell| cell.character).collect::<String>()
    }

    #[test]
    fn a_line_is_shown_in_its_last_state() {
        let cases = [
            ("one\ntwo\n", "one\ntwo\n"),
            ("no end", "no end"),
            ("", ""),
            ("\n\n", "\n\n"),
            ("windows\r\n", "windows\n"),
            (" 10%\r 50%\r100%\n", "100%\n"),
            ("long state\rshort\n", "short\n"),
            ("state\r\r\n", "state\n"),
            ("state\r\u{1b}[3CX\n", "staXe\n"),
            ("long state\r\u{1b}[Kshort\n", "short\n"),
            ("state\r\u{1b}[K\n", "\n"),
            ("long state\r          \rshort\n", "short\n"),
            ("long state\u{1b}[2K\rshort\n", "short\n"),
            ("abc\u{8}\u{8}X\n", "aXc\n"),
            ("\u{8}\ra", "a"),
            ("abc\u{1b}[1Gx\u{1b}[Cz\n", "xbz\n"),
            ("abc\u{1b}[2DX\n", "aXc\n"),
            ("abc\u{1b}[1K!\n", "   !\n"),
            ("trailing  \n", "trailing  \n"),
            ("a\tb\n", "a\tb\n"),
            ("ä漢\rb\n", "b\n"),
            ("a\u{7}\0b\u{1b}[2Ac\u{202e}", "a<7>bc<202e>"),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_without_end_does_not_grow_for_ever() {
        let piece = "x".repeat(CELLS);
        assert_eq!(lines(&format!("{piece}{piece}x")), format!("{piece}|{piece}|x"));
        assert_eq!(lines(&format!("{piece}\n")), format!("{piece}\n"));
    }
}

#[cfg(test)]
mod styles_tests {
    use super::*;

    #[test]
    fn nothing_grows_with_the_number_of_colours() {
        let mut styles = Styles::default();
        for number in 0..2 * STYLES {
            styles.change(&format!("0;38;5;{number}"));
        }
        assert!(styles.known.len() <= STYLES && styles.present() == 0);
        styles.forget_unused();
        for _ in 0..2 * STYLES {
            styles.change("1");
            assert!(styles.known.iter().all(|style| style.len() <= STYLE_BYTES));
        }
    }
}
