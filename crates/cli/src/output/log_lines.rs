//! What a run printed, as the lines that people want to see in the end: what is behind the last carriage return of a line,
//! with colours if they are wanted. Everything else that controls a terminal is removed or escaped. Text comes in pieces that
//! may end anywhere, also inside an escape sequence. Pure.

use unicode_width::UnicodeWidthChar;

use super::escape::is_harmful;

/// A longer line is shown as several.
const LINE_MAX: usize = 64 * 1024;
/// An escape sequence that does not end is given up after so many characters.
const SEQUENCE_MAX: usize = 4096;
/// More colours in one line than people want to see.
const STYLES_MAX: usize = 1000;
/// The most that a terminal makes of one.
const TAB_WIDTH: usize = 8;

const RESET: &str = "\u{1b}[0m";

#[derive(Clone, Debug)]
pub(crate) struct LogLines {
    colour: bool,
    line: Vec<Glyph>,
    /// Where the next character goes.
    column: usize,
    /// Whether a carriage return was the last: what follows replaces the line. Workers send a progress bar like that.
    is_returned: bool,
    /// Whether something in the line was written over.
    is_redrawn: bool,
    sequence: Sequence,
    /// The colours that are used in this line, as the sequences that switch them on. The first are none.
    styles: Vec<String>,
    style: u16,
}

#[derive(Clone, Copy, Debug)]
struct Glyph {
    character: char,
    /// An index into the styles.
    style: u16,
}

/// Which part of an escape sequence was read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sequence {
    None,
    /// The escape character and perhaps blanks to slashes.
    Begun,
    /// `ESC [` and its parameters.
    Control(String),
    /// A title, a link, an image: everything up to its end, of which the number of characters is counted.
    Text {
        length: usize,
        has_escape: bool,
    },
}

impl LogLines {
    pub(crate) fn new(colour: bool) -> Self {
        Self {
            colour,
            line: Vec::new(),
            column: 0,
            is_returned: false,
            is_redrawn: false,
            sequence: Sequence::None,
            styles: vec![String::new()],
            style: 0,
        }
    }

    /// Reads on. Lines that have ended are given to `ended`, without their line ends.
    pub(crate) fn read(&mut self, text: &str, mut ended: impl FnMut(String)) {
        for character in text.chars() {
            match std::mem::replace(&mut self.sequence, Sequence::None) {
                Sequence::None => self.plain(character, &mut ended),
                Sequence::Begun => self.after_escape(character, &mut ended),
                Sequence::Control(parameters) => self.control(parameters, character, &mut ended),
                Sequence::Text { length, has_escape } => self.inside_text(length, has_escape, character, &mut ended),
            }
        }
    }

    /// The line that has not ended yet, cut to a width if one is given; nothing if it is empty.
    pub(crate) fn open_line(&self, width: Option<usize>) -> Option<String> {
        let shown = self.shown();
        let mut used = 0;
        let fits = shown.iter().take_while(|glyph| {
            used += if glyph.character == '\t' { TAB_WIDTH } else { glyph.character.width().unwrap_or(0) };
            width.is_none_or(|width| used <= width)
        });
        let count = fits.count();
        (!shown.is_empty()).then(|| self.text(&shown[..count]))
    }

    /// Ends the line that has not ended yet: nothing more will be printed behind it.
    pub(crate) fn end_line(&mut self) -> Option<String> {
        let line = self.open_line(None);
        self.begin_line();
        (self.sequence, self.style) = (Sequence::None, 0);
        line
    }

    fn plain(&mut self, character: char, ended: &mut impl FnMut(String)) {
        match character {
            '\n' => self.finish(ended),
            '\r' => (self.column, self.is_returned) = (0, true),
            '\u{8}' => self.column = self.column.saturating_sub(1),
            '\u{1b}' => self.sequence = Sequence::Begun,
            '\u{9b}' => self.sequence = Sequence::Control(String::new()),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.sequence = text_sequence(),
            '\t' => self.put('\t', ended),
            _ if is_harmful(character) => character.escape_default().for_each(|part| self.put(part, ended)),
            _ => self.put(character, ended),
        }
    }

    fn after_escape(&mut self, character: char, ended: &mut impl FnMut(String)) {
        match character {
            '[' => self.sequence = Sequence::Control(String::new()),
            ']' | 'P' | 'X' | '^' | '_' => self.sequence = text_sequence(),
            ' '..='/' => self.sequence = Sequence::Begun,
            '0'..='~' => {}
            // No escape sequence goes on like that.
            _ => self.plain(character, ended),
        }
    }

    fn control(&mut self, mut parameters: String, character: char, ended: &mut impl FnMut(String)) {
        match character {
            '@'..='~' => self.apply(&parameters, character),
            ' '..='?' if parameters.len() < SEQUENCE_MAX => {
                parameters.push(character);
                self.sequence = Sequence::Control(parameters);
            }
            ' '..='?' => {}
            _ => self.plain(character, ended),
        }
    }

