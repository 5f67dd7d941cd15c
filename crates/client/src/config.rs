//! The configuration of a client: the address of the server, the token, whom to trust, and how long to wait. And the connections that it
//! describes: one request is sent and its answer read, with the HTTP library, whose types are used nowhere else. Nothing is repeated here, and the
//! size of the answer is limited.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SERVER};
use reqwest::{Url, redirect, retry};
use taskqueue_api::headers::{self, BEARER};
use taskqueue_api::paths;
use taskqueue_core::trace::TraceParent;

use crate::call::{Call, Retries};
use crate::error::{Answer, ConfigError, Error};
use crate::tls::{self, Pin, Trust};

/// Most networks connect within milliseconds; one or two lost packets are sent again within this time.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The server answers everything within 30 seconds (L3 of docs/reference/invariants.md §4).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The address of the server, and how to talk to it.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) base: ServerAddress,
    pub(crate) token: Option<Token>,
    /// Lets the token travel over plain HTTP to another machine, where anyone on the network path can read it.
    pub allow_insecure_token: bool,
    pub(crate) trust: Trust,
    /// The longest time of one request until its answer is read; 30 seconds by default. A claim that waits may take as much longer as it
    /// waits.
    pub request_timeout: Duration,
    /// How often and when repeatable calls are repeated.
    pub retries: Retries,
}

impl Config {
    /// A server at `http://HOST:PORT`, `https://HOST` or `unix:PATH`. A URL may have a path, if the server has a prefix.
    pub fn new(base_url: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            base: ServerAddress::parse(base_url)?,
            token: None,
            allow_insecure_token: false,
            trust: Trust::default(),
            request_timeout: REQUEST_TIMEOUT,
            retries: Retries::default(),
        })
    }

    /// Sends this token with every call that needs one.
    pub fn token(mut self, token: &str) -> Result<Self, ConfigError> {
        self.token = Some(Token::parse(token).ok_or(ConfigError::Token)?);
        Ok(self)
    }

    /// Returns whether [`Client::new`](crate::Client::new) refuses this configuration: the token would be readable on the network.
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
}

/// The `Authorization` header that carries the token.
#[derive(Clone, Debug)]
pub(crate) struct Token(pub(crate) HeaderValue);

impl Token {
    /// The token in `text`: visible ASCII, at least one character (docs/reference/http-api.md §2.1).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let mut header = HeaderValue::try_from(format!("{BEARER} {text}")).ok()?;
        // It is not printed then, neither by the HTTP library nor by `Debug`.
        header.set_sensitive(true);
        Some(Self(header))
    }
}

/// The beginning of every path of the API.
const API_PATH: &str = "/api/v2";
/// The forms of a base URL, for people.
const FORM: &str = "begin with http://, https:// or unix:";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// The URL that paths are appended to. For a Unix socket it gives only the `Host` header.
    url: Url,
    pub(crate) socket: Option<PathBuf>,
}

