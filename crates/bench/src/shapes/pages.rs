//! The pages of the dashboard as request shapes. They are not in `/openapi.json`, so `coverage_tests.rs` compares this list with the
//! route table of the dashboard, and with the names of parameters and fields in its source. What a form carries unseen is read from the page
//! that has it (`attack.rs`).

use taskqueue_core::limits::{EXPLAINED_DEPENDENCIES, ROUTE_LIMITS_MAX, TASK_DATA_BYTES, TASK_OUTPUT_BYTES};

use super::shape::{Before::*, Least::*, Shape, World, shape};
use super::world::{LARGE_TASKS, STORED_TASKS};

const TASKS: &str = "/ui/queues/{queue}/tasks";
const TASK: &str = "/ui/queues/{queue}/tasks/{task}";
const CONFIRM: &str = "/ui/queues/{queue}/tasks/confirm";
const SETTINGS: &str = "/ui/queues/{queue}/settings";
const SUBMIT: &str = "/ui/queues/{queue}/submit";
const SELECTORS: &str = "?filter ?name_fuzzy ?archived='1";
const COMPARE: &str = "?status='all ?read='5000 ?column=columns ?sort='name ?order='descending ?lower='args.a ?higher='args.b ?x='args.a ?y='priority ?x_scale='log ?y_scale='log ?color='status ?axis='args.a ?page='1";
const DEFINITION: &str = "&name &args &metadata &priority &max_attempts &routes=typed_routes &timeout='365d &retry_seconds='365d &retry_factor=factor &retry_max_seconds='365d &dependencies=typed_dependencies &on_dependency_failure &not_before";

const SWEEP: &str = "&way='sweep &step='create &key='k &values=sweep_values &zip=' &batch='b &name='{k} &base=args";
const NESTED_SWEEP: &str = "&way='sweep &step='create &key=sweep_keys &zip=' &batch='b &base=args";
const SWEEP_ADDRESS: &str = "?way='sweep ?key='k ?values=sweep_values ?name='{k}";

/// Rows that a page of tasks and a page of workers have at most.
const ROWS: usize = 100;
/// Routes that the page of them shows at most.
const SHOWN_ROUTES: usize = 500;
/// Values of a document that the page of a task shows.
const SHOWN_VALUES: usize = 500;
const TASK_ROW: &str = "name=\"id\" value=\"t_";
const COMPARED_ROW: &str = "<td><a href=\"tasks/t_";
const WORKER_ROW: &str = "<tr data-key=\"w_";
const QUEUE_ROW: &str = "data-key=\"s";
/// Changes of colour that the output on the page of a task shows.
const SHOWN_COLOURS: usize = 4_000;
/// Tasks of a queue of its own.
const OWN: usize = 40;
/// The small values of a large task. Each is written with a comma behind it.
const VALUES: usize = TASK_DATA_BYTES / 2 / 4;

/// Routes that say nothing about a request: files of the program, and whatever is not there.
#[cfg(test)]
pub(super) const NOT_PAGES: [&str; 1] = ["/ui/{*path}"];

/// The fields that forms carry unseen.
pub(super) const HIDDEN: [&str; 4] = ["form_token", "seen", "updated_at", "expect"];

