//! Refuses requests that a foreign web page may have sent to a server without a token: by `Host`, by `Origin`, by
//! `Sec-Fetch-Site` (docs/decisions/0019). With a token none of this is checked for the API, because a page does not have the token;
//! pages of the dashboard have a session, which a browser sends by itself, so senders are checked there (`pages.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version};

use crate::error::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest name in DNS.
const NAME_BYTES: usize = 253;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It is for a host that is not this machine.
    Host,
    /// A page of another origin sent it.
    Origin,
    /// A browser says that a page of another site, or of another origin of the same site, caused it.
    CrossSite,
}

/// A host for which requests are accepted, besides this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bracketed = format!("[{text}]");
        let is_host = Host::parse(text).is_some() || Host::parse(&bracketed).is_some();
        is_host.then(|| Self(text.to_owned())).ok_or("write a host name without scheme, port and wildcard")
    }
}

/// The hosts for which a server without a token accepts requests.
#[derive(Clone, Debug)]
pub enum Hosts {
    /// For a Unix socket, to which no browser can connect.
    Any,
    /// This machine (a loopback address or `localhost`), and these.
    LocalAnd(Vec<HostName>),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::LocalAnd(Vec::new())
    }
}

impl Hosts {
    /// Whether a request for `HOST` or `HOST:PORT` is accepted. Clients of Unix sockets send anything here, even a path.
    fn accept(&self, named: &str) -> bool {
        match (self, split(named)) {
            (Self::Any, _) => true,
            (Self::LocalAnd(names), Some((host, _))) => {
                host.is_local() || names.iter().any(|name| host.is_called(&name.0))
            }
            (Self::LocalAnd(_), None) => false,
        }
    }
}

/// The one `Host` of a request; none only in HTTP/1.0 (RFC 9112, section 3.2).
pub(crate) fn host_field(version: Version, headers: &HeaderMap) -> Result<Option<&HeaderValue>, ApiError> {
    let mut values = headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        (None, _) if version == Version::HTTP_11 => Err(ApiError::bad_host("send a Host header")),
        (_, Some(_)) => Err(ApiError::bad_host("send one Host header, not several")),
        (host, None) => Ok(host),
    }
}

/// Refuses a request that a foreign web page may have sent. `host` is its `Host` header.
///
/// A request target with an authority counts like a `Host`, and both must be accepted. An HTTP/1.0 request without either
/// names no foreign host; browsers always send one.
pub(crate) fn check(hosts: &Hosts, host: Option<&HeaderValue>, head: &Parts) -> Result<(), Reason> {
    check_host(hosts, host, head)?;
    check_sender(host, head)
}

/// Refuses a request for another host.
pub(crate) fn check_host(hosts: &Hosts, host: Option<&HeaderValue>, head: &Parts) -> Result<(), Reason> {
    let mut named = named_hosts(host, head).into_iter().flatten();
    if named.any(|named| !hosts.accept(named)) { Err(Reason::Host) } else { Ok(()) }
}

/// Refuses a request of a page that is not the server's own.
pub(crate) fn check_sender(host: Option<&HeaderValue>, head: &Parts) -> Result<(), Reason> {
    let [target, host] = named_hosts(host, head);
    let own = target.or(host).unwrap_or_default();
    if head.headers.get_all(ORIGIN).iter().any(|origin| !is_origin_of(own, origin)) {
        return Err(Reason::Origin);
    }
    if head.headers.get_all(SEC_FETCH_SITE).iter().any(is_cross_site) {
        return Err(Reason::CrossSite);
    }
    Ok(())
}

/// The host in the request target, and that of the header.
fn named_hosts<'a>(host: Option<&'a HeaderValue>, head: &'a Parts) -> [Option<&'a str>; 2] {
    let target = head.uri.authority().map(|authority| authority.as_str());
    [target, host.map(|value| value.to_str().unwrap_or_default())]
}

/// Whether an `Origin` is that of the server's own pages: the same host and port as the request. The scheme is not
/// compared, because there may be a proxy with HTTPS; it only gives the default port.
fn is_origin_of(own: &str, origin: &HeaderValue) -> bool {
    let (scheme, authority) = origin.to_str().ok().and_then(|text| text.split_once("://")).unwrap_or_default();
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let host_and_port = |text| split(text).map(|(host, port)| (host.text(), port.unwrap_or(default_port)));
    match (host_and_port(own), host_and_port(authority)) {
        (Some(own), Some(other)) => own.0.eq_ignore_ascii_case(other.0) && own.1 == other.1,
        _ => false,
    }
}

fn is_cross_site(value: &HeaderValue) -> bool {
    [&b"cross-site"[..], b"same-site"].iter().any(|site| value.as_bytes().trim_ascii().eq_ignore_ascii_case(site))
}

/// A host as it stands in a request.
#[derive(Clone, Copy, Debug)]
enum Host<'a> {
    Name(&'a str),
    Address(&'a str, IpAddr),
}

impl<'a> Host<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(text, IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(text, IpAddr::V4(address)));
        }
        let is_name = (1..=NAME_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
        is_name.then_some(Self::Name(text))
    }

    fn text(self) -> &'a str {
        match self {
            Self::Name(text) | Self::Address(text, _) => text,
        }
    }

    /// Names below `localhost` do not count: a resolver decides what they mean.
    fn is_local(self) -> bool {
        match self {
            Self::Name(_) => self.is_called("localhost"),
            Self::Address(_, address) => address.is_loopback(),
        }
    }

    /// Whether this is the host `name`, whatever the letter case and with or without the dot of the root.
    fn is_called(self, name: &str) -> bool {
        let bare = |text: &'a str| text.strip_suffix('.').unwrap_or(text);
        match self {
            Self::Name(text) => bare(text).eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name)),
            Self::Address(_, address) => {
                let name: Option<IpAddr> = name.trim_matches(['[', ']']).parse().ok();
                name.is_some_and(|name| name.to_canonical() == address)
            }
        }
    }
}

/// `HOST`, `HOST:` or `HOST:PORT`.
fn split(authority: &str) -> Option<(Host<'_>, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    let port = match port {
        "" => None,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    Host::parse(host).map(|host| (host, port))
}

#[cfg(test)]
mod tests;
