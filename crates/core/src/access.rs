//! What the bearer of a named token may do: scopes, patterns of queues, and the one rule that says no. Which endpoint needs
//! which scope stands in the route table of the server; tokens themselves are read and compared elsewhere.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::ids::{is_name, name};
use crate::status::word_enum;

/// The longest name of a token in bytes.
pub const TOKEN_NAME_BYTES: usize = 64;

/// Most patterns of queues that one token may have: each request with the token may compare with all of them.
pub const TOKEN_QUEUES: usize = 64;

word_enum! {
    /// A part of the API that a token may open.
    #[derive(PartialOrd, Ord)]
    pub enum Scope {
        /// See tasks, workers, output, counts.
        Read = "read",
        /// Create, change, cancel, requeue and delete tasks.
        Submit = "submit",
        /// Claim tasks, keep and report runs, report workers.
        Work = "work",
        /// Create and delete queues, and all of the above.
        Admin = "admin",
    }
}

impl Scope {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Returns whether it opens what needs `scope`: by name, or because an administrator may do everything.
    pub const fn allow(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that were named, in the order of [`Scope::ALL`].
    pub fn named(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

/// The rights of a token: these scopes, in the queues of these patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub scopes: Scopes,
    pub queues: Vec<QueuePattern>,
}

/// The need of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No token at all.
    Nothing,
    /// A valid token, whatever its scopes.
    AnyToken,
    /// A token with this scope, for the queue in the path if there is one.
    Scope(Scope),
    /// A token with this scope for all queues, because the answer tells of all of them.
    Everywhere(Scope),
}

/// A lack of a token for a request: the scope, the queue (`*` stands for all), or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial<'a> {
    pub scope: Option<Scope>,
    pub queue: Option<&'a str>,
}

impl Grant {
    /// Returns whether a request may be done that is about the queue of this name, which may be invalid. Whether the queue exists
    /// does not matter: an answer that told it would show queues to those who may not see them.
    pub fn check<'a>(&self, need: Need, queue: Option<&'a str>) -> Result<(), Denial<'a>> {
        let (scope, closed_queue) = match need {
            Need::Nothing | Need::AnyToken => return Ok(()),
            Need::Scope(scope) => (scope, queue.filter(|name| !self.sees(name))),
            Need::Everywhere(scope) => (scope, (!self.queues.iter().any(QueuePattern::matches_all)).then_some("*")),
        };
        let denial = Denial { scope: Some(scope).filter(|scope| !self.scopes.allow(*scope)), queue: closed_queue };
        if denial.scope.is_none() && denial.queue.is_none() { Ok(()) } else { Err(denial) }
    }

    /// Returns whether one of the patterns has the queue of this name.
    pub fn sees(&self, queue: &str) -> bool {
        self.queues.iter().any(|pattern| pattern.matches(queue))
    }
}

/// Bytes of randomness in a new token: nobody guesses 256 bits, so digests of tokens need no salt and no slow hash.
pub const TOKEN_BYTES: usize = 32;

/// The beginning of each new token, so that people and programs that look for leaked secrets recognise it.
pub const TOKEN_PREFIX: &str = "tq_";

/// The token that these random bytes make.
pub fn token_text(random: &[u8; TOKEN_BYTES]) -> String {
    format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// Returns whether `text` may name a token. Names stand in log lines, where they must not be mistaken for anything else: no
/// blank, quote, equals sign or control character.
pub fn is_token_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+@".contains(&byte);
    (1..=TOKEN_NAME_BYTES).contains(&text.len()) && text.bytes().all(is_allowed)
}

name! {
    /// A pattern that fits at least one valid queue name: 1 to 128 characters of queue names and `*`, which begins as a name may.
    QueuePattern, is_pattern
}

fn is_pattern(text: &str) -> bool {
    is_name(&text.replace('*', "a"))
}

impl QueuePattern {
    /// Returns whether it is for every queue.
    pub fn matches_all(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Returns whether the whole of `name` fits. After a mismatch only the latest `*` takes one character more, which is enough,
    /// so the work is at most the product of both lengths.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(scopes: &[Scope], queues: &[&str]) -> Grant {
        let queues = queues.iter().map(|text| QueuePattern::parse(text).unwrap()).collect();
        Grant { scopes: scopes.iter().copied().collect(), queues }
    }

