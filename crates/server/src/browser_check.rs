//! Refuses requests that a foreign web page may have sent to a server without a token: by `Host`, by `Origin`, by
//! `Sec-Fetch-Site` (docs/decisions/0019). With a token none of this is checked for the API, because a page does not have the token;
//! pages of the dashboard have a session, which a browser sends by itself, so senders are checked there (`pages.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest name in DNS.
const NAME_BYTES: usize = 253;

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrowserRefusal {
    /// It is for a host that is not this machine.
    Host,
    /// A page of another origin sent it.
    Origin,
    /// A browser says that a page of another site, or of another origin of the same site, caused it.
    CrossSite,
}

/// An error: the `Host` header is missing or repeated. The text says what to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidHost(pub(crate) &'static str);

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
    /// Returns whether a request for `HOST` or `HOST:PORT` is accepted. Clients of Unix sockets send anything here, even a path.
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

/// Returns the one `Host` of a request; `None` only in HTTP/1.0 (RFC 9112, section 3.2).
pub(crate) fn host_field(version: Version, headers: &HeaderMap) -> Result<Option<&HeaderValue>, InvalidHost> {
    let mut values = headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        (None, _) if version == Version::HTTP_11 => Err(InvalidHost("send a Host header")),
        (_, Some(_)) => Err(InvalidHost("send one Host header, not several")),
        (host, None) => Ok(host),
    }
}

/// Refuses a request that a foreign web page may have sent. `host` is its `Host` header.
///
/// A request target with an authority counts like a `Host`, and both must be accepted. An HTTP/1.0 request without either
/// names no foreign host; browsers always send one.
pub(crate) fn check(hosts: &Hosts, host: Option<&HeaderValue>, head: &Parts) -> Result<(), BrowserRefusal> {
    check_host(hosts, host, head)?;
    check_sender(host, head)
}

/// Refuses a request for another host.
pub(crate) fn check_host(hosts: &Hosts, host: Option<&HeaderValue>, head: &Parts) -> Result<(), BrowserRefusal> {
    let mut named = named_hosts(host, head).into_iter().flatten();
    if named.any(|named| !hosts.accept(named)) { Err(BrowserRefusal::Host) } else { Ok(()) }
}

/// Refuses a request of a page that is not the server's own.
pub(crate) fn check_sender(host: Option<&HeaderValue>, head: &Parts) -> Result<(), BrowserRefusal> {
    // Programs name no origin.
    let is_own = |origin| {
        let [target, host] = named_hosts(host, head);
        is_origin_of(target.or(host).unwrap_or_default(), origin)
    };
    if !head.headers.get_all(ORIGIN).iter().all(is_own) {
        return Err(BrowserRefusal::Origin);
    }
    if head.headers.get_all(SEC_FETCH_SITE).iter().any(is_cross_site) {
        return Err(BrowserRefusal::CrossSite);
    }
    Ok(())
}

/// Returns the host in the request target, and that of the header.
fn named_hosts<'a>(host: Option<&'a HeaderValue>, head: &'a Parts) -> [Option<&'a str>; 2] {
    let target = head.uri.authority().map(|authority| authority.as_str());
    [target, host.map(|value| value.to_str().unwrap_or_default())]
}

/// Returns whether an `Origin` is that of the server's own pages: the same host and port as the request. The scheme is not
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

    /// Returns whether this is the host `name`, whatever the letter case and with or without the dot of the root.
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
mod tests {
    use axum::body::Body;
    use hyper::Request;

    use super::*;

