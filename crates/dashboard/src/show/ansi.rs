//! What a run printed, as HTML: its lines (`taskqueue_core::terminal`), in which colours, bold and underline become classes. Colours
//! are the nearest of the usual sixteen, so that they fit the theme.

use taskqueue_core::terminal::{Cell, LineSink, OutputLines, is_bidi_control};

use super::Html;

/// Pieces of different looks that are made of one text, at most; what follows is plain.
const PIECES: usize = 4_000;
/// A line that is longer is not kept together for what may still be written over it.
const LINE_CHARS: usize = 16 * 1024;

/// How characters look. Zero is the default of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextLook {
    /// One more than a colour between 0 and 15.
    foreground: u8,
    background: u8,
    /// A bit for each of [`FLAGS`].
    flags: u8,
}

/// The classes of what is on or off.
const FLAGS: [&str; 5] = ["bold", "dim", "italic", "under", "swap"];
const BOLD: u8 = 1;
const DIM: u8 = 2;
const ITALIC: u8 = 4;
const UNDER: u8 = 8;
const SWAP: u8 = 16;

impl TextLook {
    /// For an address: the look at a place, to go on from there.
    pub(crate) fn code(self) -> String {
        format!("{}.{}.{}", self.foreground, self.background, self.flags)
    }

    /// Reads what [`TextLook::code`] wrote; anything else is the default look.
    pub(crate) fn parse(code: &str) -> Self {
        let mut parts = code.splitn(3, '.').map(|part| part.parse::<u8>().ok());
        let mut next = |most: u8| parts.next().flatten().filter(|value| *value <= most).unwrap_or(0);
        Self { foreground: next(16), background: next(16), flags: next(31) }
    }

    /// Obeys one sequence `ESC [ ... m`.
    fn obey(&mut self, parameters: &str) {
        let numbers: Vec<u16> = parameters.split([';', ':']).take(64).map(|text| text.parse().unwrap_or(0)).collect();
        let mut rest = numbers.as_slice();
        while let [number, behind @ ..] = rest {
            rest = behind;
            match *number {
                0 => *self = Self::default(),
                1 => self.flags |= BOLD,
                2 => self.flags |= DIM,
                3 => self.flags |= ITALIC,
                4 | 21 => self.flags |= UNDER,
                7 => self.flags |= SWAP,
                22 => self.flags &= !(BOLD | DIM),
                23 => self.flags &= !ITALIC,
                24 => self.flags &= !UNDER,
                27 => self.flags &= !SWAP,
                30..=37 => self.foreground = (number - 29) as u8,
                39 => self.foreground = 0,
                40..=47 => self.background = (number - 39) as u8,
                49 => self.background = 0,
                90..=97 => self.foreground = (number - 81) as u8,
                100..=107 => self.background = (number - 91) as u8,
                38 => self.foreground = extended(&mut rest).unwrap_or(self.foreground),
                48 => self.background = extended(&mut rest).unwrap_or(self.background),
                _ => {}
            }
        }
    }

    fn open(self, html: &mut Html) {
        let flags = FLAGS.iter().enumerate().filter(|(bit, _)| self.flags >> bit & 1 == 1).map(|(_, class)| *class);
        let colour = |letter: char, place: u8| place.checked_sub(1).map(|place| format!("{letter}{place}"));
        let colours = [colour('f', self.foreground), colour('b', self.background)].into_iter().flatten();
        html.markup("<span class=\"");
        html.text(&colours.chain(flags.map(str::to_owned)).collect::<Vec<_>>().join(" "));
        html.markup("\">");
    }
}

