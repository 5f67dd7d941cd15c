//! Cursors: a position in an order, bound to everything that makes up the selection (docs/reference/http-api.md §7.5).
//! A cursor is not a secret, but it is checked: with another selection or one flipped bit it is refused.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::ids::QueueName;
use crate::limits::CURSOR_CHARS;

/// The cursor was malformed or made for another selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCursor;

/// A resource that has pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    TaskList,
    TaskGroups,
    /// A list of observations.
    WorkerList,
    /// Groups of observations.
    WorkerGroups,
}

/// One value of a position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderValue<'a> {
    /// No value.
    Null,
    /// A number or a time in microseconds.
    Int(i64),
    /// A text, ordered by code point.
    Text(Cow<'a, str>),
}

impl OrderValue<'_> {
    /// Returns the value, free of borrows.
    pub fn into_owned(self) -> OrderValue<'static> {
        match self {
            Self::Null => OrderValue::Null,
            Self::Int(value) => OrderValue::Int(value),
            Self::Text(text) => OrderValue::Text(Cow::Owned(text.into_owned())),
        }
    }
}

/// Where a page begins. `queue_key` tells queues of the same name apart: a queue that was deleted and made again is
/// another queue, and cursors of the first one are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The storage's own number of the queue.
    pub queue_key: i64,
    /// The values of the last item before the page.
    pub values: Vec<OrderValue<'static>>,
}

/// Everything that a cursor is bound to, hashed.
#[derive(Clone)]
pub struct Binding(Sha256);

const DIGEST_BYTES: usize = 16;

impl Binding {
    /// Binds to a resource, a queue and the parts of a selection; an absent part differs from an empty one.
    pub fn new(resource: Resource, queue: &QueueName, parts: &[Option<&str>]) -> Self {
        let mut hash = Sha256::new();
        hash.update([resource as u8]);
        for part in [Some(queue.as_str())].iter().chain(parts) {
            match part {
                // The length in front keeps neighbours apart.
                Some(text) => {
                    hash.update([1]);
                    hash.update((text.len() as u64).to_le_bytes());
                    hash.update(text.as_bytes());
                }
                None => hash.update([0]),
            }
        }
        Self(hash)
    }

    /// The cursor text of a position.
    pub fn encode(&self, position: &Position) -> String {
        let mut bytes = position.queue_key.to_le_bytes().to_vec();
        for value in &position.values {
            match value {
                OrderValue::Null => bytes.push(0),
                OrderValue::Int(value) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&value.to_le_bytes());
                }
                OrderValue::Text(text) => {
                    bytes.push(2);
                    bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        let digest = self.digest(&bytes);
        bytes.extend_from_slice(&digest);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position in a cursor text, if it was made with this binding and is unharmed.
    pub fn decode(&self, text: &str) -> Result<Position, InvalidCursor> {
        if text.len() > CURSOR_CHARS {
            return Err(InvalidCursor);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
        let split = bytes.len().checked_sub(DIGEST_BYTES).ok_or(InvalidCursor)?;
        let (body, digest) = bytes.split_at(split);
        if self.digest(body) != digest {
            return Err(InvalidCursor);
        }
        read_position(body).ok_or(InvalidCursor)
    }

    fn digest(&self, body: &[u8]) -> [u8; DIGEST_BYTES] {
        let mut short = [0; DIGEST_BYTES];
        short.copy_from_slice(&self.0.clone().chain_update(body).finalize()[..DIGEST_BYTES]);
        short
    }
}

fn read_position(body: &[u8]) -> Option<Position> {
    let (key, mut rest) = body.split_first_chunk::<8>()?;
    let mut values = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        let (value, after) = match kind {
            0 => (OrderValue::Null, after),
            1 => {
                let (value, after) = after.split_first_chunk::<8>()?;
                (OrderValue::Int(i64::from_le_bytes(*value)), after)
            }
            2 => {
                let (length, after) = after.split_first_chunk::<4>()?;
                let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                (OrderValue::Text(Cow::Owned(String::from_utf8(text.to_vec()).ok()?)), after)
            }
            _ => return None,
        };
        values.push(value);
        rest = after;
    }
    Some(Position { queue_key: i64::from_le_bytes(*key), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    fn position() -> Position {
        let text = OrderValue::Text(Cow::Borrowed("é\u{0}x"));
        Position { queue_key: 7, values: vec![OrderValue::Int(-5), text, OrderValue::Null] }
    }

    #[test]
    fn a_cursor_reads_back_with_its_own_binding_only() {
        let own = Binding::new(Resource::TaskList, &queue("q"), &[Some("a"), None]);
        let cursor = own.encode(&position());
        assert_eq!(own.decode(&cursor), Ok(position()));
        let others = [
            Binding::new(Resource::TaskGroups, &queue("q"), &[Some("a"), None]),
            Binding::new(Resource::TaskList, &queue("r"), &[Some("a"), None]),
            Binding::new(Resource::TaskList, &queue("q"), &[Some("b"), None]),
            Binding::new(Resource::TaskList, &queue("q"), &[Some("a"), Some("")]),
            Binding::new(Resource::TaskList, &queue("q"), &[None, Some("a")]),
            Binding::new(Resource::TaskList, &queue("q"), &[Some("a")]),
        ];
        for other in others {
            assert_eq!(other.decode(&cursor), Err(InvalidCursor));
        }
    }

    #[test]
    fn a_cursor_with_any_character_changed_is_refused() {
        let binding = Binding::new(Resource::WorkerList, &queue("q"), &[]);
        let cursor = binding.encode(&position());
        for at in 0..cursor.len() {
            for other in "AZaz09-_=+/ é".chars() {
                let mut changed: Vec<char> = cursor.chars().collect();
                if changed[at] == other {
                    continue;
                }
                changed[at] = other;
                let changed: String = changed.into_iter().collect();
                assert_eq!(binding.decode(&changed), Err(InvalidCursor), "{changed}");
            }
        }
    }

    #[test]
    fn empty_truncated_and_overlong_cursors_are_refused() {
        let binding = Binding::new(Resource::WorkerList, &queue("q"), &[]);
        let cursor = binding.encode(&position());
        for length in 0..cursor.len() {
            assert_eq!(binding.decode(&cursor[..length]), Err(InvalidCursor));
        }
        assert_eq!(binding.decode(&"A".repeat(CURSOR_CHARS + 1)), Err(InvalidCursor));
    }
}
