//! Prints what a run printed, as it comes: at once, because somebody looks at it. What each line looks like is in
//! `log_lines.rs`.

use std::io::{self, IsTerminal, StdoutLock, Write};

use taskqueue_client::Output;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::words;

use super::escape::escape_json;
use super::log_lines::LogLines;
use super::note;
use super::terminal::{Terminal, columns};
use crate::failure::Failure;

/// How output is printed.
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
    /// Whether a line that has not ended stands on the terminal.
    is_drawn: bool,
    collected: Option<Collected>,
}

/// All that is printed as one object.
struct Collected {
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
            LogStyle::Jsonl => self.write(&(escape_json(&json(piece)).into_owned() + "\n")),
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
        let Some(Collected { whole, missing_bytes }) = self.collected.take() else { return Ok(()) };
        let mut out = Vec::new();
        ObjectWriter::append_to(&mut out)
            .integer("attempt", whole.attempt)
            .integer("start", whole.start)
            .integer("end", whole.end)
            .text("text", &whole.text)
            .boolean("ended", whole.ended)
            .integer("missing_bytes", missing_bytes)
            .end();
        // JSON is UTF-8.
        let text = String::from_utf8(out).unwrap_or_default();
        self.write(&(escape_json(&text).into_owned() + "\n"))
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
            Some(Collected { whole, .. }) => {
                whole.text.push_str(&piece.text);
                (whole.end, whole.ended) = (piece.end, piece.ended);
            }
            None => self.collected = Some(Collected { whole: piece.clone(), missing_bytes: 0 }),
        }
    }

    /// Prints the line that has not ended, if there is one.
    fn end_line(&mut self) -> Result<(), Failure> {
        self.erase()?;
        match self.lines.end_line() {
            Some(line) => self.write(&(line + "\n")),
            None => Ok(()),
        }
    }

    /// Shows the line that has not ended, as far as it fits into one line of the terminal.
    fn draw(&mut self) -> Result<(), Failure> {
        if !self.draws {
            return Ok(());
        }
        let width = columns(&self.out).map(|width| width.saturating_sub(1));
        let Some(line) = self.lines.open_line(width) else { return Ok(()) };
        self.is_drawn = true;
        self.write(&line)
    }

    fn erase(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_drawn) {
            return Ok(());
        }
        self.write("\r\u{1b}[K")
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| Failure::from_output(&error))
    }
}

fn json(piece: &Output) -> String {
    let mut out = Vec::new();
    Output::write(&mut out, piece.attempt, piece.start, &piece.text, piece.ended);
    // JSON is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}
