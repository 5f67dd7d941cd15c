//! Reads terminal control sequences: which characters are printed, and what moves the cursor or erases. Sequences that mean nothing in a
//! text that is only read (titles, cursor shapes, mouse, character sets) are left out.
//!
//! The crate `vte` reads them as a terminal does, where a title that never ends takes everything behind it with it. An output is of a
//! program that may have been killed anywhere, and its other lines must be seen, so here a line end ends every sequence.

/// No real sequence has more parameters; what is longer is left out.
const PARAMETER_CHARS: usize = 64;
/// The longest title or link. Behind it everything is text again: something began a sequence and never ended it.
const TEXT_CHARS: usize = 4096;

/// The effect of one character, together with those before it.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Print(char),
    /// A control character that does none of what follows.
    Control(char),
    LineEnd,
    /// To the beginning of the line.
    Return,
    Back(usize),
    Forward(usize),
    /// To this column, from 0.
    Column(usize),
    Up(usize),
    Down(usize),
    EraseRight,
    EraseLeft,
    EraseLine,
    /// From the cursor to the end of the screen.
    EraseBelow,
    /// The parameters of a sequence about colours.
    Style(String),
}

/// A reader of control sequences. Text may come in pieces that end anywhere.
#[derive(Clone, Debug, Default)]
pub struct Sequences(SequenceState);

#[derive(Clone, Debug, Default)]
enum SequenceState {
    #[default]
    Ground,
    Escape,
    /// A sequence of the kind `ESC ( B`, of which the last character is left.
    Charset,
    /// `ESC [` and these parameters.
    Parameters(String),
    /// A title, a link or the like, so long until now; `true` behind an escape character.
    Text(usize, bool),
}

impl Sequences {
    /// Takes the next character. Returns nothing inside of a sequence, and for one that is left out.
    pub fn push(&mut self, character: char) -> Option<Step> {
        let (state, step) = match std::mem::take(&mut self.0) {
            SequenceState::Ground => ground(character),
            SequenceState::Escape => escape(character),
            SequenceState::Charset if matches!(character, ' '..='/') => (SequenceState::Charset, None),
            SequenceState::Charset if character >= ' ' => (SequenceState::Ground, None),
            SequenceState::Charset => ground(character),
            SequenceState::Parameters(parameters) => in_parameters(parameters, character),
            SequenceState::Text(chars, is_escaped) => in_text(chars, is_escaped, character),
        };
        self.0 = state;
        step
    }
}

fn ground(character: char) -> (SequenceState, Option<Step>) {
    let step = match character {
        '\u{1b}' => return (SequenceState::Escape, None),
        '\n' => Some(Step::LineEnd),
        '\r' => Some(Step::Return),
        '\u{8}' => Some(Step::Back(1)),
        '\t' => Some(Step::Print('\t')),
        // `ESC [`, and what begins a title or the like, as one character each.
        '\u{9b}' => return (SequenceState::Parameters(String::new()), None),
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return (SequenceState::Text(0, false), None),
        _ if character.is_control() => Some(Step::Control(character)),
        _ => Some(Step::Print(character)),
    };
    (SequenceState::Ground, step)
}

fn escape(character: char) -> (SequenceState, Option<Step>) {
    match character {
        '[' => (SequenceState::Parameters(String::new()), None),
        ']' | 'P' | 'X' | '^' | '_' => (SequenceState::Text(0, false), None),
        ' '..='/' => (SequenceState::Charset, None),
        'M' => (SequenceState::Ground, Some(Step::Up(1))),
        '0'..='~' => (SequenceState::Ground, None),
        _ => ground(character),
    }
}

fn in_parameters(mut parameters: String, character: char) -> (SequenceState, Option<Step>) {
    match character {
        ' '..='?' => {
            // Longer ones become unreadable as a number, and so do nothing.
            if parameters.len() <= PARAMETER_CHARS {
                parameters.push(character);
            }
            (SequenceState::Parameters(parameters), None)
        }
        '@'..='~' if parameters.len() > PARAMETER_CHARS => (SequenceState::Ground, None),
        '@'..='~' => (SequenceState::Ground, control(parameters, character)),
        _ => ground(character),
    }
}

fn in_text(chars: usize, is_escaped: bool, character: char) -> (SequenceState, Option<Step>) {
    match character {
        '\\' if is_escaped => (SequenceState::Ground, None),
        _ if is_escaped => escape(character),
        '\u{7}' | '\u{9c}' => (SequenceState::Ground, None),
        '\u{1b}' => (SequenceState::Text(chars, true), None),
        '\n' | '\r' => ground(character),
        _ if chars >= TEXT_CHARS => ground(character),
        _ => (SequenceState::Text(chars + 1, false), None),
    }
}

