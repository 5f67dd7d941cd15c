//! What the last action did, shown once by the next page. It travels in a cookie that is sealed with the secret of the viewer, so
//! that nobody else can make a page say that something was done.

use std::time::Duration;

use axum::http::header::HeaderValue;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::cookies;
use crate::viewer::Viewer;

/// How long a browser keeps it until a page has shown it.
const LIFETIME: Duration = Duration::from_secs(30);
/// Longer texts are cut: a cookie may have 4 KiB.
const TEXT_CHARS: usize = 500;
const SEAL_BYTES: usize = 16;

/// A sentence for the viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice(String);

impl Notice {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.chars().take(TEXT_CHARS).collect())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Reads what [`Notice::cookie`] wrote for the same viewer.
    pub(crate) fn read(cookie: &str, viewer: &Viewer) -> Option<Self> {
        let (seal, text) = BASE64_URL_SAFE_NO_PAD.decode(cookie).ok()?.split_at_checked(SEAL_BYTES).map(own)?;
        let text = String::from_utf8(text).ok()?;
        bool::from(seal.ct_eq(&seal_of(&text, viewer))).then_some(Self(text))
    }

    /// The header that makes the next page show it.
    pub(crate) fn cookie(&self, viewer: &Viewer) -> Option<HeaderValue> {
        let sealed = [&seal_of(&self.0, viewer), self.0.as_bytes()].concat();
        cookies::set(cookies::NOTICE, &BASE64_URL_SAFE_NO_PAD.encode(sealed), LIFETIME, false)
    }

    /// The header that removes it.
    pub(crate) fn end() -> Option<HeaderValue> {
        cookies::set(cookies::NOTICE, "", Duration::ZERO, false)
    }
}

fn own((seal, text): (&[u8], &[u8])) -> (Vec<u8>, Vec<u8>) {
    (seal.to_vec(), text.to_vec())
}

fn seal_of(text: &str, viewer: &Viewer) -> [u8; SEAL_BYTES] {
    // The secret has a fixed length, and the digest is cut, so nothing can be appended to the text.
    let digest = Sha256::new().chain_update("notice").chain_update(viewer.form_token()).chain_update(text).finalize();
    let mut seal = [0; SEAL_BYTES];
    seal.copy_from_slice(&digest[..SEAL_BYTES]);
    seal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::Access;

    fn value(header: &HeaderValue) -> String {
        let text = header.to_str().unwrap_or_default();
        text.split([';', '=']).nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_notice_is_read_back_by_its_viewer_only() {
        let viewer = |secret| Viewer::new(Access::Everything, secret, false);
        let cookie = value(&Notice::new("3 tasks cancelled · ü").cookie(&viewer("a")).expect("a header"));
        assert_eq!(Notice::read(&cookie, &viewer("a")), Some(Notice::new("3 tasks cancelled · ü")));
        assert_eq!(Notice::read(&cookie, &viewer("b")), None);
        for broken in ["", "x", "AAAA", &cookie[1..], &format!("{cookie}AAAA")] {
            assert_eq!(Notice::read(broken, &viewer("a")), None, "{broken}");
        }
    }
}
