//! Which tasks a list or count selects, in which order they come, and what one page of them is
//! (docs/reference/http-api.md §7). The text form of a position is in `cursor.rs`; groups are in `grouping.rs`.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::cursor::{Binding, OrderValue, Position, Resource};
use crate::filter::{ObservationFilter, TaskFields, TaskFilter};
use crate::fuzzy::FuzzyName;
use crate::ids::{QueueName, TaskId, WorkerId};
use crate::status::{Status, Statuses, word_enum};
use crate::task_view::TaskView;
use crate::time::Timestamp;

/// The selectors of a task list or count, combined with AND.
#[derive(Clone, Debug, Default)]
pub struct TaskSelection {
    /// Exactly this status.
    pub status: Option<Status>,
    /// Exactly this name.
    pub name: Option<String>,
    /// A fuzzy search on names, with its text as given.
    pub name_fuzzy: Option<(String, FuzzyName)>,
    pub filter: Option<TaskFilter>,
    /// One of these states: those that a bulk update or bulk action is about. No list has it, so cursors are not bound to it.
    pub among: Option<Statuses>,
    /// True if archived tasks are selected, too.
    pub include_archived: bool,
}

impl TaskSelection {
    /// The tasks of these states that match: those that an action on many tasks is about.
    pub fn among(statuses: Statuses, filter: TaskFilter, include_archived: bool) -> Self {
        Self { filter: Some(filter), among: Some(statuses), include_archived, ..Self::default() }
    }

    /// Returns whether `task` is selected. The cheap selectors come first.
    pub fn matches(&self, task: &impl TaskFields) -> bool {
        self.status.is_none_or(|status| task.status() == status)
            && (self.include_archived || !task.archived())
            && self.among.is_none_or(|statuses| statuses.contains(task.status()))
            && self.name.as_deref().is_none_or(|name| task.name() == Some(name))
            && self.name_fuzzy.as_ref().is_none_or(|(_, fuzzy)| fuzzy.matches(task.name()))
            && self.filter.as_ref().is_none_or(|filter| filter.matches(task))
    }

    /// The states that a selected task can have. Tasks of other states need not be looked at.
    pub fn statuses(&self) -> Statuses {
        let of_filter = self.filter.as_ref().map_or(Statuses::ALL, TaskFilter::statuses);
        let among = self.among.map_or(of_filter, |statuses| of_filter.intersection(statuses));
        self.status.map_or(among, |status| among.intersection(Statuses::NONE.with(status)))
    }

    /// Returns whether every task is selected, archived ones aside.
    pub fn is_unrestricted(&self) -> bool {
        self.statuses() == Statuses::ALL && self.is_by_status_only()
    }

    /// Returns whether nothing but the status and the archive selects, so that kept counts can answer.
    pub fn is_by_status_only(&self) -> bool {
        let any_name = self.name_fuzzy.as_ref().is_none_or(|(_, fuzzy)| fuzzy.is_unrestricted());
        self.name.is_none() && any_name && self.filter.as_ref().is_none_or(TaskFilter::is_by_status_only)
    }

    /// Returns what a cursor over this selection is bound to; `shape` is what else the resource binds (order or dimensions).
    pub fn binding(&self, resource: Resource, queue: &QueueName, shape: &str) -> Binding {
        let contract = [
            Some(shape),
            self.status.map(Status::as_str),
            self.name.as_deref(),
            self.name_fuzzy.as_ref().map(|(text, _)| text.as_str()),
            self.filter.as_ref().map(TaskFilter::text),
        ];
        // A cursor that was given before there was an archive stays valid.
        let archive = self.include_archived.then_some(Some("include_archived"));
        let parts: Vec<Option<&str>> = contract.into_iter().chain(archive).collect();
        Binding::new(resource, queue, &parts)
    }
}

word_enum! {
    /// A field that orders a list of tasks.
    pub enum OrderField {
        Id = "id",
        /// The name; unnamed tasks last.
        Name = "name",
        /// The status as text.
        Status = "status",
        Priority = "priority",
        /// The attempt counter.
        Attempt = "attempt",
        /// The attempt budget.
        MaxAttempts = "max_attempts",
        /// The route of the latest claim; unclaimed tasks last.
        LastRoute = "last_route",
        /// The time of creation.
        CreatedAt = "created_at",
        /// The time of the last change.
        UpdatedAt = "updated_at",
        /// The time of the latest claim; unclaimed tasks last.
        StartedAt = "started_at",
        /// The end of the latest run; tasks without one last.
        FinishedAt = "finished_at",
    }
}