#[rustfmt::skip]
pub(super) const PAGES: &[Shape] = &[
    shape("GET", "/ui/", "routes", ManyQueues, &[]).holds(Times(QUEUE_ROW, &[2])),
    // Their names begin with it.
    shape("GET", "/ui/", "find", ManyQueues, &["?find='s"]).holds(Times(QUEUE_ROW, &[2])),
    shape("GET", "/ui/system", "routes", ManyQueues, &[]).holds(Times(QUEUE_ROW, &[2])),
    shape("POST", "/ui/queues", "", Nothing, &["&name=queue"]),
    shape("GET", "/ui/queues/{queue}/delete", "routes", OwnQueue("routes", OWN), &[]).holds(Number("<b>its ", &[OWN])),
    shape("POST", "/ui/queues/{queue}/delete", "dependencies", OwnQueue("dependencies", 900), &["&with_tasks='yes &name=queue"]),
    shape("GET", SETTINGS, "routes", OwnQueue("routes", OWN), &[]).holds(Number("<p class=\"small soft\">", &[OWN])),
    shape("GET", SETTINGS, "limits", LimitedQueue, &[]).holds(Times("name=\"route\" value=\"r", &[ROUTE_LIMITS_MAX])),
    shape("POST", SETTINGS, "all", OwnQueue("", 1), &["&max_running &succeeded=typed_days &failed=typed_days &cancelled=typed_days &route &limit &agreed='yes"]),
    shape("POST", "/ui/queues/{queue}/pause", "", OwnQueue("", 1), &["&paused='yes &next='/ui/"]),
    // Who looks, and how
    shape("GET", "/ui/sign-in", "", Nothing, &["?next=filter"]),
    // There is no token that would be the right one: what a stranger may send.
    shape("POST", "/ui/sign-in", "", Nothing, &["&token=filter &next=filter"]).holds(OrRefusal),
    shape("POST", "/ui/sign-out", "", Nothing, &[]),
    shape("POST", "/ui/theme", "", Nothing, &["&theme='dark &next=filter"]),
    shape("GET", "/ui/go", "", Nothing, &["?queue ?to='tasks"]),
    // Tasks of a queue
    shape("GET", TASKS, "args", Stored(World::Large), &["?limit ?status='pending ?order_by ?descending ?column=columns", SELECTORS]).holds(Times(TASK_ROW, &[ROWS])),
    shape("GET", TASKS, "cursor", Stored(World::Large), &["?limit ?order_by ?cursor", SELECTORS]).holds(Times(TASK_ROW, &[ROWS])),
    shape("GET", TASKS, "dependencies", Stored(World::Dependent), &["?limit ?column='dependencies"]).holds(Times(TASK_ROW, &[ROWS])),
    shape("GET", "/ui/queues/{queue}/tasks/check", "", Stored(World::Large), &["?filter"]).holds(Times("\"ok\":true", &[1])),
    shape("GET", "/ui/queues/{queue}/tasks/fields", "args", Stored(World::Large), &[]).holds(Times("\"args.a\"", &[1])),
    shape("GET", "/ui/queues/{queue}/tasks/download", "args", Stored(World::Large), &["?format='jsonl ?column=columns", SELECTORS]).holds(Bytes(&[LARGE_TASKS / 2, TASK_DATA_BYTES / 10 * 8])),
    shape("GET", CONFIRM, "args", Stored(World::Large), &["?action='delete ?all='1", SELECTORS]).holds(Number("name=\"expect\" value=\"", &[STORED_TASKS])),
    shape("POST", CONFIRM, "dependencies", Shared("dependencies", 900), &["?action='delete ?all='1 ?filter"]),
    shape("POST", CONFIRM, "ids", Shared("", 5_000), &["?action='routes ?id=ids", "&value=typed_routes"]),
    // A task
    shape("GET", TASK, "args", Stored(World::Large), &[]).holds(Times("[<span class=\"int\">1</span>]", &[SHOWN_VALUES])),
    shape("GET", TASK, "dependencies", Stored(World::Dependent), &[]).holds(Times("\"mono\">t_nobody", &[EXPLAINED_DEPENDENCIES])),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/output", "", Output("coloured"), &["?from='0 ?run='x ?look='31 ?end='0"]).holds(Times("&lt;</span>", &[SHOWN_COLOURS])),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/output.txt", "", Output("coloured"), &[]).holds(Bytes(&[TASK_OUTPUT_BYTES / 10 * 9])),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/json/{part}", "args", Stored(World::Large), &["?download='1"]).holds(Times("[1],", &[VALUES])),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/edit", "args", Stored(World::Large), &[]).holds(Times("[1]", &[VALUES])),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/edit", "all", Pending, &[DEFINITION]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/cancel", "dependencies", Stored(World::Dependent), &[]).holds(Times("<code class=\"soft\">t_", &[1])),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/cancel", "dependencies", Pending, &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/requeue", "dependencies", Cancelled, &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/archive", "dependencies", Cancelled, &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/unarchive", "dependencies", Cancelled, &[]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/delete", "dependencies", Stored(World::Dependent), &[]).holds(Times("<code class=\"soft\">t_", &[1])),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/delete", "dependencies", Pending, &[]),
    // Workers and routes of a queue
    shape("GET", "/ui/queues/{queue}/workers", "all", Workers, &["?filter=worker_filter"]).holds(Times(WORKER_ROW, &[ROWS])),
    shape("GET", "/ui/queues/{queue}/workers", "cursor", Workers, &["?filter=worker_filter ?cursor"]).holds(Times(WORKER_ROW, &[ROWS])),
    shape("GET", "/ui/queues/{queue}/routes", "routes", Stored(World::Routes), &["?find='r"]).holds(Times("status=running&#38;filter=%22r", &[SHOWN_ROUTES])),
    // Results side by side
    shape("GET", "/ui/queues/{queue}/compare", "args", Stored(World::Large), &[COMPARE, SELECTORS]).holds(Times(COMPARED_ROW, &[ROWS])),
    // Groups: those that have it, and the others.
    shape("GET", "/ui/queues/{queue}/compare", "groups", Stored(World::Large), &["?status='all ?group='args.a", SELECTORS]).holds(Times("<tr data-row>", &[2])),
    shape("GET", "/ui/queues/{queue}/compare", "ids", Stored(World::Large), &["?id=stored_ids ?column=columns"]).holds(Times(COMPARED_ROW, &[LARGE_TASKS])),
    // It leads to the address that has these changes.
    shape("GET", "/ui/queues/{queue}/compare", "changes", Nothing, &["?set=filter ?and=filter ?apply='column ?add='args.a ?all='1"]),
    shape("GET", "/ui/queues/{queue}/compare/csv", "args", Stored(World::Large), &["?status='all ?read='5000 ?column=columns", SELECTORS]).holds(Times("\nt_", &[STORED_TASKS])),
    // New tasks
    shape("GET", SUBMIT, "args", Stored(World::Large), &["?way='one ?from=stored_task ?created=stored_task"]).holds(Times("[1]", &[VALUES])),
    shape("GET", SUBMIT, "sweep", Nothing, &[SWEEP_ADDRESS]),
    shape("POST", SUBMIT, "all", OwnQueue("", 1), &["?way='one", "&way='one &step='create", DEFINITION]),
    shape("POST", SUBMIT, "lines", OwnQueue("", 1), &["?way='lines", "&way='lines &step='create-valid &lines &batch='b &expect=lines_expected"]),
    shape("POST", SUBMIT, "sweep", OwnQueue("", 1), &["?way='sweep", SWEEP]),
    shape("POST", SUBMIT, "args", OwnQueue("", 1), &["?way='sweep", SWEEP]),
    shape("POST", SUBMIT, "keys", OwnQueue("", 1), &["?way='sweep", NESTED_SWEEP]),
];
