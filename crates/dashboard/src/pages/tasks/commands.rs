//! The view as commands to copy: for the command line of this program, and for curl.

use axum::http::header::HOST;
use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::TaskOrder;

use super::view::View;
use crate::show::shell_word;
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
        let place = format!("--url {} --queue {}", shell_word(&url), shell_word(queue.as_str()));
        let submit = format!("taskqueue task submit {place} --arg lr=0.1 --arg seed=1");
        Self { cli: cli(&url, queue, view, columns), curl: curl(&url, has_token, queue, view), submit }
    }
}

/// The address by which the browser reached this server.
fn server_url(dashboard: &Dashboard, visit: &Visit) -> String {
    let host = visit.headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let scheme = if dashboard.host().is_tls() { "https" } else { "http" };
    format!("{scheme}://{}", host.filter(is_plain).unwrap_or("127.0.0.1:8000"))
}

fn cli(url: &str, queue: &QueueName, view: &View, columns: &[String]) -> String {
    let mut command = format!("taskqueue task list --url {} --queue {}", shell_word(url), shell_word(queue.as_str()));
    let mut flag = |flag: &str, value: &str| {
        // A value that begins like a flag would be taken for one.
        let sign = if value.starts_with('-') { '=' } else { ' ' };
        command.push_str(&format!(" {flag}{sign}{}", shell_word(value)));
    };
    let selectors = &view.selectors;
    if let Some(status) = selectors.status {
        flag("--status", status.as_str());
    }
    if let Some(filter) = &selectors.filter {
        flag("--filter", filter);
    }
    if let Some(name) = &selectors.name_fuzzy {
        flag("--fuzzy", name);
    }
    if !columns.is_empty() {
        flag("--columns", &columns.join(","));
    }
    if view.order != TaskOrder::default() {
        let sign = if view.order.descending { "-" } else { "" };
        flag("--sort", &format!("{sign}{}", view.order.field.as_str()));
    }
    flag("--limit", &view.limit.to_string());
    command
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
            r"taskqueue task list --url http://h:1 --queue q --status failed --filter 'name == '\''x'\''' --fuzzy=-a --columns id,args.lr --sort priority --limit 10"
        );
        assert_eq!(
            curl("http://h:1", true, &queue, &view),
            r#"curl --get http://h:1/api/v2/queues/q/tasks --header "Authorization: Bearer $TASKQUEUE_TOKEN" --data-urlencode status=failed --data-urlencode 'filter=name == '\''x'\''' --data-urlencode name_fuzzy=-a --data-urlencode order_by=priority --data-urlencode descending=false --data-urlencode limit=10"#
        );
    }
}