/// A colour out of 256 or of three numbers, as one more than the nearest of sixteen.
fn extended(rest: &mut &[u16]) -> Option<u8> {
    match **rest {
        [5, colour, ref behind @ ..] => {
            *rest = behind;
            Some(match colour {
                0..=15 => colour as u8 + 1,
                16..=231 => {
                    let cube = colour - 16;
                    let level = |part: u16| if part == 0 { 0 } else { 55 + 40 * i32::from(part) };
                    nearest([level(cube / 36), level(cube / 6 % 6), level(cube % 6)])
                }
                _ => nearest([8 + 10 * (i32::from(colour.min(255)) - 232); 3]),
            })
        }
        [2, red, green, blue, ref behind @ ..] => {
            *rest = behind;
            Some(nearest([red, green, blue].map(|part| i32::from(part.min(255)))))
        }
        _ => None,
    }
}

/// The usual sixteen, as most terminals have them.
const PALETTE: [i32; 16] = [
    0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000, 0x00ff00,
    0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
];

fn nearest(colour: [i32; 3]) -> u8 {
    let parts = |known: i32| [known >> 16, known >> 8 & 0xff, known & 0xff];
    let distance = |known: i32| parts(known).iter().zip(colour).map(|(a, b)| (a - b) * (a - b)).sum::<i32>();
    let place = PALETTE.iter().enumerate().min_by_key(|(_, known)| distance(**known)).map_or(7, |(place, _)| place);
    place as u8 + 1
}

/// Where the last line of a text begins: more of it may come, or be written over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resume {
    /// In bytes from the beginning of the text.
    pub(crate) byte: usize,
    pub(crate) look: TextLook,
}

/// A text as a terminal shows it: whole lines, and the last one, which has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) lines: Html,
    pub(crate) last: Html,
    pub(crate) resume: Resume,
}

/// Shows a text that begins with this look.
pub(crate) fn screen(text: &str, look: TextLook) -> Screen {
    let (mut reader, resume) = (OutputLines::new(LINE_CHARS), Resume { byte: 0, look });
    let mut lines = HtmlLines { html: Html::default(), look, resume, at: 0, next: 0, pieces: PIECES };
    for (at, character) in text.char_indices() {
        // If much was written over the line, it is enough to go on from the last time.
        if character == '\r' && at - lines.resume.byte > LINE_CHARS {
            lines.resume = Resume { byte: at, look: lines.look };
        }
        (lines.at, lines.next) = (at, at + character.len_utf8());
        reader.push(character, &mut lines);
    }
    let HtmlLines { html, mut pieces, resume, .. } = lines;
    let mut last = Html::default();
    write_line(&mut last, reader.line(), &mut pieces);
    Screen { lines: html, last, resume }
}

/// The lines that have ended.
struct HtmlLines {
    html: Html,
    look: TextLook,
    resume: Resume,
    /// Where the present character begins and ends.
    at: usize,
    next: usize,
    /// Pieces of different looks that may still be made.
    pieces: usize,
}

impl LineSink for HtmlLines {
    type Look = TextLook;

    fn look(&self) -> TextLook {
        self.look
    }

    fn change_look(&mut self, parameters: &str) {
        self.look.obey(parameters);
    }

    fn end_line(&mut self, line: &[Cell<TextLook>], is_too_long: bool) {
        write_line(&mut self.html, line, &mut self.pieces);
        self.html.markup(if is_too_long { "" } else { "\n" });
        // Of a line that is too long the present character is the first that is left.
        let byte = if is_too_long { self.at } else { self.next };
        self.resume = Resume { byte, look: self.look };
    }
}

/// Writes a line, in pieces of the same look.
fn write_line(html: &mut Html, line: &[Cell<TextLook>], pieces: &mut usize) {
    for piece in line.chunk_by(|one, other| one.look == other.look) {
        let look = piece[0].look;
        let is_plain = look == TextLook::default() || *pieces == 0;
        if !is_plain {
            *pieces -= 1;
            look.open(html);
        }
        write_characters(html, piece.iter().map(|cell| cell.character));
        if !is_plain {
            html.markup("</span>");
        }
    }
}

