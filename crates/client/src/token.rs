//! The token: visible ASCII, sent as one header, never shown.

use std::fmt;

use reqwest::header::HeaderValue;
use taskqueue_api::headers::BEARER;

/// The `Authorization` header that carries the token.
#[derive(Clone)]
pub(crate) struct Token(HeaderValue);

impl Token {
    /// The token in `text`: visible ASCII, at least one character (docs/reference/http-api.md §2.1).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let mut header = HeaderValue::try_from(format!("{BEARER} {text}")).ok()?;
        // The HTTP library does not print sensitive headers.
        header.set_sensitive(true);
        Some(Self(header))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}