    fn inside_text(&mut self, length: usize, has_escape: bool, character: char, ended: &mut impl FnMut(String)) {
        match character {
            '\u{7}' | '\u{9c}' => {}
            '\\' if has_escape => {}
            // Programs that are killed leave such texts open. They have one line.
            '\n' | '\r' => self.plain(character, ended),
            _ if length < SEQUENCE_MAX => {
                self.sequence = Sequence::Text { length: length + 1, has_escape: character == '\u{1b}' };
            }
            _ => {}
        }
    }

    /// Colours, and what progress bars need. The rest of what can be done to a terminal is left out.
    fn apply(&mut self, parameters: &str, action: char) {
        let number = |default: usize| parameters.parse().unwrap_or(default);
        match action {
            'm' => self.set_style(parameters),
            'G' => self.go_to(number(1).saturating_sub(1)),
            'C' => self.go_to(self.column.saturating_add(number(1))),
            'D' => self.go_to(self.column.saturating_sub(number(1))),
            'K' if matches!(parameters, "" | "0") => self.erase_from(self.column),
            'K' if parameters == "2" => self.erase_from(0),
            _ => {}
        }
    }

    fn go_to(&mut self, column: usize) {
        (self.column, self.is_returned) = (column.min(self.line.len()), false);
    }

    fn erase_from(&mut self, column: usize) {
        self.is_redrawn |= column < self.line.len();
        self.line.truncate(column);
        // What is written next stays where it would be on a terminal.
        self.line.resize(self.column, Glyph { character: ' ', style: 0 });
    }

    fn set_style(&mut self, parameters: &str) {
        let is_colour = parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':'));
        if !self.colour || !is_colour {
            return;
        }
        let is_reset = parameters.is_empty() || parameters == "0";
        // Colours add up until they are reset; one that begins with a reset stands alone.
        let before = if parameters.starts_with("0;") { "" } else { self.styles[usize::from(self.style)].as_str() };
        let style = if is_reset { String::new() } else { format!("{before}\u{1b}[{parameters}m") };
        self.style = match self.styles.iter().position(|known| *known == style) {
            Some(index) => index as u16,
            None if self.styles.len() < STYLES_MAX && style.len() < SEQUENCE_MAX => {
                self.styles.push(style);
                (self.styles.len() - 1) as u16
            }
            None => 0,
        };
    }

    fn put(&mut self, character: char, ended: &mut impl FnMut(String)) {
        if self.column >= LINE_MAX {
            self.finish(ended);
        }
        if std::mem::take(&mut self.is_returned) {
            self.is_redrawn |= !self.line.is_empty();
            self.line.clear();
        }
        let glyph = Glyph { character, style: self.style };
        match self.line.get_mut(self.column) {
            Some(old) => {
                *old = glyph;
                self.is_redrawn = true;
            }
            None => self.line.push(glyph),
        }
        self.column += 1;
    }

    fn finish(&mut self, ended: &mut impl FnMut(String)) {
        ended(self.text(self.shown()));
        self.begin_line();
    }

    fn begin_line(&mut self) {
        self.line.clear();
        (self.column, self.is_returned, self.is_redrawn) = (0, false, false);
        // The colour goes on in the next line.
        let style = std::mem::take(&mut self.styles[usize::from(self.style)]);
        self.styles = if style.is_empty() { vec![style] } else { vec![String::new(), style] };
        self.style = (self.styles.len() - 1) as u16;
    }

    /// The line, without the blanks with which a longer state of it was erased.
    fn shown(&self) -> &[Glyph] {
        let blanks = self.line.iter().rev().take_while(|glyph| glyph.character == ' ').count();
        if self.is_redrawn { &self.line[..self.line.len() - blanks] } else { &self.line }
    }

    fn text(&self, glyphs: &[Glyph]) -> String {
        let (mut text, mut style) = (String::with_capacity(glyphs.len()), 0);
        for glyph in glyphs {
            if glyph.style != style {
                if style != 0 {
                    text.push_str(RESET);
                }
                style = glyph.style;
                text.push_str(self.styles.get(usize::from(style)).map_or("", String::as_str));
            }
            text.push(glyph.character);
        }
        if style != 0 {
            text.push_str(RESET);
        }
        text
    }
}

