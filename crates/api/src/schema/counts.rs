//! Counts: plain, grouped, and what a bulk update did.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Count {
    /// How many.
    #[schema(minimum = 0)]
    pub count: u64,
}

/// One page of groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupedCount {
    /// The dimensions in the order asked for.
    #[schema(min_items = 1, max_items = 2)]
    pub group_by: Vec<String>,
    /// Everything selected, each counted once.
    #[schema(minimum = 0)]
    pub count: u64,
    /// The groups, sorted by their values; only nonzero ones.
    pub items: Vec<Group>,
    /// The cursor of the next page; null exactly when no further group exists.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The value of each dimension.
    pub key: BTreeMap<String, String>,
    /// How many.
    #[schema(minimum = 1)]
    pub count: u64,
}

/// A count, or a page of groups when the request named `group_by`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CountAnswer {
    /// With `group_by`.
    Grouped(GroupedCount),
    /// Without.
    Plain(Count),
}

// By hand: the derive says oneOf, but a page of groups has a count, too.
impl PartialSchema for CountAnswer {
    fn schema() -> RefOr<Schema> {
        AnyOfBuilder::new()
            .item(Ref::from_schema_name("Count"))
            .item(Ref::from_schema_name("GroupedCount"))
            .description(Some("A count, or a page of groups when the request named `group_by`."))
            .into()
    }
}

impl ToSchema for CountAnswer {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Count::name().into_owned(), Count::schema()));
        schemas.push((GroupedCount::name().into_owned(), GroupedCount::schema()));
        GroupedCount::schemas(schemas);
    }
}

/// What a bulk update did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Updated {
    /// Matching tasks that are not running.
    #[schema(minimum = 0)]
    pub matched: u64,
    /// Those whose values changed.
    #[schema(minimum = 0)]
    pub updated: u64,
}
