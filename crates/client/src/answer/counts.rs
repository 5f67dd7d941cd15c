//! Counts: plain, grouped, and what a bulk update did.

use taskqueue_core::json::Value;

use super::fields::{Object, Unreadable};
use super::lists::next_cursor;

pub use taskqueue_core::grouping::Group;

/// One page of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPage {
    /// Everything selected, each item counted once; groups may overlap.
    pub count: u64,
    /// The groups, each with its values in the order of the dimensions asked for.
    pub items: Vec<Group>,
    /// The cursor of the next page; nothing when no further group exists.
    pub next_cursor: Option<String>,
}

/// What a bulk update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated {
    /// Matching tasks that are not running.
    pub matched: u64,
    /// Those whose values changed.
    pub updated: u64,
}

pub(crate) fn count(value: &Value<'_>) -> Result<u64, Unreadable> {
    Object::of(value, "count")?.count("count")
}

pub(crate) fn updated(value: &Value<'_>) -> Result<Updated, Unreadable> {
    let updated = Object::of(value, "bulk update")?;
    Ok(Updated { matched: updated.count("matched")?, updated: updated.count("updated")? })
}

/// The answer to a grouped count by these dimensions. A server that cannot group answers with a plain count, which must
/// not be taken for a page without groups.
pub(crate) fn group_page(value: &Value<'_>, dimensions: &[&'static str]) -> Result<GroupPage, Unreadable> {
    let page = Object::of(value, "grouped count")?;
    if !page.has("group_by") && !page.has("items") {
        return Err(Unreadable(
            "it is a plain count where groups were asked for; the server may be too old".to_owned(),
        ));
    }
    let named = |(item, dimension): (&Value<'_>, &&str)| matches!(item, Value::Str(text) if text == dimension);
    let group_by = page.list("group_by")?;
    if group_by.len() != dimensions.len() || !group_by.iter().zip(dimensions).all(named) {
        return Err(Unreadable("it is grouped by something else".to_owned()));
    }
    let items = page.list("items")?.iter().map(|item| group(item, dimensions)).collect::<Result<_, _>>()?;
    Ok(GroupPage { count: page.count("count")?, items, next_cursor: next_cursor(&page)? })
}

fn group(value: &Value<'_>, dimensions: &[&'static str]) -> Result<Group, Unreadable> {
    let group = Object::of(value, "group")?;
    let key = group.object("key")?;
    let values = dimensions.iter().map(|dimension| key.text(dimension).map(str::to_owned));
    Ok(Group { key: values.collect::<Result<_, _>>()?, count: group.count("count")? })
}
