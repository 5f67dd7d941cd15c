//! The cookies of the dashboard: session, theme, notice. All are for `/ui/` and for requests of our own pages only. A notice is what
//! the last action did, shown once by the next page; it is sealed with the secret of the viewer, so that nobody else can make a page say
//! that something was done.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HeaderValue};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::host::Viewer;

/// Who is signed in. The server reads it.
pub(crate) const SESSION: &str = "taskqueue_session";
/// `light` or `dark`; without it the system decides.
pub(crate) const THEME: &str = "taskqueue_theme";
/// What the last action did, until the next page has shown it.
pub(crate) const NOTICE: &str = "taskqueue_notice";

/// The value of a cookie that was sent.
pub(crate) fn read<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    all(headers, name).next()
}

/// The sessions that were sent. A browser sends several if another program on the same host has set one, too.
pub fn sent_sessions(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    all(headers, SESSION)
}

fn all<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value)
}

/// The header that sets a cookie whose value is made of letters, digits, `-`, `_`, `.`. `lifetime` zero removes it.
pub(crate) fn set(name: &str, value: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    let seconds = lifetime.as_secs();
    HeaderValue::try_from(format!("{name}={value}; Path=/ui/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"))
        .ok()
}

/// How long a browser keeps it until a page has shown it.
const NOTICE_LIFETIME: Duration = Duration::from_secs(30);
/// Longer texts are cut: a cookie may have 4 KiB.
const NOTICE_CHARS: usize = 500;
const SEAL_BYTES: usize = 16;

/// Reads what [`notice_cookie`] wrote for the same viewer.
pub(crate) fn read_notice(cookie: &str, viewer: &Viewer) -> Option<String> {
    let mut seal = BASE64_URL_SAFE_NO_PAD.decode(cookie).ok()?;
    let text = (seal.len() >= SEAL_BYTES).then(|| seal.split_off(SEAL_BYTES))?;
    let text = String::from_utf8(text).ok()?;
    bool::from(seal.ct_eq(&notice_seal(&text, viewer))).then_some(text)
}

/// The header that makes the next page show a sentence.
pub(crate) fn notice_cookie(text: &str, viewer: &Viewer) -> Option<HeaderValue> {
    let text: String = text.chars().take(NOTICE_CHARS).collect();
    let sealed = [&notice_seal(&text, viewer), text.as_bytes()].concat();
    set(NOTICE, &BASE64_URL_SAFE_NO_PAD.encode(sealed), NOTICE_LIFETIME, false)
}

fn notice_seal(text: &str, viewer: &Viewer) -> [u8; SEAL_BYTES] {
    // The secret has a fixed length, and the digest is cut, so nothing can be appended to the text.
    let digest = Sha256::new().chain_update("notice").chain_update(&*viewer.form_token).chain_update(text).finalize();
    std::array::from_fn(|place| digest[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(header: &HeaderValue) -> String {
        let text = header.to_str().unwrap_or_default();
        text.split([';', '=']).nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_notice_is_read_back_by_its_viewer_only() {
        let viewer = |secret| Viewer::new(None, secret, false);
        let cookie = value(&notice_cookie("3 tasks cancelled · ü", &viewer("a")).expect("a header"));
        assert_eq!(read_notice(&cookie, &viewer("a")), Some("3 tasks cancelled · ü".to_owned()));
        assert_eq!(read_notice(&cookie, &viewer("b")), None);
        for broken in ["", "x", "AAAA", &cookie[1..], &format!("{cookie}AAAA")] {
            assert_eq!(read_notice(broken, &viewer("a")), None, "{broken}");
        }
    }
}