    /// Returns the outcome of the check of a request with this target and these fields.
    fn outcome(hosts: &Hosts, target: &str, fields: &[(&str, &str)]) -> Result<(), BrowserRefusal> {
        let mut request = Request::builder().uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, _) = request.body(Body::empty()).unwrap().into_parts();
        check(hosts, head.headers.get(HOST), &head)
    }

    fn allowing(names: &[&str]) -> Hosts {
        Hosts::LocalAnd(names.iter().map(|name| name.parse().unwrap()).collect())
    }

    #[test]
    fn without_more_only_this_machine_may_be_named() {
        let local = "localhost localhost:8000 localhost: LocalHost:1 localhost. 127.0.0.1 127.0.0.1:65535 127.9.8.7:80 \
             [::1] [::1]:8000 [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1]:8000";
        for host in local.split(' ') {
            assert_eq!(outcome(&Hosts::default(), "/", &[("host", host)]), Ok(()), "{host}");
        }
        let foreign = ":8000 evil.example evil.example:8000 localhost.evil.example 127.0.0.1.evil.example a.localhost \
             localhost.. notlocalhost 0.0.0.0:8000 10.0.0.1 128.0.0.1 127.1 2130706433 0x7f.0.0.1 [::2] [::1 ::1 \
             [localhost] [127.0.0.1] user@localhost localhost:80:80 localhost:x localhost:+80 localhost:65536 \
             localhost/ localhost,evil.example lo\u{e9}";
        for host in foreign.split(' ').chain(["", "localhost evil.example"]) {
            assert_eq!(outcome(&Hosts::default(), "/", &[("host", host)]), Err(BrowserRefusal::Host), "{host}");
            assert_eq!(outcome(&Hosts::Any, "/", &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn allowed_hosts_count_like_this_machine_and_only_as_a_whole() {
        let hosts = allowing(&["queue", "Queue.Example.", "10.0.0.1", "fe80::1"]);
        for host in ["queue", "QUEUE:80", "queue.example", "queue.example.:1", "10.0.0.1:2", "[fe80::1]", "localhost"] {
            assert_eq!(outcome(&hosts, "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["a.queue", "queue.evil.example", "example", "10.0.0.10", "[fe80::2]", "xqueue"] {
            assert_eq!(outcome(&hosts, "/", &[("host", host)]), Err(BrowserRefusal::Host), "{host}");
        }
        for wrong in ["", "queue:80", "http://queue", "*.example", "*", "a b", "queue/", &"x".repeat(254)] {
            assert!(wrong.parse::<HostName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_authority_of_a_target_counts_too_and_both_must_be_accepted() {
        let cases = [
            ("http://localhost/health", Some("localhost"), Ok(())),
            ("http://127.0.0.1:8000/health", Some("localhost:8000"), Ok(())),
            ("http://evil.example/health", Some("localhost"), Err(BrowserRefusal::Host)),
            ("http://localhost/health", Some("evil.example"), Err(BrowserRefusal::Host)),
            ("http://evil.example/health", None, Err(BrowserRefusal::Host)),
            ("http://user@localhost/health", Some("localhost"), Err(BrowserRefusal::Host)),
            ("evil.example:80", Some("localhost"), Err(BrowserRefusal::Host)),
            ("/health", None, Ok(())),
        ];
        for (target, host, expected) in cases {
            let fields: Vec<_> = host.into_iter().map(|host| ("host", host)).collect();
            assert_eq!(outcome(&Hosts::default(), target, &fields), expected, "{target} {host:?}");
        }
    }

    #[test]
    fn an_origin_is_ours_only_with_the_host_and_port_of_the_request() {
        let hosts = allowing(&["queue.example"]);
        let cases = [
            ("localhost:8000", "http://localhost:8000", true),
            ("localhost:8000", "http://LOCALHOST:8000", true),
            ("localhost", "http://localhost", true),
            ("localhost:80", "http://localhost", true),
            ("[::1]:8000", "http://[::1]:8000", true),
            ("queue.example", "https://queue.example", true),
            ("queue.example:443", "https://queue.example", true),
            ("localhost", "https://localhost:80", false),
            ("queue.example", "http://localhost", false),
        ];
        let foreign = "null localhost:8000 http:// http://localhost http://localhost:3000 http://127.0.0.1:8000 \
             http://evil.example http://localhost:8000.evil.example http://localhost:8000/ http://evil@localhost:8000 \
             file://localhost:8000 chrome-extension://localhost:8000";
        let foreign = foreign.split(' ').chain([""]).map(|origin| ("localhost:8000", origin, false));
        for (host, origin, ours) in cases.into_iter().chain(foreign) {
            let expected = if ours { Ok(()) } else { Err(BrowserRefusal::Origin) };
            assert_eq!(outcome(&hosts, "/", &[("host", host), ("origin", origin)]), expected, "{host} {origin}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert_eq!(outcome(&hosts, "/", &two), Err(BrowserRefusal::Origin));
        let no_host = [("origin", "http://localhost")];
        assert_eq!(outcome(&hosts, "/", &no_host), Err(BrowserRefusal::Origin));
    }

    #[test]
    fn what_a_browser_calls_cross_site_or_same_site_is_refused() {
        let cases = [
            ("same-origin", Ok(())),
            ("none", Ok(())),
            ("", Ok(())),
            ("cross-site", Err(BrowserRefusal::CrossSite)),
            ("same-site", Err(BrowserRefusal::CrossSite)),
            ("Cross-Site", Err(BrowserRefusal::CrossSite)),
        ];
        for (site, expected) in cases {
            for hosts in [Hosts::default(), Hosts::Any] {
                let fields = [("host", "localhost"), ("sec-fetch-site", site)];
                assert_eq!(outcome(&hosts, "/", &fields), expected, "{site}");
            }
        }
        let two = [("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
        assert_eq!(outcome(&Hosts::default(), "/", &two), Err(BrowserRefusal::CrossSite));
    }

    #[test]
    fn a_host_is_needed_once_except_in_http_1_0() {
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        for (version, hosts, accepted) in [
            (new, &["localhost"][..], true),
            (new, &[], false),
            (new, &["localhost", "localhost"], false),
            (old, &[], true),
            (old, &["localhost"], true),
            (old, &["localhost", "localhost"], false),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            assert_eq!(host_field(version, &headers).is_ok(), accepted, "{version:?} {hosts:?}");
        }
    }
}