impl OrderField {
    /// The value by which `task` is placed.
    pub fn value_of(self, task: &impl TaskFields) -> OrderValue<'_> {
        let time = |at: Timestamp| OrderValue::Int(at.as_micros());
        let text = |text| OrderValue::Text(Cow::Borrowed(text));
        match self {
            Self::Id => text(task.id()),
            Self::Name => task.name().map_or(OrderValue::Null, text),
            Self::Status => text(task.status().as_str()),
            Self::Priority => OrderValue::Int(task.priority()),
            Self::Attempt => OrderValue::Int(task.attempt()),
            Self::MaxAttempts => OrderValue::Int(task.max_attempts()),
            Self::LastRoute => task.last_route().map_or(OrderValue::Null, text),
            Self::CreatedAt => time(task.created_at()),
            Self::UpdatedAt => time(task.updated_at()),
            Self::StartedAt => task.started_at().map_or(OrderValue::Null, time),
            Self::FinishedAt => task.finished_at().map_or(OrderValue::Null, time),
        }
    }
}

/// The order of a task list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOrder {
    pub field: OrderField,
    /// Its direction, which is also that of the tie-break by id.
    pub descending: bool,
}

impl Default for TaskOrder {
    /// Newest first.
    fn default() -> Self {
        Self { field: OrderField::CreatedAt, descending: true }
    }
}

impl TaskOrder {
    /// How this order is written into a cursor's binding.
    pub fn shape(self) -> String {
        format!("{} {}", self.field.as_str(), if self.descending { "descending" } else { "ascending" })
    }

    /// Compares two tasks by value and id. Nulls come last in both directions.
    pub fn compare(self, a: (&OrderValue<'_>, &str), b: (&OrderValue<'_>, &str)) -> Ordering {
        let directed = |ordering: Ordering| if self.descending { ordering.reverse() } else { ordering };
        let by_value = match (a.0, b.0) {
            (OrderValue::Null, OrderValue::Null) => Ordering::Equal,
            (OrderValue::Null, _) => Ordering::Greater,
            (_, OrderValue::Null) => Ordering::Less,
            (a, b) => directed(a.cmp(b)),
        };
        by_value.then_with(|| directed(a.1.cmp(b.1)))
    }
}

/// Where a page of tasks begins: behind the task with this value and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPosition {
    /// The value of the order field.
    pub value: OrderValue<'static>,
    /// The id that breaks ties.
    pub id: TaskId,
}

impl TaskPosition {
    /// The position of `task` in `order`.
    pub fn of(task: &TaskView<'_>, order: TaskOrder) -> Self {
        Self { value: order.field.value_of(task).into_owned(), id: task.id }
    }

    /// As a cursor carries it.
    pub fn into_position(self, queue_key: i64) -> Position {
        Position { queue_key, values: vec![self.value, OrderValue::Text(Cow::Owned(self.id.to_string()))] }
    }

    /// As a cursor carried it.
    pub fn from_position(position: Position) -> Option<Self> {
        let [value, OrderValue::Text(id)] = <[OrderValue<'static>; 2]>::try_from(position.values).ok()? else {
            return None;
        };
        Some(Self { value, id: TaskId::parse(&id)? })
    }
}

/// A request for one page of tasks.
#[derive(Clone, Debug)]
pub struct TaskQuery {
    pub selection: TaskSelection,
    pub order: TaskOrder,
    /// How many at most.
    pub limit: u16,
    /// Behind what; the cursor is already known to fit the selection.
    pub after: Option<Position>,
    /// How many bytes the page may take, at least one task aside: at most [`PAGE_BYTES`](crate::limits::PAGE_BYTES), and
    /// less where there is no room for that.
    pub max_bytes: usize,
}

impl TaskQuery {
    /// Returns whether the page is the next tasks of an order that every backend has an index for: then it costs what it holds,
    /// however many tasks there are.
    pub fn is_plain(&self) -> bool {
        self.selection.is_unrestricted() && matches!(self.order.field, OrderField::CreatedAt | OrderField::Id)
    }
}

