//! Writes the body of a batch item by item, within its limits, and the answer to it: a list with what became of each item, in the
//! order of the request. Also the schemas of items, which are those of single requests with some fields more.

use std::borrow::BorrowMut;

use taskqueue_core::json::{ObjectWriter, Value};
use taskqueue_core::limits::{BATCH_BODY_BYTES, BATCH_ITEMS};
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};

use crate::error::Error;
use crate::object_reader::{ObjectReader, Unreadable};
use crate::{ErrorCode, schema};

type Object<'o> = ObjectWriter<&'o mut Vec<u8>>;

/// The body of a batch that is being written.
#[derive(Clone, Debug)]
pub struct BatchWriter {
    out: Vec<u8>,
    items: usize,
}

impl BatchWriter {
    const END: &'static [u8] = b"]}";

    pub(super) fn begin(list: &str) -> Self {
        Self { out: format!("{{\"{list}\":[").into_bytes(), items: 0 }
    }

    /// Returns the number of its items.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The bytes of the body so far.
    pub fn bytes(&self) -> usize {
        self.out.len() + Self::END.len()
    }

    pub(super) fn push(&mut self, write: impl for<'o> FnOnce(Object<'o>) -> Object<'o>) -> bool {
        if self.items == BATCH_ITEMS {
            return false;
        }
        let before = self.out.len();
        if self.items > 0 {
            self.out.push(b',');
        }
        write(ObjectWriter::append_to(&mut self.out)).end();
        let fits = self.bytes() <= BATCH_BODY_BYTES;
        if fits {
            self.items += 1;
        } else {
            self.out.truncate(before);
        }
        fits
    }

    /// The body. A server accepts it if it has items.
    pub fn end(mut self) -> Vec<u8> {
        self.out.extend_from_slice(Self::END);
        self.out
    }
}

/// The schema of the body of a single request, with the id of an item and other fields.
pub(super) fn with_fields<const N: usize>(
    single: RefOr<Schema>,
    description: &str,
    id: &str,
    others: [(&str, RefOr<Schema>); N],
) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = single else { return single };
    object.description = Some(description.to_owned());
    let task_id = RefOr::Ref(Ref::from_schema_name(schema::TaskId::name()));
    for (name, schema) in [(id, task_id)].into_iter().chain(others) {
        object.required.push(name.to_owned());
        object.properties.insert(name.to_owned(), schema);
    }
    RefOr::T(Schema::Object(object))
}

/// An answer that is being written.
pub struct ItemsWriter(Vec<u8>);

impl ItemsWriter {
    const BEGINNING: &'static [u8] = b"{\"items\":[";

    /// An answer without items, with room for about so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(Self::BEGINNING.len() + bytes + 2);
        out.extend_from_slice(Self::BEGINNING);
        Self(out)
    }

    /// Appends an item whose fields `write` adds.
    pub(super) fn item<'o>(&'o mut self, write: impl FnOnce(Object<'o>) -> Object<'o>) {
        if self.0.len() > Self::BEGINNING.len() {
            self.0.push(b',');
        }
        write(ObjectWriter::append_to(&mut self.0)).end();
    }

    /// Appends an item that was refused; `ids` are what it is known by.
    pub fn refused(&mut self, ids: &[(&str, &str)], code: ErrorCode, message: &str, details: ObjectWriter) {
        self.item(|item| refused_fields(item, ids, code, message, details));
    }

    /// Appends an item that [`refused_item`] wrote.
    pub fn written(&mut self, item: &[u8]) {
        if self.0.len() > Self::BEGINNING.len() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(item);
    }

    /// The finished answer.
    pub fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"]}");
        self.0
    }
}

/// An item that was refused, for [`ItemsWriter::written`].
pub fn refused_item(ids: &[(&str, &str)], code: ErrorCode, message: &str, details: ObjectWriter) -> Vec<u8> {
    refused_fields(ObjectWriter::new(), ids, code, message, details).end()
}

fn refused_fields<B: BorrowMut<Vec<u8>>>(
    item: ObjectWriter<B>,
    ids: &[(&str, &str)],
    code: ErrorCode,
    message: &str,
    details: ObjectWriter,
) -> ObjectWriter<B> {
    let item = ids.iter().fold(item, |item, (name, id)| item.text(name, id));
    Error::write_field(item.text("outcome", "refused"), code, message, details)
}

/// Reads an answer about these items. `read` checks that an item is about the right one, and reads what its outcome means;
/// `None` if it does not know the outcome.
pub(super) fn read_items<I, T>(
    value: &Value<'_>,
    sent: &[I],
    mut read: impl FnMut(&ObjectReader<'_>, &str, &I) -> Result<Option<T>, Unreadable>,
) -> Result<Vec<Result<T, Error>>, Unreadable> {
    let items = ObjectReader::of(value, "answer")?.list("items")?;
    if items.len() != sent.len() {
        return Err(Unreadable(format!("the answer has {} items for {} that were sent", items.len(), sent.len())));
    }
    let item = |(value, sent): (&Value<'_>, &I)| {
        let item = ObjectReader::of(value, "item")?;
        let outcome = item.text("outcome")?;
        match read(&item, outcome, sent)? {
            Some(done) => Ok(Ok(done)),
            None if outcome == "refused" => Error::read(value).map(Err),
            None => item.wrong("outcome"),
        }
    };
    items.iter().zip(sent).map(item).collect()
}

/// Makes sure that an item is about the right one.
pub(super) fn expect(item: &ObjectReader<'_>, name: &'static str, id: &str) -> Result<(), Unreadable> {
    if item.text(name)? == id { Ok(()) } else { Err(Unreadable(format!("an item has another `{name}` than was sent"))) }
}
