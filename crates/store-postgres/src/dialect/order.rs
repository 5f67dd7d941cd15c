//! How a list in PostgreSQL follows an order and begins behind a position, and how the statements of `sql/` that leave
//! room for conditions and orders are completed. Which tasks are selected is in `dialect.rs`.

use taskqueue_core::cursor::OrderValue;
use taskqueue_core::selection::{OrderField, TaskOrder, TaskPosition};

use crate::dialect::Condition;
use crate::dialect::operand::Bound;

/// The order of `list_tasks.sql` as it stands, and its condition.
const DEFAULT_ORDER: &str = "tasks.created_at DESC, tasks.id DESC";
const DEFAULT_CONDITION: &str = "AND true";

/// A position that no list of this order gives.
#[derive(Debug, PartialEq)]
pub(crate) struct ForeignPosition;

/// A statement with this condition.
pub(crate) fn with_condition(text: &str, condition: &str) -> String {
    text.replace(DEFAULT_CONDITION, &format!("AND {condition}"))
}

/// A list with this condition in this order.
pub(crate) fn with_order(text: &str, condition: &str, order: TaskOrder) -> String {
    with_condition(&text.replace(DEFAULT_ORDER, &order_by(order)), condition)
}

/// Whether an index has this order, so that a page is found without looking at every task.
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
    // Where a column is never null, saying so would hide from the planner that the index has this order.
    let nulls = if is_nullable(order.field) { " NULLS LAST" } else { "" };
    format!("{} {direction}{nulls}, tasks.id {direction}", column(order.field))
}

/// Adds to a condition that a task comes behind this position; `first` is the number of its first parameter.
pub(crate) fn behind(
    mut condition: Condition,
    first: usize,
    order: TaskOrder,
    after: &TaskPosition,
) -> Result<Condition, ForeignPosition> {
    let sign = if order.descending { '<' } else { '>' };
    let next = first + condition.bound.len();
    let id = Bound::Text(after.id.to_string());
    let column = column(order.field);
    let (text, bound) = match (&after.value, value(order.field, &after.value)) {
        (_, _) if order.field == OrderField::Id => (format!("tasks.id {sign} ${next}"), vec![id]),
        (OrderValue::Null, _) if is_nullable(order.field) => {
            (format!("{column} IS NULL AND tasks.id {sign} ${next}"), vec![id])
        }
        (_, Some(value)) => {
            let behind = format!("({column}, tasks.id) {sign} (${next}, ${})", next + 1);
            let nulls = if is_nullable(order.field) { format!(" OR {column} IS NULL") } else { String::new() };
            (format!("{behind}{nulls}"), vec![value, id])
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