impl ServerAddress {
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        if !text.contains("://") {
            return Self::without_scheme(text);
        }
        let url = Url::parse(text).map_err(|error| ConfigError::BaseUrl { reason: error.to_string() })?;
        let reason = if !matches!(url.scheme(), "http" | "https") {
            FORM
        } else if !url.username().is_empty() || url.password().is_some() {
            "give the token separately, not in the URL"
        } else if url.query().is_some() || url.fragment().is_some() {
            "leave out the query and the fragment"
        } else {
            return Ok(Self { url: without_api_path(url), socket: None });
        };
        Err(ConfigError::BaseUrl { reason: reason.to_owned() })
    }

    /// `127.0.0.1:8000` and `localhost:8000` are this machine, where plain HTTP is usual and safe. For any other host nobody
    /// but the user can know whether the connection has to be encrypted.
    fn without_scheme(text: &str) -> Result<Self, ConfigError> {
        let plain = Self::parse(&format!("http://{text}")).ok().filter(|_| !text.is_empty());
        match plain {
            Some(address) if address.is_private() => Ok(address),
            Some(_) if !text.contains(['@', ' ']) && text.contains(['.', ':']) => {
                let reason = format!("write http://{text}, or https://{text} if the connection is encrypted");
                Err(ConfigError::BaseUrl { reason })
            }
            _ => Err(ConfigError::BaseUrl { reason: FORM.to_owned() }),
        }
    }

    fn unix(path: &str) -> Result<Self, ConfigError> {
        if path.is_empty() {
            return Err(ConfigError::BaseUrl { reason: "name a Unix socket that this system can have".to_owned() });
        }
        let url = Url::parse("http://localhost").map_err(|error| ConfigError::BaseUrl { reason: error.to_string() })?;
        Ok(Self { url, socket: Some(path.into()) })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns whether nobody on the network can read what is sent: it is encrypted, or does not leave this machine.
    pub(crate) fn is_private(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        let loopback = address.map_or(host == "localhost", |address| address.to_canonical().is_loopback());
        self.socket.is_some() || self.is_https() || loopback
    }

    /// The URL of a call, behind the path of the base URL.
    pub(crate) fn url_of(&self, call: &Call) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{}", self.url.path().trim_end_matches('/'), call.path));
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }
}

/// The URL without the path of the API, which many copy along with it. Calls append that path themselves.
fn without_api_path(mut url: Url) -> Url {
    if let Some(path) = url.path().trim_end_matches('/').strip_suffix(API_PATH) {
        let path = path.to_owned();
        url.set_path(&path);
    }
    url
}

/// Idle connections are closed before common servers and proxies close them (60 seconds and more): a request on a connection
/// that is being closed may be lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("taskqueue/", env!("CARGO_PKG_VERSION"));

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    base: ServerAddress,
    token: Option<Token>,
    request_timeout: Duration,
}

impl Transport {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let Config { base, token, request_timeout, .. } = config.clone();
        if config.refuses_insecure_token() {
            return Err(ConfigError::InsecureToken);
        }
        let builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            // A web proxy named by the environment must not see the token.
            .no_proxy()
            .https_only(base.is_https())
            .tls_backend_preconfigured(if base.is_https() {
                tls::for_https(&config.trust)?
            } else {
                tls::for_plain_http()?
            });
        let builder = match base.socket.as_deref() {
            Some(path) => builder.unix_socket(path),
            None => builder,
        };
        let http = builder.build().map_err(|error| ConfigError::Tls { reason: chain(&error) })?;
        Ok(Self { http, base, token, request_timeout })
    }

    /// Sends the call once and reads the whole answer.
    pub(crate) async fn send(&self, call: &Call, trace: Option<TraceParent>) -> Result<Answer, Error> {
        let wait = Duration::from_secs(call.wait_seconds.unwrap_or_default().into());
        let mut request = self.http.request(call.method.clone(), self.base.url_of(call));
        request = request.timeout(self.request_timeout.saturating_add(wait));
        if let Some(token) = self.token.as_ref().filter(|_| call.path != paths::HEALTH) {
            request = request.header(AUTHORIZATION, token.0.clone());
        }
        if let Some(seconds) = call.wait_seconds {
            request = request.header(headers::PREFER, format!("wait={seconds}"));
        }
        if let Some(trace) = trace {
            request = request.header(headers::TRACEPARENT, trace.to_string());
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, headers::JSON).body(body.clone());
        }
        read(request.send().await.map_err(transport)?, call.answer_bytes).await
    }
}

async fn read(mut response: reqwest::Response, most_bytes: usize) -> Result<Answer, Error> {
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    let mut answer = Answer {
        status: response.status().as_u16(),
        server_version: header(headers::SERVER_VERSION).map(str::to_owned),
        retry_after: header(RETRY_AFTER.as_str()).and_then(seconds),
        server: header(SERVER.as_str()).map(str::to_owned),
        wait_applied: header(headers::PREFERENCE_APPLIED).and_then(applied_wait),
        body: Vec::new(),
    };
    while let Some(chunk) = response.chunk().await.map_err(transport)? {
        if answer.body.len() + chunk.len() > most_bytes {
            return Err(answer.protocol_error(format!("it exceeds {most_bytes} bytes")));
        }
        answer.body.extend_from_slice(&chunk);
    }
    Ok(answer)
}

