//! The pages of the dashboard as request shapes. They are not in `/openapi.json`, so `coverage.rs` compares this list with the route
//! table of the dashboard. What a form carries unseen is read from the page that has it (`shape.rs`).

use super::shape::Before::{Cancelled, ManyQueues, Nothing, Output, OwnQueue, Pending, Shared, Stored, Workers};
use super::shape::{Shape, World, shape};

const TASKS: &str = "/ui/queues/{queue}/tasks";
const TASK: &str = "/ui/queues/{queue}/tasks/{task}";
const CONFIRM: &str = "/ui/queues/{queue}/tasks/confirm";
const SETTINGS: &str = "/ui/queues/{queue}/settings";
const SUBMIT: &str = "/ui/queues/{queue}/submit";
const SELECTORS: &str = "?filter ?name_fuzzy ?archived='1";
const DEFINITION: &str = "&name &args &metadata &priority &max_attempts &routes=typed_routes &timeout='365d &retry_seconds='365d &retry_factor=factor &retry_max_seconds='365d &dependencies=typed_dependencies &on_dependency_failure &not_before";

/// Routes that say nothing about a request: files of the program, and whatever is not there.
pub(super) const NOT_PAGES: [&str; 1] = ["/ui/{*path}"];

pub(super) const PAGES: &[Shape] = &[
    shape("GET", "/ui/", "routes", ManyQueues, &[]),
    // Their names begin with it.
    shape("GET", "/ui/", "find", ManyQueues, &["?find='s"]),
    shape("GET", "/ui/system", "routes", ManyQueues, &[]),
    shape("POST", "/ui/queues", "", Nothing, &["&name=queue"]),
    shape("GET", "/ui/queues/{queue}/delete", "routes", OwnQueue("routes", 40), &[]),
    shape(
        "POST",
        "/ui/queues/{queue}/delete",
        "dependencies",
        OwnQueue("dependencies", 900),
        &["&with_tasks='yes &name=queue"],
    ),
    shape("GET", SETTINGS, "routes", OwnQueue("routes", 40), &[]),
    shape(
        "POST",
        SETTINGS,
        "all",
        OwnQueue("", 1),
        &["&max_running &succeeded=typed_days &failed=typed_days &cancelled=typed_days &route &limit"],
    ),
    shape("POST", "/ui/queues/{queue}/pause", "", OwnQueue("", 1), &["&paused='yes &next='/ui/"]),
    // Who looks, and how
    shape("GET", "/ui/sign-in", "", Nothing, &["?next=filter"]),
    // There is no token that would be the right one: what a stranger may send.
    shape("POST", "/ui/sign-in", "", Nothing, &["&token=filter &next=filter"]).or_refused(),
    shape("POST", "/ui/sign-out", "", Nothing, &[]),
    shape("POST", "/ui/theme", "", Nothing, &["&theme='dark &next=filter"]),
    shape("GET", "/ui/go", "", OwnQueue("", 1), &["?queue ?to='tasks"]),
    // Tasks of a queue
    shape("GET", TASKS, "args", Stored(World::Large), &["?limit ?order_by ?column=columns", SELECTORS]),
    shape("GET", TASKS, "dependencies", Stored(World::Dependent), &["?limit ?column='dependencies"]),
    shape("GET", "/ui/queues/{queue}/tasks/check", "", Stored(World::Large), &["?filter"]),
    shape("GET", "/ui/queues/{queue}/tasks/fields", "args", Stored(World::Large), &[]),
    shape(
        "GET",
        "/ui/queues/{queue}/tasks/download",
        "args",
        Stored(World::Large),
        &["?format='jsonl ?column=columns", SELECTORS],
    ),
    shape("GET", CONFIRM, "args", Stored(World::Large), &["?action='delete ?all='1", SELECTORS]),
    shape("POST", CONFIRM, "dependencies", Shared("dependencies", 900), &["?action='delete ?all='1 ?filter"]),
    shape("POST", CONFIRM, "ids", Shared("", 5_000), &["?action='routes ?id=ids", "&value=typed_routes"]),
    // A task
    shape("GET", TASK, "args", Stored(World::Large), &[]),
    shape("GET", TASK, "dependencies", Stored(World::Dependent), &[]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/output", "", Output, &["?from='0"]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/output.txt", "", Output, &[]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/json/{part}", "args", Stored(World::Large), &[]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/edit", "args", Stored(World::Large), &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/edit", "all", Pending, &[DEFINITION]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/cancel", "dependencies", Stored(World::Dependent), &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/cancel", "dependencies", Pending, &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/requeue", "dependencies", Cancelled, &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/archive", "dependencies", Cancelled, &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/unarchive", "dependencies", Cancelled, &[]),
    shape("GET", "/ui/queues/{queue}/tasks/{task}/delete", "dependencies", Stored(World::Dependent), &[]),
    shape("POST", "/ui/queues/{queue}/tasks/{task}/delete", "dependencies", Pending, &[]),
    // Workers and routes of a queue
    shape("GET", "/ui/queues/{queue}/workers", "all", Workers, &["?filter=worker_filter"]),
    shape("GET", "/ui/queues/{queue}/routes", "routes", Stored(World::Routes), &["?find='r"]),
    // Results side by side
    shape(
        "GET",
        "/ui/queues/{queue}/compare",
        "args",
        Stored(World::Large),
        &["?status='all ?read='5000 ?column=columns ?x='args.a ?y='priority", SELECTORS],
    ),
    shape(
        "GET",
        "/ui/queues/{queue}/compare/csv",
        "args",
        Stored(World::Large),
        &["?status='all ?read='5000 ?column=columns", SELECTORS],
    ),
    // New tasks
    shape("GET", SUBMIT, "", Stored(World::Large), &["?way='one"]),
    shape("POST", SUBMIT, "all", OwnQueue("", 1), &["?way='one", "&way='one &step='create", DEFINITION]),
    shape(
        "POST",
        SUBMIT,
        "lines",
        OwnQueue("", 1),
        &["?way='lines", "&way='lines &step='create-valid &lines &batch='b"],
    ),
];
