//! Prints what a run printed, as it comes: at once, because somebody looks at it. People see the lines that a terminal would show in
//! the end (`taskqueue_core::terminal`), with colours if they are wanted; everything else that controls a terminal is escaped.

use std::io::{self, IsTerminal, StdoutLock, Write};

use taskqueue_client::Output;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::terminal::{Cell, LineSink, OutputLines, Styles};
use taskqueue_core::words;
use unicode_width::UnicodeWidthChar;

use super::note;
use super::table::{Terminal, escape_json, width_of};
use crate::failure::Failure;
use crate::field_path::written;

/// The form in which output is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStyle {
    /// As lines for people. On a terminal a line that has not ended is drawn, too, where `draws`.
    Lines { draws: bool },
    /// As it is.
    Raw,
    /// One object at the end.
    Json,
    /// One object for each piece.
    Jsonl,
}

pub(crate) struct LogPrinter {
    style: LogStyle,
    has_notes: bool,
    out: StdoutLock<'static>,
    lines: LogLines,
    draws: bool,
    /// True if a line that has not ended stands on the terminal.
    is_drawn: bool,
    collected: Option<CollectedOutput>,
}

/// All that is printed as one object.
struct CollectedOutput {
    whole: Output,
    missing_bytes: u64,
}

impl LogPrinter {
    pub(crate) fn new(style: LogStyle, has_notes: bool) -> Self {
        let terminal = Terminal::of_stdout();
        let draws = style == LogStyle::Lines { draws: true } && io::stdout().is_terminal();
        let lines = LogLines::new(terminal.colour);
        Self { style, has_notes, out: io::stdout().lock(), lines, draws, is_drawn: false, collected: None }
    }

    /// Prints the next piece. Pieces of one run come in the order of their offsets.
    pub(crate) fn piece(&mut self, piece: &Output) -> Result<(), Failure> {
        match self.style {
            LogStyle::Lines { .. } => self.lines(&piece.text),
            LogStyle::Raw => self.write(&piece.text),
            LogStyle::Jsonl if piece.text.is_empty() => Ok(()),
            LogStyle::Jsonl => {
                self.write_object(|out| Output::write(out, piece.attempt, piece.start, &piece.text, piece.ended))
            }
            LogStyle::Json => {
                self.collect(piece);
                Ok(())
            }
        }
    }

    /// Bytes that were printed before the next piece are not there.
    pub(crate) fn missing(&mut self, bytes: u64) -> Result<(), Failure> {
        let words = format!("{} {} missing here", words::count(bytes, "byte"), if bytes == 1 { "is" } else { "are" });
        match self.style {
            LogStyle::Lines { .. } => {
                self.end_line()?;
                self.write(&format!("[... {words} ...]\n"))
            }
            LogStyle::Raw => self.note(&words),
            LogStyle::Json => {
                if let Some(collected) = &mut self.collected {
                    collected.missing_bytes += bytes;
                }
                Ok(())
            }
            LogStyle::Jsonl => Ok(()),
        }
    }

    /// Another run begins; what was printed belongs to the one before.
    pub(crate) fn begin_run(&mut self) -> Result<(), Failure> {
        self.collected = None;
        self.end_line()
    }

    /// A line on standard error.
    pub(crate) fn note(&mut self, words: &str) -> Result<(), Failure> {
        if !self.has_notes {
            return Ok(());
        }
        self.erase()?;
        note(words);
        self.draw()
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.end_line()?;
        let Some(CollectedOutput { whole, missing_bytes }) = self.collected.take() else { return Ok(()) };
        self.write_object(|out| {
            ObjectWriter::append_to(out)
                .integer("attempt", whole.attempt)
                .integer("start", whole.start)
                .integer("end", whole.end)
                .text("text", &whole.text)
                .boolean("ended", whole.ended)
                .integer("missing_bytes", missing_bytes)
                .end();
        })
    }

    fn lines(&mut self, text: &str) -> Result<(), Failure> {
        let mut ended = String::new();
        self.lines.read(text, |line| {
            ended.push_str(&line);
            ended.push('\n');
        });
        self.erase()?;
        self.write(&ended)?;
        self.draw()
    }