/// A request for one page of observations, ordered by id.
#[derive(Clone, Debug)]
pub struct ObservationQuery {
    /// Which observations.
    pub filter: Option<ObservationFilter>,
    /// How many at most.
    pub limit: u16,
    /// Behind what; the cursor is already known to fit the selection.
    pub after: Option<Position>,
}

/// Returns what a cursor over observations is bound to.
pub fn observation_binding(
    filter: Option<&ObservationFilter>,
    resource: Resource,
    queue: &QueueName,
    shape: &str,
) -> Binding {
    Binding::new(resource, queue, &[Some(shape), filter.map(ObservationFilter::text)])
}

/// The worker behind which a page of observations begins.
pub fn worker_position(position: &Position) -> Option<WorkerId> {
    match position.values.as_slice() {
        [OrderValue::Text(id)] => WorkerId::parse(id),
        _ => None,
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// Where the next page begins; nothing exactly when no further item exists.
    pub next: Option<Position>,
}

/// Collects the first rows of an order out of rows that come in any order, behind an optional position. Memory is
/// bounded by the page, however many rows are offered.
pub struct FirstRows<K> {
    order: TaskOrder,
    after: Option<TaskPosition>,
    wanted: usize,
    rows: Vec<(TaskPosition, K)>,
    /// Rows that do not come before this one are not wanted any more.
    worst: Option<TaskPosition>,
}

impl<K> FirstRows<K> {
    /// Wants the first `wanted` rows behind `after`.
    pub fn new(order: TaskOrder, after: Option<TaskPosition>, wanted: usize) -> Self {
        Self { order, after, wanted, rows: Vec::new(), worst: None }
    }

    /// Offers a row; whether it would be taken is known before `key` is built.
    pub fn offer(&mut self, task: &impl TaskFields, id: TaskId, key: K) {
        let value = self.order.field.value_of(task);
        let compare =
            |other: &TaskPosition| self.order.compare((&value, id.as_str()), (&other.value, other.id.as_str()));
        let behind = self.after.as_ref().is_none_or(|after| compare(after) == Ordering::Greater);
        let wanted = self.worst.as_ref().is_none_or(|worst| compare(worst) == Ordering::Less);
        if behind && wanted {
            self.rows.push((TaskPosition { value: value.into_owned(), id }, key));
            // Sorting only when twice the page has come keeps the cost per row low.
            if self.rows.len() >= 2 * self.wanted {
                self.sort_and_truncate();
            }
        }
    }

    /// The rows, in order.
    pub fn into_sorted(mut self) -> Vec<K> {
        self.sort_and_truncate();
        self.rows.into_iter().map(|(_, key)| key).collect()
    }

    fn sort_and_truncate(&mut self) {
        let order = self.order;
        self.rows.sort_by(|(a, _), (b, _)| order.compare((&a.value, a.id.as_str()), (&b.value, b.id.as_str())));
        self.rows.truncate(self.wanted);
        if self.rows.len() == self.wanted {
            self.worst = self.rows.last().map(|(position, _)| position.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(order: TaskOrder, rows: &[(OrderValue<'static>, &'static str)]) -> Vec<&'static str> {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| order.compare((&a.0, a.1), (&b.0, b.1)));
        rows.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn nulls_come_last_in_both_directions_and_ties_follow_the_direction() {
        let int = OrderValue::Int;
        let rows = [(OrderValue::Null, "x"), (int(1), "b"), (int(2), "c"), (OrderValue::Null, "w"), (int(1), "a")];
        let order = |descending| TaskOrder { field: OrderField::StartedAt, descending };
        assert_eq!(sorted(order(false), &rows), ["a", "b", "c", "w", "x"]);
        assert_eq!(sorted(order(true), &rows), ["c", "b", "a", "x", "w"]);
    }

    #[test]
    fn every_order_field_reads_back_from_its_word() {
        for field in OrderField::ALL {
            assert_eq!(OrderField::parse(field.as_str()), Some(field));
        }
        assert_eq!(OrderField::parse("queue"), None);
        assert_eq!(OrderField::parse(""), None);
    }
}
