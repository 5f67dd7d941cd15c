//! The `name_fuzzy` search: words as subsequences of a name, case-folded (docs/reference/http-api.md §7.2).
//! No ranking and no normalisation beyond case folding: a name matches or it does not.

use crate::limits::{FUZZY_BYTES, FUZZY_WORDS};

/// A fuzzy search for task names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzyName {
    /// Folded, none empty, each once.
    words: Vec<String>,
}

/// Why a text is no fuzzy search, in words that say what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FuzzyError {
    #[error("use at most {FUZZY_BYTES} bytes")]
    TooLarge,
    #[error("use at most {FUZZY_WORDS} different words")]
    TooManyWords,
}

impl FuzzyName {
    /// The search for every white-space-separated word of `text`. A word counts once, however often it stands there.
    pub fn parse(text: &str) -> Result<Self, FuzzyError> {
        if text.len() > FUZZY_BYTES {
            return Err(FuzzyError::TooLarge);
        }
        let mut words: Vec<String> = Vec::new();
        for word in fold(text).split_whitespace() {
            if words.iter().any(|known| known == word) {
                continue;
            }
            if words.len() == FUZZY_WORDS {
                return Err(FuzzyError::TooManyWords);
            }
            words.push(word.to_owned());
        }
        Ok(Self { words })
    }

    /// Returns whether every task passes, named or not: the search holds no word.
    pub fn is_unrestricted(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns whether a task of this name passes.
    pub fn matches(&self, name: Option<&str>) -> bool {
        if self.is_unrestricted() {
            return true;
        }
        name.is_some_and(|name| {
            let name = fold(name);
            self.words.iter().all(|word| is_subsequence(word, &name))
        })
    }
}

fn is_subsequence(word: &str, name: &str) -> bool {
    let mut rest = name.chars();
    word.chars().all(|wanted| rest.any(|found| found == wanted))
}

/// Full Unicode case folding: a letter as the small letter of its capital, which is what Unicode's table says but for the
/// letters named here.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Capitals are the common form of Cherokee.
            '\u{13a0}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => folded.extend(c.to_uppercase()),
            'ı' => folded.push(c),
            'ẞ' => folded.push_str("ss"),
            _ => folded.extend(c.to_uppercase().flat_map(char::to_lowercase)),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_is_full_unicode_case_folding_and_nothing_else() {
        let cases = [
            ("", ""),
            ("AbC_9-ä", "abc_9-ä"),
            ("ß", "ss"),
            ("ẞ", "ss"),
            ("İ", "i\u{307}"),
            ("I", "i"),
            ("ı", "ı"),
            ("ς", "σ"),
            ("Σ", "σ"),
            ("ﬁ", "fi"),
            ("ﬃ", "ffi"),
            ("\u{212a}", "k"),
            ("ſ", "s"),
            ("ŉ", "ʼn"),
            ("\u{1fb7}", "α\u{342}ι"),
            ("µ", "μ"),
            ("Ā", "ā"),
            ("ā", "ā"),
            ("Ÿ", "ÿ"),
            ("Ꭰ", "Ꭰ"),
            ("ꭰ", "Ꭰ"),
            ("\u{10400}", "\u{10428}"),
            ("\u{1e921}", "\u{1e943}"),
            ("\u{1f600}", "\u{1f600}"),
            // No normalisation: the composed and the decomposed letter stay different.
            ("É", "é"),
            ("E\u{301}", "e\u{301}"),
        ];
        for (text, folded) in cases {
            assert_eq!(fold(text), folded, "{text:?}");
        }
    }

    #[test]
    fn folding_twice_changes_nothing_more() {
        for c in '\0'..=char::MAX {
            let once = fold(&c.to_string());
            assert_eq!(fold(&once), once, "{c:?}");
        }
    }

    #[test]
    fn every_word_must_be_a_subsequence_of_the_name() {
        let cases = [
            ("", Some("x"), true),
            ("", None, true),
            (" \t\u{3000}", None, true),
            ("x", None, false),
            ("x", Some(""), false),
            ("abc", Some("a-b-c"), true),
            ("cba", Some("a-b-c"), false),
            ("REPORT", Some("daily report"), true),
            ("report daily", Some("daily report"), true),
            ("report weekly", Some("daily report"), false),
            ("aa aa", Some("aa"), true),
            ("aaa", Some("aa"), false),
            ("dr", Some("daily report"), true),
            ("strasse", Some("Straße"), true),
            ("straße", Some("STRASSE"), true),
            ("s", Some("ß"), true),
            ("fi", Some("ﬁ"), true),
            ("i", Some("İ"), true),
            ("İ", Some("i"), false),
            ("%", Some("100%"), true),
            ("a%c", Some("abc"), false),
            ("a.c", Some("abc"), false),
            ("_", Some("a"), false),
        ];
        for (query, name, expected) in cases {
            assert_eq!(FuzzyName::parse(query).unwrap().matches(name), expected, "{query:?} on {name:?}");
        }
    }

    #[test]
    fn words_are_separated_by_unicode_white_space_only() {
        for space in [' ', '\t', '\n', '\u{85}', '\u{a0}', '\u{2003}', '\u{2028}', '\u{3000}'] {
            assert_eq!(FuzzyName::parse(&format!("{space}b{space}{space}a")).unwrap().words, ["b", "a"], "{space:?}");
        }
        for joined in ['\u{200b}', '\u{feff}', '\u{1c}', '\u{180e}'] {
            assert_eq!(FuzzyName::parse(&format!("a{joined}b")).unwrap().words.len(), 1, "{joined:?}");
        }
        assert!(FuzzyName::parse("\u{a0}").unwrap().is_unrestricted());
        assert!(!FuzzyName::parse("\u{200b}").unwrap().is_unrestricted());
    }

    #[test]
    fn a_repeated_word_counts_once() {
        assert_eq!(FuzzyName::parse("b A a\u{3000}B  a").unwrap().words, ["b", "a"]);
        assert_eq!(FuzzyName::parse("ß SS ss").unwrap().words, ["ss"], "words are compared as they are searched");
    }

    #[test]
    fn the_bytes_and_the_different_words_of_a_search_are_limited() {
        let words = |different: usize| (0..different).map(|n| format!("w{n} W{n}")).collect::<Vec<_>>().join(" ");
        assert!(FuzzyName::parse(&words(64)).is_ok());
        assert_eq!(FuzzyName::parse(&words(65)), Err(FuzzyError::TooManyWords));
        assert!(FuzzyName::parse(&"ä".repeat(4_096)).is_ok());
        assert_eq!(FuzzyName::parse(&"ä".repeat(4_097)), Err(FuzzyError::TooLarge));
        assert_eq!(FuzzyName::parse(&" ".repeat(8_193)), Err(FuzzyError::TooLarge));
        assert!(FuzzyName::parse(&"a ".repeat(4_096)).is_ok(), "one word, many times");
        assert_eq!(FuzzyError::TooLarge.to_string(), "use at most 8192 bytes");
        assert_eq!(FuzzyError::TooManyWords.to_string(), "use at most 64 different words");
    }
}
