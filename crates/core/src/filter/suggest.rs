//! Near misses: what the writer of a wrong filter, or of a wrong field, may have meant. Only messages depend on this.

use strsim::generic_levenshtein;

/// The words with a meaning of their own; case-sensitive.
pub(super) const KEYWORDS: [&str; 12] =
    ["and", "or", "not", "in", "exists", "missing", "null", "None", "true", "True", "false", "False"];

/// Words of other languages that end up here.
const WORDS: [(&str, &str); 5] = [("is", "=="), ("eq", "=="), ("ne", "!="), ("nil", "null"), ("has", "in")];

/// Our word for a foreign one, or a keyword in the wrong letter case.
pub(super) fn keyword(word: &str) -> Option<&'static str> {
    let foreign = WORDS.iter().find(|(wrong, _)| word.eq_ignore_ascii_case(wrong)).map(|(_, right)| *right);
    foreign.or_else(|| KEYWORDS.into_iter().find(|keyword| word.eq_ignore_ascii_case(keyword)))
}

/// The candidate that `word` may be a misspelling or the beginning of.
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().into_bytes();
    let similar = candidates.iter().filter(|candidate| candidate.len().abs_diff(word.len()) <= 2);
    let measured = similar.map(|candidate| (generic_levenshtein(&word, &candidate.as_bytes().to_vec()), *candidate));
    let (distance, best) = measured.min_by_key(|(distance, _)| *distance).unzip();
    match distance {
        Some(distance) if distance <= 2 && distance * 2 < word.len() => best,
        _ => candidates.iter().find(|candidate| word.len() >= 3 && candidate.as_bytes().starts_with(&word)).copied(),
    }
}

/// The text as a message may repeat it: not longer than a line.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_found_and_distant_words_are_not() {
        let fields = ["id", "status", "name", "priority", "created_at", "args"];
        let cases = [
            ("stats", Some("status")),
            ("Status", Some("status")),
            ("state", Some("status")),
            ("arg", Some("args")),
            ("priortiy", Some("priority")),
            ("created", Some("created_at")),
            ("queue", None),
            ("x", None),
            ("ie", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, &fields), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(8000), &fields), None);
    }
}