fn text_sequence() -> Sequence {
    Sequence::Text { length: 0, has_escape: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that comes in one piece, and the line that is left open.
    fn lines(text: &str, colour: bool) -> Vec<String> {
        let (mut lines, mut log) = (Vec::new(), LogLines::new(colour));
        log.read(text, |line| lines.push(line));
        lines.extend(log.end_line());
        lines
    }

    #[test]
    fn a_line_is_shown_in_its_last_state() {
        let cases: &[(&str, &[&str])] = &[
            ("one\ntwo\n", &["one", "two"]),
            ("no end", &["no end"]),
            ("", &[]),
            ("\n\n", &["", ""]),
            ("windows\r\n", &["windows"]),
            (" 10%\r 50%\r100%\n", &["100%"]),
            ("long state\rshort\n", &["short"]),
            ("state\r\r\n", &["state"]),
            ("state\r\u{1b}[3CX\n", &["staXe"]),
            ("long state\r\u{1b}[Kshort\n", &["short"]),
            ("state\r\u{1b}[K\n", &[""]),
            ("long state\r          \rshort\n", &["short"]),
            ("long state\u{1b}[2K\rshort\n", &["short"]),
            ("abc\u{8}\u{8}X\n", &["aXc"]),
            ("abc\u{1b}[1Gx\u{1b}[Cz\n", &["xbz"]),
            ("abc\u{1b}[2DX\n", &["aXc"]),
            ("trailing  \n", &["trailing  "]),
            ("a\tb\n", &["a\tb"]),
            ("ä漢\rb\n", &["b"]),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text, false), *expected, "{text:?}");
        }
    }

    #[test]
    fn what_controls_a_terminal_is_removed_or_escaped() {
        let cases = [
            ("\u{1b}[2J\u{1b}[1;1Hx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}P1;2q...\u{1b}\\x", "x"),
            ("\u{9b}31mx\u{9d}0;t\u{9c}y", "xy"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}=z", "xyz"),
            ("\u{1b}[?25lx\u{1b}[?25h", "x"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("bell\u{7}", r"bell\u{7}"),
            ("\u{0}\u{7f}\u{85}", r"\u{0}\u{7f}\u{85}"),
            ("\u{202e}evil", r"\u{202e}evil"),
            ("\u{1b}äx", "äx"),
            ("\u{1b}[3äx", "äx"),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text, false), [expected], "{text:?}");
        }
        assert_eq!(lines("\u{1b}]0;never ended\nnext\n", false), ["", "next"]);
        let endless = format!("\u{1b}[{}mx", "1;".repeat(SEQUENCE_MAX));
        assert!(lines(&endless, true).concat().ends_with("mx"), "given up");
    }

    #[test]
    fn colours_stay_where_they_are_wanted_and_nothing_else_does() {
        let cases = [
            ("\u{1b}[31mred\u{1b}[0m plain", "\u{1b}[31mred\u{1b}[0m plain"),
            ("\u{1b}[1m\u{1b}[38;5;9mx\u{1b}[my", "\u{1b}[1m\u{1b}[38;5;9mx\u{1b}[0my"),
            ("\u{1b}[31mlong\r\u{1b}[0;32mok", "\u{1b}[32mok\u{1b}[0m"),
            ("\u{1b}[>4;1mx", "x"),
        ];
        for (text, expected) in cases {
            let shown = lines(text, true).concat().replace("\u{1b}[0;32m", "\u{1b}[32m");
            assert_eq!(shown, expected, "{text:?}");
        }
        let two = lines("\u{1b}[31ma\nb\u{1b}[0m\nc\n", true);
        assert_eq!(two, ["\u{1b}[31ma\u{1b}[0m", "\u{1b}[31mb\u{1b}[0m", "c"], "a colour goes on in the next line");
    }

    #[test]
    fn pieces_may_end_anywhere() {
        let text = "a\u{1b}[31mb\u{1b}[0m\r\u{1b}[Kc\n\u{1b}]0;t\u{1b}\\d漢\u{1b}[1;32me\nlast";
        let whole = lines(text, true);
        let (mut apart, mut log) = (Vec::new(), LogLines::new(true));
        for character in text.chars() {
            log.read(&character.to_string(), |line| apart.push(line));
        }
        apart.extend(log.end_line());
        assert_eq!(apart, whole);
        assert_eq!(whole.last().map(String::as_str), Some("\u{1b}[1;32mlast\u{1b}[0m"));
    }

    #[test]
    fn an_open_line_is_cut_to_the_width_and_a_line_without_end_does_not_grow_for_ever() {
        let mut log = LogLines::new(false);
        log.read("漢字abc", |_| panic!("no line has ended"));
        assert_eq!(log.open_line(Some(5)).as_deref(), Some("漢字a"));
        assert_eq!(log.open_line(Some(3)).as_deref(), Some("漢"));
        assert_eq!(log.open_line(None).as_deref(), Some("漢字abc"));
        let mut tabs = LogLines::new(false);
        tabs.read("a\tb\tc", |_| panic!("no line has ended"));
        assert_eq!(tabs.open_line(Some(12)).as_deref(), Some("a\tb"), "a line that wraps could not be erased");
        let mut lengths = Vec::new();
        let mut log = LogLines::new(true);
        log.read(&"x".repeat(LINE_MAX * 2 + 1), |line| lengths.push(line.len()));
        assert_eq!(lengths, [LINE_MAX, LINE_MAX]);
        assert_eq!(log.end_line().as_deref(), Some("x"));
        assert_eq!(log.end_line(), None);
        for number in 0..2 * STYLES_MAX {
            log.read(&format!("\u{1b}[0;38;5;{number}mx"), |_| panic!("no line has ended"));
        }
        assert!(log.styles.len() <= STYLES_MAX);
    }
}
