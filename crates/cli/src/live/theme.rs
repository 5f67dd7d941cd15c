//! The styles of live views, with colours or without.

use anstyle::{AnsiColor, Effects};
use ratatui::style::{Color, Modifier, Style};

use crate::output::Terminal;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    colour: bool,
}

impl Theme {
    pub(crate) fn of_stdout() -> Self {
        Self { colour: Terminal::of_stdout().colour }
    }

    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };

    #[cfg(test)]
    pub(crate) const COLOURED: Self = Self { colour: true };

    fn tinted(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    pub(crate) fn error(self) -> Style {
        self.tinted(Color::Red, Modifier::REVERSED).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn ok(self) -> Style {
        self.tinted(Color::Green, Modifier::empty())
    }

    pub(crate) fn warning(self) -> Style {
        self.tinted(Color::Yellow, Modifier::BOLD)
    }

    pub(crate) fn bars(self) -> Style {
        self.tinted(Color::Cyan, Modifier::empty())
    }

    pub(crate) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn dimmed(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// For what is selected or has changed: readable on light and dark terminals, with and without colours.
    pub(crate) fn marked(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of a cell in printed tables.
    pub(super) fn cell(self, style: anstyle::Style) -> Style {
        let mut converted = Style::new();
        if style.get_effects().contains(Effects::BOLD) {
            converted = converted.add_modifier(Modifier::BOLD);
        }
        if style.get_effects().contains(Effects::DIMMED) {
            converted = converted.add_modifier(Modifier::DIM);
        }
        match style.get_fg_color() {
            Some(anstyle::Color::Ansi(colour)) if self.colour => converted.fg(ansi(colour)),
            _ => converted,
        }
    }
}

/// Converts the colours that our tables use.
fn ansi(colour: AnsiColor) -> Color {
    match colour {
        AnsiColor::Red => Color::Red,
        AnsiColor::Green => Color::Green,
        AnsiColor::Yellow => Color::Yellow,
        AnsiColor::Cyan => Color::Cyan,
        AnsiColor::BrightBlack => Color::DarkGray,
        _ => Color::Reset,
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::task::Status;

    use super::*;
    use crate::output::Cell;

    #[test]
    fn without_colours_nothing_is_coloured_and_errors_still_stand_out() {
        let styles = [Theme::PLAIN.error(), Theme::PLAIN.warning(), Theme::PLAIN.bars(), Theme::PLAIN.ok()];
        assert!(styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()));
        assert!(Theme::PLAIN.error().add_modifier.contains(Modifier::REVERSED));
        assert_eq!(Theme::PLAIN.cell(Cell::status(Status::Failed).style()).fg, None);
        assert_eq!(Theme::COLOURED.error().fg, Some(Color::Red));
    }

    #[test]
    fn every_status_has_the_colour_of_printed_tables() {
        let colours = Status::ALL.map(|status| Theme::COLOURED.cell(Cell::status(status).style()).fg);
        let expected = [Color::Yellow, Color::Cyan, Color::Green, Color::Red, Color::DarkGray];
        assert_eq!(colours, expected.map(Some));
    }
}
