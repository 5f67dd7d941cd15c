//! Where in a TOML text something stands. What stands there is never shown: it may be a token.

/// The number of the line with the byte `start`.
pub(crate) fn line(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or(text).matches('\n').count() + 1
}

/// The line and the message. The library's own text would quote the line.
pub(crate) fn describe(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    format!("line {}: {}", line(text, start), error.message().replace('\n', "; "))
}
