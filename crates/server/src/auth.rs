//! Authentication (docs/reference/http-api.md §2.1): the server-wide bearer token, how credentials are read, and who a caller
//! is by what the request carries; and the tokens that have a name and open a part of the API, of which the server has a set
//! that can be replaced while requests are served. Only digests of tokens are stored, so that they cannot be shown and the
//! comparison takes the same time for all credentials. Where tokens come from is the business of the command line; what a caller
//! may do is decided later, when the endpoint is known (`endpoints.rs`); sessions of browsers are in `pages.rs`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use taskqueue_api::headers::BEARER;
use taskqueue_core::Timestamp;
use taskqueue_core::access::Grant;

/// The digest of the token that callers must send. Clones share it.
#[derive(Clone)]
pub struct Token(Arc<RwLock<TokenDigest>>);

impl Token {
    /// Returns the token of a text; `None` unless it is non-empty visible ASCII.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        valid.then(|| Self(Arc::new(RwLock::new(digest(text.as_bytes())))))
    }

    /// Accepts the other one instead from now on, and returns whether that is another one. Requests under way go on.
    pub fn replace(&self, other: &Self) -> bool {
        let new = other.digest();
        let old = std::mem::replace(&mut *self.0.write(), new);
        old != new
    }

    fn digest(&self) -> TokenDigest {
        *self.0.read()
    }
}

/// Returns the digest of the token in the only `Authorization` header.
fn sent_digest(headers: &HeaderMap) -> Result<TokenDigest, TokenMistake> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(if headers.contains_key(AUTHORIZATION) { TokenMistake::Malformed } else { TokenMistake::Missing });
    };
    credentials(value).map(digest).ok_or(TokenMistake::Malformed)
}

/// The reason why a request is not authorised. This tells nothing about the token of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenMistake {
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

/// Returns the text after `Bearer` and one blank, without further blanks around it.
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

/// The tokens that open a server: one that opens everything, and some with a name.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    token: Option<Token>,
    named: Option<SharedTokens>,
}

/// A caller who got in, by the token that says what is open to them; `None` may do everything: there is no token, or this was the
/// server-wide one.
pub(crate) type Caller = Option<Arc<NamedToken>>;

impl Gate {
    pub fn new(token: Option<Token>, named: Option<SharedTokens>) -> Self {
        Self { token, named }
    }

    /// Returns whether no token is asked for. A set of tokens that is empty asks for one that nobody has.
    pub(crate) fn is_open(&self) -> bool {
        self.token.is_none() && self.named.is_none()
    }

    /// Returns who sent a request with these headers. `now` is asked only for tokens that expire.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<Caller, TokenMistake> {
        if self.is_open() {
            return Ok(None);
        }
        self.with_digest(&sent_digest(headers)?, now).ok_or(TokenMistake::Wrong)
    }

    /// Returns who has the token with this digest; `None` if it has expired.
    pub(crate) fn with_digest(&self, digest: &TokenDigest, now: impl FnOnce() -> Timestamp) -> Option<Caller> {
        if self.token.as_ref().is_some_and(|token| digest.ct_eq(&token.digest()).into()) {
            return Some(None);
        }
        let token = self.named.as_ref()?.0.read().tokens.get(digest).cloned()?;
        if token.expires_at.is_none_or(|end| now() < end) {
            return Some(Some(token));
        }
        if token.is_expiry_news() {
            tracing::warn!(token = &*token.name, "a token was sent that has expired; it is refused like a wrong one");
        }
        None
    }

    /// Returns who has the token with this id, with its digest.
    pub(crate) fn with_id(&self, id: &TokenId, now: impl FnOnce() -> Timestamp) -> Option<(TokenDigest, Caller)> {
        let server_wide = self.token.as_ref().map(Token::digest).filter(|digest| TokenId::of(digest) == *id);
        let digest = server_wide.or_else(|| self.named.as_ref()?.0.read().digests.get(id).copied())?;
        Some((digest, self.with_digest(&digest, now)?))
    }
}

/// The SHA-256 of a token.
pub type TokenDigest = [u8; 32];

/// Returns the digest by which a token is known.
pub fn digest(token: &[u8]) -> TokenDigest {
    Sha256::digest(token).into()
}

/// A token as the server knows it: everything but the token.
#[derive(Debug)]
pub struct NamedToken {
    /// For log lines and messages: see [`taskqueue_core::access::is_token_name`].
    pub name: Arc<str>,
    pub grant: Arc<Grant>,
    /// From then on it is a wrong token.
    pub expires_at: Option<Timestamp>,
    is_expiry_told: AtomicBool,
}