/// `Retry-After` as seconds. Its other form, a date, would need two clocks that agree, and is ignored.
fn seconds(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The seconds in `wait=N`, which may stand among other preferences (RFC 7240).
fn applied_wait(value: &str) -> Option<u32> {
    value.split([',', ';']).find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok())
}

fn transport(error: reqwest::Error) -> Error {
    let may_have_arrived = !error.is_connect() && !error.is_builder();
    // Without the URL: its query may hold data that must not be logged.
    Error::Transport { message: chain(&error.without_url()), may_have_arrived }
}

/// The message of an error with those of its causes. A certificate that is not trusted is cause enough.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = || std::iter::successors(error.source(), |cause| cause.source());
    match causes().find_map(tls::own_words) {
        Some(words) => format!("{error}: {words}"),
        None => causes().fold(error.to_string(), |text, cause| format!("{text}: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_and_local_addresses_are_private() {
        let private = "https://queue.example unix:/run/q.sock http://127.0.0.1:8000 http://127.1 http://[::1]:8000 \
             http://[::ffff:127.0.0.1] http://localhost:1/ http://LOCALHOST";
        let others =
            "http://localhost.example http://127.0.0.1.example http://192.168.0.1 http://[fe80::1] http://0.0.0.0";
        let private = private.split(' ').map(|text| (text, true));
        for (text, private) in private.chain(others.split(' ').map(|text| (text, false))) {
            assert_eq!(ServerAddress::parse(text).unwrap().is_private(), private, "{text}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused() {
        let refused = "8000 :8000 queue.example queue.example:80 0.0.0.0:80 u:p@127.0.0.1 ftp://x http:// http://u:p@x \
             http://x/?a=b http://x/#a unix:";
        for text in refused.split(' ').chain([""]) {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_of_this_machine_needs_no_scheme() {
        for (text, expected) in [
            ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
            ("localhost:8000", "http://localhost:8000/"),
            ("localhost", "http://localhost/"),
            ("[::1]:8000/prefix", "http://[::1]:8000/prefix"),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().url.as_str(), expected, "{text}");
        }
        let refused = ServerAddress::parse("queue.example:8000").unwrap_err().to_string();
        assert!(refused.contains("http://queue.example:8000") && refused.contains("https://"), "{refused}");
    }

    #[test]
    fn the_path_of_the_api_may_be_part_of_the_url() {
        for (text, expected) in [
            ("http://x/api/v2", "http://x/"),
            ("http://x/api/v2/", "http://x/"),
            ("http://x/prefix/api/v2", "http://x/prefix"),
            ("http://x/api/v2/more", "http://x/api/v2/more"),
            ("127.0.0.1:8000/api/v2", "http://127.0.0.1:8000/"),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().url.as_str(), expected, "{text}");
        }
    }

    #[test]
    fn paths_follow_the_prefix_and_parameters_are_encoded() {
        let call = Call::read("/api/v2/queues".to_owned()).query(vec![("filter", "a == \"ä&+%\"".to_owned())]);
        let encoded = "/api/v2/queues?filter=a+%3D%3D+%22%C3%A4%26%2B%25%22";
        for base in ["http://x/prefix", "http://x/prefix/"] {
            assert_eq!(ServerAddress::parse(base).unwrap().url_of(&call).as_str(), format!("http://x/prefix{encoded}"));
        }
        assert_eq!(ServerAddress::parse("http://x").unwrap().url_of(&call).as_str(), format!("http://x{encoded}"));
    }

    #[test]
    fn headers_with_meaning_are_read_and_others_ignored() {
        assert_eq!(seconds(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(applied_wait("wait=20"), Some(20));
        assert_eq!(applied_wait("respond-async, wait=5"), Some(5));
        assert_eq!(applied_wait("wait"), None);
    }
}
