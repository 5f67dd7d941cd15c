//! Authentication (docs/reference/http-api.md §2.1): the server-wide bearer token, and how credentials are read. Only digests of
//! tokens are stored, so that they cannot be shown and the comparison takes the same time for all credentials. Tokens with a name
//! and scopes are in `named_tokens.rs`, who a caller is in `gate.rs`, which endpoint needs what in `endpoint_scopes.rs`, sessions of
//! browsers in `session.rs`.

mod gate;
mod named_tokens;
mod session;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use taskqueue_api::headers::BEARER;

pub use self::gate::Gate;
pub(crate) use self::gate::{Caller, wall_clock};
use self::named_tokens::TokenId;
pub use self::named_tokens::{NamedToken, SharedTokens, TokenSet};
pub(crate) use self::session::{Session, Sessions};

/// The digest of the token that callers must send. Clones share it.
#[derive(Clone)]
pub struct Token(Arc<RwLock<TokenDigest>>);

impl Token {
    /// None unless `text` is non-empty visible ASCII.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        valid.then(|| Self::of(text.as_bytes()))
    }

    fn of(credentials: &[u8]) -> Self {
        Self(Arc::new(RwLock::new(digest(credentials))))
    }

    /// From now on the other one is accepted instead. Whether that is another one. Requests under way go on.
    pub fn replace(&self, other: &Self) -> bool {
        let new = other.digest();
        let old = std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), new);
        old != new
    }

    fn digest(&self) -> TokenDigest {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_digest(&self, digest: &TokenDigest) -> bool {
        digest.ct_eq(&self.digest()).into()
    }

    /// Its digest, if it has this id.
    fn with_id(&self, id: &TokenId) -> Option<TokenDigest> {
        let digest = self.digest();
        (TokenId::of(&digest) == *id).then_some(digest)
    }
}

/// The SHA-256 of a token.
pub type TokenDigest = [u8; 32];

/// The digest by which a token is known.
pub fn digest(token: &[u8]) -> TokenDigest {
    Sha256::digest(token).into()
}

/// The digest of the token in the only `Authorization` header.
fn sent_digest(headers: &HeaderMap) -> Result<TokenDigest, Mistake> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(if headers.contains_key(AUTHORIZATION) { Mistake::Malformed } else { Mistake::Missing });
    };
    credentials(value).map(digest).ok_or(Mistake::Malformed)
}

/// Why a request is not authorised. This tells nothing about the token of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// There is no `Authorization` header.
    Missing,
    /// There are several, or it has another form.
    Malformed,
    /// It carries another token, or one that has expired: callers cannot tell these apart.
    Wrong,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The text after `Bearer` and one blank, without further blanks around it.
fn credentials(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, credentials) = value.as_bytes().split_at_checked(BEARER.len())?;
    let credentials = credentials.strip_prefix(b" ")?;
    scheme.eq_ignore_ascii_case(BEARER.as_bytes()).then(|| trim_blanks(credentials))
}

fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server with only this token says.
    fn check(token: &Token, headers: &HeaderMap) -> Result<(), Mistake> {
        Gate::from(Some(token.clone())).identify(headers).map(drop)
    }

    #[test]
    fn a_token_is_non_empty_visible_ascii_and_never_shown() {
        for text in ["x", "!~", "secret-token"] {
            assert!(Token::parse(text).is_some(), "{text}");
            assert_eq!(format!("{:?}", Token::parse(text).unwrap()), "Token(..)");
        }
        for text in ["", " ", "a b", "a\t", "a\n", "\u{7f}", "é", "\0"] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn another_token_counts_from_the_next_request_on() {
        let token = Token::parse("old").unwrap();
        let gate = Gate::from(Some(token.clone()));
        let answer = |sent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {sent}")).unwrap());
            gate.identify(&headers).map(drop)
        };
        assert!(!token.replace(&Token::parse("old").unwrap()), "it is the same");
        assert_eq!((answer("old"), answer("new")), (Ok(()), Err(Mistake::Wrong)));
        assert!(token.replace(&Token::parse("new").unwrap()));
        assert_eq!((answer("old"), answer("new")), (Err(Mistake::Wrong), Ok(())));
    }

    #[test]
    fn only_the_forms_of_the_contract_authenticate() {
        let token = Token::parse("s3cret").unwrap();
        let cases = [
            ("Bearer s3cret", Ok(())),
            ("bearer s3cret", Ok(())),
            ("BEARER s3cret", Ok(())),
            ("Bearer    s3cret", Ok(())),
            ("Bearer s3cret  ", Ok(())),
            ("", Err(Mistake::Malformed)),
            ("Bearer", Err(Mistake::Malformed)),
            ("Bearer ", Err(Mistake::Wrong)),
            ("s3cret", Err(Mistake::Malformed)),
            ("Bearer\ts3cret", Err(Mistake::Malformed)),
            ("Bearer \ts3cret", Err(Mistake::Wrong)),
            ("Bearer \"s3cret\"", Err(Mistake::Wrong)),
            ("Bearer s3cret x", Err(Mistake::Wrong)),
            ("Bearer s3cret,", Err(Mistake::Wrong)),
            ("Bearer S3CRET", Err(Mistake::Wrong)),
            ("Bearer s3cre", Err(Mistake::Wrong)),
            ("Bearer s3crett", Err(Mistake::Wrong)),
            ("Bearers3cret", Err(Mistake::Malformed)),
            ("Bearer=s3cret", Err(Mistake::Malformed)),
            ("Basic s3cret", Err(Mistake::Malformed)),
            ("Token s3cret", Err(Mistake::Malformed)),
        ];
        for (value, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(check(&token, &headers), expected, "{value:?}");
        }
        assert_eq!(check(&token, &HeaderMap::new()), Err(Mistake::Missing));
    }

    #[test]
    fn two_authorization_headers_are_refused() {
        let token = Token::parse("s3cret").unwrap();
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"));
        assert_eq!(check(&token, &headers), Err(Mistake::Malformed));
    }

    #[test]
    fn credentials_of_any_bytes_are_compared_and_refused() {
        let token = Token::parse("s3cret").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap());
        assert_eq!(check(&token, &headers), Err(Mistake::Wrong));
    }
}