fn write_characters(html: &mut Html, characters: impl Iterator<Item = char>) {
    let mut plain = String::new();
    for character in characters {
        if !is_bidi_control(character) {
            plain.push(character);
            continue;
        }
        html.text(&std::mem::take(&mut plain));
        html.span("control", &format!("U+{:04X}", u32::from(character)));
    }
    html.text(&plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let Screen { mut lines, last, .. } = screen(text, TextLook::default());
        lines.append(&last);
        lines.to_string()
    }

    #[test]
    fn colours_become_classes_of_sixteen() {
        let cases = [
            ("a\u{1b}[33mwarn\u{1b}[0mb", "a<span class=\"f3\">warn</span>b"),
            ("\u{1b}[1;91;44mx", "<span class=\"f9 b4 bold\">x</span>"),
            ("\u{1b}[38;5;196mx\u{1b}[39my", "<span class=\"f9\">x</span>y"),
            ("\u{1b}[38;2;0;200;10mx", "<span class=\"f2\">x</span>"),
            ("\u{1b}[38:5:2mx", "<span class=\"f2\">x</span>"),
            ("\u{1b}[38;5mx\u{1b}[mz", "xz"),
            ("\u{1b}[4mx\u{1b}[24;7my", "<span class=\"under\">x</span><span class=\"swap\">y</span>"),
            ("\u{1b}[999;;;mx", "x"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn other_sequences_and_control_characters_are_left_out() {
        let cases = [
            ("a\u{1b}[2J\u{1b}[10;20Hb\u{1b}[?25lc", "abc"),
            ("long line\r\u{1b}[1mshort\n", "<span class=\"bold\">short</span>\n"),
            ("\u{1b}]0;a title\u{7}x\u{1b}]8;;http://evil\u{1b}\\link", "xlink"),
            ("x\u{1b}[>4;1m\u{0}\u{7}y", "xy"),
            ("x\u{1b}", "x"),
            ("x\u{9f}title\u{9c}y\u{1b}[", "xy"),
            ("tab\there", "tab\there"),
            ("<script>\u{1b}[31m</pre>", "&lt;script&gt;<span class=\"f1\">&lt;/pre&gt;</span>"),
            ("a\u{202e}b", "a<span class=\"control\">U+202E</span>b"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_text_in_two_parts_shows_the_same_as_in_one() {
        let text = "a\n\u{1b}[31mred\nstill\u{1b}[0m 10%\r20%\u{1b}[1m\n bold é\u{1b}[0m\nend";
        let whole = shown(text);
        for (end, _) in text.char_indices() {
            let first = screen(&text[..end], TextLook::default());
            let look = TextLook::parse(&first.resume.look.code());
            let second = screen(&text[first.resume.byte..], look);
            let both = format!("{}{}{}", first.lines, second.lines, second.last);
            assert_eq!(both, whole, "cut at {end}");
        }
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let restless = "\u{1b}[1mx\u{1b}[0my".repeat(20_000);
        assert!(shown(&restless).len() < 300_000);
        let bar = "\r 50% and so on".repeat(20_000);
        let Screen { lines, last, resume } = screen(&bar, TextLook::default());
        assert_eq!((lines.bytes(), last.to_string().as_str()), (0, " 50% and so on"));
        assert!(bar.len() - resume.byte <= 2 * LINE_CHARS, "the next part begins near the end");
        let endless = "x".repeat(100_000);
        assert!(endless.len() - screen(&endless, TextLook::default()).resume.byte <= LINE_CHARS + 1);
    }

    #[test]
    fn a_look_that_nobody_wrote_is_the_default() {
        for code in ["", "17.0.0", "a.b", "-1.0.0", "0.0.255", "....", "999999999999.1.1"] {
            let look = TextLook::parse(code);
            assert!(look.foreground <= 16 && look.background <= 16 && look.flags <= 31, "{code}");
        }
        let look = TextLook { foreground: 16, background: 3, flags: 9 };
        assert_eq!(TextLook::parse(&look.code()), look);
    }
}
