//! The colours of cells. A line is written so that it does not need the lines before it: it ends without colour, and the next one sets
//! its colours again.

use super::lines::Cell;

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
