//! The little of HTTP/1.1 and JSON that the generator must read in an answer, straight from its bytes.
//! Not a parser: chunked answers and everything else that neither server sends are malformed here.

use std::io;

use crate::numbered_ids;

/// What the first lines of an answer say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// How long the head is, with its empty line.
    pub(crate) head_bytes: usize,
    /// How long the body behind it is.
    pub(crate) body_bytes: usize,
}

/// Reads the head of an answer; none when it is not complete yet.
pub(crate) fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let head = &bytes[..end];
    let status = head.get(9..12).filter(|_| head.starts_with(b"HTTP/1.1 ")).and_then(digits);
    let status = status.and_then(|status| u16::try_from(status).ok()).ok_or_else(malformed)?;
    let body_bytes = match (content_length(head), status) {
        (Some(length), _) => length,
        (None, 204) => 0,
        (None, _) => return Err(malformed()),
    };
    Ok(Some(Head { status, head_bytes: end + 4, body_bytes }))
}

/// The number of the task that a claim handed out.
pub(crate) fn claimed_task(body: &[u8]) -> Option<u64> {
    let at = find(body, b"\"id\":\"t_")? + 8;
    numbered_ids::read_task(body.get(at..at + numbered_ids::CHARACTERS)?)
}

/// The code in the envelope of an error.
pub(crate) fn error_code(body: &[u8]) -> Option<&str> {
    let rest = &body[find(body, b"\"code\":\"")? + 8..];
    std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == b'"')?]).ok()
}

/// The number behind `"count":`.
pub(crate) fn count(body: &[u8]) -> Option<u64> {
    let rest = &body[find(body, b"\"count\":")? + 8..];
    digits(&rest[..rest.iter().position(|byte| !byte.is_ascii_digit())?]).and_then(|count| u64::try_from(count).ok())
}

fn content_length(head: &[u8]) -> Option<usize> {
    header(head, b"content-length:").and_then(digits)
}

/// The value of a header; its name is given with its colon.
pub(crate) fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))?;
    Some(line[name.len()..].trim_ascii())
}

fn digits(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed_answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::ids;

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 11\r\n\r\n{\"count\":1}";
        let head = Head { status: 200, head_bytes: text.len() - 11, body_bytes: 11 };
        assert_eq!(parse_head(text).unwrap(), Some(head));
        for end in 0..head.head_bytes {
            assert_eq!(parse_head(&text[..end]).unwrap(), None);
        }
    }

    #[test]
    fn an_answer_without_a_body_needs_no_length() {
        let head = Head { status: 204, head_bytes: 29, body_bytes: 0 };
        assert_eq!(parse_head(b"HTTP/1.1 204 No Content\r\nx:\r\n\r\n").unwrap().map(|head| head.status), Some(204));
        assert_eq!(parse_head(b"HTTP/1.1 204 No Content  \r\n\r\nHTTP").unwrap(), Some(head));
    }

    #[test]
    fn other_answers_are_malformed() {
        for text in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", "\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n"] {
            assert!(parse_head(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_bodies_say_is_found() {
        let (task, _) = ids(42, 0);
        assert_eq!(claimed_task(format!(r#"{{"task":{{"id":"{task}","queue":"q"}}}}"#).as_bytes()), Some(42));
        assert_eq!(claimed_task(br#"{"task":{"id":"t_00000000004"#), None);
        assert_eq!(
            header(b"HTTP/1.1 204 No Content\r\nPreference-Applied: wait=1\r\n\r\n", b"preference-applied:"),
            Some(&b"wait=1"[..])
        );
        assert_eq!(error_code(br#"{"error":{"code":"stale_run","message":"m"}}"#), Some("stale_run"));
        assert_eq!(error_code(b"{}"), None);
        assert_eq!(count(br#"{"count":1234}"#), Some(1234));
    }
}