    fn collect(&mut self, piece: &Output) {
        match &mut self.collected {
            Some(CollectedOutput { whole, .. }) => {
                whole.text.push_str(&piece.text);
                (whole.end, whole.ended) = (piece.end, piece.ended);
            }
            None => self.collected = Some(CollectedOutput { whole: piece.clone(), missing_bytes: 0 }),
        }
    }

    /// Prints the line that has not ended, if there is one.
    fn end_line(&mut self) -> Result<(), Failure> {
        self.erase()?;
        if let Some(line) = self.lines.end_line() { self.write(&(line + "\n")) } else { Ok(()) }
    }

    /// Shows the line that has not ended, as far as it fits into one line of the terminal.
    fn draw(&mut self) -> Result<(), Failure> {
        if !self.draws {
            return Ok(());
        }
        let width = width_of(&self.out).map(|width| width.saturating_sub(1));
        let Some(line) = self.lines.open_line(width) else { return Ok(()) };
        self.is_drawn = true;
        self.write(&line)
    }

    fn erase(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_drawn) { self.write("\r\u{1b}[K") } else { Ok(()) }
    }

    fn write_object(&mut self, object: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        self.write(&(escape_json(&written(object)).into_owned() + "\n"))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| Failure::from_output(&error))
    }
}

/// A longer line is shown as several.
const LINE_MAX: usize = 64 * 1024;
/// The most that a terminal makes of one.
const TAB_WIDTH: usize = 8;

/// The lines of an output that is read piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct LogLines {
    colour: bool,
    reader: OutputLines<u16>,
    styles: Styles,
}

impl LogLines {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour, reader: OutputLines::new(LINE_MAX), styles: Styles::default() }
    }

    /// Reads on. Lines that have ended are given to `ended`, without their line ends.
    pub(crate) fn read(&mut self, text: &str, ended: impl FnMut(String)) {
        let mut sink = EndedLines { colour: self.colour, styles: &mut self.styles, ended };
        self.reader.read(text, &mut sink);
    }

    /// The line that has not ended yet, cut to a width if one is given; nothing if it is empty.
    pub(crate) fn open_line(&self, width: Option<usize>) -> Option<String> {
        let line = self.reader.line();
        let mut used = 0;
        let fits = line.iter().take_while(|cell| {
            used += if cell.character == '\t' { TAB_WIDTH } else { cell.character.width().unwrap_or(0) };
            width.is_none_or(|width| used <= width)
        });
        let count = fits.count();
        (!line.is_empty()).then(|| self.styles.text(&line[..count]))
    }

    /// Ends the line that has not ended yet: nothing more will be printed behind it.
    pub(crate) fn end_line(&mut self) -> Option<String> {
        let line = self.open_line(None);
        *self = Self::new(self.colour);
        line
    }
}

/// Gives lines to `ended`.
struct EndedLines<'s, F> {
    colour: bool,
    styles: &'s mut Styles,
    ended: F,
}

impl<F: FnMut(String)> LineSink for EndedLines<'_, F> {
    type Look = u16;

    fn look(&self) -> u16 {
        self.styles.present()
    }

    fn change_look(&mut self, parameters: &str) {
        if self.colour {
            self.styles.change(parameters);
        }
    }

    fn end_line(&mut self, line: &[Cell<u16>], _is_too_long: bool) {
        (self.ended)(self.styles.text(line));
        self.styles.forget_unused();
    }

    fn shown(&self, harmful: char) -> String {
        harmful.escape_default().collect()
    }
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
    fn what_controls_a_terminal_is_removed_or_escaped() {
        let cases = [
            ("\u{1b}[2J\u{1b}[1;1Hx\u{1b}]0;title\u{7}y", "xy"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("bell\u{7}", r"bell\u{7}"),
            ("\u{0}\u{7f}\u{85}", r"\u{0}\u{7f}\u{85}"),
            ("\u{202e}evil\u{2028}", r"\u{202e}evil\u{2028}"),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text, false), [expected], "{text:?}");
        }
        assert_eq!(lines("\u{1b}]0;never ended\nnext\n", false), ["", "next"]);
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
    }
}
