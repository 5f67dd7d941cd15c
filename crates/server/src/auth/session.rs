//! Sessions of the dashboard (docs/decisions/0061): what a browser keeps instead of the token. Nothing is stored: a session says until
//! when it is good and whose it is, sealed by a key that is made of the secret of the installation and of the digest of the token. So
//! every server of the installation accepts it, it ends with its token, and neither the database nor the tokens file is enough to
//! forge one. Which requests need one is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use taskqueue_core::access::Scope;
use taskqueue_core::time::Timestamp;
use taskqueue_dashboard::{Access, SessionCookie, SignInRefusal, Viewer};
use taskqueue_store::InstallationSecret;

use super::named_tokens::{TOKEN_ID_BYTES, TokenId};
use super::{Caller, Gate, NamedToken, TokenDigest, digest};

/// How long a session is good.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// The form of the cookie: the version, the end in microseconds, the hidden id of the token, the seal.
const VERSION: u8 = 1;
const TIME_BYTES: usize = 8;
const SEAL_BYTES: usize = 32;
const COOKIE_BYTES: usize = 1 + TIME_BYTES + TOKEN_ID_BYTES + SEAL_BYTES;

/// Makes and reads sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    secret: InstallationSecret,
}

/// A session that is good.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) viewer: Viewer,
    /// Its token, if that has a name.
    pub(crate) token: Option<Arc<NamedToken>>,
}

impl Sessions {
    pub(crate) const fn new(secret: InstallationSecret) -> Self {
        Self { secret }
    }

    /// A new session for whoever has this token.
    pub(crate) fn begin(&self, gate: &Gate, token: &str, now: Timestamp) -> Result<SessionCookie, SignInRefusal> {
        let digest = digest(token.as_bytes());
        let caller = gate.with_digest(&digest, || now).ok_or(SignInRefusal::Wrong)?;
        if let Caller::Named(token) = caller
            && !token.grant.scopes.allow(Scope::Read)
        {
            return Err(SignInRefusal::NotForReading);
        }
        let lifetime_micros = i64::try_from(LIFETIME.as_micros()).unwrap_or_default();
        let end = now.as_micros().saturating_add(lifetime_micros).to_be_bytes();
        let id = TokenId::of(&digest);
        let sealed = self.seal(&digest, end, id);
        let value = [&[VERSION][..], &end, &self.hide(end, id).0, &sealed].concat();
        Ok(SessionCookie { value: BASE64_URL_SAFE_NO_PAD.encode(value), lifetime: LIFETIME })
    }

    /// The session of a cookie, while it and its token are good.
    pub(crate) fn find(&self, gate: &Gate, cookie: &str, now: Timestamp) -> Option<Session> {
        // Every form of base64 is shorter than twice its content.
        let bytes = (cookie.len() <= 2 * COOKIE_BYTES).then(|| BASE64_URL_SAFE_NO_PAD.decode(cookie).ok())??;
        let (&version, rest) = bytes.split_first()?;
        let (&end, rest) = rest.split_first_chunk::<TIME_BYTES>()?;
        let (&hidden, sealed) = rest.split_first_chunk::<TOKEN_ID_BYTES>()?;
        if version != VERSION || i64::from_be_bytes(end) <= now.as_micros() {
            return None;
        }
        let id = self.hide(end, TokenId(hidden));
        let (digest, caller) = gate.with_id(&id, || now)?;
        let is_ours = bool::from(sealed.ct_eq(&self.seal(&digest, end, id)));
        is_ours.then(|| self.session(&digest, caller))
    }

    /// Whoever looks at a server that asks for no token.
    pub(crate) fn of_everybody(&self) -> Session {
        let form_token = mac(self.secret.as_bytes(), &[b"form"]);
        Session { viewer: Viewer::new(Access::Everything, &text(&form_token), false), token: None }
    }

    fn session(&self, digest: &TokenDigest, caller: Caller) -> Session {
        let form_token = text(&mac(&self.key(digest), &[b"form"]));
        let (access, token) = match caller {
            Caller::Anybody => (Access::Everything, None),
            Caller::Named(token) => (Access::Named(Arc::clone(&token.name), Arc::clone(&token.grant)), Some(token)),
        };
        Session { viewer: Viewer::new(access, &form_token, true), token }
    }

    /// The key for what is between the servers and the bearers of one token.
    fn key(&self, digest: &TokenDigest) -> [u8; SEAL_BYTES] {
        mac(self.secret.as_bytes(), &[b"token", digest])
    }

    fn seal(&self, digest: &TokenDigest, end: [u8; TIME_BYTES], id: TokenId) -> [u8; SEAL_BYTES] {
        mac(&self.key(digest), &[b"session", &[VERSION], &end, &id.0])
    }

    /// The id as it stands in the cookie, and back. Without this whoever gets hold of a cookie could try out tokens until one has that
    /// id, without asking a server.
    fn hide(&self, end: [u8; TIME_BYTES], TokenId(mut id): TokenId) -> TokenId {
        let mask = mac(self.secret.as_bytes(), &[b"id", &[VERSION], &end]);
        id.iter_mut().zip(mask).for_each(|(byte, other)| *byte ^= other);
        TokenId(id)
    }
}

/// The HMAC-SHA-256 of parts that no other list of parts in this file makes: the first one says what it is for, the others have a
/// fixed length.
fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; SEAL_BYTES] {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { unreachable!() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn text(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
