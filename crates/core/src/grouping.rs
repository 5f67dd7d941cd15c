//! Grouped counts: dimensions, groups and one page of them (docs/reference/http-api.md §8).

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cursor::{OrderValue, Position};
use crate::filter::ObservationFilter;
use crate::observation::Observation;
use crate::selection::TaskSelection;
use crate::status::word_enum;
use crate::task::Status;

word_enum! {
    /// A dimension of tasks.
    pub enum TaskDimension {
        /// Each route of a task; a task with several is in several groups.
        Routes = "routes",
        Status = "status",
    }
}

word_enum! {
    /// A dimension of observations.
    pub enum WorkerDimension {
        Route = "route",
        Status = "status",
    }
}

/// Returns the dimensions in the text of a `group_by` parameter: each named once, separated by a comma and nothing else.
pub fn dimensions<D: PartialEq>(text: &str, parse: fn(&str) -> Option<D>) -> Option<Vec<D>> {
    let list: Vec<D> = text.split(',').map(parse).collect::<Option<_>>()?;
    let is_set = list.iter().enumerate().all(|(place, dimension)| !list[..place].contains(dimension));
    is_set.then_some(list)
}

/// A request for one page of groups. The cursor is checked last of all, after the queue was found: it comes in as its
/// decoded position or as the finding that it is invalid.
#[derive(Clone, Debug)]
pub struct GroupQuery<S, D> {
    /// The selection that is counted.
    pub selection: S,
    /// The dimensions in the order asked for; without any, nothing but the count is wanted.
    pub dimensions: Vec<D>,
    /// How many groups at most.
    pub limit: u16,
    /// Behind which group.
    pub after: Option<Result<Position, crate::cursor::InvalidCursor>>,
}

/// A request for groups of tasks.
pub type TaskGroupQuery = GroupQuery<TaskSelection, TaskDimension>;
/// A request for groups of observations.
pub type ObservationGroupQuery = GroupQuery<Option<ObservationFilter>, WorkerDimension>;

/// One group: the values in dimension order, and how many items have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The values, in the order of the dimensions.
    pub key: Vec<String>,
    /// How many.
    pub count: u64,
}

/// One page of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPage {
    /// All selected items, each counted once.
    pub count: u64,
    /// The groups, in order.
    pub groups: Vec<Group>,
    /// Where the next page begins.
    pub next: Option<Position>,
}

/// Counts items into groups, keeping only those that the page can show: memory is bounded by the page.
pub struct Groups {
    after: Option<Vec<String>>,
    limit: usize,
    count: u64,
    groups: BTreeMap<Vec<String>, u64>,
}

impl Groups {
    /// Wants `limit` groups behind the group `after`.
    pub fn new(limit: u16, after: Option<Vec<String>>) -> Self {
        Self { after, limit: usize::from(limit), count: 0, groups: BTreeMap::new() }
    }

    /// The group behind which a page begins, as a cursor carried it.
    pub fn key_of(position: &Position, dimensions: usize) -> Option<Vec<String>> {
        let text = |value: &OrderValue<'_>| match value {
            OrderValue::Text(text) => Some(text.to_string()),
            _ => None,
        };
        let key: Vec<String> = position.values.iter().map(text).collect::<Option<_>>()?;
        (key.len() == dimensions).then_some(key)
    }

    /// Counts `count` tasks that have these routes and this status.
    pub fn add_tasks<'a>(
        &mut self,
        dimensions: &[TaskDimension],
        routes: impl Iterator<Item = &'a str>,
        status: Status,
        count: u64,
    ) {
        self.count += count;
        if dimensions.contains(&TaskDimension::Routes) {
            for route in routes {
                let value = |dimension: &TaskDimension| match dimension {
                    TaskDimension::Routes => route.to_owned(),
                    TaskDimension::Status => status.as_str().to_owned(),
                };
                self.add(dimensions.iter().map(value).collect(), count);
            }
        } else if !dimensions.is_empty() {
            self.add(vec![status.as_str().to_owned()], count);
        }
    }

    /// Counts one observation.
    pub fn add_observation(&mut self, dimensions: &[WorkerDimension], observation: &Observation) {
        self.count += 1;
        if !dimensions.is_empty() {
            let value = |dimension: &WorkerDimension| match dimension {
                WorkerDimension::Route => observation.report.route.as_str().to_owned(),
                WorkerDimension::Status => observation.report.status.as_str().to_owned(),
            };
            self.add(dimensions.iter().map(value).collect(), 1);
        }
    }

    fn add(&mut self, key: Vec<String>, count: u64) {
        if count == 0 || self.after.as_ref().is_some_and(|after| key <= *after) {
            return;
        }
        *self.groups.entry(key).or_insert(0) += count;
        // One more than the page is kept to know whether another page follows; what falls off cannot come back,
        // because everything kept sorts before it.
        if self.groups.len() > self.limit + 1 {
            self.groups.pop_last();
        }
    }

    pub fn into_page(self, queue_key: i64) -> GroupPage {
        let more = self.groups.len() > self.limit;
        let groups: Vec<Group> =
            self.groups.into_iter().take(self.limit).map(|(key, count)| Group { key, count }).collect();
        let next = groups.last().filter(|_| more).map(|last| Position {
            queue_key,
            values: last.key.iter().map(|value| OrderValue::Text(Cow::Owned(value.clone()))).collect(),
        });
        GroupPage { count: self.count, groups, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_documented_spellings_are_dimensions() {
        use TaskDimension::{Routes, Status};
        let cases = [
            ("routes", Some(vec![Routes])),
            ("status", Some(vec![Status])),
            ("routes,status", Some(vec![Routes, Status])),
            ("status,routes", Some(vec![Status, Routes])),
        ];
        for (text, expected) in cases {
            assert_eq!(dimensions(text, TaskDimension::parse), expected, "{text:?}");
        }
        let refused =
            ["routes,routes", "routes, status", "routes,", ",routes", "route", "Routes", "routes,status,routes"];
        for text in refused.into_iter().chain([""]) {
            assert_eq!(dimensions(text, TaskDimension::parse), None, "{text:?}");
        }
    }
}
