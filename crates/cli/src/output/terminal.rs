//! What a terminal shows: the width and colours of standard output, and the escaping of characters in text from others that would
//! control a terminal or reorder a line.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use taskqueue_core::terminal::is_harmful;

/// Tables are not made narrower than this; narrower terminals wrap lines.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) colour: bool,
    /// In columns; none means that lines may have any length.
    pub(crate) width: Option<usize>,
}

impl Terminal {
    /// Pipes and files get plain, complete lines.
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        Self { colour: colours_allowed(), width: columns(&stdout).map(|width| width.max(WIDTH_MIN)) }
    }
}

/// The width of a terminal; none if it is not a terminal or does not report it.
pub(super) fn columns(terminal: &impl AsFd) -> Option<usize> {
    tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns whether this process is in the foreground of a terminal: after Ctrl-Z, the line of the cursor belongs to the shell.
pub(crate) fn is_in_foreground(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp())
}

/// Returns whether the environment allows colours (no-color.org: any value of NO_COLOR that is not empty forbids them).
pub(crate) fn colours_allowed() -> bool {
    let is_forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !is_forbidden && !is_dumb
}

/// Escapes text for people: `\n`, `\t`, `\u{1b}`.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    replaced(text, |out, character| {
        out.extend(character.escape_default());
    })
}

/// Escapes CSV for a terminal: line ends and tabs stay, because quotes hold them.
pub(super) fn escape_csv(text: &str) -> Cow<'_, str> {
    replaced(text, |out, character| match character {
        '\n' | '\t' => out.push(character),
        _ => out.extend(character.escape_default()),
    })
}

/// JSON with harmful characters as `\uXXXX`, which is the same value. They occur inside strings only: outside, JSON allows
/// just line ends and tabs, which we do not write.
pub(super) fn escape_json(text: &str) -> Cow<'_, str> {
    replaced(text, |out, character| {
        // All of them have at most four digits. Writing to memory does not fail.
        let _ = write!(out, "\\u{:04x}", u32::from(character));
    })
}

fn replaced(text: &str, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) { write(&mut out, character) } else { out.push(character) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmful_characters_are_shown_and_others_left_alone() {
        let cases = [
            ("plain ä 漢 \u{1f600} é", "plain ä 漢 \u{1f600} é"),
            ("a\nb\tc\r", r"a\nb\tc\r"),
            ("\u{1b}[31mred", r"\u{1b}[31mred"),
            ("\u{7f}\u{9b}x", r"\u{7f}\u{9b}x"),
            ("\u{202e}evil\u{2066}", r"\u{202e}evil\u{2066}"),
            ("\u{0}", r"\u{0}"),
            ("C:\\dir", "C:\\dir"),
        ];
        for (text, expected) in cases {
            assert_eq!(escape(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "{\"a\":\"\u{9b}\u{202e}ä\u{7f}\"}";
        let escaped = escape_json(text);
        assert_eq!(escaped, r#"{"a":"\u009b\u202eä\u007f"}"#);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(text));
    }
}