/// Returns the effect of `ESC [ parameters letter`.
fn control(parameters: String, letter: char) -> Option<Step> {
    if letter == 'm' {
        let is_plain = parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
        return is_plain.then_some(Step::Style(parameters));
    }
    let number = if parameters.is_empty() { None } else { Some(parameters.parse::<usize>().ok()?) };
    // Zero counts as one.
    let count = number.unwrap_or(1).max(1);
    Some(match (letter, number.unwrap_or(0)) {
        ('A' | 'F', _) => Step::Up(count),
        ('B' | 'E', _) => Step::Down(count),
        ('C', _) => Step::Forward(count),
        ('D', _) => Step::Back(count),
        ('G', _) => Step::Column(count - 1),
        ('K', 0) => Step::EraseRight,
        ('K', 1) => Step::EraseLeft,
        ('K', 2) => Step::EraseLine,
        ('J', 0) => Step::EraseBelow,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<Step> {
        let mut sequences = Sequences::default();
        text.chars().filter_map(|character| sequences.push(character)).collect()
    }

    fn printed(text: &str) -> String {
        let characters = steps(text).into_iter().filter_map(|step| match step {
            Step::Print(character) => Some(character),
            Step::LineEnd => Some('\n'),
            _ => None,
        });
        characters.collect()
    }

    #[test]
    fn what_moves_and_erases_is_known() {
        for (text, step) in [
            ("\r", Step::Return),
            ("\u{8}", Step::Back(1)),
            ("\u{1b}[A", Step::Up(1)),
            ("\u{1b}[0A", Step::Up(1)),
            ("\u{1b}[12A", Step::Up(12)),
            ("\u{1b}[3F", Step::Up(3)),
            ("\u{1b}M", Step::Up(1)),
            ("\u{1b}[2B", Step::Down(2)),
            ("\u{1b}[4C", Step::Forward(4)),
            ("\u{1b}[4D", Step::Back(4)),
            ("\u{1b}[G", Step::Column(0)),
            ("\u{1b}[7G", Step::Column(6)),
            ("\u{1b}[K", Step::EraseRight),
            ("\u{1b}[0K", Step::EraseRight),
            ("\u{1b}[1K", Step::EraseLeft),
            ("\u{1b}[2K", Step::EraseLine),
            ("\u{1b}[J", Step::EraseBelow),
            ("\u{1b}[m", Step::Style(String::new())),
            ("\u{1b}[38;5;12m", Step::Style("38;5;12".to_owned())),
            ("\u{9b}2K", Step::EraseLine),
            ("\u{7}", Step::Control('\u{7}')),
        ] {
            assert_eq!(steps(text), [step], "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_left_out_whole() {
        let texts = "\u{1b}[?25l \u{1b}[2J \u{1b}[H \u{1b}[1;1H \u{1b}[?2004h \u{1b}[>4;1m \u{1b}[5n \u{1b}]0;title\u{7} \
             \u{1b}]8;;http://x\u{1b}\\ \u{1b}Pq#0\u{1b}\\ \u{1b}(B \u{1b}= \u{1b}7 \u{1b}P1;2q...\u{1b}\\ \
             \u{9b}31m \u{9d}0;t\u{9c} \0 \u{7} \u{7f} \u{9c} \u{c}";
        for text in texts.split(' ') {
            assert_eq!(printed(&format!("a{text}b")), "ab", "{text:?}");
        }
    }

    #[test]
    fn what_never_ends_does_not_take_the_rest_with_it() {
        assert_eq!(printed("\u{1b}]0;title\nnext"), "\nnext");
        assert_eq!(printed("\u{1b}]0;title\rnext"), "next");
        assert_eq!(printed("\u{1b}[12\nnext"), "\nnext");
        assert_eq!(printed("\u{1b}äx\u{1b}[3äx"), "äxäx");
        assert_eq!(printed("\u{1b}\u{1b}[1mx"), "x");
        let endless = format!("\u{1b}]{}", "x".repeat(TEXT_CHARS + 10));
        assert_eq!(printed(&endless), "x".repeat(10));
        let long = format!("\u{1b}[{}Ax", "1".repeat(1000));
        assert_eq!(steps(&long), [Step::Print('x')]);
    }
}
