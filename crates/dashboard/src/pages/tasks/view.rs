//! What of the tasks an address shows: which of them, in which order, with which columns, from where on; the menus that change it, and
//! the view as commands to copy. The parameters have the names that they have in the API; `column` and `archived` are ours, and `limit`
//! has a smaller range.

use taskqueue_core::fields::menu_fields;
use taskqueue_core::shell::shell_word;
use taskqueue_core::{OrderField, QueueName, Status, TaskOrder};

use crate::address::Query;
use crate::columns::{Column, Seen};
use crate::selected::Selectors;
use crate::show::command_line;

/// The parameters of the list, in the order in which addresses have them.
pub(super) const PARAMETERS: [&str; 9] =
    ["status", "filter", "name_fuzzy", "archived", "order_by", "descending", "column", "limit", "cursor"];
const USUAL_ROWS: u16 = 50;
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
        let field = query.get("order_by").and_then(OrderField::parse).unwrap_or(TaskOrder::default().field);
        let order = TaskOrder { field, descending: query.get("descending") != Some("false") };
        let (columns, unknown) = Column::parse_all(query.all("column"));
        let unknown_columns =
            unknown.into_iter().take(MOST_UNKNOWN).map(|path| path.chars().take(80).collect()).collect();
        let limit = query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(USUAL_ROWS).clamp(1, MOST_ROWS);
        Self {
            path: format!("/ui/queues/{queue}/tasks"),
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

    pub(super) fn order_address(&self, field: OrderField, descending: bool) -> String {
        let query = self.first_page().without("order_by").without("descending");
        let query = if field == TaskOrder::default().field { query } else { query.and("order_by", field.as_str()) };
        let query = if descending { query } else { query.and("descending", "false") };
        query.at(&self.path)
    }

    /// The list by a field, in the other direction than now, or in the usual one.
    pub(super) fn toggled_address(&self, field: OrderField) -> String {
        let begins_descending = !matches!(field, OrderField::Name | OrderField::Id | OrderField::Status);
        let is_current = self.order.field == field;
        self.order_address(field, if is_current { !self.order.descending } else { begins_descending })
    }

    /// Returns `ascending` or `descending`, if the list is ordered by a field.
    pub(super) fn sorted(&self, field: OrderField) -> Option<&'static str> {
        (self.order.field == field).then_some(if self.order.descending { "descending" } else { "ascending" })
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
}

/// Paths that are offered; more can be written.
const MOST_OFFERED: usize = 200;

/// A column that can be chosen.
pub(super) struct ColumnEntry {
    pub(super) path: String,
    pub(super) is_chosen: bool,
    /// Of how many of the rows; none for fields of every task.
    pub(super) rows: Option<usize>,
}

/// The shown columns in their order, then what else occurs in the rows, then what every task has.
pub(super) fn column_entries(shown: &[Column], seen: &Seen) -> Vec<ColumnEntry> {
    let is_other = |path: &&str| !shown.iter().any(|column| column.path() == *path);
    let occurring = seen.paths().into_iter().filter(is_other).take(MOST_OFFERED);
    let others = occurring.chain(menu_fields().into_iter().map(|field| field.path).filter(is_other));
    let rows = |path: &str| Some(seen.tasks(path)).filter(|rows| *rows > 0);
    let entry = |path: &str, is_chosen| ColumnEntry { path: path.to_owned(), is_chosen, rows: rows(path) };
    let chosen = shown.iter().map(|column| entry(column.path(), true));
    chosen.chain(others.map(|path| entry(path, false))).collect()
}

/// The command that makes the first task of a queue.
pub(super) fn submit_command(url: &str, queue: &QueueName) -> String {
    command_line("task submit", queue.as_str(), url).flag("--arg", "lr=0.1").flag("--arg", "seed=1").to_string()
}

/// The view as a command.
pub(super) fn list_command(url: &str, queue: &QueueName, view: &View, columns: &[String]) -> String {
    let selectors = &view.selectors;
    let sign = if view.order.descending { "-" } else { "" };
    let sort = format!("{sign}{}", view.order.field.as_str());
    let columns = columns.join(",");
    let command = command_line("task list", queue.as_str(), url)
        .switch("--include-archived", selectors.archived)
        .optional("--status", selectors.status.map(|status| status.as_str()))
        .optional("--filter", selectors.filter.as_deref())
        .optional("--fuzzy", selectors.name_fuzzy.as_deref())
        .optional("--columns", Some(columns).filter(|columns| !columns.is_empty()))
        .optional("--sort", Some(sort).filter(|_| view.order != TaskOrder::default()));
    command.flag("--limit", &view.limit.to_string()).to_string()
}

