//! Names and identifiers: what they may look like (docs/reference/http-api.md §1.2) and nothing else.
//! Where the bytes of a new identifier come from is not decided here: that needs randomness, or a definition.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::limits::NAME_CHARS;

/// Returns whether `text` is a valid queue name or route: 1 to 128 of `[A-Za-z0-9._-]`, the first one alphanumeric.
pub(crate) fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= NAME_CHARS
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Declares a type of texts of which a rule holds.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $rule:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// The name in `text`, or nothing when it breaks the rule.
            pub fn parse(text: &str) -> Option<Self> {
                $rule(text).then(|| Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

pub(crate) use name;

name! {
    QueueName, is_name
}
name! {
    /// A route: what a worker claims for and a task lists.
    Route, is_name
}

/// Characters behind the two-character prefix of every identifier.
const ID_CHARS: usize = 12;
/// The random or derived bytes that they stand for.
pub const ID_BYTES: usize = 9;

fn is_id_char(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 2 + ID_CHARS]);

        impl $name {
            /// The beginning of every identifier of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// How many characters each has.
            pub const LENGTH: usize = 2 + ID_CHARS;

            /// The identifier in `text`, or nothing when it breaks the rule.
            pub fn parse(text: &str) -> Option<Self> {
                Self::parse_bytes(text.as_bytes())
            }

            /// Returns the identifier in bytes that nobody has checked to be text.
            pub fn parse_bytes(text: &[u8]) -> Option<Self> {
                let suffix = text.strip_prefix($prefix.as_bytes())?;
                if suffix.len() != ID_CHARS || !suffix.iter().all(is_id_char) {
                    return None;
                }
                text.try_into().ok().map(Self)
            }

            /// Returns whether `text` is the prefix and fewer of the characters behind it than an identifier has.
            pub fn is_beginning(text: &str) -> bool {
                let suffix = text.as_bytes().strip_prefix($prefix.as_bytes());
                suffix.is_some_and(|suffix| suffix.len() < ID_CHARS && suffix.iter().all(is_id_char))
            }

            /// The identifier that these bytes make: base64 writes 9 of them as exactly 12 characters.
            pub fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
                let mut text = [0; 2 + ID_CHARS];
                let (prefix, suffix) = text.split_at_mut(2);
                prefix.copy_from_slice($prefix.as_bytes());
                // It fits by the numbers above, so this does not fail.
                let _ = URL_SAFE_NO_PAD.encode_slice(bytes, suffix);
                Self(text)
            }

            /// The bytes that make it: see [`Self::from_bytes`].
            pub fn to_bytes(self) -> [u8; ID_BYTES] {
                let mut bytes = [0; ID_BYTES];
                // 12 characters of that alphabet are exactly 9 bytes, so this does not fail.
                let _ = URL_SAFE_NO_PAD.decode_slice(&self.0[2..], &mut bytes);
                bytes
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                std::str::from_utf8(&self.0).unwrap_or_default()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

identifier! {
    /// The identity of a task within its queue.
    TaskId, "t_"
}
identifier! {
    /// The identity of a worker loop within its queue.
    WorkerId, "w_"
}
identifier! {
    /// The private token of one claim, chosen by the claimant; unique over all queues.
    RunId, "r_"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_128_ascii_characters_and_begins_alphanumeric() {
        let (longest, too_long) = ("a".repeat(128), "a".repeat(129));
        let good = ["a", "Z9", "0.a_b-c", &longest].map(|text| (text, true));
        let bad = ["", ".a", "-a", "_a", "a b", "a+b", "a\n", "ä", "a/b", &too_long].map(|text| (text, false));
        for (text, valid) in good.into_iter().chain(bad) {
            assert_eq!(QueueName::parse(text).is_some(), valid, "{text:?}");
            assert_eq!(Route::parse(text).is_some(), valid, "{text:?}");
        }
    }

    #[test]
    fn the_beginning_of_an_identifier_is_its_prefix_and_fewer_of_its_characters() {
        assert_eq!("t_abcdefghijkl".len(), TaskId::LENGTH);
        for text in ["t_", "t_a", "t_ab-_", "t_abcdefghijk"] {
            assert!(TaskId::is_beginning(text), "{text}");
        }
        for text in ["", "t", "r_ab", "t_abcdefghijkl", "t_abcdefghijklm", "t_a\"", "t_é", "t_a b"] {
            assert!(!TaskId::is_beginning(text), "{text}");
        }
    }

    #[test]
    fn an_identifier_is_its_prefix_and_exactly_12_url_safe_characters() {
        let good = ["t_abcdefghijkl", "t_AZ09_-AZ09_-"].map(|text| (text, true));
        let bad = "t_abcdefghijk t_abcdefghijklm t_abcdefghijkl\n T_abcdefghijkl r_abcdefghijkl t-abcdefghijkl \
             t_abcdefghijk+ t_abcdefghijé";
        for (text, valid) in bad.split(' ').chain([""]).map(|text| (text, false)).chain(good) {
            assert_eq!(TaskId::parse(text).is_some(), valid, "{text:?}");
        }
        assert!(WorkerId::parse("w_abcdefghijkl").is_some());
        assert!(RunId::parse("r_abcdefghijkl").is_some());
    }

    #[test]
    fn nine_bytes_make_an_identifier_of_any_kind() {
        let bytes = [[0; ID_BYTES], [0xff; ID_BYTES], *b"any bytes"];
        let ids = bytes.map(TaskId::from_bytes);
        assert_eq!(ids.map(|id| id.to_string()), ["t_AAAAAAAAAAAA", "t_____________", "t_YW55IGJ5dGVz"]);
        assert_eq!(ids.map(|id| TaskId::parse(id.as_str())), ids.map(Some));
        assert_eq!(RunId::from_bytes(*b"any bytes").as_str(), "r_YW55IGJ5dGVz");
        assert_eq!(ids.map(TaskId::to_bytes), bytes);
        let every_character =
            "r_ABCDEFGHIJKL r_MNOPQRSTUVWX r_YZabcdefghij r_klmnopqrstuv r_wxyz01234567 r_8901-_-_-_89";
        for text in every_character.split(' ') {
            assert_eq!(RunId::from_bytes(RunId::parse(text).unwrap().to_bytes()).as_str(), text);
        }
    }
}
