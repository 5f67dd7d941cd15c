//! Reads the body of a batch: an object with a list of items, of which only one is held as a tree at a time. Errors of the
//! shape refuse the whole; what else is wrong with an item is kept with it.

use std::borrow::Cow;

use taskqueue_core::json::{ParseError, Reader, Unusable, Value};
use taskqueue_core::limits::{BATCH_BODY_BYTES, BATCH_ITEMS, REQUEST_BODY_BYTES};

use crate::ErrorCode;
use crate::body::errors::KEY_CHARS_SHOWN;
use crate::body::{self, BodyErrors, Invalid, Location, REQUIRED, field};

pub(super) const ROOT: Location<'static> = Location::Root("body");

/// The body of a batch.
pub trait BatchBody: Sized {
    /// The names of its fields.
    const FIELDS: &'static [&'static str];

    #[doc(hidden)]
    fn read(reader: &mut Reader<'_>, errors: &mut BodyErrors) -> ReadPart<Self>;

    /// Reads the body from its bytes.
    fn decode(bytes: &[u8]) -> Result<Self, BatchError> {
        if bytes.is_empty() {
            return Err(Invalid::body(ErrorCode::InvalidRequest, body::fields_wanted(Self::FIELDS)).into());
        }
        let (mut reader, mut errors) = (Reader::new(bytes)?, BodyErrors::new(ErrorCode::InvalidRequest));
        let read = Self::read(&mut reader, &mut errors)?;
        reader.end()?;
        Ok(errors.into_result(read)?)
    }
}

/// A part of a batch; nothing if it is wrong, which is told by the errors beside it.
pub(super) type ReadPart<T> = Result<Option<T>, BatchError>;

/// The reason for which a batch as a whole cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchError {
    Invalid(Invalid),
    /// The args, metadata and results of the items take more than [`BATCH_BODY_BYTES`] in canonical form.
    TooLarge,
}

impl From<Invalid> for BatchError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<ParseError> for BatchError {
    fn from(error: ParseError) -> Self {
        Self::Invalid(body::unreadable(error))
    }
}

/// The mistake in an item, as the single request would be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemError {
    Invalid(Invalid),
    /// This is no task id. It is shown up to a limit.
    TaskId(String),
    /// The item has more than [`REQUEST_BODY_BYTES`], its ids not counted.
    TooLarge,
}

/// Reads the members of an object; `read` reads a field of the given name, which may come several times. Gives whether it is
/// an object.
pub(super) fn read_fields(
    reader: &mut Reader<'_>,
    known: &'static [&'static str],
    errors: &mut BodyErrors,
    mut read: impl FnMut(&mut Reader<'_>, &'static str) -> Result<(), BatchError>,
) -> Result<bool, BatchError> {
    if reader.skip_space() != Some(b'{') {
        reader.skip()?;
        errors.add(&ROOT, body::fields_wanted(known));
        return Ok(false);
    }
    reader.members(|reader, key| {
        let name = known.iter().find(|name| key.as_deref() == Some(**name));
        match (name, key) {
            (Some(name), _) => return read(reader, name),
            (None, Some(key)) => errors.add(&Location::Key(&ROOT, &key), body::field_unknown(known)),
            (None, None) => errors.add(&ROOT, field::unusable(Unusable::LoneSurrogateKey)),
        }
        Ok::<_, BatchError>(reader.skip().map(drop)?)
    })?;
    Ok(true)
}

/// A field as far as it was read, with the errors in it.
pub(super) struct ReadField<T>(Option<(Option<T>, BodyErrors)>);

impl<T> ReadField<T> {
    pub(super) const MISSING: Self = Self(None);

    /// Reads the field anew: what came before under the same name does not count.
    pub(super) fn set(&mut self, read: impl FnOnce(&mut BodyErrors) -> ReadPart<T>) -> Result<(), BatchError> {
        self.0 = None;
        let mut errors = BodyErrors::new(ErrorCode::InvalidRequest);
        self.0 = Some((read(&mut errors)?, errors));
        Ok(())
    }