/// The view as a request.
pub(super) fn curl_command(url: &str, has_token: bool, queue: &QueueName, view: &View) -> String {
    let mut command = format!("curl --get {}", shell_word(&format!("{url}/api/v2/queues/{}/tasks", queue.as_str())));
    if has_token {
        // The token itself is in no page.
        command.push_str(" --header \"Authorization: Bearer $TASKQUEUE_TOKEN\"");
    }
    let selectors = &view.selectors;
    let descending = view.order.descending.to_string();
    let limit = view.limit.to_string();
    let parameters = [
        ("status", selectors.status.map(|status| status.as_str())),
        ("filter", selectors.filter.as_deref()),
        ("name_fuzzy", selectors.name_fuzzy.as_deref()),
        ("include_archived", Some("true").filter(|_| selectors.archived)),
        ("order_by", Some(view.order.field.as_str())),
        ("descending", Some(descending.as_str())),
        ("limit", Some(limit.as_str())),
        ("cursor", view.cursor.as_deref()),
    ];
    for (name, value) in parameters {
        if let Some(value) = value {
            command.push_str(&format!(" --data-urlencode {}", shell_word(&format!("{name}={value}"))));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Query;

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
        let expected = "/ui/queues/q/tasks?status=failed&filter=args.a%3D%3D1&column=args.a%2Cid&limit=1000&cursor=x";
        assert_eq!(view.next_page_address("x"), expected);
        let others = [
            view.first_page_address(),
            view.status_address(Some(Status::Running)),
            view.status_address(None),
            view.order_address(OrderField::Name, false),
            view.unsearched_address(),
            view.archived_address(true),
            view.archived_address(false),
        ];
        for address in others {
            assert!(address.contains("column"), "{address}");
            assert!(!address.contains("cursor") && !address.contains("what"), "{address}");
        }
        assert_eq!(view.order_address(TaskOrder::default().field, true), view.first_page_address());
        assert!(view.order_address(OrderField::Name, false).contains("order_by=name&descending=false"));
    }

    #[test]
    fn columns_that_no_task_can_have_are_told() {
        let view = view("column=lr&column=args.lr");
        assert_eq!(view.unknown_columns, ["lr"]);
        assert_eq!(view.columns.map(|columns| columns.len()), Some(1));
    }

    #[test]
    fn a_view_becomes_a_command_that_a_shell_reads_back() {
        let queue = QueueName::parse("q").unwrap();
        let query = "status=failed&filter=name+==+'x'&name_fuzzy=-a&order_by=priority&descending=false&limit=10";
        let view = View::read(&queue, &Query::parse(query));
        let columns = ["id".to_owned(), "args.lr".to_owned()];
        let expected = r"taskqueue task list --queue q --url http://h:1 --status failed --filter 'name == '\''x'\''' --fuzzy=-a --columns id,args.lr --sort priority --limit 10";
        assert_eq!(list_command("http://h:1", &queue, &view, &columns), expected);
        let archived = View::read(&queue, &Query::parse("archived=1"));
        let listed = list_command("http://h:1", &queue, &archived, &[]);
        assert_eq!(listed, "taskqueue task list --queue q --url http://h:1 --include-archived --limit 50");
        let command = curl_command("http://h:1", false, &queue, &archived);
        assert!(command.contains("--data-urlencode include_archived=true"), "{command}");
        let expected = r#"curl --get http://h:1/api/v2/queues/q/tasks --header "Authorization: Bearer $TASKQUEUE_TOKEN" --data-urlencode status=failed --data-urlencode 'filter=name == '\''x'\''' --data-urlencode name_fuzzy=-a --data-urlencode order_by=priority --data-urlencode descending=false --data-urlencode limit=10"#;
        assert_eq!(curl_command("http://h:1", true, &queue, &view), expected);
    }
}