    #[test]
    fn a_scope_opens_itself_and_admin_opens_everything() {
        use Scope::{Admin, Read, Submit, Work};
        let cases: [(&[Scope], [bool; 4]); 7] = [
            (&[], [false, false, false, false]),
            (&[Read], [true, false, false, false]),
            (&[Submit], [false, true, false, false]),
            (&[Work], [false, false, true, false]),
            (&[Read, Work], [true, false, true, false]),
            (&[Read, Submit, Work], [true, true, true, false]),
            (&[Admin], [true, true, true, true]),
        ];
        for (scopes, opened) in cases {
            let set: Scopes = scopes.iter().copied().collect();
            assert_eq!(Scope::ALL.map(|scope| set.allow(scope)), opened, "{scopes:?}");
            assert_eq!(set.named().collect::<Vec<_>>(), scopes, "what was named is not lost");
            assert_eq!(set.is_empty(), scopes.is_empty());
        }
    }

    #[test]
    fn every_scope_reads_back_from_its_text_and_nothing_else_is_one() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
        for text in ["", "Read", "read ", "write", "*"] {
            assert_eq!(Scope::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_denial_names_everything_that_is_missing_and_nothing_else() {
        let worker = grant(&[Scope::Work], &["exp-*", "shared"]);
        let (work, read) = (Need::Scope(Scope::Work), Need::Scope(Scope::Read));
        let cases = [
            (Need::Nothing, Some("prod"), Ok(())),
            (Need::AnyToken, None, Ok(())),
            (work, None, Ok(())),
            (work, Some("exp-1"), Ok(())),
            (work, Some("shared"), Ok(())),
            (work, Some("prod"), Err((None, Some("prod")))),
            (work, Some(""), Err((None, Some("")))),
            (read, Some("exp-1"), Err((Some(Scope::Read), None))),
            (read, Some("prod"), Err((Some(Scope::Read), Some("prod")))),
            (Need::Scope(Scope::Admin), None, Err((Some(Scope::Admin), None))),
            (Need::Everywhere(Scope::Work), None, Err((None, Some("*")))),
            (Need::Everywhere(Scope::Read), None, Err((Some(Scope::Read), Some("*")))),
        ];
        for (need, queue, expected) in cases {
            let checked = worker.check(need, queue).map_err(|Denial { scope, queue }| (scope, queue));
            assert_eq!(checked, expected, "{need:?} {queue:?}");
        }
        assert_eq!(grant(&[Scope::Read], &["a", "*"]).check(Need::Everywhere(Scope::Read), None), Ok(()));
    }

    #[test]
    fn a_token_without_a_pattern_sees_no_queue() {
        let nowhere = grant(&[Scope::Admin], &[]);
        assert!(nowhere.check(Need::Scope(Scope::Read), Some("q")).is_err());
        assert_eq!(nowhere.check(Need::Scope(Scope::Read), None), Ok(()));
    }

    #[test]
    fn a_new_token_is_all_of_its_random_bytes_in_visible_characters() {
        let token = token_text(&[0xff; TOKEN_BYTES]);
        assert_eq!(token, format!("tq_{}8", "_".repeat(42)));
        assert_ne!(token_text(&[0; TOKEN_BYTES]), token);
    }

    #[test]
    fn names_of_tokens_cannot_be_mistaken_in_a_log_line() {
        let longest = "x".repeat(TOKEN_NAME_BYTES);
        for name in ["a", "gpu-1", "ann@lab:work/2+x_y.z", &longest] {
            assert!(is_token_name(name), "{name}");
        }
        for name in ["", "a b", "a=b", "\"a\"", "a\n", "é", "\u{1b}[2J", &format!("{longest}x")] {
            assert!(!is_token_name(name), "{name:?}");
        }
    }
}

#[cfg(test)]
mod queue_pattern_tests {
    use super::*;
    use crate::limits::NAME_CHARS;

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