    /// Returns whether something in the field was wrong, and left out of what was read.
    pub(super) fn is_wrong(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, errors)| !errors.is_empty())
    }

    pub(super) fn optional(self, errors: &mut BodyErrors) -> Option<T> {
        let (read, own) = self.0?;
        errors.append(own);
        read
    }

    pub(super) fn required(self, name: &str, errors: &mut BodyErrors) -> Option<T> {
        if self.0.is_none() {
            errors.add(&Location::Key(&ROOT, name), REQUIRED);
        }
        self.optional(errors)
    }
}

/// Reads a list of 1 to [`BATCH_ITEMS`] items.
pub(super) fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
    mut item: impl FnMut(&mut Reader<'a>, &Location<'_>, &mut BodyErrors) -> ReadPart<T>,
) -> ReadPart<Vec<T>> {
    if reader.skip_space() != Some(b'[') {
        reader.skip()?;
        errors.add(at, "use a list");
        return Ok(None);
    }
    let (mut items, mut count) = (Vec::new(), 0);
    reader.items(|reader| {
        count += 1;
        if count > BATCH_ITEMS {
            return Ok(reader.skip().map(drop)?);
        }
        items.extend(item(reader, &Location::Index(at, count - 1), errors)?);
        Ok::<_, BatchError>(())
    })?;
    if !(1..=BATCH_ITEMS).contains(&count) {
        errors.add(at, format!("send 1 to {BATCH_ITEMS} items"));
    }
    Ok(Some(items))
}

/// Reads a body whose only field is a list of items; `item` also adds what an item takes to what those before it take.
pub(super) fn read_only_list<T>(
    reader: &mut Reader<'_>,
    errors: &mut BodyErrors,
    fields: &'static [&'static str; 1],
    item: impl Fn(&mut Reader<'_>, &Location<'_>, &mut BodyErrors, &mut ItemWeight) -> ReadPart<T>,
) -> ReadPart<Vec<T>> {
    let mut list = ReadField::MISSING;
    let is_object = read_fields(reader, fields, errors, |reader, name| {
        let mut weight = ItemWeight::default();
        list.set(|errors| {
            read_list(reader, &Location::Key(&ROOT, name), errors, |reader, at, errors| {
                item(reader, at, errors, &mut weight)
            })
        })
    })?;
    Ok(if is_object { list.required(fields[0], errors) } else { None })
}

/// The value of a field that is no list of items; `None` when its text is larger than any single request.
pub(super) fn read_value<'a>(reader: &mut Reader<'a>) -> Result<Option<Value<'a>>, ParseError> {
    reader.skip_space();
    if reader.bytes_left() > REQUEST_BODY_BYTES {
        let start = reader.position();
        if reader.skip()?.len() > REQUEST_BODY_BYTES {
            return Ok(None);
        }
        reader.go_to(start);
    }
    reader.value().map(Some)
}

/// The strings that an item is known by.
pub(super) struct IdFields {
    /// Those that are not part of the body of the single request.
    pub(super) outside: &'static [&'static str],
    /// Those that are.
    pub(super) inside: &'static [&'static str],
}

/// An item that is an object.
pub(super) struct BatchItem<'a> {
    /// The whole item, or its ids alone if it has an error.
    value: Value<'a>,
    /// The reason for which it was not read as a whole.
    unread: Option<ItemError>,
}

