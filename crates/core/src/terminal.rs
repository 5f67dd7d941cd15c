//! Text that was written for a terminal: what its control sequences do (`sequences.rs`), its colours (`styles.rs`), the lines that a
//! reader of an output sees (`lines.rs`), and which characters are never shown as they are.

mod lines;
mod sequences;
mod styles;

pub use self::lines::{Cell, LineReader, LineSink};
pub use self::sequences::{Sequences, Step};
pub use self::styles::Styles;

/// Returns whether a character changes the order in which those after it are shown. These are named, not obeyed.
pub const fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character would control a terminal or reorder a line: control characters (C0, DEL, C1), line separators, and
/// marks that change the direction of text.
pub fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || is_bidi_control(character)
}
