//! Which characters of a text from others are never shown as they are.

/// Returns whether a character changes the order in which those after it are shown. These are named, not obeyed.
pub const fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character would control a terminal or reorder a line: control characters (C0, DEL, C1), line separators, and
/// marks that change the direction of text.
pub fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || is_bidi_control(character)
}
