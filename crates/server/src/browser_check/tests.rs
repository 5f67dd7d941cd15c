//! Tables: each request head with the answer to it.

use axum::body::Body;
use hyper::Request;

use super::*;

/// What becomes of a request with this target and these fields.
fn outcome(hosts: &Hosts, target: &str, fields: &[(&str, &str)]) -> Result<(), Reason> {
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
    let local = [
        "localhost",
        "localhost:8000",
        "localhost:",
        "LocalHost:1",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:65535",
        "127.9.8.7:80",
        "[::1]",
        "[::1]:8000",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:8000",
    ];
    for host in local {
        assert_eq!(outcome(&Hosts::default(), "/", &[("host", host)]), Ok(()), "{host}");
    }
    let foreign = [
        "",
        ":8000",
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "a.localhost",
        "localhost..",
        "notlocalhost",
        "0.0.0.0:8000",
        "10.0.0.1",
        "128.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "[::2]",
        "[::1",
        "::1",
        "[localhost]",
        "[127.0.0.1]",
        "user@localhost",
        "localhost:80:80",
        "localhost:x",
        "localhost:+80",
        "localhost:65536",
        "localhost/",
        "localhost evil.example",
        "localhost,evil.example",
        "lo\u{e9}",
    ];
    for host in foreign {
        assert_eq!(outcome(&Hosts::default(), "/", &[("host", host)]), Err(Reason::Host), "{host}");
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
        assert_eq!(outcome(&hosts, "/", &[("host", host)]), Err(Reason::Host), "{host}");
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
        ("http://evil.example/health", Some("localhost"), Err(Reason::Host)),
        ("http://localhost/health", Some("evil.example"), Err(Reason::Host)),
        ("http://evil.example/health", None, Err(Reason::Host)),
        ("http://user@localhost/health", Some("localhost"), Err(Reason::Host)),
        ("evil.example:80", Some("localhost"), Err(Reason::Host)),
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
        ("localhost:8000", "null", false),
        ("localhost:8000", "", false),
        ("localhost:8000", "localhost:8000", false),
        ("localhost:8000", "http://", false),
        ("localhost:8000", "http://localhost", false),
        ("localhost:8000", "http://localhost:3000", false),
        ("localhost:8000", "http://127.0.0.1:8000", false),
        ("localhost:8000", "http://evil.example", false),
        ("localhost:8000", "http://localhost:8000.evil.example", false),
        ("localhost:8000", "http://localhost:8000/", false),
        ("localhost:8000", "http://evil@localhost:8000", false),
        ("localhost:8000", "file://localhost:8000", false),
        ("localhost:8000", "chrome-extension://localhost:8000", false),
        ("localhost", "https://localhost:80", false),
        ("queue.example", "http://localhost", false),
    ];
    for (host, origin, ours) in cases {
        let expected = if ours { Ok(()) } else { Err(Reason::Origin) };
        assert_eq!(outcome(&hosts, "/", &[("host", host), ("origin", origin)]), expected, "{host} {origin}");
    }
    let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
    assert_eq!(outcome(&hosts, "/", &two), Err(Reason::Origin));
    assert_eq!(outcome(&hosts, "/", &[("origin", "http://localhost")]), Err(Reason::Origin), "no host of its own");
}

#[test]
fn what_a_browser_calls_cross_site_or_same_site_is_refused() {
    let cases = [
        ("same-origin", Ok(())),
        ("none", Ok(())),
        ("", Ok(())),
        ("cross-site", Err(Reason::CrossSite)),
        ("same-site", Err(Reason::CrossSite)),
        ("Cross-Site", Err(Reason::CrossSite)),
    ];
    for (site, expected) in cases {
        for hosts in [Hosts::default(), Hosts::Any] {
            let fields = [("host", "localhost"), ("sec-fetch-site", site)];
            assert_eq!(outcome(&hosts, "/", &fields), expected, "{site}");
        }
    }
    let two = [("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
    assert_eq!(outcome(&Hosts::default(), "/", &two), Err(Reason::CrossSite));
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
