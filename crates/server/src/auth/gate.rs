//! Who a caller is, by what the request carries. What the caller may do is decided later, when the endpoint is known
//! (`endpoint_scopes.rs`).

use std::sync::Arc;
use std::time::SystemTime;

use hyper::HeaderMap;
use taskqueue_core::time::Timestamp;

use super::named_tokens::TokenId;
use super::{Mistake, NamedToken, SharedTokens, Token, TokenDigest, sent_digest};

/// The tokens that open a server: one that opens everything, and some with a name.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    token: Option<Token>,
    named: Option<SharedTokens>,
}

/// A caller who got in.
#[derive(Debug)]
pub(crate) enum Caller {
    /// May do everything: there is no token, or this was the server-wide one.
    Anybody,
    /// May do what this token opens.
    Named(Arc<NamedToken>),
}

impl From<Option<Token>> for Gate {
    fn from(token: Option<Token>) -> Self {
        Self::new(token, None)
    }
}

impl Gate {
    pub fn new(token: Option<Token>, named: Option<SharedTokens>) -> Self {
        Self { token, named }
    }

    /// Whether no token is asked for. A set of tokens that is empty asks for one that nobody has.
    pub(crate) fn is_open(&self) -> bool {
        self.token.is_none() && self.named.is_none()
    }

    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Caller, Mistake> {
        self.identify_at(headers, wall_clock)
    }

    /// `now` is asked only for tokens that expire.
    fn identify_at(&self, headers: &HeaderMap, now: impl FnOnce() -> Timestamp) -> Result<Caller, Mistake> {
        if self.is_open() {
            return Ok(Caller::Anybody);
        }
        self.with_digest(&sent_digest(headers)?, now).ok_or(Mistake::Wrong)
    }

    /// Who has the token with this digest; nobody if it has expired.
    pub(super) fn with_digest(&self, digest: &TokenDigest, now: impl FnOnce() -> Timestamp) -> Option<Caller> {
        if self.token.as_ref().is_some_and(|token| token.has_digest(digest)) {
            return Some(Caller::Anybody);
        }
        let token = self.named.as_ref()?.find(digest)?;
        if !token.has_expired(now) {
            return Some(Caller::Named(token));
        }
        if token.is_expiry_news() {
            tracing::warn!(token = &*token.name, "a token was sent that has expired; it is refused like a wrong one");
        }
        None
    }

    /// The same for the token with this id, with its digest.
    pub(super) fn with_id(&self, id: &TokenId, now: impl FnOnce() -> Timestamp) -> Option<(TokenDigest, Caller)> {
        let server_wide = self.token.as_ref().and_then(|token| token.with_id(id));
        let digest = server_wide.or_else(|| self.named.as_ref()?.digest_of(id))?;
        Some((digest, self.with_digest(&digest, now)?))
    }
}

pub(crate) fn wall_clock() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use hyper::header::{AUTHORIZATION, HeaderValue};
    use taskqueue_core::access::{Grant, QueuePattern, Scope};

    use super::super::{TokenSet, digest};
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn named(name: &str, expires_at: Option<Timestamp>) -> NamedToken {
        let grant = Grant {
            scopes: [Scope::Read].into_iter().collect(),
            queues: QueuePattern::parse("*").into_iter().collect(),
        };
        NamedToken::new(name, grant, expires_at)
    }

    fn tokens(texts: &[(&str, Option<Timestamp>)]) -> TokenSet {
        texts.iter().map(|(text, end)| (digest(text.as_bytes()), named(&format!("name-of-{text}"), *end))).collect()
    }

    /// Whose token it is: `*` is everybody's.
    fn caller(gate: &Gate, token: &str) -> Result<String, Mistake> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
        gate.identify_at(&headers, || NOW).map(|caller| match caller {
            Caller::Anybody => "*".to_owned(),
            Caller::Named(token) => token.name.to_string(),
        })
    }

    #[test]
    fn the_server_wide_token_opens_everything_beside_the_others() {
        let named = SharedTokens::new(tokens(&[("a", None), ("b", None)]));
        let gate = Gate::new(Token::parse("all"), Some(named));
        let cases = [("all", Ok("*")), ("a", Ok("name-of-a")), ("b", Ok("name-of-b")), ("c", Err(Mistake::Wrong))];
        for (token, expected) in cases {
            assert_eq!(caller(&gate, token).as_deref().map_err(|mistake| *mistake), expected, "{token}");
        }
        assert_eq!(gate.identify(&HeaderMap::new()).map(drop), Err(Mistake::Missing));
    }

    #[test]
    fn without_any_token_everybody_gets_in_and_with_an_empty_set_nobody() {
        assert_eq!(caller(&Gate::default(), "x").as_deref(), Ok("*"));
        assert!(Gate::default().identify(&HeaderMap::new()).is_ok());
        let closed = Gate::new(None, Some(SharedTokens::default()));
        assert!(!closed.is_open());
        assert_eq!(caller(&closed, "x"), Err(Mistake::Wrong));
        assert_eq!(closed.identify(&HeaderMap::new()).map(drop), Err(Mistake::Missing));
    }

    #[test]
    fn an_expired_token_is_as_wrong_as_any_other_from_its_last_moment_on() {
        let ends = [("past", -1), ("now", 0), ("soon", 1)];
        let ends = ends.map(|(text, micros)| (text, Some(Timestamp::from_micros(NOW.as_micros() + micros))));
        let gate = Gate::new(None, Some(SharedTokens::new(tokens(&ends))));
        assert_eq!(caller(&gate, "past"), Err(Mistake::Wrong));
        assert_eq!(caller(&gate, "now"), Err(Mistake::Wrong));
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
        assert_eq!(caller(&gate, "old"), Err(Mistake::Wrong));
        assert!(caller(&gate, "kept").is_ok() && caller(&gate, "new").is_ok());
    }
}
