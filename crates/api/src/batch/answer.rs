//! The answer to a batch: a list with what became of each item, in the order of the request.

use std::borrow::BorrowMut;

use taskqueue_core::json::{ObjectWriter, Value};

use crate::ErrorCode;
use crate::error::Error;
use crate::object_reader::{ObjectReader, Unreadable};

/// An answer that is being written.
pub struct ItemsWriter(Vec<u8>);

type Object<'o> = ObjectWriter<&'o mut Vec<u8>>;

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
/// nothing if it does not know the outcome.
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
