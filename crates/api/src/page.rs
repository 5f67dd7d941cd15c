//! Pages: the items of a list and the cursor of the next page. Pages of tasks are written in `task.rs`.

use taskqueue_core::json::{ObjectWriter, Value, write_array};

use crate::object_reader::{ObjectReader, Unreadable};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The cursor of the next page; nothing when no further item exists.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Reads a page whose items `item` reads.
    pub fn read(value: &Value<'_>, item: fn(&Value<'_>) -> Result<T, Unreadable>) -> Result<Self, Unreadable> {
        let page = ObjectReader::of(value, "page")?;
        let items = page.list("items")?.iter().map(item).collect::<Result<_, _>>()?;
        Ok(Self { items, next_cursor: read_next_cursor(&page)? })
    }
}

/// Appends a page of items that are all there; `item` appends one of them.
pub fn write_page<T>(out: &mut Vec<u8>, items: &[T], next_cursor: Option<&str>, item: impl Fn(&mut Vec<u8>, &T)) {
    ObjectWriter::append_to(out)
        .field("items", |out| write_array(out, items, item))
        .text_or_null("next_cursor", next_cursor)
        .end();
}

pub(crate) fn read_next_cursor(page: &ObjectReader<'_>) -> Result<Option<String>, Unreadable> {
    page.nullable("next_cursor", |page, name| page.text(name).map(str::to_owned))
}
