//! What of the tasks an address shows: which of them, in which order, with which columns, from where on. The parameters have the
//! names that they have in the API; `column` and `archived` are ours, and `limit` has a smaller range.

use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::{OrderField, TaskOrder};
use taskqueue_core::status::Status;

use crate::address::Query;
use crate::columns::Column;
use crate::layout::Section;
use crate::selected::Selectors;

/// The parameters of the list, in the order in which addresses have them.
pub(super) const PARAMETERS: [&str; 9] =
    ["status", "filter", "name_fuzzy", "archived", "order_by", "descending", "column", "limit", "cursor"];
const ROWS: u16 = 50;
const MOST_ROWS: u16 = 100;
/// Columns that no task can have which are named.
const MOST_UNKNOWN: usize = 5;

/// One view of the list.
pub(super) struct View {
    /// The path of the list.
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) selectors: Selectors,
    pub(super) order: TaskOrder,
    /// None: those that suit the tasks.
    pub(super) columns: Option<Vec<Column>>,
    /// Columns that no task can have.
    pub(super) unknown_columns: Vec<String>,
    pub(super) limit: u16,
    pub(super) cursor: Option<String>,
}

impl View {
    pub(super) fn read(queue: &QueueName, query: &Query) -> Self {
        let query = query.only(&PARAMETERS);
        let field = query.get("order_by").and_then(OrderField::parse);
        let order = TaskOrder {
            field: field.unwrap_or(TaskOrder::default().field),
            descending: query.get("descending") != Some("false"),
        };
        let (columns, unknown) = Column::parse_all(query.all("column"));
        let unknown_columns =
            unknown.into_iter().take(MOST_UNKNOWN).map(|path| path.chars().take(80).collect()).collect();
        let limit = query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(ROWS).clamp(1, MOST_ROWS);
        Self {
            path: Section::Tasks.path(Some(queue.as_str())).unwrap_or_default(),
            selectors: Selectors::read(&query),
            order,
            columns: (!columns.is_empty()).then_some(columns),
            unknown_columns,
            limit,
            cursor: query.filled("cursor").map(str::to_owned),
            query,
        }
    }

    /// The same list from its beginning with something else changed.
    fn first_page(&self) -> Query {
        self.query.without("cursor")
    }

    /// This view.
    pub(super) fn address(&self) -> String {
        self.query.at(&self.path)
    }

    pub(super) fn first_page_address(&self) -> String {
        self.first_page().at(&self.path)
    }

    pub(super) fn next_page_address(&self, cursor: &str) -> String {
        self.query.with("cursor", cursor).at(&self.path)
    }

    pub(super) fn status_address(&self, status: Option<Status>) -> String {
        let query = self.first_page().without("status");
        status.map_or(query.clone(), |status| query.and("status", status.as_str())).at(&self.path)
    }

    pub(super) fn order_address(&self, order: TaskOrder) -> String {
        let query = self.first_page().without("order_by").without("descending");
        let query =
            if order.field == TaskOrder::default().field { query } else { query.and("order_by", order.field.as_str()) };
        let query = if order.descending { query } else { query.and("descending", "false") };
        query.at(&self.path)
    }

    /// The list without filter and name.
    pub(super) fn unsearched_address(&self) -> String {
        self.first_page().without("filter").without("name_fuzzy").at(&self.path)
    }

    /// The list with archived tasks, or without them.
    pub(super) fn archived_address(&self, archived: bool) -> String {
        let query = self.first_page().without("archived");
        if archived { query.and("archived", "1") } else { query }.at(&self.path)
    }

    /// The list with the columns that suit the tasks.
    pub(super) fn without_columns_address(&self) -> String {
        self.query.without("column").at(&self.path)
    }

    /// The parameters that a form must carry to stay in this view, without those that it has fields for.
    pub(super) fn carried(&self, fields: &[&str]) -> Vec<(String, String)> {
        let kept = |name: &str| !fields.contains(&name);
        self.query
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// What an address beside the list needs to know of this view.
    pub(super) fn beside(&self, word: &str, names: &[&str]) -> (String, Query) {
        (format!("{}/{word}", self.path), self.query.only(names))
    }
}

/// How people name an order.
pub(super) fn order_words(order: TaskOrder) -> String {
    let words = match (order.field, order.descending) {
        (OrderField::CreatedAt, true) => "Newest first",
        (OrderField::CreatedAt, false) => "Oldest first",
        (OrderField::UpdatedAt, true) => "Last changed first",
        (OrderField::StartedAt, true) => "Last started first",
        (OrderField::FinishedAt, true) => "Last finished first",
        (OrderField::Priority, true) => "Highest priority first",
        (OrderField::Priority, false) => "Lowest priority first",
        (OrderField::Name, false) => "By name",
        (field, descending) => {
            return format!("By {}{}", field.as_str(), if descending { ", descending" } else { "" });
        }
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(query: &str) -> View {
        View::read(&QueueName::parse("q").unwrap(), &Query::parse(query))
    }

    #[test]
    fn an_address_without_parameters_is_the_newest_tasks() {
        let view = view("");
        assert_eq!((view.order, view.limit, view.columns.is_none()), (TaskOrder::default(), 50, true));
        assert_eq!(view.address(), "/ui/queues/q/tasks");
    }

    #[test]
    fn every_change_of_a_view_but_the_next_page_begins_at_the_first_page() {
        let view = view("status=failed&filter=args.a==1&cursor=abc&column=args.a,id&what=x&limit=1000");
        assert_eq!(view.limit, 100);
        assert_eq!(
            view.next_page_address("x"),
            "/ui/queues/q/tasks?status=failed&filter=args.a%3D%3D1&column=args.a%2Cid&limit=1000&cursor=x"
        );
        let by_name = TaskOrder { field: OrderField::Name, descending: false };
        let others = [
            view.first_page_address(),
            view.status_address(Some(Status::Running)),
            view.status_address(None),
            view.order_address(by_name),
            view.unsearched_address(),
            view.archived_address(true),
            view.archived_address(false),
        ];
        for address in others {
            assert!(
                !address.contains("cursor") && address.contains("column") && !address.contains("what"),
                "{address}"
            );
        }
        assert_eq!(view.order_address(TaskOrder::default()), view.first_page_address());
        assert!(view.order_address(by_name).contains("order_by=name&descending=false"));
    }

    #[test]
    fn columns_that_no_task_can_have_are_told() {
        let view = view("column=lr&column=args.lr");
        assert_eq!(view.unknown_columns, ["lr"]);
        assert_eq!(view.columns.map(|columns| columns.len()), Some(1));
    }
}
