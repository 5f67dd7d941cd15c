//! How to reach a server, and the errors of a configuration.

use std::time::Duration;

use crate::pin::Pin;
use crate::retries::Retries;
use crate::server_address::ServerAddress;
use crate::tls::Trust;
use crate::token::Token;

/// Most networks connect within milliseconds; one or two lost packets are sent again within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The server answers everything within 30 seconds (L3 of docs/reference/invariants.md §4).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the server is and how to talk to it.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) base: ServerAddress,
    pub(crate) token: Option<Token>,
    pub(crate) allow_insecure_token: bool,
    pub(crate) trust: Trust,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) retries: Retries,
}

impl Config {
    /// A server at `http://HOST:PORT`, `https://HOST` or `unix:PATH`. A URL may have a path, if the server has a prefix.
    pub fn new(base_url: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            base: ServerAddress::parse(base_url)?,
            token: None,
            allow_insecure_token: false,
            trust: Trust::default(),
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            retries: Retries::default(),
        })
    }

    /// Sends this token with every call that needs one.
    pub fn token(mut self, token: &str) -> Result<Self, ConfigError> {
        self.token = Some(Token::parse(token).ok_or(ConfigError::Token)?);
        Ok(self)
    }

    /// Lets the token travel over plain HTTP to another machine, where anyone on the network path can read it.
    #[must_use]
    pub fn allow_insecure_token(mut self) -> Self {
        self.allow_insecure_token = true;
        self
    }

    /// Whether [`Client::new`](crate::Client::new) refuses this configuration: the token would be readable on the network.
    pub fn refuses_insecure_token(&self) -> bool {
        self.token.is_some() && !self.base.is_private() && !self.allow_insecure_token
    }

    /// Trusts servers with one of these keys, and no other: neither who signed their certificates nor the names and dates in
    /// them matter. For `https://` only.
    pub fn trust_keys(mut self, pins: Vec<Pin>) -> Result<Self, ConfigError> {
        self.trust = Trust::Pins(pins);
        self.with_checked_trust()
    }

    /// Trusts the certificate authorities in this PEM text, and no others. For `https://` only.
    pub fn trust_authorities(mut self, pem: &[u8]) -> Result<Self, ConfigError> {
        self.trust = Trust::authorities(pem)?;
        self.with_checked_trust()
    }

    fn with_checked_trust(self) -> Result<Self, ConfigError> {
        if self.base.is_https() { Ok(self) } else { Err(ConfigError::TrustWithoutTls) }
    }

    /// How long a connection may take to open; 5 seconds by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one request may take until its answer is read; 30 seconds by default. A claim that waits may
    /// take as much longer as it waits.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How often and when repeatable calls are repeated.
    #[must_use]
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The base URL cannot be used.
    #[error("the base URL cannot be used: {reason}")]
    BaseUrl {
        /// What to do, or what is wrong.
        reason: String,
    },
    /// The token cannot be sent.
    #[error("use a token of visible ASCII characters without blanks")]
    Token,
    /// The token would be readable on the network.
    #[error("use https:// or allow the insecure token: over plain HTTP anyone on the network path can read it")]
    InsecureToken,
    /// Whom to trust was said for a connection without encryption.
    #[error("whom to trust can be said for https:// only: over plain HTTP nobody proves who they are")]
    TrustWithoutTls,
    /// There is no certificate authority in what was given as some.
    #[error("the certificate authorities cannot be used: {reason}")]
    Authorities {
        /// What is wrong.
        reason: String,
    },
    /// Encryption cannot be set up.
    #[error("encryption cannot be set up: {reason}")]
    Tls {
        /// What is wrong.
        reason: String,
    },
}
