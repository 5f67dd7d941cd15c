//! The part of beanstalkd's protocol that the measurement uses: put, reserve, delete, and their answers.

use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Inserted,
    /// A task was taken; its number.
    Reserved(u64),
    Deleted,
    /// There is nothing to take.
    TimedOut,
}

/// Puts a task with this body. Priority 0, no delay, and as long to work on it as our lease.
pub(super) fn put(body: &str) -> Vec<u8> {
    format!("put 0 0 300 {}\r\n{body}\r\n", body.len()).into_bytes()
}

/// Takes a task if there is one.
pub(super) const RESERVE: &[u8] = b"reserve-with-timeout 0\r\n";

pub(super) fn delete(id: u64) -> Vec<u8> {
    format!("delete {id}\r\n").into_bytes()
}

/// Reads an answer that came alone; none when it is not complete yet.
pub(super) fn read(bytes: &[u8]) -> io::Result<Option<Reply>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| unknown("no text"))?;
    let rest = bytes.len() - end - 2;
    let mut words = line.split(' ');
    let reply = match words.next() {
        Some("INSERTED") => Reply::Inserted,
        Some("DELETED") => Reply::Deleted,
        Some("TIMED_OUT") => Reply::TimedOut,
        Some("RESERVED") => {
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or_else(|| unknown(line));
            let (id, body_bytes) = (number()?, number()?);
            // The body and the end of its line.
            if (rest as u64) < body_bytes + 2 {
                return Ok(None);
            }
            Reply::Reserved(id)
        }
        _ => return Err(unknown(line)),
    };
    Ok(Some(reply))
}

fn unknown(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("beanstalkd answered: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_once_they_are_complete() {
        let text = b"RESERVED 17 5\r\nhello\r\n";
        for end in 0..text.len() {
            assert_eq!(read(&text[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(read(text).unwrap(), Some(Reply::Reserved(17)));
        assert_eq!(read(b"INSERTED 3\r\n").unwrap(), Some(Reply::Inserted));
        assert_eq!(read(b"DELETED\r\n").unwrap(), Some(Reply::Deleted));
        assert_eq!(read(b"TIMED_OUT\r\n").unwrap(), Some(Reply::TimedOut));
    }

    #[test]
    fn refusals_are_errors() {
        for text in ["NOT_FOUND\r\n", "OUT_OF_MEMORY\r\n", "RESERVED x 5\r\n", "RESERVED 5\r\n", "\r\n"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_task_is_put_with_its_length() {
        assert_eq!(put("{}"), b"put 0 0 300 2\r\n{}\r\n");
    }
}
