//! Tokens that have a name and open a part of the API, and the set of them that a server accepts now. The set can be replaced while
//! requests are served. Where tokens come from is the business of the command line.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use taskqueue_core::access::Grant;
use taskqueue_core::time::Timestamp;

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

    pub(super) fn has_expired(&self, now: impl FnOnce() -> Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now())
    }

    /// Returns whether nobody has asked this before: a caller whose token has expired may call again and again, and one line is enough.
    pub(super) fn is_expiry_news(&self) -> bool {
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
        let mut id = [0; TOKEN_ID_BYTES];
        id.copy_from_slice(&long[..TOKEN_ID_BYTES]);
        Self(id)
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

    pub(super) fn find(&self, digest: &TokenDigest) -> Option<Arc<NamedToken>> {
        self.0.read().tokens.get(digest).cloned()
    }

    pub(super) fn digest_of(&self, id: &TokenId) -> Option<TokenDigest> {
        self.0.read().digests.get(id).copied()
    }
}
