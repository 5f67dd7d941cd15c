//! What stands in a tokens file. It is read strictly: a word that is misspelled must not open or close anything. Messages name the
//! line and never show a value of `sha256`, where somebody may have put the token itself.

use std::collections::HashMap;
use std::fmt::Display;

use serde::Deserialize;
use taskqueue_core::access::{Grant, QueuePattern, Scope, Scopes, TOKEN_NAME_BYTES, TOKEN_QUEUES, is_token_name};
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::{TokenDigest, digest};
use toml::{Spanned, Value};

use super::FileToken;
use crate::files::toml_line;

/// Most tokens of a file. Each of ten thousand workers can have its own.
const TOKENS: usize = 10_000;

/// The part of a wrong word that a message shows.
const SHOWN_CHARS: usize = 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    sha256: Spanned<String>,
    scopes: Spanned<Vec<Spanned<String>>>,
    queues: Option<Spanned<Vec<Spanned<String>>>>,
    expires_at: Option<Spanned<Value>>,
}

/// All tokens of the file, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<FileToken>, String> {
    let content: Content = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        mistake(text, start, without_values(error.message()))
    })?;
    if content.token.len() > TOKENS {
        return Err(mistake(text, text.len(), format!("there are more than {TOKENS} tokens")));
    }
    let (mut names, mut digests) = (HashMap::new(), HashMap::new());
    let mut tokens = Vec::with_capacity(content.token.len());
    for entry in content.token {
        let (name_at, digest_at) = (entry.name.span().start, entry.sha256.span().start);
        let token = read_entry(text, &entry)?;
        // A token that is being exchanged has two entries, of which the old one ends first (docs/decisions/0054).
        if let Some(first) = names.insert((token.name.clone(), token.expires_at), name_at) {
            let message = format!(
                "the name {} is already in line {}; two tokens of one name need different ends (expires_at)",
                token.name,
                toml_line(text, first)
            );
            return Err(mistake(text, name_at, message));
        }
        if let Some(first) = digests.insert(token.digest, digest_at) {
            let message = format!("the same token is already in line {}", toml_line(text, first));
            return Err(mistake(text, digest_at, message));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn read_entry(text: &str, entry: &Entry) -> Result<FileToken, String> {
    let Entry { name, sha256, scopes, queues, expires_at } = entry;
    let rule = || format!("a name has 1 to {TOKEN_NAME_BYTES} of A-Z a-z 0-9 - _ . : / + @");
    let name = read(text, name, |name| is_token_name(name).then(|| name.clone()).ok_or_else(rule))?;
    let digest = read(text, sha256, |digits| read_digest(digits))?;
    let scopes = read_scopes(text, scopes)?;
    let queues = match queues {
        Some(queues) => read_queues(text, queues)?,
        None => QueuePattern::parse("*").into_iter().collect(),
    };
    let rule = "expires_at is a time with its zone, such as 2027-01-31T00:00:00Z";
    let expires_at = expires_at.as_ref().map(|end| read(text, end, |end| read_time(end).ok_or(rule)));
    Ok(FileToken { name, digest, grant: Grant { scopes, queues }, expires_at: expires_at.transpose()? })
}

/// Reads a value of the file. A mistake in it is told with its line.
fn read<T, R, E: Display>(text: &str, value: &Spanned<T>, read: impl FnOnce(&T) -> Result<R, E>) -> Result<R, String> {
    read(value.get_ref()).map_err(|message| mistake(text, value.span().start, message))
}

fn read_digest(text: &str) -> Result<TokenDigest, &'static str> {
    const FORM: &str = "sha256 is the SHA-256 of the token in 64 hexadecimal digits; taskqueue token create prints it";
    let mut read = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(FORM);
    }
    for (byte, pair) in read.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| FORM)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| FORM)?;
    }
    if read == digest(b"") {
        return Err("this is the SHA-256 of nothing, so the token was empty when it was made");
    }
    Ok(read)
}

fn read_scopes(text: &str, scopes: &Spanned<Vec<Spanned<String>>>) -> Result<Scopes, String> {
    const KNOWN: &str = "read, submit, work and admin";
    let unknown = |scope: &str| format!("there is no scope {}; there are {KNOWN}", shown(scope));
    let scope = |scope: &String| Scope::parse(scope).ok_or_else(|| unknown(scope));
    let found: Scopes = scopes.get_ref().iter().map(|word| read(text, word, scope)).collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(mistake(text, scopes.span().start, format!("name at least one scope of {KNOWN}")));
    }
    Ok(found)
}