impl<'a> BatchItem<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        ids: &IdFields,
        at: &Location<'_>,
        errors: &mut BodyErrors,
    ) -> ReadPart<Self> {
        if reader.skip_space() != Some(b'{') {
            reader.skip()?;
            errors.add(at, "use an object");
            return Ok(None);
        }
        let start = reader.position();
        if reader.bytes_left() > REQUEST_BODY_BYTES {
            let (value, counted_bytes) = outline(reader, ids)?;
            if counted_bytes > REQUEST_BODY_BYTES {
                return Ok(Some(Self { value, unread: Some(ItemError::TooLarge) }));
            }
            reader.go_to(start);
        }
        match reader.value() {
            Ok(value) => Ok(Some(Self { value, unread: None })),
            Err(error @ ParseError::TooDeep) => {
                reader.go_to(start);
                let (value, _) = outline(reader, ids)?;
                Ok(Some(Self { value, unread: Some(ItemError::Invalid(body::unreadable(error))) }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The string `name` of the single request's body, without which the item makes no sense.
    pub(super) fn text(&self, name: &str, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Cow<'a, str>> {
        let members = match &self.value {
            Value::Object(members) => members,
            Value::LoneSurrogateKeys(object) => &object.members,
            _ => return None,
        };
        match position_of(members, name) {
            Some(index) => string(&members[index].1, &Location::Key(at, name), errors),
            None => errors.refuse(&Location::Key(at, name), REQUIRED),
        }
    }

    /// Reads a string that is not part of that body: it is taken out.
    pub(super) fn take_text(&mut self, name: &str, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Cow<'a, str>> {
        let members = match &mut self.value {
            Value::Object(members) => members,
            Value::LoneSurrogateKeys(object) => &mut object.members,
            _ => return None,
        };
        match position_of(members, name) {
            Some(index) => string(&members.remove(index).1, &Location::Key(at, name), errors),
            None => errors.refuse(&Location::Key(at, name), REQUIRED),
        }
    }

    /// The body of the single request: what is left.
    pub(super) fn body<B: body::Body>(&mut self) -> Result<B, ItemError> {
        self.unread.take().map_or_else(|| body::read(&self.value).map_err(ItemError::Invalid), Err)
    }
}

type Members<'a> = [(Cow<'a, str>, Value<'a>)];

/// Members are sorted by key.
fn position_of(members: &Members<'_>, name: &str) -> Option<usize> {
    members.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()
}

/// A string. One with half a surrogate pair becomes one that no rule accepts.
fn string<'a>(value: &Value<'a>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Cow<'a, str>> {
    match value {
        Value::Str(text) => Some(text.clone()),
        Value::Unusable(Unusable::LoneSurrogate) => Some(Cow::Borrowed("\u{fffd}")),
        _ => errors.refuse(at, "use a string"),
    }
}

/// Passes over an object. Gives its ids, and how many bytes it has besides those that are not part of the single request.
fn outline<'a>(reader: &mut Reader<'a>, ids: &IdFields) -> Result<(Value<'a>, usize), ParseError> {
    let start = reader.position();
    let mut found: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
    let (mut before, mut outside_bytes) = (start + 1, 0);
    reader.members(|reader, key| {
        let key = key.unwrap_or_default();
        let is_outside = ids.outside.contains(&key.as_ref());
        if is_outside || ids.inside.contains(&key.as_ref()) {
            let is_string = reader.skip_space() == Some(b'"');
            let value = if is_string { reader.value()? } else { reader.skip().map(|_| Value::Null)? };
            found.retain(|(other, _)| *other != key);
            found.push((key, value));
        } else {
            reader.skip()?;
        }
        // With its comma.
        let behind = reader.position() + 1;
        outside_bytes += if is_outside { behind - before } else { 0 };
        before = behind;
        Ok::<_, ParseError>(())
    })?;
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok((Value::Object(found), (reader.position() - start).saturating_sub(outside_bytes)))
}

/// As much of an invalid id as answers show.
pub(super) fn shown(id: &str) -> String {
    id.chars().take(KEY_CHARS_SHOWN).collect()
}

/// Counts the bytes that the items take in canonical form.
#[derive(Default)]
pub(super) struct ItemWeight(usize);

impl ItemWeight {
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), BatchError> {
        self.0 += bytes;
        if self.0 > BATCH_BODY_BYTES { Err(BatchError::TooLarge) } else { Ok(()) }
    }
}
