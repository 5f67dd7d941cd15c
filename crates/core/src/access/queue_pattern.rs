//! Patterns of queue names: a name in which `*` stands for any characters, also none. There are no other signs, no alternatives
//! and no exceptions, so that a pattern reads as what it opens.

use std::fmt;

use crate::limits::NAME_CHARS;

/// A pattern that fits at least one valid queue name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct QueuePattern(Box<str>);

impl QueuePattern {
    /// None unless it consists of 1 to 128 characters of queue names and `*`, and begins as a name may.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-*".contains(byte);
        let begins_well = bytes.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'*');
        let is_valid = begins_well && bytes.len() <= NAME_CHARS && bytes.iter().all(is_part);
        is_valid.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is for every queue.
    pub fn matches_all(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether the whole of `name` fits. After a mismatch only the latest `*` takes one character more, which is enough, so the
    /// work is at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut p, mut n) = (0, 0);
        // Where to go on after the latest `*`, and what it stands for ends here.
        let mut latest: Option<(usize, usize)> = None;
        while n < name.len() {
            if pattern.get(p) == Some(&b'*') {
                latest = Some((p + 1, n));
                p += 1;
            } else if pattern.get(p) == Some(&name[n]) {
                (p, n) = (p + 1, n + 1);
            } else if let Some((after, taken)) = latest {
                latest = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for QueuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for QueuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePattern({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_everything_else_for_itself() {
        let cases: [(&str, &[&str], &[&str]); 9] = [
            ("*", &["a", "", "any.thing-1"], &[]),
            ("**", &["a", ""], &[]),
            ("exp", &["exp"], &["", "Exp", "exp-1", "xexp"]),
            ("exp-*", &["exp-", "exp-1", "exp-a-b"], &["exp", "xexp-1", "EXP-1"]),
            ("*-gpu", &["a-gpu", "-gpu", "a-gpu-gpu"], &["gpu", "a-gpu2"]),
            ("a*b*c", &["abc", "axbxc", "abcbc", "aabbcc"], &["ab", "acb", "abcd"]),
            ("*ab*ab", &["abab", "xababab", "ab-ab"], &["ab", "aba", "abba"]),
            ("a.b", &["a.b"], &["axb"]),
            ("a*", &["a", "a\u{fffd}"], &["b"]),
        ];
        for (pattern, fitting, others) in cases {
            let pattern = QueuePattern::parse(pattern).unwrap();
            assert!(fitting.iter().all(|name| pattern.matches(name)), "{pattern}");
            assert!(others.iter().all(|name| !pattern.matches(name)), "{pattern}");
        }
    }

    #[test]
    fn only_stars_are_for_every_queue() {
        for (text, all) in [("*", true), ("**", true), ("a*", false), ("*a", false), ("a", false)] {
            assert_eq!(QueuePattern::parse(text).unwrap().matches_all(), all, "{text}");
        }
    }

    #[test]
    fn a_pattern_that_no_queue_can_fit_is_none() {
        let longest = "x".repeat(NAME_CHARS);
        for text in ["a", "*", "*-", "9.*_", &longest] {
            assert!(QueuePattern::parse(text).is_some(), "{text}");
        }
        for text in ["", "-a", ".a*", "a b", "a?", "[ab]", "{a,b}", "!a", "é", "a/b", "a\n", &format!("{longest}x")] {
            assert!(QueuePattern::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn the_worst_pattern_is_quick() {
        let pattern = QueuePattern::parse(&"*a".repeat(NAME_CHARS / 2)).unwrap();
        assert!(!pattern.matches(&format!("{}b", "a".repeat(60_000))));
    }
}
