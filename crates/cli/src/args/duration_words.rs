//! Durations that were written as two words, such as `--timeout 5 minutes`: the second word is no part of the flag, so the parser
//! complains about it, and the message says how to write it.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};

const UNITS: [(&str, &[&str]); 4] = [
    ("s", &["s", "sec", "secs", "second", "seconds"]),
    ("m", &["m", "min", "mins", "minute", "minutes"]),
    ("h", &["h", "hr", "hrs", "hour", "hours"]),
    ("d", &["d", "day", "days"]),
];

/// What to add to the message of the parser.
pub(super) fn hint(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    [ContextKind::InvalidValue, ContextKind::InvalidArg].into_iter().find_map(|kind| one_word(text(kind)?, arguments))
}

fn one_word(word: &str, arguments: &[OsString]) -> Option<String> {
    let (unit, _) = UNITS.iter().find(|(_, words)| words.contains(&word))?;
    let number = arguments.windows(2).find(|pair| pair[1] == word)?[0].to_str()?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("; write the duration as one word: {number}{unit} instead of {number} {word}"))
}
