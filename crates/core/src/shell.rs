//! Words of commands that are shown to be copied into a shell.

use std::borrow::Cow;
use std::fmt::Write;

/// A word as a shell reads it back. Control characters are written as escapes, because a terminal would obey them when the command
/// is pasted.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    if !word.chars().any(char::is_control) {
        return Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")));
    }
    let mut text = "$'".to_owned();
    for character in word.chars() {
        match character {
            '\'' | '\\' => text.extend(['\\', character]),
            character if character.is_control() => {
                // Each byte of its UTF-8. Writing to memory does not fail.
                for byte in character.to_string().bytes() {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            }
            character => text.push(character),
        }
    }
    text.push('\'');
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_would_change_them() {
        let cases = [
            ("plain-1.5", "plain-1.5"),
            ("", "''"),
            ("a b", "'a b'"),
            (r#"status == "failed""#, r#"'status == "failed"'"#),
            ("name == 'x'", r"'name == '\''x'\'''"),
            ("$HOME", "'$HOME'"),
            ("a*", "'a*'"),
            ("ä", "'ä'"),
            ("a\u{1b}[201~'\\", r"$'a\x1b[201~\'\\'"),
        ];
        for (word, expected) in cases {
            assert_eq!(shell_word(word), expected);
        }
    }
}