fn read_queues(text: &str, queues: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<QueuePattern>, String> {
    if queues.get_ref().is_empty() || queues.get_ref().len() > TOKEN_QUEUES {
        let message = format!("give 1 to {TOKEN_QUEUES} patterns, or leave queues out, which means all");
        return Err(mistake(text, queues.span().start, message));
    }
    let wrong =
        |pattern: &str| format!("{} fits no queue; use a queue name, with * for any characters", shown(pattern));
    let pattern = |pattern: &String| QueuePattern::parse(pattern).ok_or_else(|| wrong(pattern));
    queues.get_ref().iter().map(|word| read(text, word, pattern)).collect()
}

/// A text, or a time of TOML itself.
fn read_time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => Timestamp::parse(text),
        Value::Datetime(time) => Timestamp::parse(&time.to_string()),
        _ => None,
    }
}

/// Returns a mistake with its line.
fn mistake(text: &str, start: usize, message: impl Display) -> String {
    format!("line {}: {message}", toml_line(text, start))
}

/// A wrong word in quotes, on one line, not too long.
fn shown(word: &str) -> String {
    let short: String = word.chars().take(SHOWN_CHARS).collect();
    format!("{short:?}{}", if short.len() < word.len() { "..." } else { "" })
}

/// The message of the parser without the values that it quotes, on one line.
fn without_values(message: &str) -> String {
    let parts = message.split('"').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "..." });
    parts.collect::<Vec<_>>().join("\"").replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "BBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn entry(name: &str, sha256: &str, rest: &str) -> String {
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n{rest}\n")
    }

    #[test]
    fn a_token_has_a_name_a_digest_scopes_and_perhaps_queues_and_an_end() {
        let text = entry("gpu-1", A, "scopes = [\"work\", \"read\"]\nqueues = [\"exp-*\", \"x\"]")
            + "expires_at = \"2027-01-31T01:00:00+01:00\"\n"
            + &entry("boss", B, "scopes = [\"admin\"]\nexpires_at = 2027-01-31T00:00:00Z");
        let tokens = parse(&text).unwrap();
        let end = Timestamp::parse("2027-01-31T00:00:00Z");
        assert_eq!(tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["gpu-1", "boss"]);
        assert_eq!(tokens.iter().map(|token| token.digest).collect::<Vec<_>>(), [[0xaa; 32], [0xbb; 32]]);
        assert_eq!(tokens.iter().map(|token| token.expires_at).collect::<Vec<_>>(), [end, end]);
        let queues = |index: usize| tokens[index].grant.queues.iter().map(QueuePattern::as_str).collect::<Vec<_>>();
        assert_eq!((queues(0), queues(1)), (vec!["exp-*", "x"], vec!["*"]));
        assert_eq!(tokens[0].grant.scopes, [Scope::Read, Scope::Work].into_iter().collect());
    }

    #[test]
    fn the_lines_that_are_printed_for_the_file_are_read_back() {
        let text = entry("a", A, "scopes = [\"work\"]\nqueues = [\"exp-*\", \"b\"]\nexpires_at = 2027-01-31T00:00:00Z")
            + &entry("b", B, "scopes = [\"read\", \"submit\"]");
        let tokens = parse(&text).unwrap();
        let written: String = tokens.iter().map(ToString::to_string).collect();
        assert_eq!(parse(&written).unwrap(), tokens, "{written}");
    }

    #[test]
    fn a_file_without_tokens_is_fine() {
        for text in ["", "# none yet\n", "token = []\n"] {
            assert_eq!(parse(text), Ok(Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let good = "scopes = [\"read\"]";
        let many = format!("{good}\nqueues = [{}]", "\"a\",".repeat(65));
        let cases = [
            ("[[token]\n".to_owned(), 1, ""),
            ("\n\n[[tokens]]\n".to_owned(), 3, "unknown field"),
            (entry("a", A, &format!("{good}\nscope = 1")), 5, "unknown field `scope`"),
            (entry("a", A, ""), 1, "missing field `scopes`"),
            (format!("[[token]]\nname = \"a\"\n{good}\n"), 1, "missing field `sha256`"),
            (entry("a b", A, good), 2, "a name has 1 to 64"),
            (entry("", A, good), 2, "a name has 1 to 64"),
            (entry("a", "abc", good), 3, "64 hexadecimal digits"),
            (entry("a", &A.replace('a', "g"), good), 3, "64 hexadecimal digits"),
            (entry("a", &A.replacen("aa", "é", 1), good), 3, "64 hexadecimal digits"),
            (entry("a", EMPTY, good), 3, "SHA-256 of nothing"),
            (entry("a", A, "scopes = []"), 4, "at least one scope"),
            (entry("a", A, "scopes = [\n\"read\",\n\"write\"]"), 6, "no scope \"write\""),
            (entry("a", A, "scopes = \"read\""), 4, "invalid type"),
            (entry("a", A, &format!("{good}\nqueues = []")), 5, "leave queues out"),
            (entry("a", A, &many), 5, "1 to 64 patterns"),
            (entry("a", A, &format!("{good}\nqueues = [\"a\", \"b?\"]")), 5, "\"b?\" fits no queue"),
            (entry("a", A, &format!("{good}\nexpires_at = \"tomorrow\"")), 5, "a time with its zone"),
            (entry("a", A, &format!("{good}\nexpires_at = 2027-01-31")), 5, "a time with its zone"),
            (entry("a", A, &format!("{good}\nexpires_at = 2027-01-31T00:00:00")), 5, "a time with its zone"),
            (entry("a", A, &format!("{good}\nexpires_at = 7")), 5, "a time with its zone"),
            (entry("a", A, good) + &entry("a", B, good), 6, "the name a is already in line 2"),
            (entry("a", A, good) + &entry("b", &A.to_uppercase(), good), 7, "the same token is already in line 3"),
            ("token = 1".to_owned(), 1, "invalid type"),
        ];
        for (text, line, expected) in cases {
            let mistake = parse(&text).expect_err(&text);
            let message =
                mistake.strip_prefix(&format!("line {line}: ")).unwrap_or_else(|| panic!("{text}\n{mistake}"));
            assert!(message.contains(expected) && !message.contains('\n'), "{text}\n{mistake}");
        }
    }

    #[test]
    fn tokens_of_one_name_need_different_ends() {
        let end = |time: &str| format!("scopes = [\"read\"]\nexpires_at = {time}");
        let (never, first, later) =
            ("scopes = [\"read\"]".to_owned(), end("2027-01-31T00:00:00Z"), end("2027-02-07T00:00:00Z"));
        // The same moment, written in another zone.
        let same = end("\"2027-01-31T01:00:00+01:00\"");
        let cases = [
            (&never, &never, false),
            (&first, &never, true),
            (&never, &first, true),
            (&first, &later, true),
            (&first, &first, false),
            (&first, &same, false),
        ];
        for (one, other, accepted) in cases {
            let parsed = parse(&(entry("a", A, one) + &entry("a", B, other)));
            assert_eq!(parsed.is_ok(), accepted, "{one} {other}: {parsed:?}");
            match parsed {
                Ok(tokens) => assert!(tokens.len() == 2 && tokens[0].expires_at != tokens[1].expires_at),
                Err(mistake) => assert!(mistake.contains("need different ends"), "{mistake}"),
            }
        }
        let same_token = entry("a", A, &first) + &entry("a", A, &later);
        assert!(parse(&same_token).unwrap_err().contains("the same token is already"));
    }

    #[test]
    fn a_token_in_the_place_of_its_digest_is_not_shown() {
        for text in [
            entry("a", "tq_secret", "scopes = [\"read\"]"),
            "[[token]]\nname = \"a\"\nsha256 = [\"tq_secret\"]\nscopes = [\"read\"]\n".to_owned(),
            "[[token]]\nname = [\"tq_secret\"]\n".to_owned(),
            "token = \"tq_secret\"".to_owned(),
        ] {
            let mistake = parse(&text).unwrap_err();
            assert!(!mistake.contains("secret"), "{mistake}");
        }
    }

    #[test]
    fn so_many_tokens_and_no_more() {
        let tokens = |count: usize| -> String {
            (0..count).map(|n| format!("[[token]]\nname=\"{n}\"\nsha256=\"{n:064}\"\nscopes=[\"read\"]\n")).collect()
        };
        assert_eq!(parse(&tokens(TOKENS)).unwrap().len(), TOKENS);
        assert!(parse(&tokens(TOKENS + 1)).unwrap_err().contains("more than 10000"));
    }
}
