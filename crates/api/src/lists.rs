//! Lists: pages of items with the cursor of the next page, counts, and groups of counts. Pages of tasks are written in `task.rs`.

use std::collections::BTreeMap;

use taskqueue_core::grouping;
use taskqueue_core::json::{ObjectWriter, Value, write_array, write_string};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable, WireValue, wire_object};
use crate::schema::either_answer;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` when no further item exists.
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

wire_object! {
    /// A count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
    pub struct Count, "count" {
        /// How many.
        pub count: u64,
    }
}

/// One page of groups.
#[derive(ToSchema)]
pub struct GroupedCount {
    /// The dimensions in the order asked for.
    #[schema(min_items = 1, max_items = 2)]
    pub group_by: Vec<String>,
    /// Everything selected, each counted once.
    pub count: u64,
    /// The groups, sorted by their values; only nonzero ones.
    pub items: Vec<Group>,
    /// The cursor of the next page; null exactly when no further group exists.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

/// Appends a page of groups; `dimensions` are the words of `group_by` in the order asked for.
pub fn write_groups(out: &mut Vec<u8>, dimensions: &[&str], page: &grouping::GroupPage, next_cursor: Option<&str>) {
    ObjectWriter::append_to(out)
        .field("group_by", |out| write_array(out, dimensions, |out, dimension| write_string(out, dimension)))
        .integer("count", page.count)
        .field("items", |out| write_array(out, &page.groups, |out, group| Group::write(out, dimensions, group)))
        .text_or_null("next_cursor", next_cursor)
        .end();
}

/// Reads the answer to a grouped count by these dimensions. A server that cannot group answers with a plain count,
/// which must not be taken for a page without groups.
pub fn read_groups(value: &Value<'_>, dimensions: &[&'static str]) -> Result<Page<grouping::Group>, Unreadable> {
    let page = ObjectReader::of(value, "grouped count")?;
    if !page.has("group_by") && !page.has("items") {
        let message = "it is a plain count where groups were asked for; the server may be too old";
        return Err(Unreadable(message.to_owned()));
    }
    let named = |(item, dimension): (&Value<'_>, &&str)| matches!(item, Value::Str(text) if text == dimension);
    let group_by = page.list("group_by")?;
    if group_by.len() != dimensions.len() || !group_by.iter().zip(dimensions).all(named) {
        return Err(Unreadable("it is grouped by something else".to_owned()));
    }
    let items = page.list("items")?.iter().map(|item| Group::read(item, dimensions)).collect::<Result<_, _>>()?;
    page.count("count")?;
    Ok(Page { items, next_cursor: read_next_cursor(&page)? })
}

/// One group.
#[derive(ToSchema)]
pub struct Group {
    /// The value of each dimension.
    pub key: BTreeMap<String, String>,
    /// How many.
    #[schema(minimum = 1)]
    pub count: u64,
}

impl Group {
    pub fn write(out: &mut Vec<u8>, dimensions: &[&str], group: &grouping::Group) {
        let values = dimensions.iter().zip(&group.key);
        ObjectWriter::append_to(out)
            .object("key", |key| values.fold(key, |key, (name, value)| key.text(name, value)))
            .integer("count", group.count)
            .end();
    }

    fn read(value: &Value<'_>, dimensions: &[&'static str]) -> Result<grouping::Group, Unreadable> {
        let group = ObjectReader::of(value, "group")?;
        let key = group.object("key")?;
        let values = dimensions.iter().map(|dimension| key.text(dimension).map(str::to_owned));
        Ok(grouping::Group { key: values.collect::<Result<_, _>>()?, count: group.count("count")? })
    }
}

either_answer! {
    /// A count, or a page of groups when the request named `group_by`.
    CountAnswer, Count, GroupedCount
}

wire_object! {
    /// What a bulk update did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
    pub struct Updated, "bulk update" {
        /// Matching tasks that are not running.
        pub matched: u64,
        /// Those whose values changed.
        pub updated: u64,
    }
}
