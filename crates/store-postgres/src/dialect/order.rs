//! The order of a list and its start after a position, and how conditions and orders are put into the statements of
//! `sql/`. The condition of a selection is in `dialect.rs`.

use taskqueue_core::cursor::OrderValue;
use taskqueue_core::selection::{OrderField, TaskOrder, TaskPosition};

use crate::dialect::operand::Bound;
use crate::dialect::{ARCHIVED, Condition, NOT_ARCHIVED};

/// The order and the condition in `LIST_TASKS`, which are replaced.
const DEFAULT_ORDER: &str = "tasks.created_at DESC, tasks.id DESC";
const DEFAULT_CONDITION: &str = "AND true";

/// A position that does not belong to this order.
#[derive(Debug, PartialEq)]
pub(crate) struct ForeignPosition;

pub(crate) fn with_condition(text: &str, condition: &str) -> String {
    text.replace(DEFAULT_CONDITION, &format!("AND {condition}"))
}

pub(crate) fn with_order(text: &str, condition: &str, order: TaskOrder) -> String {
    with_condition(&text.replace(DEFAULT_ORDER, &order_by(order)), condition)
}

/// The part of `LIST_TASKS` that finds the tasks of a page: from its first line to behind its last one.
const FIND_FIRST: &str = "        SELECT tasks.*\n        FROM taskqueue.tasks\n";
const FIND_LAST: &str = "        LIMIT $2::bigint\n";
const IN_QUEUE: &str = "WHERE tasks.queue_key = $1::bigint AND ";

/// The text of a list that includes archived tasks. They have an index of their own, so that a page in the order of creation is
/// merged from two walks.
pub(crate) fn over_archive(text: &str, order: TaskOrder) -> String {
    let found =
        text.find(FIND_FIRST).and_then(|first| Some((first, first + text[first..].find(FIND_LAST)? + FIND_LAST.len())));
    let Some((first, behind)) = found.filter(|_| order.field == OrderField::CreatedAt) else { return text.to_owned() };
    let part = |kind: &str| text[first..behind].replacen(IN_QUEUE, &format!("{IN_QUEUE}{kind} AND "), 1);
    let (living, archived) = (part(NOT_ARCHIVED), part(ARCHIVED));
    let both = format!(
        "        SELECT * FROM ((\n{living}        ) UNION ALL (\n{archived}        )) AS tasks ORDER BY {} LIMIT $2\n",
        order_by(order)
    );
    format!("{}{both}{}", &text[..first], &text[behind..])
}

/// Whether an index has this order, so that a page does not scan every task.
pub(crate) fn is_indexed(field: OrderField) -> bool {
    matches!(field, OrderField::CreatedAt | OrderField::Id)
}

fn column(field: OrderField) -> String {
    format!("tasks.{}", field.as_str())
}

fn is_nullable(field: OrderField) -> bool {
    use OrderField::{FinishedAt, LastRoute, Name, StartedAt};
    matches!(field, Name | LastRoute | StartedAt | FinishedAt)
}

fn order_by(order: TaskOrder) -> String {
    let direction = if order.descending { "DESC" } else { "ASC" };
    if order.field == OrderField::Id {
        return format!("tasks.id {direction}");
    }
    // NULLS LAST on a column that is never null would keep the planner from using the index.
    let nulls = if is_nullable(order.field) { " NULLS LAST" } else { "" };
    format!("{} {direction}{nulls}, tasks.id {direction}", column(order.field))
}

/// Adds to a condition that a task comes after this position; `first` is the number of its first parameter.
pub(crate) fn after(
    mut condition: Condition,
    first: usize,
    order: TaskOrder,
    position: &TaskPosition,
) -> Result<Condition, ForeignPosition> {
    let sign = if order.descending { '<' } else { '>' };
    let next = first + condition.bound.len();
    let id = Bound::Text(position.id.to_string());
    let column = column(order.field);
    let (text, bound) = match (&position.value, value(order.field, &position.value)) {
        (_, _) if order.field == OrderField::Id => (format!("tasks.id {sign} ${next}"), vec![id]),
        (OrderValue::Null, _) if is_nullable(order.field) => {
            (format!("{column} IS NULL AND tasks.id {sign} ${next}"), vec![id])
        }
        (_, Some(value)) => {
            let compared = format!("({column}, tasks.id) {sign} (${next}, ${})", next + 1);
            let nulls = if is_nullable(order.field) { format!(" OR {column} IS NULL") } else { String::new() };
            (format!("{compared}{nulls}"), vec![value, id])
        }
        (_, None) => return Err(ForeignPosition),
    };
    condition.text = format!("{} AND ({text})", condition.text);
    condition.bound.extend(bound);
    Ok(condition)
}

/// The value of a position if the column can be compared with it.
fn value(field: OrderField, place: &OrderValue<'_>) -> Option<Bound> {
    let is_text = matches!(field, OrderField::Id | OrderField::Name | OrderField::Status | OrderField::LastRoute);
    match place {
        OrderValue::Int(value) if !is_text => Some(Bound::Int(*value)),
        OrderValue::Text(text) if is_text && !text.contains('\0') => Some(Bound::Text(text.to_string())),
        _ => None,
    }
}
