//! Paths: percent-decoding, the components that hold identifiers, and the normal form in which a path is routed.

use std::borrow::Cow;

use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use percent_encoding::percent_decode_str;
use taskqueue_core::QueueName;

/// The component that holds the queue in `/api/v2/queues/{queue}/...`, counted from the empty one before the first slash.
const QUEUE: usize = 4;
/// The component that holds the task or the worker in `/api/v2/queues/{queue}/tasks/{task_id}`.
const MEMBER: usize = 6;

/// Returns a component of the path, decoded; `None` when it is not UTF-8. A `+` is a plus sign.
fn component(path: &str, index: usize) -> Option<Cow<'_, str>> {
    let component = path.split('/').nth(index).unwrap_or_default();
    match component.bytes().any(|byte| byte == b'%') {
        true => percent_decode_str(component).decode_utf8().ok(),
        false => Some(Cow::Borrowed(component)),
    }
}

/// Returns the component of a path that names a queue, which may be invalid; what is no UTF-8 fits no name.
pub(crate) fn queue_text(path: &str) -> Cow<'_, str> {
    component(path, QUEUE).unwrap_or(Cow::Borrowed("\u{fffd}"))
}

/// Returns the queue in a path, if its name is valid.
pub(crate) fn queue_component(path: &str) -> Option<QueueName> {
    component(path, QUEUE).as_deref().and_then(QueueName::parse)
}

/// Returns the component of a path that names a task or a worker, decoded; `None` when it is not UTF-8.
pub(crate) fn member_component(path: &str) -> Option<Cow<'_, str>> {
    component(path, MEMBER)
}

/// Returns whether no route has this path: a component is empty, or holds an escaped slash. (The router would accept both.)
pub(crate) fn is_unroutable(path: &str) -> bool {
    let has_escaped_slash = |path: &str| path.as_bytes().windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f"));
    path.contains("//") || (path.contains('%') && has_escaped_slash(path))
}

/// Returns the path with every needless escape resolved (RFC 3986, section 6.2.2.2), so that `%63laim` is routed like
/// `claim` and `%61pi` does not bypass authentication; `None` when the path has none.
pub(crate) fn normalised_uri(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains('%') {
        return None;
    }
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        // A sequence that stays is passed over whole: nothing behind its `%` may become part of a new one.
        let escape = rest.get(at..at + 3).unwrap_or("%");
        let is_unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        match percent_decode_str(escape).next().filter(is_unreserved) {
            Some(byte) => plain.push(byte.into()),
            None => plain.push_str(escape),
        }
        rest = &rest[at + escape.len()..];
    }
    plain.push_str(rest);
    if let Some(query) = uri.query() {
        plain.push('?');
        plain.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(plain).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_percent_decoded_and_a_plus_stays_one() {
        let cases = [
            ("/api/v2/queues/abc", Some("abc")),
            ("/api/v2/queues/%61bc", Some("abc")),
            ("/api/v2/queues/a+b", Some("a+b")),
            ("/api/v2/queues/a%20b", Some("a b")),
            ("/api/v2/queues/%C3%A9", Some("é")),
            ("/api/v2/queues/a%00", Some("a\0")),
            ("/api/v2/queues/%2561", Some("%61")),
            ("/api/v2/queues/%", Some("%")),
            ("/api/v2/queues/%4", Some("%4")),
            ("/api/v2/queues/%zz", Some("%zz")),
            ("/api/v2/queues/%+1", Some("%+1")),
            ("/api/v2/queues/%FF", None),
            ("/api/v2/queues", Some("")),
        ];
        for (path, expected) in cases {
            assert_eq!(component(path, QUEUE).as_deref(), expected, "{path}");
        }
        assert_eq!(component("/api/v2/queues/q/tasks/t_%41/cancel", MEMBER).as_deref(), Some("t_A"));
    }

    #[test]
    fn needless_escapes_are_resolved_before_routing_and_needed_ones_stay() {
        let cases = [
            ("/api/v2", None),
            ("/%61pi/v2?x=%61", Some("/api/v2?x=%61")),
            ("/a/%2e%2E/%7e", Some("/a/../~")),
            ("/a%2Fb%20%zz%4", Some("/a%2Fb%20%zz%4")),
            ("/%C3%A9%2561", Some("/%C3%A9%2561")),
        ];
        for (uri, expected) in cases {
            let normalised_uri = normalised_uri(&uri.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(normalised_uri.as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn empty_components_and_hidden_slashes_are_unroutable() {
        for path in ["/a%2fb", "/a%2F", "//a", "/a//b"] {
            assert!(is_unroutable(path), "{path}");
        }
        for path in ["/", "/a/2f%20", "/a/b"] {
            assert!(!is_unroutable(path), "{path}");
        }
    }
}
