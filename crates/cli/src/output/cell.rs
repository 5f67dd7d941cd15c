//! A cell of a table: its escaped text and its style; and the columns.

use anstyle::{AnsiColor, Style};
use taskqueue_core::task::Status;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::escape::escape;

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
    /// Whether the column is left out where no row has a value for it.
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
        Self { shrinks_to: Some(SHRUNK_WIDTH), ..Self::text(head) }
    }

    /// A column that is there only if a row has a value, and that is of use only with this width.
    pub(crate) const fn with_values(head: &'h str, shrinks_to: usize) -> Self {
        Self { shrinks_to: Some(shrinks_to), needs_value: true, ..Self::text(head) }
    }

    /// The column where rows that are not known yet may have a value: it is there, and has room for one.
    pub(super) fn with_later_values(self) -> Self {
        if !self.needs_value {
            return self;
        }
        Self { needs_value: false, min_width: self.shrinks_to.unwrap_or(0), ..self }
    }
}

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

    /// The same text in the style of another cell.
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

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// In columns of a terminal.
    pub(crate) fn width(&self) -> usize {
        self.text.width()
    }

    /// Appends the cell, cut or padded to `width`.
    pub(super) fn write(&self, out: &mut String, width: usize, right_aligned: bool, colour: bool) {
        let text = cut(&self.text, width);
        let blanks = " ".repeat(width.saturating_sub(text.width()));
        if right_aligned {
            out.push_str(&blanks);
        }
        if colour && self.style != Style::new() {
            out.push_str(&format!("{}{text}{}", self.style.render(), self.style.render_reset()));
        } else {
            out.push_str(&text);
        }
        if !right_aligned {
            out.push_str(&blanks);
        }
    }
}

/// The text, or as much of it as fits with an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        // One column is for the ellipsis.
        if used + 1 > width {
            break;
        }
        kept.push(character);
    }
    kept.push(ELLIPSIS);
    kept
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
        let shown = |colour| {
            let mut out = String::new();
            Cell::status(Status::Failed).write(&mut out, 8, false, colour);
            out
        };
        assert_eq!(shown(false), "failed  ");
        assert_eq!(shown(true), "\u{1b}[31mfailed\u{1b}[0m  ");
    }
}
