//! The view as commands to copy: for the command line of this program, and for curl.

use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::TaskOrder;
use taskqueue_core::shell::shell_word;

use super::view::View;
use crate::show::command::{CommandLine, server_url};
use crate::state::Dashboard;
use crate::visit::Visit;

/// The commands.
pub(super) struct Commands {
    pub(super) cli: String,
    pub(super) curl: String,
    /// Makes the first task of the queue.
    pub(super) submit: String,
}

impl Commands {
    pub(super) fn new(
        dashboard: &Dashboard,
        visit: &Visit,
        queue: &QueueName,
        view: &View,
        columns: &[String],
    ) -> Self {
        let url = server_url(dashboard, visit);
        let has_token = visit.viewer.has_session();
        let submit = CommandLine::new("task submit", queue.as_str(), &url);
        let submit = submit.flag("--arg", "lr=0.1").flag("--arg", "seed=1").to_string();
        Self { cli: cli(&url, queue, view, columns), curl: curl(&url, has_token, queue, view), submit }
    }
}

fn cli(url: &str, queue: &QueueName, view: &View, columns: &[String]) -> String {
    let selectors = &view.selectors;
    let sign = if view.order.descending { "-" } else { "" };
    let sort = format!("{sign}{}", view.order.field.as_str());
    let columns = columns.join(",");
    let flags = [
        ("--status", selectors.status.map(|status| status.as_str())),
        ("--filter", selectors.filter.as_deref()),
        ("--fuzzy", selectors.name_fuzzy.as_deref()),
        ("--columns", Some(columns.as_str()).filter(|columns| !columns.is_empty())),
        ("--sort", Some(sort.as_str()).filter(|_| view.order != TaskOrder::default())),
    ];
    let command = CommandLine::new("task list", queue.as_str(), url);
    let command = if selectors.archived { command.switch("--include-archived") } else { command };
    let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
    let command = given.fold(command, |command, (flag, value)| command.flag(flag, value));
    command.flag("--limit", &view.limit.to_string()).to_string()
}

fn curl(url: &str, has_token: bool, queue: &QueueName, view: &View) -> String {
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

    #[test]
    fn a_view_becomes_a_command_that_a_shell_reads_back() {
        let queue = QueueName::parse("q").unwrap();
        let query = "status=failed&filter=name+==+'x'&name_fuzzy=-a&order_by=priority&descending=false&limit=10";
        let view = View::read(&queue, &Query::parse(query));
        let columns = ["id".to_owned(), "args.lr".to_owned()];
        assert_eq!(
            cli("http://h:1", &queue, &view, &columns),
            r"taskqueue task list --queue q --url http://h:1 --status failed --filter 'name == '\''x'\''' --fuzzy=-a --columns id,args.lr --sort priority --limit 10"
        );
        let archived = View::read(&queue, &Query::parse("archived=1"));
        let listed = cli("http://h:1", &queue, &archived, &[]);
        assert_eq!(listed, "taskqueue task list --queue q --url http://h:1 --include-archived --limit 50");
        assert!(curl("http://h:1", false, &queue, &archived).contains("--data-urlencode include_archived=true"));
        assert_eq!(
            curl("http://h:1", true, &queue, &view),
            r#"curl --get http://h:1/api/v2/queues/q/tasks --header "Authorization: Bearer $TASKQUEUE_TOKEN" --data-urlencode status=failed --data-urlencode 'filter=name == '\''x'\''' --data-urlencode name_fuzzy=-a --data-urlencode order_by=priority --data-urlencode descending=false --data-urlencode limit=10"#
        );
    }
}