impl NamedToken {
    pub fn new(name: &str, grant: Grant, expires_at: Option<Timestamp>) -> Self {
        Self { name: name.into(), grant: Arc::new(grant), expires_at, is_expiry_told: AtomicBool::new(false) }
    }

    /// Returns whether nobody has asked this before: a caller whose token has expired may call again and again, and one line is enough.
    fn is_expiry_news(&self) -> bool {
        !self.is_expiry_told.swap(true, Ordering::Relaxed)
    }
}

/// Bytes of the id of a token: no two tokens have the same by chance.
pub(crate) const TOKEN_ID_BYTES: usize = 16;

/// A name of a token in a session. It follows from the digest of the token, and not the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenId(pub(crate) [u8; TOKEN_ID_BYTES]);

impl TokenId {
    pub(crate) fn of(digest: &TokenDigest) -> Self {
        let long = Sha256::new().chain_update("id of a token").chain_update(digest).finalize();
        Self(std::array::from_fn(|place| long[place]))
    }
}

/// The tokens that a server accepts, by the SHA-256 of each.
///
/// Looking one up takes time that depends on the digests that are stored. Callers learn nothing from it: they choose the token and
/// not its digest, and to come closer to a stored digest step by step they would have to invert SHA-256.
#[derive(Debug, Default)]
pub struct TokenSet {
    tokens: HashMap<TokenDigest, Arc<NamedToken>>,
    digests: HashMap<TokenId, TokenDigest>,
}

impl TokenSet {
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

impl FromIterator<(TokenDigest, NamedToken)> for TokenSet {
    fn from_iter<I: IntoIterator<Item = (TokenDigest, NamedToken)>>(tokens: I) -> Self {
        let tokens: HashMap<_, _> = tokens.into_iter().map(|(digest, token)| (digest, Arc::new(token))).collect();
        let digests = tokens.keys().map(|digest| (TokenId::of(digest), *digest)).collect();
        Self { tokens, digests }
    }
}

/// The set that counts now. Clones share it. A request holds it for one look-up, a replacement for one assignment.
#[derive(Clone, Debug, Default)]
pub struct SharedTokens(Arc<RwLock<TokenSet>>);

impl SharedTokens {
    pub fn new(tokens: TokenSet) -> Self {
        Self(Arc::new(RwLock::new(tokens)))
    }

    /// Accepts these and no others from now on. Requests under way go on.
    pub fn replace(&self, tokens: TokenSet) {
        let old = std::mem::replace(&mut *self.0.write(), tokens);
        // Thousands of tokens take a moment to free.
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{AUTHORIZATION, HeaderValue};
    use taskqueue_core::access::{Grant, QueuePattern, Scope};
    use taskqueue_store::clock::wall_clock;

    use super::{TokenSet, digest, *};

    /// A request with these credentials.
    fn sent(credentials: &[&[u8]]) -> HeaderMap {
        credentials.iter().map(|value| (AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())).collect()
    }

    fn bearer(token: &str) -> HeaderMap {
        sent(&[format!("Bearer {token}").as_bytes()])
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
        let gate = Gate::new(Some(token.clone()), None);
        let answer = |token: &str| gate.identify(&bearer(token), wall_clock).map(drop);
        assert!(!token.replace(&Token::parse("old").unwrap()), "it is the same");
        assert_eq!((answer("old"), answer("new")), (Ok(()), Err(TokenMistake::Wrong)));
        assert!(token.replace(&Token::parse("new").unwrap()));
        assert_eq!((answer("old"), answer("new")), (Err(TokenMistake::Wrong), Ok(())));
    }

    #[test]
    fn only_the_forms_of_the_contract_authenticate() {
        let gate = Gate::new(Token::parse("s3cret"), None);
        let (wrong, malformed) = (Err(TokenMistake::Wrong), Err(TokenMistake::Malformed));
        let rows: &[(&[&str], Result<(), TokenMistake>)] = &[
            (&["Bearer s3cret", "bearer s3cret", "BEARER s3cret", "Bearer    s3cret", "Bearer s3cret  "], Ok(())),
            (&["Bearer ", "Bearer \ts3cret", "Bearer \"s3cret\"", "Bearer s3cret x", "Bearer s3cret,"], wrong),
            (&["Bearer S3CRET", "Bearer s3cre", "Bearer s3crett"], wrong),
            (&["", "Bearer", "s3cret", "Bearer\ts3cret", "Bearers3cret", "Bearer=s3cret"], malformed),
            (&["Basic s3cret", "Token s3cret"], malformed),
        ];
        let check = |credentials: &[&[u8]]| gate.identify(&sent(credentials), wall_clock).map(drop);
        for (values, expected) in rows {
            for value in *values {
                assert_eq!(check(&[value.as_bytes()]), *expected, "{value:?}");
            }
        }
        assert_eq!(check(&[]), Err(TokenMistake::Missing));
        assert_eq!(check(&[b"Bearer s3cret", b"Bearer s3cret"]), Err(TokenMistake::Malformed), "two of them");
        assert_eq!(check(&[b"Bearer \xff\xfe"]), Err(TokenMistake::Wrong), "any bytes are compared");
    }

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn named(name: &str, expires_at: Option<Timestamp>) -> NamedToken {
        let queues = QueuePattern::parse("*").into_iter().collect();
        let grant = Grant { scopes: [Scope::Read].into_iter().collect(), queues };
        NamedToken::new(name, grant, expires_at)
    }

    fn tokens(texts: &[(&str, Option<Timestamp>)]) -> TokenSet {
        texts.iter().map(|(text, end)| (digest(text.as_bytes()), named(&format!("name-of-{text}"), *end))).collect()
    }

    /// Whose token it is: `*` is everybody's.
    fn caller(gate: &Gate, token: &str) -> Result<String, TokenMistake> {
        let caller = gate.identify(&bearer(token), || NOW)?;
        Ok(caller.map_or("*".to_owned(), |token| token.name.to_string()))
    }

    #[test]
    fn the_server_wide_token_opens_everything_beside_the_others() {
        let named = SharedTokens::new(tokens(&[("a", None), ("b", None)]));
        let gate = Gate::new(Token::parse("all"), Some(named));
        let cases = [("all", Ok("*")), ("a", Ok("name-of-a")), ("b", Ok("name-of-b")), ("c", Err(TokenMistake::Wrong))];
        for (token, expected) in cases {
            assert_eq!(caller(&gate, token).as_deref().map_err(|mistake| *mistake), expected, "{token}");
        }
        assert_eq!(gate.identify(&HeaderMap::new(), wall_clock).map(drop), Err(TokenMistake::Missing));
    }

    #[test]
    fn without_any_token_everybody_gets_in_and_with_an_empty_set_nobody() {
        assert_eq!(caller(&Gate::default(), "x").as_deref(), Ok("*"));
        assert!(Gate::default().identify(&HeaderMap::new(), wall_clock).is_ok());
        assert!(Gate::default().identify(&sent(&[b"nonsense"]), wall_clock).is_ok());
        let closed = Gate::new(None, Some(SharedTokens::default()));
        assert!(!closed.is_open());
        assert_eq!(caller(&closed, "x"), Err(TokenMistake::Wrong));
        assert_eq!(closed.identify(&HeaderMap::new(), wall_clock).map(drop), Err(TokenMistake::Missing));
    }

    #[test]
    fn an_expired_token_is_as_wrong_as_any_other_from_its_last_moment_on() {
        let ends = [("past", -1), ("now", 0), ("soon", 1)];
        let ends = ends.map(|(text, micros)| (text, Some(Timestamp::from_micros(NOW.as_micros() + micros))));
        let gate = Gate::new(None, Some(SharedTokens::new(tokens(&ends))));
        assert_eq!(caller(&gate, "past"), Err(TokenMistake::Wrong));
        assert_eq!(caller(&gate, "now"), Err(TokenMistake::Wrong));
        assert_eq!(caller(&gate, "soon").as_deref(), Ok("name-of-soon"));
    }

    #[test]
    fn that_a_token_has_expired_is_news_once() {
        let token = named("x", Some(NOW));
        assert_eq!([token.is_expiry_news(), token.is_expiry_news()], [true, false]);
    }

    #[test]
    fn another_set_counts_from_the_next_request_on() {
        let shared = SharedTokens::new(tokens(&[("old", None), ("kept", None)]));
        let gate = Gate::new(None, Some(shared.clone()));
        assert!(caller(&gate, "old").is_ok() && caller(&gate, "kept").is_ok());
        shared.replace(tokens(&[("kept", None), ("new", None)]));
        assert_eq!(caller(&gate, "old"), Err(TokenMistake::Wrong));
        assert!(caller(&gate, "kept").is_ok() && caller(&gate, "new").is_ok());
    }
}
